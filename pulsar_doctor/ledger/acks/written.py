"""Acknowledged ranges as the broker writes them in its internal stats.

`[(3:4..3:9],(3:11..4:0]]`: each range is open on the left and closed on the right, and may begin in
one ledger and end in a later one.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache

from pulsar_doctor.errors import InputError

NUMBER = r"-?(?:0|[1-9][0-9]{0,18})"
RANGE = rf"\({NUMBER}:{NUMBER}\.\.{NUMBER}:{NUMBER}\]"
RANGES = re.compile(rf"\[{RANGE}(?:,{RANGE})*\]")
SHOWN = 40  # characters of a text that is not ranges

# A range as the broker writes it: ledger and entry behind which it begins, and those of its end.
Written = tuple[int, int, int, int]


@lru_cache(maxsize=2)  # the backlog and what is left to read need the same, which may be megabytes
def parse_written(text: str) -> tuple[Written, ...]:
    """The ranges of `individuallyDeletedMessages`. Raises InputError for any other text."""
    flat = text.replace("‥", "..").replace(" ", "")  # older brokers have one sign for both dots
    if flat == "[]":
        return ()
    if not RANGES.fullmatch(flat):
        shown = text if len(text) <= SHOWN else f"{text[:SHOWN]}…"
        raise InputError(f"these are no acknowledged ranges: {shown!r}")
    inner = flat[2:-2].replace("],(", ",").replace("..", ",").replace(":", ",")
    numbers: list[int] = json.loads(f"[{inner}]")  # much faster than int() for each
    return tuple(zip(*(numbers[at::4] for at in range(4)), strict=True))
