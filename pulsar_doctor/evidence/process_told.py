"""What a process reports of itself, as values: its consumers, and where its threads are.

None is not told: the client has no such field, or nobody looked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import many

Address = tuple[str, int]
Role = Literal["receives", "listens", "acknowledges", "client", "application"]
ProcessKind = Literal["jvm", "native-image", "python", "go", "other"]
WaitKind = Literal["monitor", "lock", "future", "class", "end", "signal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConsumer:
    """One consumer of a Java client by the client's own fields. Counts are messages.

    kind: "multi" is the parent of one consumer for each topic or partition (children: their ids).
    unsent_permits: taken by the application, not yet sent as FLOW; a parent has none of its own.
    queue_size: its receiver queue size now, 0 for a zero queue; queue_size_most: as it was asked
    for. waiting: in its queue; listener_waiting: handed to its listener's executor and not done
    with, the one in the callback too. listener_threads: Java's ids of that executor's threads.
    listener_executor_waiting: tasks of that executor, which others may share.
    receives_pending: calls of receiveAsync that wait. acks_pending: in the grouping tracker.
    unacked_tracked: by the ack timeout, where there is one. connected: whether it has a connection.
    missing: fields that this client has not.
    """

    id: int
    kind: Literal["single", "multi"]
    topic: str | None = None
    subscription: str | None = None
    subscription_type: str | None = None
    name: str | None = None
    consumer_id: int | None = None
    state: str | None = None
    partition: int | None = None
    children: tuple[int, ...] = ()
    unsent_permits: int | None = None
    queue_size: int | None = None
    queue_size_most: int | None = None
    queue_size_scales: bool | None = None
    refill_threshold: int | None = None
    waiting: int | None = None
    listener_waiting: int | None = None
    listener_executor_waiting: int | None = None
    listener_threads: tuple[int, ...] = ()
    paused: bool | None = None
    listener: bool | None = None
    zero_queue: bool = False
    receives_pending: int | None = None
    acks_pending: int | None = None
    cumulative_ack_pending: bool | None = None
    acks_grouped_micros: int | None = None
    unacked_tracked: int | None = None
    ack_timeout_ms: int | None = None
    nacks_pending: int | None = None
    dead_letter_after: int | None = None
    dead_letter_topic: str | None = None
    connected: bool | None = None
    local_address: Address | None = None
    remote_address: Address | None = None
    missing: tuple[str, ...] = ()

    @property
    def refills_at(self) -> int | None:
        """How many unsent permits it sends as one FLOW; None for a parent, or where not told."""
        if self.kind == "multi" or self.zero_queue:
            return None
        if self.refill_threshold:
            return self.refill_threshold
        return None if self.queue_size is None else max(1, self.queue_size // 2)


@dataclass(frozen=True, slots=True)
class ThreadTold:
    """What the JVM counts of one thread that waits, and the object that it waits for.

    blocked, waited: how many waits it has begun, for monitors and of all other kinds: while both
    stay the same it is one wait. on: the class of the object. owner: Java's number of the thread
    that holds it, or runs it. begun: of a FutureTask, whether a thread has begun to run it.
    """

    id: int
    blocked: int | None = None
    waited: int | None = None
    on: str | None = None
    owner: int | None = None
    begun: bool | None = None


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool of threads in which tasks of the application wait.

    threads: Java's numbers of them. waiting: tasks. looked, holding: of the first of these, how
    many were looked at, and how many hold a message of the client; tasks that are neither lambdas
    nor the JDK's are not looked into. task: the class of the first. topic, message, published_ms:
    of the message that the first task holds; in_order: whether the first is the oldest.
    """

    threads: tuple[int, ...]
    waiting: int
    looked: int
    holding: int
    task: str
    topic: str | None = None
    message: str | None = None
    published_ms: int | None = None
    in_order: bool = False

    def text(self, now_ms: int) -> str:
        """`4 threads, 2,996 tasks wait, each of the first 200 with a message of its clients; …`."""
        what = f"{many(len(self.threads), 'thread')}, {self.waiting:,} tasks wait"
        if not self.holding:
            return f"{what}: the first is a {self.task}; whether they hold messages is not known"
        of = "each" if self.holding == self.looked else f"{self.holding}"
        some = f"{of} of the first {self.looked:,}" if self.looked < self.waiting else of
        what = f"{what}, {some} with a message of its clients"
        if self.message is None:
            return what
        first = "the oldest" if self.in_order else "one"
        age = None if self.published_ms is None else max(0, now_ms - self.published_ms) / 1000
        ago = "" if age is None else f", published {duration(age)} ago"
        return f"{what}; {first} is {self.message} of {self.topic}{ago}"


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the agent found at one moment. objects: that it looked at; milliseconds: its time.

    virtual_threads: how many there are at least; where they are is in no thread dump.
    """

    read_at_ms: int
    consumers: tuple[ClientConsumer, ...]
    runtime: str
    objects: int
    milliseconds: int
    not_told: tuple[str, ...] = ()
    threads: tuple[ThreadTold, ...] = ()
    pools: tuple[Pool, ...] = ()
    virtual_threads: int = 0


@dataclass(frozen=True, slots=True)
class Wait:
    """What a thread waits for: the class of the object, and the thread that has to end the wait.

    kind: "class" is one that is initialized; "end" that of another thread; "signal" is what has no
    owner: a latch, a semaphore, an object that is to be notified. owner: the name of the thread
    that holds the object, runs the task, initializes the class, or is to end; None where none is
    known. begun: of a task, whether a thread has begun to run it; None where that is not known.
    itself: whether the thread waits for what it holds itself.
    """

    kind: WaitKind
    of: str
    owner: str | None = None
    begun: bool | None = None
    itself: bool = False

    @property
    def text(self) -> str:
        """`the monitor of a com.acme.Ledger, which writer holds`."""
        if self.kind == "end":
            return f"the end of {self.owner or 'another thread, which is not known'}"
        if self.kind == "class":
            return f"the class {self.of}, {self._who}"
        article = "an" if self.of[:1] in "aeio" else "a"
        monitor = "the monitor of " if self.kind == "monitor" else ""
        return f"{monitor}{article} {self.of}, {self._who}"

    @property
    def _who(self) -> str:
        if self.owner is not None:
            who = "it" if self.itself else self.owner
            how = {"future": "runs", "class": "initializes"}.get(self.kind, "holds")
            return f"which {who} {how}{' itself' if self.itself else ''}"
        if self.kind == "future":
            if self.begun is False:
                return "which no thread has begun to run"
            return "which has no owner: who is to complete it is not known"
        if self.kind == "signal":
            return "which has no owner: who is to end the wait is not known"
        if self.kind == "class":
            return "which another thread initializes"
        return "whose owner is not known"


@dataclass(frozen=True, slots=True)
class Sitting:
    """Where one thread is. role: what it is there for, as far as its stack tells.

    top: the innermost frame. line: the innermost one of the application; None where all are the
    JDK's or the client's. seconds: for how long, at least; None where one look alone tells nothing.
    since_look: whether that is all that was measured, from the first look to the last.
    inside: the calls that it is in below that line: the innermost, and the library's own. waits:
    what it waits for; chain: who holds that, who holds what that thread waits for, and so on.
    """

    thread: str
    role: Role
    state: str
    top: str | None
    line: str | None
    frames: tuple[str, ...] = ()
    id: int | None = None
    seconds: float | None = None
    inside: tuple[str, ...] = ()
    waits: Wait | None = None
    chain: tuple[Sitting, ...] = ()
    since_look: bool = False

    @property
    def where(self) -> str:
        """As a person says it: `java.lang.Thread.sleep under com.acme.Billing.charge (…:42)`."""
        if self.line is None or (self.line == self.top and not self.inside):
            return self.line or self.top or "no frame"
        return f"{' in '.join(self.inside) or method(self.top)} under {self.line}"

    @property
    def ends(self) -> Sitting:
        """The last thread of the chain, for which all others wait."""
        return self.chain[-1] if self.chain else self


@dataclass(frozen=True, slots=True)
class TcpConnection:
    """One TCP connection of a process. unread, unsent: bytes in the kernel's queues.

    read_ms, written_ms: since data came last and was sent last; None where nothing tells.
    """

    local: Address
    remote: Address
    unread: int
    unsent: int
    read_ms: int | None = None
    written_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ProcessTold:
    """All that one process has told. runtime: None where not told.

    connections: None where we may not see them. looks: of the agent, first and last; none where
    nobody looked. seconds: between these, and between two dumps of its threads. threads: those that
    matter to a consumer; threads_told: whether they were asked for. not_told: why not, a sentence
    each.
    """

    pid: int
    name: str
    kind: ProcessKind
    connections: tuple[TcpConnection, ...] | None = None
    runtime: str | None = None
    looks: tuple[Inspection, ...] = ()
    threads: tuple[Sitting, ...] = ()
    threads_told: bool = False
    deadlocks: tuple[tuple[str, ...], ...] = ()
    seconds: float = 0.0
    not_told: tuple[str, ...] = ()


def method(frame: str | None) -> str:
    """A frame without its file and line."""
    return (frame or "").partition("(")[0].strip()
