"""What every client must be able to do here, so that one behaviour is written once for all."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import dataclass
from typing import Any, Protocol

RECEIVE_SECONDS = 5.0


class Refused(Exception):
    """The client, or the broker through it, did not do what was asked; its own words."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """A consumer as a behaviour wants it; a driver leaves out what its client does not have.

    type: exclusive, shared, failover or key_shared. listener: takes no receive; see Consumer.let.
    crypto: what to do with a message that cannot be decrypted: fail, discard or consume. auto:
    auto-scaled receiver queue. max_total: limit over all partitions.
    chunks_most: incomplete chunked messages kept at once; expire_chunks_ms: after which they go.
    """

    topic: str
    queue: int = 1000
    type: str = "shared"
    name: str = "c"
    listener: bool = False
    paused: bool = False
    crypto: str | None = None
    auto: bool = False
    max_total: int | None = None
    chunks_most: int | None = None
    expire_chunks_ms: int | None = None
    nack_ms: int = 200


@dataclass(frozen=True, slots=True)
class Taken:
    """A message as the application got it. handle: the client's own id or message."""

    handle: Any
    ledger_id: int
    entry_id: int
    batch_index: int


class Gate:
    """Where a listener stops in the middle of its work until it is let on."""

    def __init__(self) -> None:
        self.begun = 0
        self.open = threading.Semaphore(0)
        self.closed = False

    def pass_one(self) -> None:
        self.begun += 1
        if not self.closed:
            self.open.acquire()

    def close(self) -> None:
        self.closed = True
        self.open.release(100_000)


class Consumer(Protocol):
    """One consumer or reader of a client."""

    def receive(self, count: int = 1, seconds: float = RECEIVE_SECONDS) -> list[Taken]:
        """Takes so many messages; fewer where one does not come in time."""

    def ack(self, taken: list[Taken]) -> None:
        """Acknowledges each of them by itself."""

    def nack(self, taken: list[Taken]) -> None:
        """Gives them back."""

    def seek(self, to: Taken) -> None:
        """Moves the subscription to this message."""

    def pause(self) -> None:
        """Refused where the client has no such thing."""

    def resume(self) -> None:
        """Ends a pause."""

    def let(self, count: int) -> None:
        """Lets the listener finish with so many more messages; it acknowledges them."""

    def begun(self) -> int:
        """How many messages the listener was called with so far."""

    def close(self) -> None:
        """Closes it."""


class Held:
    """What is alike of consumers that this process holds by their own object.

    error: what that raises; `taken` and `words` read a message and an error of it.
    """

    error: type[Exception] = Exception

    def __init__(self, consumer: Any, queue: int, gate: Gate) -> None:
        self._consumer = consumer
        self._queue = queue
        self._gate = gate
        self._waiting: Future[Any] | None = None

    def taken(self, message: Any) -> Taken:
        raise NotImplementedError

    def words(self, error: Exception) -> str:
        return str(error)

    def next(self, seconds: float) -> Any:
        """The next message; None where none comes in time."""
        raise NotImplementedError

    def receive(self, count: int = 1, seconds: float = RECEIVE_SECONDS) -> list[Taken]:
        taken: list[Taken] = []
        while len(taken) < count and (message := self._one(seconds)) is not None:
            taken.append(self.taken(message))
        return taken

    def _one(self, seconds: float) -> Any:
        if self._queue:
            return self.next(seconds)
        if self._waiting is None:  # a zero queue can only wait for ever
            self._waiting = Future()
            threading.Thread(target=self._wait, args=(self._waiting,), daemon=True).start()
        try:
            message = self._waiting.result(seconds)
        except NotYet:
            return None
        self._waiting = None
        return message

    def _wait(self, result: Future[Any]) -> None:
        try:
            result.set_result(self._consumer.receive())
        except self.error as error:
            result.set_exception(Refused(self.words(error)))

    def ack(self, taken: list[Taken]) -> None:
        for each in taken:
            self._consumer.acknowledge(each.handle)

    def let(self, count: int) -> None:
        self._gate.open.release(count)

    def begun(self) -> int:
        return self._gate.begun

    def close(self) -> None:
        self._gate.close()
        with contextlib.suppress(self.error):
            self._consumer.close()
        if self._waiting is not None:
            with contextlib.suppress(Refused, NotYet):
                self._waiting.result(RECEIVE_SECONDS)  # closing it has ended the wait


class Client(Protocol):
    """A client library, connected to one service URL."""

    name: str
    can: frozenset[str]  # features that not all have, see behaviours

    @property
    def package(self) -> str | None:
        """What it is installed as, where its version on the wire does not tell."""

    def subscribe(self, wanted: Wanted) -> Consumer:
        """Attaches a consumer at the earliest message. Raises Refused."""

    def reader(self, topic: str, start: Taken, queue: int, *, inclusive: bool = False) -> Consumer:
        """Reads from a position on. Raises Refused."""

    def at(self, ledger_id: int, entry_id: int, batch_index: int) -> Taken:
        """A message id written by hand."""

    def another(self, service_url: str) -> Client:
        """One more client of this library, connected there."""

    def close(self) -> None:
        """Ends the client and what it started."""
