"""The application takes messages faster than it finishes them, and keeps the rest in memory.

You see: `unackedMessages` 994 and growing, `availablePermits` 100, and one ack every 2 s.

The application hands each message to a thread pool or an async task, and receives the next one at
once. Its client requests more as soon as messages are taken, so the receiver queue limits nothing.
It seems healthy until the limit of unacknowledged messages or the memory is reached. Idle consumers
get none of what it keeps, and when its process ends, all of that is delivered again.

FLOWs after the first prove how many messages the application took; what is not acknowledged of them
is in hand. It is a warning with `at_once` or more in hand, the oldest sent `lasting` ago, if since
then it finished no more than half as many and at its pace they take `held_for` or longer, or if
what it holds grows by as many as it finishes and all of that takes as long. While it grows, less
than that is unknown from `lasting` on: a burst does the same. A sink that acknowledges at
checkpoints (Flink, Spark) is not found, or unknown until a later sample shows it. A consumer that
never acknowledged, or is at its limit, has another cause.

The V5 client (5.0.0-M1) does this by itself on segments of a scalable topic: it keeps all messages
in one list until the application calls receive(). The statistics show only a lower bound of what is
in hand; on Exclusive and Failover only the internal statistics show it.

Source: ConsumerBase.messageProcessed and increaseAvailablePermits in the Java client;
Consumer.incrementUnackedMessages in the broker.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.actions.commands import is_segment
from pulsar_doctor.diagnosis.actions.consumers import more_workers, restart
from pulsar_doctor.diagnosis.actions.processes import place
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Rests
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.thresholds import IN_HAND, Limits, Threshold
from pulsar_doctor.evidence.consumer import ConsumerView, rounded
from pulsar_doctor.evidence.in_hand import FAR_SLOWER, InHand
from pulsar_doctor.evidence.measures import STATS, WIRE, Measure
from pulsar_doctor.evidence.subscription import UNACKED_DEFAULTS, SubscriptionView
from pulsar_doctor.evidence.values import least, most
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say

AT_ONCE = Threshold("at_once", 100.0, "messages", "fewer messages may be the normal work of a pool")
THRESHOLDS = (
    AT_ONCE,
    Threshold("held_for", 300.0, "seconds", "taken messages that are done sooner are normal"),
    Threshold(
        "lasting", 30.0, "seconds", "a younger message may belong to a batch that has just begun"
    ),
)
NEEDS = frozenset({STATS, WIRE})
PASSED = 4  # messages that are held for each acknowledged range, at most
SYMPTOM = "too slow"
EXPLAINS = frozenset({"ack-hole", "slow-but-progressing", "closed-unacknowledged"})
REMEDY = (
    "Limit what the application takes: put a bounded queue or a semaphore in front of its pool, "
    "so that it receives only when work is done."
)

OF_V5 = (
    "Process messages faster, or add consumers. The V5 client itself takes all that the broker "
    "sends and keeps it in a list without a limit, whatever the application does."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer with much work in hand that it finishes far more slowly."""
    if view.durable is False or _passes_over(view, limits["lasting"]):
        return
    for consumer in view.consumers or ():
        own = consumer.in_hand
        if (
            own is None
            or consumer.never_acked is not False
            or consumer.blocked_consumer_on_unacked_msgs
        ):
            continue
        few = own.most < FAR_SLOWER * own.finished and not own.outpaced
        if few or own.messages < limits["at_once"]:
            continue
        if own.one_by_one is None and own.messages >= FAR_SLOWER * own.finished:
            yield _undecided(consumer, own)
        elif own.one_by_one and _lasts(consumer, own, limits):
            work = (own.seconds_most if own.outpaced else own.seconds) or 0.0
            if work >= limits["held_for"] and own.piles_up:
                yield _finding(view, consumer, own)
            elif work >= limits["held_for"] or (work >= limits["lasting"] and own.outgrows):
                yield _undecided(consumer, own)


def _passes_over(view: SubscriptionView, lasting: float) -> bool:
    """Whether a sole consumer acknowledges later messages, and gave back many, or forgot them.

    Workers that take messages in order leave no more gaps than there are workers.
    """
    hole, held = view.hole, most(view.unacked) or 0
    if hole is None or hole.stood is None or len(view.served) != 1:
        return False
    many = hole.ranges > IN_HAND.default or PASSED * hole.ranges >= held
    return hole.stood.seconds >= lasting and many


