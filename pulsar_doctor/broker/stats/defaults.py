"""What brokers allow by default, where that differs between versions and nothing reported it."""

from __future__ import annotations

import re
from dataclasses import replace

from pulsar_doctor.broker.stats.observed import ClusterLimits

# From which version on managedLedgerMaxUnackedRangesToPersist is another one than 10,000
# (ServiceConfiguration; seen on 5.0.0-M1).
RANGES_TO_PERSIST = {(5, 0): 200_000}


def with_defaults(limits: ClusterLimits, broker_version: str | None) -> ClusterLimits:
    """The limits, with the defaults of this version for what was not reported.

    broker_version: as the broker writes it; None, or what is no version: nothing is filled in.
    """
    found = re.match(r"(\d+)\.(\d+)", broker_version or "")
    if found is None or limits.max_unacked_ranges_to_persist is not None:
        return limits
    version = int(found[1]), int(found[2])
    fitting = [most for since, most in RANGES_TO_PERSIST.items() if since <= version]
    return replace(limits, max_unacked_ranges_to_persist=fitting[-1]) if fitting else limits
