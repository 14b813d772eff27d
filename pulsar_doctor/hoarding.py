"""One consumer that holds most of what is out, beside neighbours that have nothing to do.

As the broker's stats tell it, for Shared subscriptions. A neighbour is idle while it has permits,
holds nothing and is sent nothing: measured from its last ack or delivery, or since it connected.

*Queue or hand*: permits, queued and unsent messages make up the receiver queue, and fewer than half
of it are unsent. So without permits some messages are certainly queued; with permits left, all that
a consumer holds may be in the hands of its workers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pulsar_doctor.standing import Standing, standings
from pulsar_doctor.stats.observed import Observed
from pulsar_doctor.stats.sample import Age
from pulsar_doctor.stats.topic import ConsumerStats

PACE_NEEDS = 2  # messages, before a life says anything of a pace


@dataclass(frozen=True, slots=True)
class Hoard:
    """What one consumer holds of all that is out, and its neighbours with nothing to do."""

    hog: Standing
    held: int
    total: int
    idle: tuple[Standing, ...]
    idle_for: Age

    @property
    def done(self) -> int | None:
        """Messages that it acknowledged in the window; None where not told."""
        return None if self.hog.acked is False else self.hog.course.change(_done)

    @property
    def drain_seconds(self) -> float | None:
        """What it holds takes so long at least, at the pace of the window; None: no pace."""
        done, span_ms = self.done, self.hog.observed.window.span_ms
        return self.held * span_ms / (done + 1) / 1000 if done and done > 0 and span_ms else None

    @property
    def drain_seconds_by_life(self) -> float | None:
        """The same at the pace since its last delivery: all it ever did may have been since then.

        None where it never acknowledged, or did too little to speak of a pace.
        """
        last, done = self.hog.observed.window.last, _done(self.hog.now)
        full = last.age(self.hog.now.last_consumed_timestamp_ms)
        never = self.hog.now.last_acked_timestamp_ms is None
        if never or full is None or done is None or done < PACE_NEEDS:
            return None
        return self.held * min(full.ms, self.idle_for.ms) / (done + 1) / 1000

    @property
    def quiet(self) -> Age | None:
        """For how long it has done nothing while others could have."""
        silence = self.hog.silence
        return silence and min(silence, self.idle_for, key=lambda age: age.ms)

    @property
    def queued(self) -> bool:
        """Whether some of it is certainly queued: fewer than half of a queue are unsent."""
        return self.hog.permits is not None and self.hog.permits <= 0


def hoards(observed: Observed, *, share: float, idle_after: float) -> Iterator[Hoard]:
    """Each consumer with `share` of all that is out, or more, while others idle for so long.

    share: of 1; idle_after: seconds. Where the broker's clock is not told, a neighbour that may
    have been idle for so long counts.
    """
    everyone = standings(observed)
    ages = [(standing, _idle_for(standing)) for standing in everyone]
    idle = [(s, age) for s, age in ages if age and (age.ms >= idle_after * 1000 or not age.exact)]
    total = max(sum(map(_held, everyone)), observed.now.unacked_messages or 0)
    for hog in everyone if idle else ():
        held = _held(hog)
        # One that is blocked on unacknowledged messages has a cause of its own.
        if held < 2 or held < share * total or hog.now.blocked_consumer_on_unacked_msgs:
            continue
        if observed.backlog.entries == 1:  # one batch: it goes to one consumer, or to another
            continue
        longest = max((age for _, age in idle), key=lambda age: age.ms)
        yield Hoard(hog, held, total, tuple(standing for standing, _ in idle), longest)


def _held(standing: Standing) -> int:
    return max(0, standing.unacked or 0)


def _done(consumer: ConsumerStats) -> int | None:
    if consumer.msg_out_counter is None or consumer.unacked_messages is None:
        return None
    return consumer.msg_out_counter - consumer.unacked_messages


def _idle_for(standing: Standing) -> Age | None:
    """For how long it has had permits and no message; None where it has work, or nothing tells."""
    now = standing.now
    if standing.unacked is None or standing.unacked > 0 or now.blocked_consumer_on_unacked_msgs:
        return None
    if standing.permits is None or standing.permits <= 0 or standing.delivered:
        return None
    moments = (now.connected_since_ms, now.last_acked_timestamp_ms, now.last_consumed_timestamp_ms)
    told = [moment for moment in moments if moment is not None]
    return standing.observed.window.last.age(max(told, default=None))
