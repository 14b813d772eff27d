"""Durations as people write them (250ms, 10s, 5m) and read them (83 h)."""

from __future__ import annotations

import re
from datetime import UTC, datetime

UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# From how many seconds on which unit is used, and its seconds; hours up to a week.
READ = ((604800, 86400, "d"), (7200, 3600, "h"), (120, 60, "min"), (1, 1, "s"))


def seconds_of(text: str) -> float | None:
    """Seconds of a length of time with its unit; None where it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)", text)
    return float(match[1]) * UNIT_SECONDS[match[2]] if match else None


def duration(seconds: float) -> str:
    """A length of time as a person says it: 250 ms, 12 s, 5 min, 83 h."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    for least, size, unit in READ:
        if seconds >= least:
            number = seconds / size
            return f"{number:.0f} {unit}" if number >= 10 else f"{number:.3g} {unit}"
    raise ValueError(f"{seconds} is no length of time")


def rate(a_second: float) -> str:
    """So many a second as a person says it: 0.25, 4.2, 120."""
    return f"{a_second:.0f}" if abs(a_second) >= 10 else f"{a_second:.2g}"


def per_second(rate: float) -> str:
    """`0.483/s`, `1,600/s`."""
    return f"{rate:,.0f}/s" if rate >= 100 else f"{rate:.3g}/s"


def moment_of(ms: int) -> str | None:
    """Epoch milliseconds as RFC 3339 in UTC; None where no calendar has such a day."""
    try:
        written = datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (OverflowError, OSError, ValueError):
        return None
    return written.replace("+00:00", "Z")
