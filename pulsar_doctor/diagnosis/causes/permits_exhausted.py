"""A consumer holds messages, has no permits left, and its next FLOW is far away or not in sight.

You see: `availablePermits` is 0 or below, `unackedMessages` stays the same, and `msgRateOut` is 0.
Nothing fails, and nothing is logged.

The broker sends only as many messages as the client has requested with FLOW commands. The client
sends the next FLOW when the application has taken about half of its receiver queue. With a queue of
1000 and 10 s of work for each message that is after 500 messages, which takes 83 minutes. An
application that has stopped, or a paused consumer, shows the same numbers and needs another remedy:
the finding says which of them it is, as far as acks, FLOWs and the pace show. On Key_Shared the
messages for this consumer's keys wait for it alone, while the other consumers work.

It is a stall
- if nothing has shown for `refill_wait` that the application works;
- if it works, and a whole wait for permits takes longer than `refill_wait` beside an idle consumer,
  or longer than `nothing_new_for` if nobody else could take its messages;
- if the consumer has never sent a FLOW, for `refill_wait`, and a backlog waits (on Key_Shared, as
  long as messages for its keys are in the replay queue).

A shorter silence, since the last ack, FLOW or delivery, is a warning from `quiet_after` on, unless
it is usual for the consumer. It needs no clock if the consumer was sent more than a queue of 1
takes and has never acknowledged any, or if another one has shown a sign of life `quiet_after`
later. Readers, other non-durable subscriptions and standbys are not judged: they may be silent for
ever.

The broker's statistics do not report the receiver queue size, so the next FLOW comes "after at
most" so many messages. Set `receiver_queue_size` if you know it, for all consumers. If the pace is
not known, bounds decide: what was ever granted gives a shortest wait, and the consumer's life or
the acks of the last minute a longest one. Between the two the answer is unknown.

A consumer with a queue of 0 sends a FLOW for each receive. With a message in hand it is not judged
here; without one it is unknown after `refill_wait` if something may wait. A queue of 1 sends a FLOW
after each message, so it is healthy while it works in its rhythm. If the size is not reported,
queues of 0 and 1, long work and a hang show the same with one message in hand. After `refill_wait`
it is a stall if three messages or more took much less time each. Otherwise it is unknown until
`nothing_new_for`, unless every earlier message took as long.

Source: Consumer.flowPermits in the broker; ConsumerBase's refill threshold in the clients.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.actions.activity import state
from pulsar_doctor.diagnosis.actions.consumers import dump_threads, treatment
from pulsar_doctor.diagnosis.actions.processes import place
from pulsar_doctor.diagnosis.actions.sentence import remedy
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Severity, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.holder_laws import sent_in_silence
from pulsar_doctor.diagnosis.key_waits import kept_for_keys, kept_long, may_receive, waiting_for
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.starving import starving
from pulsar_doctor.diagnosis.thresholds import (
    QUIET_AFTER,
    RECEIVER_QUEUE_SIZE,
    REFILL_WAIT,
    Limits,
    Threshold,
)
from pulsar_doctor.evidence.consumer import ABOUT, ConsumerView
from pulsar_doctor.evidence.measures import STATS, WIRE
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least, most
from pulsar_doctor.wording.sentences import joined, say

THRESHOLDS = (
    REFILL_WAIT,
    Threshold(
        "nothing_new_for", 3600.0, "seconds", "a consumer that works alone is slow up to here"
    ),
    QUIET_AFTER,
    RECEIVER_QUEUE_SIZE,
)
NEEDS = frozenset({WIRE, STATS})
SYMPTOM = "nothing comes"
BY_SILENCE = True
EXPLAINS = frozenset({"slow-but-progressing", "ack-hole", "closed-unacknowledged"})
NEVER_SENT_FLOW = "Check whether this consumer is paused, or its application never receives."
NOT_CLOSED = (  # seen on 4.0.8, on Key_Shared
    " It is not enough to close it: what waits for its keys is then sent with the next message "
    "that comes, or the next FLOW."
)
IN_HAND = "it asks for one message at a time: working and hanging look the same"
AS_A_ZERO_QUEUE = "it holds nothing, like a zero queue between two receives"
CHECK = "it can receive, or holds messages"


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for each consumer that waits too long; unknown where its queue may be 0."""
    if view.nothing_to_move:
        return
    if view.consumers is None:
        yield Unknown("the subscription's consumers are not reported")
    for consumer in view.consumers or ():
        if (
            consumer.available_permits is None
            and consumer.active is not False
            and not consumer.moved
        ):
            yield Unknown(f"available_permits of {consumer.label} is not reported", consumer.label)
    for consumer in starving(view, limits):
        if (consumer.zero_queue and not _rests(consumer, limits)) or consumer.resting:
            continue
        judge = _idle if consumer.holds_nothing else _waiting
        if _requested_lately(consumer, limits) and not _far(consumer, limits):
            judge = _below
        answer = judge(view, consumer, limits)
        if answer is not None:
            yield answer


