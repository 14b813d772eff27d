"""What a consumer's process reports about it: the client's counters, and busy threads."""

from __future__ import annotations

from dataclasses import dataclass

from pulsar_doctor.evidence.process_report import Pool, Sitting
from pulsar_doctor.wording.sentences import say


@dataclass(frozen=True, slots=True, kw_only=True)
class Inside:
    """One consumer of a process that was examined. Counts are messages; None is not reported."""

    unsent: int | None = None  # permits that the client owes the broker
    refills_at: int | None = None  # it sends them as one FLOW then
    queue_size: int | None = None
    waiting: int | None = None  # not taken yet, in its queue and that of its parent
    some_wait: bool = False  # where only that is known
    handed: int | None = None  # to its listener, and not finished
    paused: bool | None = None
    listener: bool | None = None  # whether it has one
    zero_queue: bool = False
    taken: int | None = None  # between two samples, at least
    seconds: float = 0.0  # between these
    asked: bool | None = None  # whether anybody calls receive, or waits in it
    sits: tuple[Sitting, ...] = ()  # the threads that its messages wait for, longest first
    acks_pending: int | None = None  # not sent yet, in both samples
    acks_grouped_seconds: float | None = None  # for how long its client may hold them back
    connected: bool | None = None  # whether it has a connection to its broker
    # Names of threads that the JVM found, where one of them works for a consumer.
    deadlock: tuple[str, ...] = ()
    pools: tuple[Pool, ...] = ()  # those that have messages of the topic, or may have
    pool_places: tuple[Sitting, ...] = ()  # where their threads are, longest first
    virtual_threads: int = 0  # of its process; where they are is not known
    moment_ms: int = 0  # when the pools were examined

    # Other consumers of the process that the same listener thread serves, with their topics.
    shares: tuple[str, ...] = ()

    @property
    def blocked_pool(self) -> Pool | None:
        """The first pool in which no thread has run since one sample or longer."""
        blocked = {each.id for each in self.pool_places if each.seconds}
        return next((each for each in self.pools if blocked.issuperset(each.threads)), None)

    @property
    def until_flow(self) -> int | None:
        """How many messages it has to take before it asks again, exactly; None: not reported."""
        if self.unsent is None or self.refills_at is None:
            return None
        return max(1, self.refills_at - self.unsent)

    @property
    def nothing_taken(self) -> bool:
        """Whether something waited for the application in both samples, and none of it was taken.

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
