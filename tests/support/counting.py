"""Counts work in lines of code, which are the same on a busy machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any


class Lines:
    """run: how many lines of code have run."""

    def __init__(self) -> None:
        self.run = 0

    def count(self, frame: FrameType, event: str, _: Any) -> Any:
        self.run += event == "line"
        return self.count


@contextmanager
def counting() -> Iterator[Lines]:
    """Counts in this thread, in all functions that are called; a loop counts with each turn."""
    lines, before = Lines(), sys.gettrace()
    sys.settrace(lines.count)
    try:
        yield lines
    finally:
        sys.settrace(before)