def _rests(consumer: ConsumerView, limits: Limits) -> bool:
    """Whether a zero queue has nothing in work, and nobody has called receive for long, or ever."""
    long = consumer.holds_nothing and consumer.quiet_at_least(limits["refill_wait"])
    return long or consumer.never_sent_flow


def _requested_lately(consumer: ConsumerView, limits: Limits) -> bool:
    """Whether the last FLOW is no further away than the next one may be."""
    request = consumer.last_request
    return request is not None and request.seconds < limits["refill_wait"]


def _far(consumer: ConsumerView, limits: Limits) -> bool:
    """Whether it asks, and has no permits for long at this pace all the same."""
    if consumer.delivered_again:
        return False
    far = max(consumer.seconds_of_waiting or 0, consumer.seconds_until_sending_least)
    return far > limits["refill_wait"]


def _below(view: SubscriptionView, consumer: ConsumerView, limits: Limits) -> Unknown | None:
    """Answers for a consumer that asks, but may wait for long all the same."""
    asks_only = bool(consumer.never_acked)  # then no ack tells its pace, and its FLOWs come
    known = asks_only or (consumer.holds_about and consumer.pace is not None)
    return None if known and not consumer.below_zero else _of_a_working_one(consumer, limits)


def _waiting(
    view: SubscriptionView, consumer: ConsumerView, limits: Limits
) -> Finding | Unknown | None:
    """Answers for a consumer that may hold messages."""
    patience, quiet = _patience(view, consumer, limits), consumer.quiet_for
    held, long_from = least(consumer.unacked_messages) or 0, limits["refill_wait"]
    long = consumer.quiet_at_least(long_from) or sent_in_silence(view, consumer, long_from, held)
    if consumer.seconds_until_sending_least > patience:
        return _finding(view, consumer, "stalled", _sure_of_flow(consumer))
    if consumer.works and consumer.asks_singly:
        return None
    far = not consumer.all_in_hand and _wait(consumer) > patience
    if far and (consumer.works or not long):
        return _finding(view, consumer, "stalled", _sure_of_flow(consumer))
    if consumer.works and not long:
        return _of_a_working_one(consumer, limits)
    if quiet is None:
        return _cannot_tell(consumer, "one sample without time stamps does not show movement")
    if consumer.all_in_hand:
        if not long or _in_its_time(consumer):
            return None if quiet.exact else _cannot_tell(consumer, IN_HAND)
        had_rhythm = consumer.usual_silence > 0 and not consumer.acks.may_fit
        if not had_rhythm and not consumer.quiet_at_least(patience):
            return _cannot_tell(consumer, IN_HAND)
    if long:
        return _finding(view, consumer, "stalled", 0.8 if _certainly_holds(consumer) else 0.6)
    if quiet.seconds >= limits["quiet_after"]:
        return _finding(view, consumer, "warning", 0.6)
    flow = consumer.since_last_flow
    lately = flow is not None and flow.exact and flow.seconds < limits["quiet_after"]
    if not quiet.exact and consumer.never_gave_back and not lately:
        return _finding(view, consumer, "warning", 0.5)
    if not quiet.exact:
        return _cannot_tell(consumer, consumer.unseen or "when that was is not known")
    return _of_a_working_one(consumer, limits)


