"""The thresholds of the causes, and their changes by `--set`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pulsar_doctor.diagnosis import healthy
from pulsar_doctor.diagnosis.answers import HEALTHY
from pulsar_doctor.diagnosis.cause import Cause
from pulsar_doctor.diagnosis.thresholds import FIRST_ACK_WITHIN, Threshold
from pulsar_doctor.errors import InputError
from pulsar_doctor.ledger.balance import PERMITS_MOST
from pulsar_doctor.wording.durations import seconds_of
from pulsar_doctor.wording.spelling import near

NAMED_MOST = 3
# Who says that the first acknowledgement may take longer says so to the check for it, too.
FIRST_ACK = ("not-acknowledging", ("begun", "first_ack"))


def limits_of(causes: Sequence[Cause], changes: Iterable[str] = ()) -> dict[str, dict[str, float]]:
    """The thresholds of the causes and of healthy, by code.

    changes: texts `code.threshold=value`, durations with a unit, shares as 0.1 or 10%.

    Raises InputError where a change names no cause or threshold, or its value is no number.
    """
    every = {HEALTHY: healthy.THRESHOLDS, **{each.code: each.thresholds for each in causes}}
    known = {f"{code}.{t.name}": (code, t) for code, own in every.items() for t in own}
    limits = {code: {t.name: t.default for t in own} for code, own in every.items()}
    named: set[str] = set()
    for change in changes:
        name, _, value = (part.strip() for part in change.partition("="))
        if not value:
            raise InputError(f"--set takes CODE.THRESHOLD=VALUE, and {change!r} has no value")
        if name not in known:
            parts = {*name.split(".")}  # a cause, a threshold: one of them may be right
            alike = [each for each in known if not parts.isdisjoint(each.split("."))] or known
            raise InputError(
                f"--set {change}: there is no such threshold (`pulsar-doctor explain -v` lists "
                f"all); {near(name, alike, most=NAMED_MOST)}"
            )
        code, threshold = known[name]
        limits[code][threshold.name] = _number(value, threshold, change)
        named.add(name)
    within, (code, follow) = limits[HEALTHY][FIRST_ACK_WITHIN.name], FIRST_ACK
    if within > FIRST_ACK_WITHIN.default and code in limits:
        limits[code] |= {each: within for each in follow if f"{code}.{each}" not in named}
    return limits


def _number(text: str, threshold: Threshold, change: str) -> float:
    if threshold.unit == "share":
        return _share(text, change)
    plain = re.fullmatch(r"\d+(?:\.\d+)?", text) or text == f"{threshold.default:g}"
    seconds = seconds_of(text) if threshold.unit == "seconds" else None
    if threshold.unit == "messages" and plain and float(text) > PERMITS_MOST:
        raise InputError(f"--set {change}: the value is more than a broker counts ({PERMITS_MOST})")
    if plain or seconds is not None:
        return float(text) if seconds is None else seconds
    wanted = "a duration such as 5s or 2m" if threshold.unit == "seconds" else "a number"
    raise InputError(f"--set {change}: the value is not {wanted} ({threshold.unit})")


def _share(text: str, change: str) -> float:
    """From 0 to 1."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text)
    share = float(found[1]) / (100 if found[2] else 1) if found else -1
    if 0 <= share <= 1:
        return share
    raise InputError(f"--set {change}: the value is not a share such as 0.1 or 10%")
