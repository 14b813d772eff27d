"""What a consumer's process reports about it: the client's counters, and busy threads."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.evidence.process_told import Pool, Sitting
from pulsar_doctor.wording.sentences import say


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """One consumer of a process that was looked into. Counts are messages; None is not told.

    unsent: permits that the client owes the broker (unsent permits); refills_at: it sends them as
    one FLOW then. waiting: in its queue and that of its parent, not taken; some_wait: where only
    that is known; handed: to its listener, and not done with. paused; listener: whether it has one.
    taken: messages taken between two looks, at least; seconds: between these. asked: whether
    anybody calls receive, or waits in it. sits: the threads that its messages wait for, longest
    first: those of its listener, or else of the application; where none waits in the client, those
    of the application. acks_pending: not sent yet, in both looks; acks_grouped_seconds: for how
    long its client may hold them back. connected: whether it has a connection to its broker.
    deadlock: names of threads, as the JVM found them, where one of them works for a consumer.
    pools: those in which messages of its topic wait; pool_sits: where their threads are, longest
    first; moment_ms: when they were looked at. virtual_threads: how many its process has; where
    they are is not known.
    """

    unsent: int | None = None
    refills_at: int | None = None
    queue_size: int | None = None
    waiting: int | None = None
    some_wait: bool = False
    handed: int | None = None
    paused: bool | None = None
    listener: bool | None = None
    zero_queue: bool = False
    taken: int | None = None
    seconds: float = 0.0
    asked: bool | None = None
    sits: tuple[Sitting, ...] = ()
    acks_pending: int | None = None
    acks_grouped_seconds: float | None = None
    connected: bool | None = None
    deadlock: tuple[str, ...] = ()
    pools: tuple[Pool, ...] = ()
    pool_sits: tuple[Sitting, ...] = ()
    virtual_threads: int = 0
    moment_ms: int = 0

    @property
    def until_flow(self) -> int | None:
        """How many messages it has to take before it asks again, exactly; None: not told."""
        if self.unsent is None or self.refills_at is None:
            return None
        return max(1, self.refills_at - self.unsent)

    @property
    def nothing_taken(self) -> bool:
        """Whether something waited for the application in both looks, and none of it was taken.

        For a zero queue nothing waits: it asks when somebody calls receive, and nobody did.
        """
        waits = self.some_wait or (self.waiting or 0) > 0 or (self.handed or 0) > 0
        return self.taken == 0 and (waits or (self.zero_queue and self.asked is False))

    @property
    def stood(self) -> float:
        """For how many seconds nothing was taken, at least: as long as no thread ran that could."""
        if not self.nothing_taken:
            return 0.0
        return max(self.seconds, min((each.seconds or 0.0 for each in self.sits), default=0.0))

    @property
    def ledger(self) -> str:
        """How far it is to its next FLOW, as a person says it."""
        if self.zero_queue:
            return "its client has a zero queue and asks for one message at each receive"
        if self.unsent is None or self.refills_at is None:
            return "its client does not tell how far it is to its next FLOW"
        if self.unsent >= self.refills_at:
            due = "its client has taken {}, and has not asked again, which is due after {}"
            return say(due, self.unsent, self.refills_at)
        more = "its client has taken {} of the {:messages} after which it asks again"
        return say(more, self.unsent, self.refills_at)
