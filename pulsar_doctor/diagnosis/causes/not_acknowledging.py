"""A consumer holds messages and acknowledges nothing, though it has permits left.

You see: `availablePermits` above 0, `unackedMessages` stays at, say, 40, and `lastAckedTimestamp`
is minutes old. Producers continue, and nothing fails until the receiver queue is full.

The broker has sent everything, and the application neither acknowledges nor requests more. It
hangs, forgets to acknowledge, or works on one message for longer than `silent_for`: these show the
same numbers. So does a client that cannot decrypt messages (Java's keeps them by default,
ConsumerCryptoFailureAction.FAIL), or an application that cannot decode them: its log shows both.

The check finds a consumer with permits that holds messages, while nothing is left to send, and that
has shown no ack, FLOW or delivery for `silent_for`.
- With more messages than anybody works on at once (16) it is a stall.
- With fewer it is a stall after `longest_job`. Before that it is unknown, from a silence of
  `first_ack` on, which is longer than a normal pause.
- While it keeps taking messages it is a warning.
- If it has acknowledged messages behind those that it holds (behind half of them, if it holds more
  than 16), it does not hang: see `ack-hole`.

A consumer may also take messages and keep them: it holds 50 or more, has never acknowledged any,
and has sent a FLOW after its first. Its first checkpoint may still come. So it is unknown from
`begun` on, until it is connected for `silent_for` and was sent more messages than arrive in that
time. Without a second FLOW it is found once it has held the first messages for twice `silent_for`,
and unknown from `first_ack` on. `begun` and `first_ack` follow `healthy.first_ack_within`, if that
is above its default.

A consumer that has acknowledged before is suspected if its last ack is five minutes old, it holds
more than 16 messages that are not new, and it is sent more; after a minute if it acknowledged only
in the first third of its life. If it sent a FLOW since then, it takes them: with 50 or more that is
a warning after `silent_for`, or after as long as it was there before its last ack, which a sink may
need again, but after twice `silent_for` at most. Beside others that acknowledge all the time it is
suspected after a silence of `first_ack` and ten times as long as theirs. After `silent_for`, with
50 messages or more, that is a stall. So it is, whoever is beside it, if its last ack and FLOW are
older than `silent_for`, it was sent messages all that time, and holds about as many as came.

Readers, other non-durable subscriptions and standbys are not judged. On Exclusive and Failover only
the internal stats show what a consumer holds. Without acknowledgements within batches
(batchIndexAckEnabled) a client sends no ack before all messages of a batch are acknowledged: if one
of each batch is left out, it seems to acknowledge nothing. A message that comes back within two
minutes is not kept: see `redelivery-storm`.

Source: Consumer.messageAcked and flowPermits in the broker; ConsumerImpl.decryptPayloadIfNeeded.
"""

from __future__ import annotations

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.observed import SINGLE_ACTIVE
from pulsar_doctor.broker.stats.sample import CLOCK_SLACK_MS
from pulsar_doctor.diagnosis.actions.activity import activity_of, verdict
from pulsar_doctor.diagnosis.actions.consumers import acknowledging, in_order, treatment
from pulsar_doctor.diagnosis.actions.sentence import remedy
from pulsar_doctor.diagnosis.answers import Answers, Finding, Severity, SilentHolder, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.holder_laws import (
    SENT_AGAIN_SECONDS,
    acks_again,
    acks_stopped,
    queue_untouched,
    rest_beside_others,
    sent_in_silence,
    silent_holder,
    with_it_or_due,
)
from pulsar_doctor.diagnosis.key_waits import waiting_for_silent
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.thresholds import (
    FIRST_ACK_WITHIN,
    FORGETS_FROM,
    IN_HAND,
    Limits,
    Threshold,
)
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS, WIRE, Measure
from pulsar_doctor.evidence.numbers import measured
from pulsar_doctor.evidence.subscription import UNACKED_DEFAULTS, SubscriptionView
from pulsar_doctor.evidence.values import at_least, least
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import Sentence, joined, say