def _lasts(consumer: ConsumerView, own: InHand, limits: Limits) -> bool:
    """By the stats the oldest is only known to be no younger: then its life has to do."""
    age = (
        own.oldest if own.oldest.exact or consumer.connected_for is None else consumer.connected_for
    )
    return max(age.seconds, own.oldest.seconds) >= limits["lasting"]


def _undecided(consumer: ConsumerView, own: InHand) -> Rests:
    return Rests(
        f"{consumer.label} has taken {own.messages} to {own.most} messages that it has not "
        f"acknowledged, and finished {own.finished} in its life: it acknowledges in batches, works "
        "off a burst, or takes more than it can process; a longer window shows which",
        consumer.label,
    )


def _finding(view: SubscriptionView, consumer: ConsumerView, own: InHand) -> Finding:
    share, reached = _of_limit(view, consumer, own)
    return Finding(
        severity="warning",
        confidence=0.9 if own.oldest.exact else 0.7,
        consumer=consumer.label,
        summary=_summary(own, consumer, reached),
        evidence=(
            Measure("in_hand", own.messages, "messages", "at least"),
            *consumer.measure("unacked_messages"),
            Measure("oldest_unacked", round(own.oldest.seconds, 3), "seconds ago"),
            Measure("finished_meanwhile", own.finished, "messages", "at most"),
            Measure("pace", rounded(own.pace), "seconds/message"),
            Measure("work_held", rounded(own.seconds), "seconds"),
            Measure("limit_share", share, "of max_unacked_messages_per_consumer"),
            Measure("limit_reached_in", reached, "seconds"),
            *consumer.measure("available_permits"),
        ),
        remedy=OF_V5 if is_segment(view) else REMEDY,
        actions=tuple(_actions(view, consumer)),
    )


def _summary(own: InHand, consumer: ConsumerView, reached: float | None) -> str:
    """What it does, how much work that is, and when it ends."""
    pace, seconds = duration(own.pace or 0), duration(own.seconds or 0)
    ends = "" if reached is None else say("; its limit is reached in about {}", duration(reached))
    return say(
        "{} takes messages faster than it finishes them: {} or more are in its memory, the oldest"
        " for {}, and it finishes one in {}: that is {} of work that no other consumer gets{}",
        *(consumer.label, own.messages, own.oldest, pace, seconds, ends),
    )


def _of_limit(
    view: SubscriptionView, consumer: ConsumerView, own: InHand
) -> tuple[float | None, float | None]:
    """How much of its limit it holds, and when it has reached it as things go."""
    limit, held = consumer.max_unacked_messages_per_consumer, least(consumer.unacked_messages)
    if limit is None:
        limit = UNACKED_DEFAULTS["consumer"]
    if view.type not in ("Shared", "Key_Shared") or not limit or held is None:
        return None, None
    reached = max(0, limit - held) / own.growth if own.growth else None
    return round(held / limit, 3), rounded(reached)


def _actions(view: SubscriptionView, consumer: ConsumerView) -> Iterator[Action]:
    if is_segment(view):
        yield Action("later", OF_V5, check=check_line(view, "this finding is gone"))
        return
    yield Action(
        "now",
        f"Find out where the application {place(consumer)} puts its messages: a pool, an executor "
        "or async tasks without a limit on how many wait.",
        check=check_line(view, "it holds no more than its receiver queue and its workers can"),
        brief="Find the pool or executor where its messages wait without a bound",
    )
    yield restart(view, consumer, ", with a limit on the messages that it takes")
    yield Action(
        "today",
        "Limit the messages in progress: use a blocking queue or a semaphore of a few times the "
        "number of workers. Take it before you receive, and release it after the acknowledgement.",
        side_effect="the consumer receives no faster than it works, so what waits is in the "
        "backlog",
        check=check_line(view, "this finding is gone"),
    )
    yield more_workers(view)


def _not_by(view: SubscriptionView, each: ConsumerView) -> str | None:
    """Fewer messages than a pool works on at once."""
    held = most(each.unacked_messages)
    few = held is not None and held < AT_ONCE.default
    return say("{} holds {:messages}, as a pool may at once", each.label, held) if few else None


HYPOTHESIS = Hypothesis(
    "{who} takes messages faster than it finishes them, and keeps the rest in memory",
    speaks_for=("undecided", "in_hand", "has_permits", "holds_many"),
    against=("no_permits", "never_acked", "rate_acks"),
    not_by=(_not_by,),
    missing=("pace",),
    stalls=False,
    found_at_once=True,
    confirmed="if it then holds more, and few acknowledgements arrived, this is the cause",
)
