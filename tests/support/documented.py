"""What tests of whole documents share: a trace in which hardly two figures are alike."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.made.traces import write_trace
from tests.made.wire import EXCLUSIVE, Wire

TOLD = {"quick": {"receiver_queue_size": 5, "process_seconds": 0.25, "takes_told": True}}


def said() -> Wire:
    """A slow consumer that stands still twice, its neighbour, and one that comes and goes.

    slow: a queue of 12 takes 4 entries of 3; 2 of them are acknowledged after two seconds, one goes
    back and comes again for a FLOW of 7, with two new ones; one of these is acknowledged later, and
    of another one message. third: a queue of 8, one entry of 3, nothing else.
    quick: takes one of three, a cumulative ack of the second, then it is closed.
    """
    wire = Wire().open().attached(1, "slow").flow(12).pushed(range(4), batch=3)
    wire.wait(2).acked([0, 2]).given_back([1]).flow(7).pushed([1], batch=3, again=1)
    wire.pushed([4, 5], batch=3).attached(3, "third").flow(8, 3).pushed([6], 3, batch=3).open(1)
    wire.attached(2, "quick", subscription="audit", sub_type=EXCLUSIVE, conn_id=1)
    wire.flow(5, 2, 1).pushed(range(10, 13), 2, conn_id=1).took(10, "quick")
    wire.acked([11], 2, cumulative=True, conn_id=1).closed(2, 1).close(1)
    return wire.wait(3).acked([4]).acked([3], open_bits=0b110).wait(60).produced()


def trace(path: Path, **meta: Any) -> Path:
    return write_trace(path, said().blocks, parts=2, told=TOLD, **meta)


class Like:
    """Equal to what looks like this: a type, or a pattern that the whole text matches."""

    def __init__(self, what: type | str) -> None:
        self.what = what

    def __eq__(self, other: object) -> bool:
        if isinstance(self.what, str):
            return isinstance(other, str) and re.fullmatch(self.what, other) is not None
        return type(other) is self.what

    def __repr__(self) -> str:
        return f"Like({self.what!r})"

    __hash__ = None  # type: ignore[assignment]


MOMENT = Like(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,6}Z")
NUMBER, WHOLE = Like(float), Like(int)


class NotReported:
    """What the rules could not judge: `code: why`, a line for each; new rules may add theirs."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, list) and all(
            isinstance(line, str) and re.fullmatch(r"[a-z-]+: \S.*", line) for line in other
        )

    __hash__ = None  # type: ignore[assignment]


NOT_TOLD = NotReported()

BOUNDED = ("mark_delete", "ranges", "acknowledged_entries", "holes", "hole_entries")


def bounded(told: dict[str, Any]) -> dict[str, Any]:
    """With least and most of each number; those that a test does not name are the number itself."""
    begin = (told["oldest_hole"] or [None])[0]
    numbers = {"oldest_hole_begin": begin} | {name: told[name] for name in BOUNDED}
    return {
        f"{name}_{which}": value for name, value in numbers.items() for which in ("least", "most")
    } | told
