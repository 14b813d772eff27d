"""What many tests need."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(predicate: Callable[[], T | None], timeout: float = 30.0) -> T:
    """The first true answer of predicate within `timeout` seconds; else the test fails."""
    deadline = time.monotonic() + timeout
    while True:
        answer = predicate()
        if answer:
            return answer
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s; the last answer was {answer!r}")
        time.sleep(0.05)
