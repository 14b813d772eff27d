"""One consumer's receiver queue holds messages that idle consumers could process.

You see: one consumer has `unackedMessages` 496, the others have 0, and `availablePermits` above 0.

On Shared the broker does not take a message back that it has pushed to a consumer. So a slow
consumer with a large queue can hold everything, and nothing moves faster than it does.

The check finds a consumer that holds at least `share` of an even share of all unacknowledged
messages, while a neighbour with permits had nothing to do for `idle_after`, or in most samples of
a window, and nothing is left to send. At that consumer's pace its queued messages take longer than
`refill_wait` (a stall) or `slow_wait` (a warning); less is healthy. Without a pace, the time that
this has lasted counts. A queue of 1 is a warning at most. On Key_Shared the keys bind the messages,
so it is not judged.

A consumer without permits has more than half of its queue queued. With permits left, a full queue
and a busy pool of workers show the same numbers, unless the application reports what it takes. More
than `in_hand` messages then count as queued, with less confidence; fewer are unknown once that
lasts.

Source: PersistentDispatcherMultipleConsumers sends to whoever has permits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.window import MINUTE
from pulsar_doctor.diagnosis.actions.activity import activity_of, verdict
from pulsar_doctor.diagnosis.actions.consumers import restart, slow, treatment, unload
from pulsar_doctor.diagnosis.actions.processes import place, threads_seen
from pulsar_doctor.diagnosis.actions.sentence import remedy
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Severity, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.thresholds import IN_HAND, REFILL_WAIT, SLOW_WAIT, Limits, Threshold
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.in_hand import FAR_SLOWER
from pulsar_doctor.evidence.measures import STATS, WIRE, Measure
from pulsar_doctor.evidence.numbers import measured
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exact, least
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import say

THRESHOLDS = (
    REFILL_WAIT,
    SLOW_WAIT,
    Threshold(
        "idle_after", 2.0, "seconds", "another consumer without messages for this long is idle"
    ),
    Threshold("share", 0.5, "of an even share", "a consumer that holds less does not hoard"),
    IN_HAND,
)
NEEDS = frozenset({WIRE, STATS})
SYMPTOM = "too slow"
BY_SILENCE = True
EXPLAINS = frozenset({"permits-exhausted", "slow-but-progressing", "not-acknowledging", "ack-hole"})
PACE_NEEDS = 2  # messages, before a life says anything of a pace
MOSTLY = 0.5  # of the samples of a window, in which a neighbour held nothing


@dataclass(frozen=True, slots=True)
class Hoard:
    """What one consumer holds of all that is out, and its neighbours with nothing to do."""

    hog: ConsumerView
    held: int
    total: int
    idle: tuple[ConsumerView, ...]
    idle_for: Age

    @property
    def quiet(self) -> Age | None:
        """For how long it has done nothing while others could have."""
        silence = self.hog.quiet_for
        return silence and min(silence, self.idle_for, key=lambda age: age.ms)

    def drain_by_life(self, in_hand: float) -> float | None:
        """Seconds for all of it, at least: all it ever did may have been since its last delivery.

        With the first ack several workers may be as far. None where it never acknowledged, or its
        pace has ended.
        """
        since, done = self.hog.since_last_delivery, self.hog.done_in_life
        gone_on = self.hog.never_acked is False and not self.hog.pace_has_ended
        if not gone_on or since is None or not done or done < 0:
            return None
        ahead = 1 if done >= PACE_NEEDS else in_hand
        return self.held * min(since.seconds, self.idle_for.seconds) / (done + ahead)

    @property
    def drain_in_traffic(self) -> float | None:
        """Seconds for what it has held all through the window, at least, where it piles up.

        It is sent far more than it finishes, and had finished some before: a pool whose first
        messages are not done, or a sink that acknowledges at checkpoints, shows the first alone.
        """
        hog, span_ms = self.hog, self.hog.acks.span_ms
        sent, done, pace = hog.delivered, hog.done or 0, hog.pace_most
        if not sent or not span_ms or pace is None or (hog.done_in_life or 0) - done < PACE_NEEDS:
            return None
        few = done < PACE_NEEDS
        minute = round(MINUTE * (hog.message_ack_rate or 0.0))
        lately = (minute or self._done_if_steady) if few else done
        if lately is None or sent < FAR_SLOWER * done or self.held < FAR_SLOWER * lately:
            return None
        return (self.held - sent) * (pace if few else min(pace, span_ms / 1000 / (done + 1)))

    @property
    def _done_if_steady(self) -> int | None:
        """What it finished in its life; None where it was not sent as much as now all the time."""
        hog, life, sent = self.hog, self.hog.connected_for, exact(self.hog.msg_out_counter)
        if life is None or sent is None or sent < MOSTLY * (hog.msg_rate_out or 0.0) * life.seconds:
            return None
        return hog.done_in_life


DUMP_SHOWS = "a thread dump shows it"


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for the consumer that hoards; clear where nobody is idle or nobody hoards."""
    if view.type != "Shared":
        return
    for hoard in _hoards(view, limits):
        yield from _judge(view, hoard, limits)


