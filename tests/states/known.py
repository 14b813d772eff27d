"""What is true of each recorded state, in codes: of one that decides, what its scenario expects."""

from __future__ import annotations

from pulsar_doctor.diagnosis.answers import HEALTHY, NONE_OF_THESE
from tests.scenarios import SCENARIOS

Cause = tuple[str, str | None]

# Besides what a scenario expects: what is true at the same time.
ALSO = {
    "zero-queue-long-work": (HEALTHY,),
    "delayed-messages": (HEALTHY,),
    # These are seconds old, so that either is right.
    "permits-exhausted-shared-hung-lately": ("permits-exhausted", HEALTHY),
    "key-shared-never-asked-lately": ("permits-exhausted", HEALTHY),
    "reader-stands-still": (NONE_OF_THESE, HEALTHY),  # nobody can tell whether it only rests
}


def truth_of_recorded(version: str, name: str) -> frozenset[Cause]:
    """Every cause that is right to name."""
    expected = SCENARIOS[name].expects
    codes = {expected.code} if expected.code else set()
    codes |= set(ALSO.get(name, ()))
    if expected.status == "healthy" or SCENARIOS[name].settings:  # with those: seconds old
        codes.add(HEALTHY)
    return frozenset((code, None) for code in codes if code)
