"""Whether messages that wait for acknowledgements are released soon, late or never."""

from __future__ import annotations

from pulsar_doctor.diagnosis.answers import Severity, Unknown
from pulsar_doctor.diagnosis.thresholds import Limits
from pulsar_doctor.evidence.ack_wait import Acks, AckWait

ROUND = 1000  # messages: limits as large as this are set to whole multiples of it


def release_verdict(
    wait: AckWait, limits: Limits, at_limit: int | None = None
) -> Severity | Unknown | None:
    """By `slow_wait`, `refill_wait` and `just_now`; None: acknowledgements come soon enough.

    at_limit: messages held, where that alone may show that no acknowledgement came.
    """
    verdict = _by_clock(wait, limits)
    if isinstance(verdict, Unknown) and at_limit is not None:
        return _without_clock(wait.acks, at_limit) or verdict
    return verdict


def still_comes(acks: Acks, limits: Limits) -> bool:
    """Whether what came in the window may come still: nothing shows that it has ended."""
    quiet = acks.quiet
    lately = quiet is None or quiet.seconds < limits["refill_wait"]
    return lately and acks.span_ms is not None and not acks.ended


def _without_clock(acks: Acks, at_limit: int) -> Severity | None:
    """Where the messages held show that no acknowledgement came, at whatever time; else None.

    This is so where nothing has ever been acknowledged, and where a large round limit is fully
    used: each acknowledgement would have lowered the count. at_limit: messages.
    """
    if acks.quiet is not None and acks.quiet.exact:
        return None
    fits = at_limit >= ROUND and at_limit % ROUND == 0
    if fits and not (acks.acked or acks.acknowledged):
        return "stalled"
    return "warning" if acks.never else None


def _by_clock(wait: AckWait, limits: Limits) -> Severity | Unknown | None:
    acks, quiet = wait.acks, wait.acks.quiet
    if quiet is not None and quiet.ms >= limits["refill_wait"] * 1000:
        return "stalled"
    if acks.acknowledged:
        return _by_pace(wait, limits)
    if quiet is None:
        return Unknown("since when nothing is acknowledged is not known")
    if quiet.ms < limits["just_now"] * 1000:
        clock = "" if quiet.exact else " by a clock that is not reported (see --at)"
        return Unknown(f"its last ack or message came {quiet} ago{clock}: check again")
    if acks.acked and acks.acknowledged is None:
        return Unknown("acks arrive, but how many is not reported")
    if acks.acked and acks.an_ack > 1:
        return Unknown("acks arrive, but a batch counts as unacknowledged until its last message")
    if wait.seconds is None and acks.may_fit:
        return Unknown(f"no ack arrived for {quiet}, which may be normal: check again")
    if wait.seconds is not None:
        return _by_pace(wait, limits)
    return "stalled" if acks.out_of_rhythm else "warning"


def _by_pace(wait: AckWait, limits: Limits) -> Severity | Unknown | None:
    seconds = wait.seconds
    if seconds is None:
        return Unknown("acks arrive, but the length of the window is not known (see --interval)")
    if seconds <= limits["slow_wait"]:
        return None
    return "warning" if seconds <= limits["refill_wait"] else "stalled"
