"""What a process reports of itself, as values: its consumers, and where its threads are.

None is not reported: the client has no such field, or nobody looked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import many
from pulsar_doctor.wording.typed_json import written_as

Address = tuple[str, int]
Role = Literal["receives", "listens", "acknowledges", "client", "application"]
ProcessKind = Literal["jvm", "native-image", "python", "go", "other"]
# How names of a Java client's own threads begin, and what stops while the application keeps one.
CLIENT_THREADS = {
    "pulsar-client-io-": "an I/O thread of the client, which sends and receives nothing meanwhile",
    "pulsar-timer-": "the client's timer, by which nothing times out or is retried meanwhile",
    "pulsar-client-internal-": "the client's own thread, which hands over no message meanwhile",
}
WaitKind = Literal["monitor", "lock", "future", "class", "end", "signal"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConsumer:
    """One consumer of a Java client by the client's own fields. Counts are messages.

    kind: "multi" is the parent of one consumer for each topic or partition.
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
    children: tuple[int, ...] = ()  # their ids
    # Taken by the application, not yet sent as FLOW; None of a parent.
    unsent_permits: int | None = None
    queue_size: int | None = None  # its receiver queue size now, 0 for a zero queue
    queue_size_most: int | None = None  # as it was configured
    queue_size_scales: bool | None = None
    refill_threshold: int | None = None
    waiting: int | None = None  # in its queue
    listener_waiting: int | None = None  # handed to its listener's executor and not finished
    listener_executor_waiting: int | None = None  # tasks of that executor, which others may share
    listener_threads: tuple[int, ...] = ()  # Java's ids of that executor's threads
    paused: bool | None = None
    listener: bool | None = None
    zero_queue: bool = False
    receives_pending: int | None = None  # calls of receiveAsync that wait
    acks_pending: int | None = None  # in the grouping tracker
    cumulative_ack_pending: bool | None = None
    acks_grouped_micros: int | None = None
    unacked_tracked: int | None = None  # by the ack timeout, where there is one
    ack_timeout_ms: int | None = None
    nacks_pending: int | None = None
    dead_letter_after: int | None = None
    dead_letter_topic: str | None = None
    connected: bool | None = None  # whether it has a connection
    local_address: Address | None = None
    remote_address: Address | None = None
    missing: tuple[str, ...] = ()  # fields that this client does not have

    @property
    def refills_at(self) -> int | None:
        """How many unsent permits it sends as one FLOW; None: a parent, or not reported."""
        if self.kind == "multi" or self.zero_queue:
            return None
        if self.refill_threshold:
            return self.refill_threshold
        return None if self.queue_size is None else max(1, self.queue_size // 2)


@dataclass(frozen=True, slots=True)
class WaitingThread:
    """What the JVM counts of one thread that waits, and the object that it waits for."""

    id: int
    # Waits for monitors that it has begun; while the same, it is one wait.
    blocked: int | None = None
    waited: int | None = None  # waits of all other kinds
    on: str | None = None  # the class of the object
    owner: int | None = None  # Java's number of the thread that holds it, or runs it
    begun: bool | None = None  # of a FutureTask, whether a thread has begun to run it


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool of threads for tasks of the application. By Java, one in which tasks wait."""

    threads: tuple[int, ...]  # the ids of the threads, as `Sitting.id`
    waiting: int | None = None  # tasks; None: not known, as what follows
    looked: int = 0  # of the first tasks, how many were examined: lambdas and those of the JDK only
    holding: int = 0  # of these, how many hold a message of the client
    task: str | None = None  # the class of the first
    topic: str | None = None  # of the message that the first task holds, as the next two
    message: str | None = None
    published_ms: int | None = None
    in_order: bool = False  # whether the first is the oldest

    def text(self, now_ms: int) -> str:
        """`4 threads, 2,996 tasks wait, each of the first 200 with a message of its clients; …`."""
        what = many(len(self.threads), "thread")
        if self.waiting is None:
            return what
        what, messages = f"{what}, {self.waiting:,} tasks wait", self.messages(now_ms)
        if messages is not None:
            return f"{what}, {messages}"
        return f"{what}: the first is a {self.task}; whether they hold messages is not known"

    def messages(self, now_ms: int) -> str | None:
        """`each of the first 200 with a message of its clients; …`; None where none is known."""
        if not self.holding:
            return None
        of = "each" if self.holding == self.looked else f"{self.holding}"
        some = of if self.looked >= (self.waiting or 0) else f"{of} of the first {self.looked:,}"
        what = f"{some} with a message of its clients"
        if self.message is None:
            return what
        first = "the oldest" if self.in_order else "one"
        age = None if self.published_ms is None else max(0, now_ms - self.published_ms) / 1000
        ago = "" if age is None else f", published {duration(age)} ago"
        return f"{what}; {first} is {self.message} of {self.topic}{ago}"


@dataclass(frozen=True, slots=True)
class Inspection:
    """What the agent found at one moment."""

    read_at_ms: int
    consumers: tuple[ClientConsumer, ...]
    runtime: str
    objects: int  # that it examined
    milliseconds: int  # that it took
    unknowns: tuple[str, ...] = field(default=(), metadata=written_as("not_told"))
    threads: tuple[WaitingThread, ...] = ()
    pools: tuple[Pool, ...] = ()
    virtual_threads: int = 0  # at least; where they are is in no thread dump


@dataclass(frozen=True, slots=True)
class Wait:
    """What a thread waits for: the class of the object, and the thread that has to end the wait."""

    # "end": of another thread; "signal": without an owner, as a latch or a semaphore.
    kind: WaitKind
    of: str
    owner: str | None = None  # the name of the thread that has to end the wait; None: not known
    begun: bool | None = None  # of a task, whether a thread has begun to run it; None: not known
    itself: bool = False  # whether the thread waits for what it holds itself

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
    """Where one thread is."""

    thread: str
    role: Role  # what it is there for, as far as its stack tells
    state: str
    top: str | None  # the innermost frame
    # The innermost one of the application; None: all are the JDK's or the client's.
    line: str | None
    frames: tuple[str, ...] = ()
    id: int | None = None
    seconds: float | None = None  # for how long, at least; None: one sample alone does not tell
    inside: tuple[str, ...] = ()  # the calls below that line: the innermost, and the library's own
    waits: Wait | None = None
    # Who holds what it waits for, who holds what that thread waits for, and so on.
    chain: tuple[Sitting, ...] = ()
    # Whether `seconds` is all that was measured, from the first sample to the last.
    since_look: bool = False

    @property
    def where(self) -> str:
        """The place in words: `java.lang.Thread.sleep under com.acme.Billing.charge (…:42)`."""
        if self.line is None or (self.line == self.top and not self.inside):
            return self.line or self.top or "no frame"
        return f"{' in '.join(self.inside) or method(self.top)} under {self.line}"

    @property
    def of_client(self) -> str | None:
        """What the client needs this thread for, where the application's code is in it."""
        if self.line is None:
            return None
        known = (what for name, what in CLIENT_THREADS.items() if self.thread.startswith(name))
        return next(known, None)

    @property
    def ends(self) -> Sitting:
        """The last thread of the chain, for which all others wait."""
        return self.chain[-1] if self.chain else self


@dataclass(frozen=True, slots=True)
class TcpConnection:
    """One TCP connection of a process."""

    local: Address
    remote: Address
    unread: int  # bytes in the kernel's queue, as `unsent`
    unsent: int
    read_ms: int | None = None  # since data came last; None: not known
    written_ms: int | None = None  # since data was sent last; None: not known
    round_trip_us: int | None = None  # as the kernel measures it; None: not known


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """Everything that one process has reported."""

    pid: int
    name: str
    kind: ProcessKind
    connections: tuple[TcpConnection, ...] | None = None  # None where we may not see them
    runtime: str | None = None
    # Of the agent, first and last.
    inspections: tuple[Inspection, ...] = field(default=(), metadata=written_as("looks"))
    threads: tuple[Sitting, ...] = ()  # those that matter to a consumer
    # Whether threads were requested.
    has_threads: bool = field(default=False, metadata=written_as("threads_told"))
    deadlocks: tuple[tuple[str, ...], ...] = ()
    pools: tuple[Pool, ...] = ()
    seconds: float = 0.0  # between the samples of the agent, and between two thread dumps
    # Why something is not known, a sentence each.
    unknowns: tuple[str, ...] = field(default=(), metadata=written_as("not_told"))


def method(frame: str | None) -> str:
    """A frame without its file and line."""
    return (frame or "").partition("(")[0].strip()
