"""Counts a library consumer's messages, and can hold the next one back.

pulsar-client's receive() gives the permit of a message back. So where messages are held back until
they are due, only the head is: all others stay in the library's queue, and permits come back as
messages are handed out, one ahead.

Partitions have heads of their own (seen: in the library's common queue a young message of a quiet
partition held up those of a busy one, by up to 9.5 s at a delay of 5 s), so each is a consumer.

A message that comes again keeps its publish time and is due at once, but waits behind a held head.
A cumulative ack never acknowledges what is not due: all before the head were handed out. A zero
queue asks when the application does, and holds the one message that came.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import cast

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.consume.deferring import due_ms
from pulsar_doctor.parts.consume.engines import Attached, Closed, Granting, Message, Plan

LOOK_SECONDS = 0.2  # how long a thread waits before it checks whether to stop


def now_ms() -> float:
    """The wall clock, as publish times are read."""
    return time.time_ns() / 1e6


class Head:
    """The queue of a library consumer: each message is counted as taken when it is received.

    taken: called with it, at once. plan: until when it is held back then; None: not at all.
    """

    def __init__(
        self, inner: Attached, taken: Callable[[Message], None], plan: Plan | None
    ) -> None:
        self._inner, self._taken, self._plan = inner, taken, plan
        self._held: tuple[Message, float] | None = None  # and when it is due
        self._closed = threading.Event()
        self.acknowledge = inner.acknowledge
        self.acknowledge_cumulative = inner.acknowledge_cumulative
        self.negative_acknowledge = inner.negative_acknowledge

    def receive(self, seconds: float | None) -> Message | None:
        """See Attached. What is not due in time waits for the next call."""
        until = None if seconds is None else now_ms() + seconds * 1000
        if self._held is None:
            message = self._inner.receive(seconds)
            if message is None:
                return None
            self._taken(message)
            if self._plan is None:
                return message
            self._held = message, self._due(message, self._plan)
        message, due = self._held
        if not self._sleep(due if until is None else min(due, until)):
            raise Closed
        if now_ms() < due:
            return None
        self._held = None
        return message

    def _due(self, message: Message, plan: Plan) -> float:
        return due_ms(plan, message.published_ms, message.entry_id, now_ms())

    def _sleep(self, until_ms: float) -> bool:
        while (left := until_ms - now_ms()) > 0:
            if self._closed.wait(left / 1000):
                return False
        return not self._closed.is_set()

    def grant(self, permits: int) -> None:
        """Where its permits are manual."""
        cast(Granting, self._inner).grant(permits)

    def close(self) -> None:
        self._closed.set()
        self._inner.close()


class Heads:
    """Consumers of several partitions as one: the head of each is held on its own.

    parts: by the name of their partition. A partition's next head is received when the one before
    was taken.
    """

    def __init__(self, parts: dict[str, Head]) -> None:
        self._parts = parts
        self._due: queue.Queue[tuple[Message, threading.Event]] = queue.Queue()
        self._closed = threading.Event()
        self._error: DoctorError | None = None
        self._threads = [
            threading.Thread(target=self._wait_at, args=(part,), name=name, daemon=True)
            for name, part in parts.items()
        ]
        for thread in self._threads:
            thread.start()

    def _wait_at(self, part: Head) -> None:
        try:
            while not self._closed.is_set():
                message = part.receive(LOOK_SECONDS)
                if message is not None:
                    taken = threading.Event()
                    self._due.put((message, taken))
                    while not taken.wait(LOOK_SECONDS) and not self._closed.is_set():
                        pass
        except Closed:
            self._closed.set()
        except DoctorError as error:
            self._error = error
            self._closed.set()

    def receive(self, seconds: float | None) -> Message | None:
        """The next message that is due, of any partition. Raises Closed, DoctorError."""
        until = None if seconds is None else time.monotonic() + seconds
        while not self._closed.is_set():
            left = LOOK_SECONDS if until is None else min(LOOK_SECONDS, until - time.monotonic())
            try:
                message, taken = self._due.get(timeout=max(0.0, left))
            except queue.Empty:
                if until is not None and time.monotonic() >= until:
                    return None
                continue
            taken.set()
            return message
        raise self._error or Closed

    def acknowledge(self, message: Message) -> None:
        self._parts[message.topic].acknowledge(message)

    def acknowledge_cumulative(self, message: Message) -> None:
        self._parts[message.topic].acknowledge_cumulative(message)

    def negative_acknowledge(self, message: Message) -> None:
        self._parts[message.topic].negative_acknowledge(message)

    def close(self) -> None:
        self._closed.set()
        for part in self._parts.values():
            part.close()
        for thread in self._threads:
            thread.join(LOOK_SECONDS * 10)
