"""A relay with something broken inside, as no disk or decoder breaks when a test would like it to.

    with faulty.relays(tmp_path, "hang") as switch:  # what tap.relaying starts meanwhile
        switch.touch()  # from now on the fault shows
    with faulty.here("mask"):  # this process, where no relay of its own is needed
        ...

As a script it is the Python that the relay is started with. The faults:

    cutter      a read that has MARK in it cannot be cut
    mask        a command or metadata that has MARK in it cannot be masked
    disk        the journal can neither be written nor begun, for the reason that stands in the
                switch (EIO, ENOSPC, …); half of a write may succeed
    hang        a write to the journal does not come back
    census      nothing is broken; tells what is alive in the process (see census_of)
"""

from __future__ import annotations

import contextlib
import errno
import gc
import json
import os
import runpy
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

MARK = b"cannot-be-decoded"
PAUSE_SECONDS = 0.02
PYTHON = sys.executable
RELAY = "pulsar_doctor.parts.tap.relay"


@contextlib.contextmanager
def relays(folder: Path, fault: str) -> Iterator[Path]:
    """Relays that are started meanwhile have this fault, while the file that is given exists."""
    switch = folder / f"switch-{fault}"
    python = folder / f"python-{fault}"
    python.write_text(f'#!/bin/sh\nexec "{PYTHON}" "{__file__}" {fault} "{switch}" "$@"\n')
    python.chmod(0o700)
    before, sys.executable = sys.executable, str(python)
    try:
        yield switch
    finally:
        sys.executable = before


@contextlib.contextmanager
def here(fault: str) -> Iterator[None]:
    """This process has the fault meanwhile: `cutter` or `mask`."""
    from pulsar_doctor.wire import framing, masking
    from pulsar_doctor.wire import pulsar_wire_pb2 as wire

    owners = (framing.Cutter, masking.Mask, wire)
    before = [dict(vars(owner)) for owner in owners]
    FAULTS[fault](Path())
    try:
        yield
    finally:
        for owner, names in zip(owners, before, strict=True):
            for name, value in names.items():
                if vars(owner)[name] is not value:
                    setattr(owner, name, value)


def census_of(switch: Path) -> Counter[str]:
    """How many objects of the relay's own classes, and unfinished tasks, its process holds."""
    answer = switch.with_suffix(".json")
    answer.unlink(missing_ok=True)
    switch.touch()
    until = time.monotonic() + 10
    while not answer.exists():
        assert time.monotonic() < until, "the relay does not say what is alive in it"
        time.sleep(PAUSE_SECONDS)
    return Counter(json.loads(answer.read_text()))


# In the relay's process.


class Injected(Exception):
    """No error that the code might expect."""


def _break_cutter(_: Path) -> None:
    from pulsar_doctor.wire import framing

    _break_methods(framing.Cutter)


def _break_mask(_: Path) -> None:
    from pulsar_doctor.wire import masking
    from pulsar_doctor.wire import pulsar_wire_pb2 as wire

    _break_methods(masking.Mask)
    for name in ("BaseCommand", "MessageMetadata"):
        setattr(wire, name, _message(getattr(wire, name)))


def _break_methods(owner: type) -> None:
    for name, method in list(vars(owner).items()):
        if callable(method) and not name.startswith("_"):
            setattr(owner, name, _raising(method))


def _raising(method: Callable[..., Any]) -> Callable[..., Any]:
    """Does its work, so that nothing but the answer is missing, and raises."""

    def raising(*args: Any) -> Any:
        answer = method(*args)
        if any(_marked(argument) for argument in args[1:]):
            raise Injected
        return answer

    return raising


def _marked(value: object) -> bool:
    if isinstance(value, bytes | bytearray | memoryview):
        return MARK in bytes(value)
    if isinstance(value, list | tuple):
        return any(map(_marked, value))
    return any(_marked(getattr(value, inside, ())) for inside in ("commands", "metadata"))


def _message(kind: Any) -> Any:
    """A message class of protobuf that cannot be derived from: so, one beside it."""

    def parse(data: bytes) -> Any:
        if MARK in data:
            raise Injected
        return kind.FromString(data)

    class Made:
        DESCRIPTOR = kind.DESCRIPTOR
        FromString = staticmethod(parse)

        def __new__(cls, *args: Any, **fields: Any) -> Any:
            return kind(*args, **fields)

    return Made


def _break_disk(switch: Path) -> None:
    def refuse(path: str, write: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        try:
            number = getattr(errno, switch.read_text())
        except FileNotFoundError:
            return write(*args)
        half = len(args[1]) // 2 if write.__name__ == "write" else 0
        if half and not refuse_next:
            refuse_next.append(True)
            return write(args[0], args[1][:half])
        refuse_next.clear()
        raise OSError(number, os.strerror(number), path)

    refuse_next: list[bool] = []
    _guard_journal(refuse)


def _hang_disk(switch: Path) -> None:
    def hang(_: str, write: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        while switch.exists():
            time.sleep(PAUSE_SECONDS)
        return write(*args)

    _guard_journal(hang)


def _guard_journal(guard: Callable[[str, Callable[..., Any], tuple[Any, ...]], Any]) -> None:
    """Has `guard` do what is asked of the operating system for a journal."""

    def path_of(where: object) -> str:
        if not isinstance(where, int):
            return os.fsdecode(where)  # type: ignore[arg-type]
        with contextlib.suppress(OSError):
            return str(Path(f"/proc/self/fd/{where}").readlink())
        return ""

    def guarded(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            path = path_of(args[0])
            if path.endswith(".pdj") and not named:
                return guard(path, function, args)
            return function(*args, **named)

        return call

    for name in ("open", "write", "writev", "pwrite", "fsync", "fdatasync"):
        setattr(os, name, guarded(getattr(os, name)))


def _census(switch: Path) -> None:
    import asyncio

    def alive() -> Iterator[str]:
        for thing in gc.get_objects():
            kind = type(thing)
            module = str(kind.__module__)
            if issubclass(kind, asyncio.Task):
                if not thing.done():
                    yield "unfinished tasks"
            elif module.startswith(("pulsar_doctor", "__main__")):
                yield kind.__qualname__
            elif module.startswith(("uvloop", "asyncio")) and kind.__name__.endswith("Transport"):
                yield kind.__name__

    def watch() -> None:
        while True:
            if switch.exists():
                gc.collect()
                answer = switch.with_suffix(".json")
                part = answer.with_suffix(".part")
                part.write_text(json.dumps(Counter(alive())))
                switch.unlink()
                part.replace(answer)
            time.sleep(PAUSE_SECONDS)

    threading.Thread(target=watch, daemon=True).start()


FAULTS = {
    "cutter": _break_cutter,
    "mask": _break_mask,
    "disk": _break_disk,
    "hang": _hang_disk,
    "census": _census,
}


def main(fault: str, switch: str, *arguments: str) -> None:
    """Goes on as the Python that was asked for would."""
    module = arguments[arguments.index("-m") + 1]
    sys.argv = [module, *arguments[arguments.index("-m") + 2 :]]
    sys.path.pop(0)  # the folder of this file is no part of the relay
    if module == RELAY:
        FAULTS[fault](Path(switch))
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