def _of_a_working_one(consumer: ConsumerView, limits: Limits) -> Unknown | None:
    """Clears a consumer that shows signs of life, unless its next FLOW may be far away."""
    soon, full = consumer.seconds_until_sending_most, consumer.since_last_delivery
    whole = consumer.seconds_of_waiting_most
    if consumer.seconds_until_sending is not None or consumer.asks_singly:
        return None
    filled = full is not None and full.exact and full.seconds < limits["quiet_after"]
    if filled and not (whole is None and consumer.sent_another_flow):
        return None  # its queue has just been filled, as every queue is
    flow = consumer.since_last_flow
    if flow is not None and not flow.exact and not consumer.sent_another_flow:
        return _cannot_tell(consumer, consumer.unseen or "when it last asked is not known")
    waited = flow.seconds if flow else 0.0
    as_ever = soon is not None and waited <= 2 * soon + limits["quiet_after"]
    if whole is not None and whole <= limits["refill_wait"] and as_ever:
        return None
    return _cannot_tell(consumer, f"it works, but its pace is not known; {consumer.outlook}")


def _patience(view: SubscriptionView, consumer: ConsumerView, limits: Limits) -> float:
    """How long it may be without permits at its pace, in seconds.

    Nobody else could take what it holds, unless another consumer has nothing to do.
    """
    idle = any(other.idle_for is not None for other in view.served if other is not consumer)
    return max(0 if idle else limits["nothing_new_for"], limits["refill_wait"])


def _in_its_time(consumer: ConsumerView) -> bool:
    """Whether the message in hand has not taken much longer than each one before it."""
    pace, sent = consumer.pace, consumer.since_last_delivery
    return pace is not None and sent is not None and sent.seconds <= ABOUT * pace.seconds


def _wait(consumer: ConsumerView) -> float:
    """The whole time without permits; where no pace tells it, what is over of it.

    That tells of several messages only once one was acknowledged after the delivery.
    """
    whole, acked, sent = (
        consumer.seconds_of_waiting,
        consumer.since_last_ack,
        consumer.since_last_delivery,
    )
    if whole is not None:
        return whole
    several = acked is not None and sent is not None and acked.ms < sent.ms
    return consumer.seconds_of_waiting_over if several else 0.0


def _sure_of_flow(consumer: ConsumerView) -> float:
    """By how exactly it is known when the next FLOW comes."""
    until = consumer.sending_after
    if until is None:
        return 0.7
    return 0.8 if until.exact is None else 0.95


def _certainly_holds(consumer: ConsumerView) -> bool:
    """Whether several messages are with it for sure, so that its queue is not 0 or 1."""
    held, permits = least(consumer.unacked_messages), most(consumer.available_permits)
    if consumer.one_by_one or held is None or permits is None:
        return False
    return held + permits > 2


def _idle(
    view: SubscriptionView, consumer: ConsumerView, limits: Limits
) -> Finding | Unknown | None:
    """Answers for a consumer that holds and requests nothing, while messages wait for it alone."""
    others = any((most(other.available_permits) or 0) > 0 for other in view.served)
    left = view.left
    if others and kept_for_keys(view):
        return _its_keys_wait(view, consumer, limits)
    if others or consumer.below_zero or (left is not None and left.most == 0):
        return None
    if not consumer.quiet_at_least(limits["refill_wait"]):
        return _just_begun(view, consumer)
    if consumer.never_sent_flow and left is not None and (left.least or 0) > 0:
        return _finding(view, consumer, "stalled", 0.7)
    if consumer.never_sent_flow:
        return _cannot_tell(consumer, "it has never asked for a message; is there one for it?")
    return _cannot_tell(consumer, AS_A_ZERO_QUEUE)


