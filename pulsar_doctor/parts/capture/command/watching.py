"""Runs a live capture with its observer, its screen and its signals."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

from pulsar_doctor.parts.capture.command.options import CaptureRequest
from pulsar_doctor.parts.capture.command.reading import Idle
from pulsar_doctor.parts.capture.running import RunningCapture
from pulsar_doctor.parts.capture.watching import Watching
from pulsar_doctor.parts.capture.writing import TraceWriter

Handlers = Mapping[int, Callable[[int, FrameType | None], None]]  # by the signal's number


def idle_of(
    request: CaptureRequest,
    writer: TraceWriter,
    running: RunningCapture,
    watching: Watching | None,
) -> Idle:
    """What was passed on before is on the disk before more is waited for; live, time passes."""

    def idle(*, quiet: bool) -> None:
        if quiet and request.interface is not None:
            now_ns = time.time_ns()
            running.pass_time(now_ns)
            writer.pass_time(now_ns)
        writer.flush()
        if watching is not None:
            watching.look()

    return idle


def handlers_of(watching: Watching | None) -> Handlers:
    """What SIGTERM and SIGUSR2 do while packets come in."""
    if watching is None:
        return {}

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    def ask(number: int, frame: FrameType | None) -> None:
        watching.ask()

    wanted = {"SIGTERM": interrupt, "SIGUSR2": ask}  # Windows has one of them
    return {getattr(signal, name): wanted[name] for name in wanted if hasattr(signal, name)}


@contextmanager
def obeying(handlers: Handlers) -> Iterator[None]:
    """Calls these handlers until it is left."""
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
