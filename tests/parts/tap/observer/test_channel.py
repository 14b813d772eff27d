"""JSON lines between an observer and a parent that is slow, stopped or gone."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_doctor.parts.tap.observer.channel import Channel


class Parent:
    """The other ends of the pipes."""

    def __init__(self) -> None:
        self.in_fd, self.to_child = os.pipe()
        self.from_child, self.out_fd = os.pipe()
        self.channel = Channel(self.in_fd, self.out_fd)
        os.set_blocking(self.from_child, False)

    def read(self) -> list[dict]:
        data = b""
        while True:
            try:
                piece = os.read(self.from_child, 1 << 20)
            except BlockingIOError:
                self.channel.pump()
                try:
                    piece = os.read(self.from_child, 1 << 20)
                except BlockingIOError:
                    break
            if not piece:
                break
            data += piece
        return [json.loads(line) for line in data.splitlines()]

    def close(self) -> None:
        for fd in (self.in_fd, self.to_child, self.from_child, self.out_fd):
            with contextlib.suppress(OSError):
                os.close(fd)


@pytest.fixture
def parent() -> Iterator[Parent]:
    parent = Parent()
    yield parent
    parent.close()


BIG = "x" * 100_000


def test_what_must_arrive_arrives_in_order_and_of_snapshots_only_the_newest(parent):
    for number in range(100):
        parent.channel.tell({"event": number, "big": BIG})
        parent.channel.show({"shown": number, "big": BIG})
    told = parent.read()
    assert [line["event"] for line in told if "event" in line] == list(range(100))
    shown = [line["shown"] for line in told if "shown" in line]
    assert len(shown) < 100
    assert shown[-1] == 99


def test_nobody_is_waited_for(parent):
    for number in range(1000):  # far more than a pipe holds: waiting would be for ever
        parent.channel.tell({"event": number, "big": BIG})
    assert not parent.channel.questions()
    parent.channel.wait(0.01)
    parent.channel.show({"shown": 1})
    assert not parent.channel.wants_more


def test_a_parent_that_is_gone_is_told_nothing_and_costs_nothing(parent):
    os.close(parent.from_child)
    for number in range(3):
        parent.channel.tell({"event": number, "big": BIG})
    parent.channel.drain(5)
    assert not parent.channel.wants_more
    assert not parent.channel._unsent


def test_lines_come_whole_and_what_is_no_object_is_left_out(parent):
    os.write(parent.to_child, b'{"command":"SEAL"}\n[]\nno json\n{"comm')
    assert parent.channel.questions() == [{"command": "SEAL"}]
    assert parent.channel.questions() == []
    os.write(parent.to_child, b'and":"COUNTERS"}\n')
    assert parent.channel.questions() == [{"command": "COUNTERS"}]
    os.close(parent.to_child)
    assert parent.channel.questions() == []
    began = time.monotonic()
    parent.channel.wait(0.2)  # the end of stdin is no reason to wake up again and again
    assert time.monotonic() - began >= 0.15


def test_a_line_wakes_it_up(parent):
    waiting = threading.Thread(target=parent.channel.wait, args=(3600,), daemon=True)
    waiting.start()
    os.write(parent.to_child, b'{"command":"SEAL"}\n')
    waiting.join(60)
    assert not waiting.is_alive()


def test_drain_waits_for_a_slow_reader(parent, tmp_path: Path):
    for number in range(50):
        parent.channel.tell({"event": number, "big": BIG})
    told: list[dict] = []
    os.set_blocking(parent.from_child, True)

    def slow() -> None:
        with os.fdopen(os.dup(parent.from_child), "rb") as lines:
            for line in lines:
                told.append(json.loads(line))
                if len(told) == 50:
                    return

    reader = threading.Thread(target=slow)
    reader.start()
    parent.channel.drain(20)
    reader.join(20)
    assert [line["event"] for line in told] == list(range(50))