def _its_keys_wait(
    view: SubscriptionView, consumer: ConsumerView, limits: Limits
) -> Finding | Unknown | None:
    """The same on Key_Shared, where others go on with their own keys."""
    quiet = consumer.quiet_for
    if not consumer.never_sent_flow or quiet is None or quiet.seconds < limits["quiet_after"]:
        return None
    if not may_receive(view, consumer):
        return _cannot_tell(consumer, "it has sent no FLOW yet, and its keys may wait")
    long = quiet.seconds >= limits["refill_wait"] and kept_long(view, limits["refill_wait"])
    return _finding(view, consumer, "stalled" if long else "warning", 0.7)


def _just_begun(view: SubscriptionView, consumer: ConsumerView) -> Unknown | None:
    """Answers for a consumer that asks for nothing, where nothing shows for how long."""
    if consumer.quiet_for and consumer.quiet_for.exact:
        return None
    if consumer.never_sent_flow:
        return _cannot_tell(consumer, "it has never asked for a message; see --at for how long")
    waits = view.left is not None and bool(view.left.least)
    return _cannot_tell(consumer, AS_A_ZERO_QUEUE) if waits and not consumer.works else None


def _cannot_tell(consumer: ConsumerView, why: str) -> Unknown:
    quiet = consumer.quiet_for
    since = "" if quiet is None else say(", quiet for {}", quiet)
    reason = say("{}{}: {}", worded("has_permits", consumer), since, why)
    return Unknown(reason, consumer.label)


def _finding(
    view: SubscriptionView, consumer: ConsumerView, severity: Severity, confidence: float
) -> Finding:
    return Finding(
        severity=severity,
        confidence=consumer.sure(confidence),
        consumer=consumer.label,
        summary=_summary(view, consumer),
        evidence=consumer.measures(),
        remedy=NEVER_SENT_FLOW if consumer.never_sent_flow else remedy(view, consumer),
        actions=tuple(_actions(view, consumer)),
    )


def _summary(view: SubscriptionView, consumer: ConsumerView) -> str:
    """What it does, then who waits for its keys, then the numbers of its permits."""
    quiet, what = consumer.quiet_for, state(consumer)
    if consumer.never_sent_flow:
        since = "" if quiet is None else say(" in {}", quiet)
        what = say(
            "has never asked for a message{}: it is paused, or its application does not receive",
            since,
        )
    permits, outlook = consumer.available_permits, consumer.outlook
    may = say("the broker may not send it more ({:permits}), {}", permits, outlook)
    return joined("; ", (say("{} {}", consumer.label, what), waiting_for(view, consumer), may))


def _actions(view: SubscriptionView, consumer: ConsumerView) -> Iterator[Action]:
    if consumer.never_sent_flow:
        yield Action(
            "now",
            f"Check whether the consumer {place(consumer)} is paused, or its application never "
            "receives.",
        )
        yield dump_threads(view, consumer)
        yield Action(
            "now",
            f"Restart the process {place(consumer)}, so that it begins to receive.{NOT_CLOSED}",
            brief="Restart its process",
        )
    else:
        yield from treatment(view, consumer)


HYPOTHESIS = Hypothesis(
    "{who} holds what it was sent and asks for no more: it hangs, is paused, or is very slow",
    speaks_for=(
        "undecided", "no_permits", "below_zero", "holds_many", "holds_some",
        "flow_may_be_far", "never_acked", "never_acked_many", "never_asked", "waits", "rate_none",
        "unread", "quiet_some", "quiet_long", "unusual", "one_flow",
    ),
    against=(
        "works", "flow_soon", "asks_singly", "holds_one", "flag_blocked",
        "nobody_holds",
    ),
    not_by=("took_all", "has_permits"),
    missing=("pace", "receiver_queue_size"),
)  # fmt: skip