THRESHOLDS = (
    Threshold("silent_for", 300.0, "seconds", "a consumer that was silent for less is working"),
    Threshold(
        "longest_job", 3600.0, "seconds", "few messages that are held for longer are not worked on"
    ),
    Threshold("begun", 5.0, "seconds", "a consumer this young is taking its first messages"),
    Threshold(
        "first_ack", 30.0, "seconds", "its first ack may take this long, if it sent one FLOW only"
    ),
)
NEEDS = frozenset({STATS, WIRE})
SYMPTOM = "nothing comes"
BY_SILENCE = True
EXPLAINS = frozenset({"ack-hole", "closed-unacknowledged"})


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer that holds messages in silence."""
    if view.nothing_to_move:
        return
    nothing_left = _nothing_left(view)
    beside = _beside(view, limits["silent_for"], int(IN_HAND.default))
    rest = _beside(view, limits["first_ack"])
    for consumer in view.consumers or ():
        silent = consumer.quiet_at_least(limits["silent_for"]) and not consumer.works
        rests = nothing_left and _holds_with_permits(consumer) and not _passed_over(view, consumer)
        full = consumer.never_gave_back
        if rests and silent:
            several = _held(view, consumer) > IN_HAND.default
            certain = several or consumer.quiet_at_least(limits["longest_job"])
            yield _finding(view, consumer, None if certain else limits["longest_job"])
        elif consumer.number in beside and _held(view, consumer) >= FORGETS_FROM:
            yield _moving_finding(view, consumer, beside[consumer.number], "stalled")
        elif text := _in_traffic(view, consumer, limits):
            yield _moving_finding(view, consumer, text, "stalled")
        elif _never_acks(view, consumer) and not (consumer.without_permits and (silent or full)):
            yield from _none_of_many(view, consumer, limits)
        elif consumer.number in rest:
            yield SilentHolder(rest[consumer.number], consumer.label)
        elif ended := _ended(view, consumer, limits):
            yield ended
        elif still := _silent(view, consumer, limits["first_ack"], rests=rests):
            yield still
        elif rests and consumer.quiet_for and not consumer.quiet_for.exact:
            yield _since_when(consumer)


def _beside(view: SubscriptionView, pause: float, more_than: int = 0) -> dict[int, Sentence]:
    """How each consumer rests that holds messages in silence while others go on."""
    return {each.number: text for each, text in rest_beside_others(view, pause, more_than)}


def _silent(
    view: SubscriptionView, consumer: ConsumerView, pause: float, *, rests: bool
) -> SilentHolder | None:
    """That it takes nothing out of the queue, or holds messages while nothing comes."""
    untouched = queue_untouched(consumer, pause)
    return untouched or (silent_holder(view, consumer, pause) if rests else None)


def _passed_over(view: SubscriptionView, consumer: ConsumerView) -> bool:
    """Whether it went on to acknowledge later ones, so that it does not hang: see `ack-hole`.

    It holds a few, or leaves out messages again and again: behind most of them others are done.
    """
    hole, held = view.hole, _held(view, consumer)
    alone = len(view.served) == 1 and consumer.never_acked is False
    if not alone or hole is None or hole.ranges <= 0:
        return False
    return held <= IN_HAND.default or 2 * hole.ranges >= held


def _ended(
    view: SubscriptionView, consumer: ConsumerView, limits: Limits
) -> Finding | SilentHolder | None:
    """That one which may receive acknowledges no more, though it holds many older messages.

    A FLOW that came since shows that it takes them. A sink of a steady period is silent for no
    longer than it was there before its last ack.
    """
    compacted = view.hole is not None and view.hole.compacted
    if not _may_receive(consumer) or compacted or _passed_over(view, consumer):
        return None
    first = max(limits["first_ack"], FIRST_ACK_WITHIN.default)
    within = acks_again(view, consumer, first)
    still = acks_stopped(view, consumer, within, int(IN_HAND.default))
    acked, flow, silent = consumer.since_last_ack, consumer.since_last_flow, limits["silent_for"]
    if still is None or acked is None or flow is None or not flow.ms < acked.ms:
        return still
    period = 2 * silent if consumer.acked_for is None else consumer.acked_for
    if _held(view, consumer) < FORGETS_FROM or acked.seconds < max(silent, min(2 * silent, period)):
        return still
    text = say("{}, and takes more{}", still.reason, _proof(consumer))
    return _moving_finding(view, consumer, text, "warning")


def _in_traffic(view: SubscriptionView, consumer: ConsumerView, limits: Limits) -> Sentence | None:
    """That it hangs, and is sent more. Who never acknowledged any and asks for more takes them."""
    within = max(limits["silent_for"], limits["first_ack"])
    kept = max(_held(view, consumer), with_it_or_due(view, consumer))
    takes = consumer.never_acked and (consumer.sent_another_flow or consumer.refilled)
    if takes or not _may_receive(consumer) or _passed_over(view, consumer):
        return None
    hangs = sent_in_silence(view, consumer, within, kept)
    return worded("hangs_in_traffic", consumer, kept=kept) if hangs else None


def _held(view: SubscriptionView, consumer: ConsumerView) -> int:
    """Messages that it holds, at least. Who never acknowledged any holds all that it was sent."""
    if consumer.never_acked:
        return view.kept_by(consumer)
    return least(consumer.unacked_messages) or 0


def _since_when(consumer: ConsumerView) -> Unknown:
    key = "unacked_since_unknown" if consumer.never_acked else "unmoved_since_unknown"
    unseen = consumer.unseen or "take a longer window"
    return Unknown(worded(key, consumer, unseen=unseen), consumer.label)


def _never_acks(view: SubscriptionView, consumer: ConsumerView) -> bool:
    if not consumer.never_acked or consumer.active is False or consumer.resting:
        return False
    comes_back = consumer.gave_back and not consumer.quiet_at_least(SENT_AGAIN_SECONDS)
    if comes_back and view.type not in SINGLE_ACTIVE:  # their stats count entries
        return False
    return view.kept_by(consumer) >= FORGETS_FROM


def _comes_back(view: SubscriptionView, each: ConsumerView) -> str | None:
    """What it was sent comes back in the window, too, and none of it was ever acknowledged."""
    return worded("given_back", each) if each.gave_back and each.done else None


def _none_of_many(view: SubscriptionView, consumer: ConsumerView, limits: Limits) -> Answers:
    """A finding on a consumer that has never acknowledged any of many."""
    since, there = consumer.holds_since, consumer.connected_for
    first_ack = limits["first_ack"]
    long, asks = (
        max(2 * limits["silent_for"], first_ack),
        consumer.sent_another_flow or consumer.refilled,
    )
    if since is not None and since.seconds >= long:
        yield _never_finding(view, consumer, since, limits)
    elif there is not None and there.seconds >= limits["begun"] and asks:
        yield _takes_more(view, consumer, there, limits)
    elif since is not None and since.exact:
        if since.ms - CLOCK_SLACK_MS >= first_ack * 1000:  # an older clock may say so of it
            yield _none_yet(view, consumer, since, long)
    elif there is None or not there.exact or there.seconds >= long:
        yield _since_when(consumer)
    elif there.seconds >= first_ack:
        yield _none_yet(view, consumer, there, long)


def _takes_more(
    view: SubscriptionView, consumer: ConsumerView, there: Age, limits: Limits
) -> Finding | Unknown:
    """A finding on a consumer that asks for more: its present pace shows since when."""
    rate, sent = consumer.msg_rate_out, least(consumer.msg_out_counter)
    pace = sent / rate if rate and sent else there.seconds
    if consumer.closed or min(there.seconds, pace) >= limits["silent_for"]:
        return _never_finding(view, consumer, there, limits)
    since = there if there.seconds <= pace else f"about {duration(pace)}"
    return _none_yet(view, consumer, since, limits["silent_for"])


def _none_yet(
    view: SubscriptionView, consumer: ConsumerView, since: Age | str, until: float
) -> Unknown:
    reason = say(
        "{} in {}{}; a sink that acknowledges at checkpoints looks the same until {}",
        *(worded("never_acked", consumer, sent=view.kept_by(consumer)), since),
        *(_proof(consumer), duration(until)),
    )
    return Unknown(reason, consumer.label)


def _proof(consumer: ConsumerView) -> Sentence:
    """How many of them it has taken for certain."""
    taken = consumer.in_hand.messages if consumer.in_hand is not None else 0
    return say("; its FLOWs show that it took at least {} of them", taken) if taken else say("")


def _nothing_left(view: SubscriptionView) -> bool:
    """Whether nothing is left to send, as far as anybody tells."""
    if view.left is None:
        return view.backlog is None
    return view.left.most is not None and view.left.most <= 0


def _may_receive(consumer: ConsumerView) -> bool:
    return (least(consumer.available_permits) or 0) > 0 and consumer.active is not False


def _holds_with_permits(consumer: ConsumerView) -> bool:
    if not least(consumer.unacked_messages) or not _may_receive(consumer):
        return False
    return not (consumer.moved or consumer.works or consumer.resting)


def _never_finding(
    view: SubscriptionView, consumer: ConsumerView, since: Age, limits: Limits
) -> Finding:
    silent = consumer.quiet_at_least(limits["silent_for"]) and not consumer.works
    severity: Severity = "stalled" if silent else "warning"
    kept = view.kept_by(consumer)
    share, seconds = _of_limit(view, consumer, kept)
    evidence = (
        *consumer.measure("available_permits"),
        measured("unacked_messages", at_least(kept)),
        measured("holds_since", since),
        Measure("limit_share", share, "of max_unacked_messages_per_consumer"),
        Measure("limit_reached_in", seconds, "seconds"),
    )
    none = worded("never_acked", consumer, sent=at_least(kept))
    summary = say("{} in {}: {}{}", none, since, verdict(consumer), _proof(consumer))
    return _found(view, consumer, summary, evidence, severity)


def _of_limit(
    view: SubscriptionView, consumer: ConsumerView, kept: int
) -> tuple[float | None, float | None]:
    """How much of its limit of unacknowledged messages it holds, and when it has reached it."""
    limit = consumer.max_unacked_messages_per_consumer
    if limit is None:
        limit = UNACKED_DEFAULTS["consumer"]
    if view.type in SINGLE_ACTIVE or not limit:
        return None, None
    life = consumer.connected_for
    pace = life.seconds / kept if life is not None and life.exact else None
    left = max(0, limit - kept)
    return round(kept / limit, 3), None if pace is None else round(left * pace, 1)


def _finding(view: SubscriptionView, consumer: ConsumerView, longest: float | None) -> Finding:
    """longest: how long a message that it holds may be worked on; None: it is a stall."""
    silent = consumer.quiet_for.seconds if consumer.quiet_for else 0.0
    held, permits = _held(view, consumer), least(consumer.available_permits)
    evidence = (
        measured("available_permits", permits),
        measured("unacked_messages", at_least(held)),
        measured("quiet_for", silent),
    )
    none = worded("holds_and_acks_none", consumer, held=at_least(held), since=duration(silent))
    may = say("nothing else is left to send, and {}", worded("has_permits", consumer, label="it"))
    summary = say("{}: {}; {}", none, verdict(consumer), may)
    if longest is None:
        return _found(view, consumer, summary, evidence, "stalled")
    summary = say("{}; from {} on (longest_job) that is a stall", summary, duration(longest))
    return _found(view, consumer, summary, evidence, "warning")


def _moving_finding(
    view: SubscriptionView, consumer: ConsumerView, how: Sentence, severity: Severity
) -> Finding:
    """A finding on one that is sent more, or beside others that work."""
    evidence = (
        *consumer.measure("available_permits", "unacked_messages"),
        measured("since_work", consumer.since_work),
    )
    summary = say("{}: {}", how, verdict(consumer))
    return _found(view, consumer, summary, evidence, severity)


def _found(
    view: SubscriptionView,
    consumer: ConsumerView,
    summary: str,
    evidence: tuple[Measure, ...],
    severity: Severity,
) -> Finding:
    actions = treatment(view, consumer)
    if activity_of(consumer) != "keeps":  # which says so itself
        actions = in_order((*actions, *acknowledging(view, consumer)))
    return Finding(
        severity=severity,
        confidence=0.6,
        consumer=consumer.label,
        summary=joined("; ", (summary, waiting_for_silent(view, consumer))),
        evidence=evidence,
        remedy=remedy(view, consumer),
        actions=actions,
    )


HYPOTHESIS = Hypothesis(
    "{who} keeps the messages that it takes, or hangs with them",
    speaks_for=(
        "undecided", "never_acked_many", "has_permits", "near_limit", "rate_none", "quiet_long",
        "one_flow",
    ),
    against=("works", "acks_come", "has_acked", "young", "no_permits", "rate_acks", "outlived"),
    not_by=("holds_nothing", "acks_lately", _comes_back),
    missing=("since_last_ack", "quiet_for"),
)  # fmt: skip