def _hoards(view: SubscriptionView, limits: Limits) -> Iterator[Hoard]:
    """Each that holds so much of what is out while others idle.

    Where the broker's clock is not known, a neighbour that may have been idle for so long counts.
    """
    everyone = view.consumers or ()
    idle = tuple(each for each in everyone if _idles(each, limits["idle_after"]))
    total = max(sum(map(_held, everyone)), least(view.unacked) or 0)
    even = total / max(1, sum(_held(each) > 0 for each in everyone))
    if not idle:
        return
    ages = (each.idle_for or Age(0, True) for each in idle)
    longest = max(ages, key=lambda age: age.ms)
    for hog in everyone:
        held = _held(hog)
        # One that is blocked on unacknowledged messages has a cause of its own.
        if (
            held < 2
            or held < limits["share"] * even
            or hog.blocked_consumer_on_unacked_msgs
            or hog.resting
        ):
            continue
        if hog.queued.most == 0:
            continue
        if 1 in (exact(hog.unacked_entries), view.backlog and view.backlog.entries):
            continue  # one batch: it is sent to one consumer, or to another
        yield Hoard(hog, held, total, idle, longest)


def _held(consumer: ConsumerView) -> int:
    return max(0, least(consumer.unacked_messages) or 0)


def _idles(consumer: ConsumerView, seconds: float) -> bool:
    idle = consumer.idle_for
    if (consumer.idle_share or 0.0) > MOSTLY:
        return True
    return idle is not None and (idle.seconds >= seconds or not idle.exact)


def _judge(view: SubscriptionView, hoard: Hoard, limits: Limits) -> Answers:
    wait, left, hog = _wait(hoard, limits), view.left, hoard.hog
    if wait is None or (left is not None and (left.least or 0) > 0):
        return
    if isinstance(wait, str):
        yield Unknown(f"{hog.label} holds {hoard.held} messages, {wait}", hog.label)
    elif view.backlog is not None and (left is None or left.most != 0):
        most = "it is not reported how many" if left is None else str(left)
        yield Unknown(
            f"{hog.label} holds {hoard.held} messages beside idle consumers, but {most} "
            "entries are left for the broker to send; the internal stats tell which",
            hog.label,
        )
    elif hog.queued.least or hoard.held > limits["in_hand"]:
        yield _finding(view, hoard, wait, limits)
    elif wait >= limits["refill_wait"]:
        text = "{} holds {:messages}, and {}: workers may be processing all of them; {}"
        permits, shown = worded("has_permits", hog, label="it"), threads_seen(hog) or DUMP_SHOWS
        yield Unknown(say(text, hog.label, hoard.held, permits, shown), hog.label)


def _wait(hoard: Hoard, limits: Limits) -> float | str | None:
    """Seconds until it has done all, or for which it has stood still; why that is not known.

    None where others have no reason to wait: it is fast, or it has only just begun.
    """
    hog, drain = hoard.hog, _drain(hoard, limits)
    piled = hoard.drain_in_traffic
    if piled is not None and piled > limits["slow_wait"]:
        return max(piled, drain or 0.0)
    if hoard.idle_for.exact and hoard.idle_for.seconds < limits["idle_after"]:
        return None
    life = hoard.drain_by_life(limits["in_hand"])
    if drain is not None:
        return drain if drain > limits["slow_wait"] else None
    if life is not None and life > limits["slow_wait"]:
        return life
    quiet, usual = hoard.quiet, hog.pace_most if hog.works else None
    if usual is not None and hoard.held * usual <= limits["slow_wait"]:
        return None
    if quiet is None or hog.quiet_for is None:
        return "and since when is not known"
    just_now = hog.quiet_for.exact and hog.quiet_for.seconds < limits["idle_after"]
    if hog.acked or (hog.acked is None and just_now):
        no_clock = not (hoard.idle_for.exact or hog.quiet_for.exact)
        unsure = no_clock or hoard.idle_for.seconds >= limits["slow_wait"]
        return "and its pace is not known: take a longer window" if unsure else None
    # At one message in each such silence it would be done before anybody need wait.
    if quiet.seconds < limits["idle_after"] or quiet.seconds * hoard.held <= limits["slow_wait"]:
        return None if quiet.exact else "and when these stats were taken is not known: give --at"
    return quiet.seconds


