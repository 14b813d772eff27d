"""The thresholds of the causes, and what `--set` changes of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from pulsar_doctor.diagnosis.cause import Cause
from pulsar_doctor.diagnosis.thresholds import Threshold
from pulsar_doctor.errors import InputError
from pulsar_doctor.ledger.balance import PERMITS_MOST
from pulsar_doctor.wording.durations import seconds_of
from pulsar_doctor.wording.spelling import near


def limits_of(causes: Sequence[Cause], changes: Iterable[str] = ()) -> dict[str, dict[str, float]]:
    """The thresholds of the causes. changes: texts `code.threshold=value`, durations with a unit.

    Raises InputError where a change names no cause or threshold, or its value is no number.
    """
    known = {f"{cause.code}.{t.name}": (cause, t) for cause in causes for t in cause.thresholds}
    limits = {cause.code: {t.name: t.default for t in cause.thresholds} for cause in causes}
    for change in changes:
        name, _, value = (part.strip() for part in change.partition("="))
        if not value or name not in known:
            raise InputError(
                f"--set takes CODE.THRESHOLD=VALUE, not {change!r}; {near(name, known)}"
            )
        cause, threshold = known[name]
        limits[cause.code][threshold.name] = _number(value, threshold, change)
    return limits


def _number(text: str, threshold: Threshold, change: str) -> float:
    plain = re.fullmatch(r"\d+(?:\.\d+)?", text) or text == f"{threshold.default:g}"
    seconds = seconds_of(text) if threshold.unit == "seconds" else None
    if threshold.unit == "messages" and plain and float(text) > PERMITS_MOST:
        raise InputError(f"--set {change}: the value is more than a broker counts ({PERMITS_MOST})")
    if plain or seconds is not None:
        return float(text) if seconds is None else seconds
    wanted = "a duration such as 5s or 2m" if threshold.unit == "seconds" else "a number"
    raise InputError(f"--set {change}: the value is not {wanted} ({threshold.unit})")
