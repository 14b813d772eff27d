"""What brokers do where nobody has set it: settings with a default by version.

Values were read from /admin/v2/brokers/configuration/runtime of brokers that have no setting of
their own (2.11.0, 3.3.5, 4.0.8, 4.2.4, 5.0.0-M1), except for `since`: where it lies between two of
these, it is what Pulsar's release notes and ServiceConfiguration say.
"""

from __future__ import annotations

import re

VersionNumbers = tuple[int, ...]

RANGES = "managedLedgerMaxUnackedRangesToPersist"
RANGES_IN_METADATA_STORE = "managedLedgerMaxUnackedRangesToPersistInMetadataStore"

# Setting: (the first version with this default, the default), oldest first.
DEFAULTS: dict[str, tuple[tuple[VersionNumbers, int], ...]] = {
    RANGES: (((), 10_000), ((5, 0), 200_000)),
    RANGES_IN_METADATA_STORE: (((), 1000), ((5, 0), 200_000)),
}


def by_default(setting: str, version: VersionNumbers | None) -> int:
    """What brokers of this version do; None, not known: what brokers before 5.0 do."""
    return [value for since, value in DEFAULTS[setting] if since <= (version or ())][-1]


def version_of(text: str | None) -> VersionNumbers | None:
    """`4.0.8` as numbers, from a version as a broker writes it; None where it is none."""
    found = re.match(r"[0-9]{1,9}(\.[0-9]{1,9})+(?![0-9])", text or "")
    return tuple(map(int, found[0].split("."))) if found else None