def _drain(hoard: Hoard, limits: Limits) -> float | None:
    """Seconds for all that it holds, or for what is in nobody's hands, at least, at its pace."""
    hog = hoard.hog
    if hog.drain_seconds is not None and (hog.done or 0) < PACE_NEEDS:
        return max(hog.drain_seconds, hoard.drain_by_life(limits["in_hand"]) or 0.0)
    if hog.drain_seconds is not None or not hog.works or hog.pace is None:
        return hog.drain_seconds
    if hog.acked is False and hog.moved:
        return None  # what comes back is given back
    return max(hog.queued.least or 0, hoard.held - limits["in_hand"], 0) * hog.pace.seconds


def _finding(view: SubscriptionView, hoard: Hoard, wait: float, limits: Limits) -> Finding:
    hog, permits = (
        hoard.hog,
        sum(least(neighbour.available_permits) or 0 for neighbour in hoard.idle),
    )
    worst: Severity = "warning" if hog.asks_singly or hoard.held <= 2 else "stalled"
    confidence = 0.9 if hog.queued.least else 0.7
    confidence -= (0.1 if _drain(hoard, limits) is None else 0) + (0 if hog.watched else 0.1)
    return Finding(
        severity=worst if wait >= limits["refill_wait"] else "warning",
        confidence=round(confidence, 2),
        consumer=hog.label,
        summary=_summary(hoard, wait, permits, limits),
        evidence=(
            *replace(hog, quiet_for=hoard.quiet).measures(),
            *_neighbours(hoard, limits, permits),
        ),
        remedy=_remedy(view, hog),
        actions=_actions(view, hog),
    )


def _summary(hoard: Hoard, wait: float, idle_permits: int, limits: Limits) -> str:
    """What it holds while others have nothing to do, which of hanging and slow, then permits."""
    hog = hoard.hog
    least = hog.queued.least
    queued = say(", at least {} of them in its queue", least) if least else ""
    all_quiet = hoard.quiet is not None and wait == hoard.quiet.seconds
    lasts = (
        say("has done nothing for {}", hog.quiet_for)
        if all_quiet
        else say("needs at least {} for them", duration(wait))
    )
    mostly = hoard.idle_for.exact and hoard.idle_for.seconds < limits["idle_after"]
    since = "most of the time" if mostly else say("for {}", hoard.idle_for)
    return say(
        "{} holds {} of the {:unacknowledged messages}{}, and {}, while {} had nothing to do {}: "
        "{}; {:permits} here, {} there, {}",
        *(hog.label, hoard.held, hoard.total, queued, lasts, _names(hoard.idle), since),
        *(verdict(hog), hog.available_permits, idle_permits, hog.outlook),
    )


def _remedy(view: SubscriptionView, hog: ConsumerView) -> str:
    """What to do: what it holds reaches those who are idle only when it is gone."""
    if activity_of(hog) != "slow":
        return remedy(view, hog)
    return f"Restart the process {place(hog)} to free what it holds now. {remedy(view, hog)}"


def _actions(view: SubscriptionView, hog: ConsumerView) -> tuple[Action, ...]:
    """What it holds is freed by its restart; that it does not take as many again, by its queue."""
    if activity_of(hog) != "slow":
        return treatment(view, hog)
    how = ", with a receiver queue of 1; otherwise it takes as many again"
    how = "" if hog.asks_singly else how
    brief = "" if hog.asks_singly else " with a queue of 1"
    return (restart(view, hog, how, brief), unload(view), *slow(view, hog))


def _names(idle: Sequence[ConsumerView]) -> str:
    return listed([consumer.label for consumer in idle], 3, last=", ")


def _neighbours(hoard: Hoard, limits: Limits, idle_permits: int) -> tuple[Measure, ...]:
    piled, pace = hoard.drain_in_traffic, _drain(hoard, limits)
    drain = max(piled or 0.0, pace or 0.0) or hoard.drain_by_life(limits["in_hand"])
    return (
        Measure("subscription_unacked", hoard.total, "messages"),
        Measure("acknowledged", hoard.hog.done, "messages"),
        Measure("time_to_drain", None if drain is None else round(drain, 3), "seconds"),
        Measure("idle_consumers", len(hoard.idle), "consumers"),
        Measure("idle_permits", idle_permits, "permits"),
        measured("idle_for", hoard.idle_for),
    )


def _none_queued(view: SubscriptionView, consumer: ConsumerView) -> str | None:
    return "none can be in its queue" if consumer.queued.most == 0 else None


HYPOTHESIS = Hypothesis(
    "{who} holds messages in its queue that idle consumers could process",
    speaks_for=(
        "undecided", "neighbours_idle", "holds_many", "nothing_left", "flow_far", "quiet_long",
        "quiet_some", "neighbour_later",
    ),
    against=("neighbours_busy", "small_share", "lively", "flow_soon", "works"),
    excluded=("not_shared", "one_consumer", "waits", "nobody_takes"),
    not_by=("holds_nothing", "holds_one", _none_queued),
    missing=("pace",),
)  # fmt: skip
