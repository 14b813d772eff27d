"""Grants permits by hand: each number that is typed becomes a FLOW."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from typing import cast

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.ledger.balance import PERMITS_MOST
from pulsar_doctor.parts.consume.engines import Closed, Granting
from pulsar_doctor.parts.consume.working import Worker

QUIET_SECONDS = 1.0  # after the last line and the last message it is over


class Hand:
    """Reads lines in a thread of its own and grants what they say. say: for what is no number."""

    def __init__(self, worker: Worker, lines: Iterable[str], say: Callable[[str], object]) -> None:
        self._worker = worker
        self._lines = lines
        self._say = say
        self._ended = False
        self._seen = -1
        self._granted = 0
        self._since = time.monotonic()
        threading.Thread(target=self._read, name="permits", daemon=True).start()

    def _read(self) -> None:
        consumer = cast(Granting, self._worker.attached)
        try:
            for line in self._lines:
                self._grant(consumer, line.split())
        except (Closed, OSError, ValueError):  # closed: the consumer, or what is read
            pass
        self._since, self._ended = time.monotonic(), True

    def _grant(self, consumer: Granting, words: list[str]) -> None:
        for word in words:
            try:
                self._grant_one(consumer, int(word))
            except ValueError:
                self._say(f"{word!r} is not a number of permits")
            except DoctorError as error:
                self._say(str(error))

    def _grant_one(self, consumer: Granting, permits: int) -> None:
        if permits + self._granted - max(0, self._seen) > PERMITS_MOST:
            raise InputError(
                f"{permits} permits more are more than a broker counts ({PERMITS_MOST})"
            )
        consumer.grant(permits)
        self._granted += permits

    def over(self, messages: int) -> bool:
        """Whether nothing more is typed and nothing more comes. messages: delivered so far."""
        if messages != self._seen:
            self._seen, self._since = messages, time.monotonic()
        return self._ended and time.monotonic() - self._since > QUIET_SECONDS
