"""What signals do for a while, and afterwards again what they did before."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

Handlers = Mapping[int, Callable[[int, FrameType | None], None]]  # by the signal's number


@contextmanager
def obeying(handlers: Handlers) -> Iterator[None]:
    """Calls these handlers until it is left."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
