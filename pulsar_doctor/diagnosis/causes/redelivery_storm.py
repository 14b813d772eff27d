"""The same messages are redelivered again and again, and few are acknowledged.

You see: `msgOutCounter` grows by 1605 in 10 s, while `msgBacklog` stays at 20, and no ack comes.

Negative acknowledgements, an ack timeout shorter than the work, or an application that fails on its
messages send them back to the broker, which delivers them again. The backlog does not shrink.

It is a warning if, of `least` deliveries or more in the last `window`, `share` had been delivered
before, some of them three times in all, and fewer than `acked` were acknowledged. One that fails on
each message is found beside others that work: it has been there for `window`, acknowledged none in
its life, gave back `least` or more, and is sent further ones. It is a stall where nobody has
acknowledged any for `refill_wait`, however few come back, and messages were there all that time.

In the statistics, what came back is what was sent, less what is unacknowledged or acknowledged
since. Messages came three times if more than twice as many were sent as there are, or if most were
given back in the window and in the minute before it; on Exclusive and Failover, if nothing has been
acknowledged for a minute, also in the minute of the rates of one sample. If nobody has ever
acknowledged anything, the whole life counts, unless a message comes less often than once in
`round`. It is unknown if messages may have come back only once. Retries that succeed are no storm:
it is silent if five times what waits was published in the window, with no ack after mark-delete.

In a trace, a message that goes to the dead-letter topic ends its circle. The check knows that topic
by the name TOPIC-SUBSCRIPTION-DLQ, by its producer's name (Java, Go) or by its initial
subscription. Otherwise the warning stays.

Source: CommandMessage.redelivery_count on Shared and Key_Shared; on Exclusive and Failover it stays
0, so a message at or below the highest position seen counts as delivered again.
Consumer.sendMessages adds to msgOutCounter and unackedMessages, a redelivery takes from the latter.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from pulsar_doctor.diagnosis.actions.consumers import SettingChange, given_back
from pulsar_doctor.diagnosis.answers import (
    Action,
    Answers,
    CauseAnswer,
    Finding,
    NotReported,
    Unknown,
)
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.progress import connected_longest, stood_for, without_progress
from pulsar_doctor.diagnosis.thresholds import NO_PROGRESS, Limits, Threshold
from pulsar_doctor.evidence.circulation import Circulation, Sent
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS, WIRE, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least
from pulsar_doctor.ledger.clients import ACK_TIMEOUT, BATCH_INDEX_ACKS, DEAD_LETTERS, NACK_DELAY
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say

THRESHOLDS = (
    Threshold("window", 60.0, "seconds", "how far back deliveries are counted, at most 10m"),
    Threshold("least", 20.0, "messages", "fewer deliveries in the window are not a storm"),
    Threshold("share", 0.5, "of deliveries", "that had been delivered before"),
    Threshold("acked", 0.5, "of deliveries", "acknowledged; as many or more are progress"),
    Threshold("round", 300.0, "seconds", "a message that is redelivered later does not count"),
    NO_PROGRESS,
)
NEEDS = frozenset({WIRE, STATS})
SYMPTOM = "again and again"
EXPLAINS = frozenset({"ack-hole", "falls-behind"})
REMEDY = (
    "Find out why the application gives messages back: errors, a negative-ack delay that is too "
    "short, or an ack timeout below its processing time. A dead-letter policy ends the loop."
)

FEWER = "fewer messages come back"
CHANGES = (
    SettingChange(
        DEAD_LETTERS,
        10,
        "End the loop after ten deliveries",
        "a message that failed that often is sent to a separate topic, which somebody has to watch",
        FEWER,
    ),
    SettingChange(
        NACK_DELAY,
        60,
        "Wait a minute before a message that was given back is redelivered",
        "a message that would succeed at the next try also waits that long",
        FEWER,
    ),
    SettingChange(
        ACK_TIMEOUT,
        3600,
        "If an ack timeout is set, keep it well above the longest work",
        "what a hung consumer holds is redelivered that much later",
        FEWER,
    ),
    SettingChange(
        BATCH_INDEX_ACKS,
        "",
        "If messages are sent in batches, do not redeliver those that are acknowledged",
        "none by itself; brokers need acknowledgmentAtBatchIndexLevelEnabled=true",
        FEWER,
    ),
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for the subscription as a whole, or for each consumer that fails on all it gets."""
    if view.durable is False:
        return
    answers = list(_of_all(view, limits))
    if not any(isinstance(answer, Finding) for answer in answers):
        answers += _of_each(view, limits) or _of_few(view, limits)
    for answer in answers:
        if isinstance(answer, Finding):
            answer = replace(answer, actions=tuple(_actions(view)))  # noqa: PLW2901
            answer = without_progress(view, answer, limits)  # noqa: PLW2901
        yield answer


def _of_all(view: SubscriptionView, limits: Limits) -> Answers:
    circulation = view.circulation
    if circulation is None:
        return
    lately = circulation.lately(limits["window"])
    if lately is not None:
        if lately.in_circles and _comes_back(lately, limits):
            within = say("in the last {}", duration(limits["window"]))
            yield _finding(lately, within, 0.8, circulation.count_most)
    elif view.backlog is None or not view.backlog.empty:
        yield from _by_counters(circulation, limits)


def _of_few(view: SubscriptionView, limits: Limits) -> list[CauseAnswer]:
    """Finds a consumer that gives messages back for so long, however few they are."""
    there, longest = connected_longest(view), limits[NO_PROGRESS.name]
    back = max((each.gave_back for each in view.served), default=0)
    rate = view.msg_rate_redeliver or 0.0
    if not (back or rate) or there < longest or stood_for(view) < longest:
        return []
    text = "what its consumers are sent they give back, again and again"
    numbers = (
        Measure("messages_redelivered", back or None, "messages"),
        Measure("msg_rate_redeliver", rate or None, "messages a second"),
    )
    return [Finding(severity="warning", confidence=0.8, summary=text, evidence=numbers)]


def _of_each(view: SubscriptionView, limits: Limits) -> list[CauseAnswer]:
    """Counts, for each consumer that gave back so many before the window, what it was sent more in
    it.

    What expires while it is held is given back by nobody.
    """
    found: list[CauseAnswer] = []
    for each in view.served if view.expired == view.msg_rate_expired == 0 else ():
        before = each.gave_back - (each.delivered or 0)
        there = each.connected_for
        for_long = there is not None and there.seconds >= limits["window"]
        if each.delivered and before >= limits["least"] and for_long:
            found.append(_of_one(each))
    return found


def _of_one(each: ConsumerView) -> Finding:
    return Finding(
        severity="warning",
        confidence=0.8,
        consumer=each.label,
        summary=say("{}: it gives the others back", worded("given_back", each)),
        evidence=(
            Measure("messages_delivered", least(each.msg_out_counter), "messages"),
            Measure("messages_redelivered", each.gave_back, "messages"),
            Measure("messages_acknowledged", 0, "messages"),
            *each.measure("unacked_messages"),
        ),
    )


def _by_counters(circulation: Circulation, limits: Limits) -> Answers:
    sent, life = circulation.window, circulation.life
    if _nothing_comes_again(circulation, limits):
        return
    span = circulation.span_seconds
    within = say("in {}", duration(span)) if span else say("in the window")
    if sent is not None and sent.in_circles and _comes_back(sent, limits):
        yield _finding(sent, within, 0.9 if sent.acknowledged == 0 else 0.7)
    elif sent is not None and _still_storms(circulation, sent, limits):
        yield _finding(replace(sent, again=sent.given_back), within, 0.8)
    elif life is not None and life.in_circles and _comes_back(life, limits):
        yield from _by_life(circulation, life, limits)
    elif sent is None and (minute := _minute_of_circles(circulation, limits)):
        yield _finding(minute, say("in a minute"), 0.7)
    elif sent is None:
        yield from _movement_unknown(circulation, limits)
    elif _comes_back(sent, limits) and not circulation.at_most_twice:
        yield Unknown(
            f"{sent.again} of {sent.messages} messages came back unacknowledged in the window; "
            "a longer window shows whether they come back again and again"
        )


def _still_storms(circulation: Circulation, sent: Sent, limits: Limits) -> bool:
    """Whether most were given back in the window, and in the minute before it."""
    before, given_back = circulation.before, replace(sent, again=sent.given_back)
    return before is not None and _comes_back(before, limits) and _comes_back(given_back, limits)


def _minute_of_circles(circulation: Circulation, limits: Limits) -> Sent | None:
    """What was sent in the minute of the rates, if some of it came three times and comes still."""
    minute, last = circulation.before, circulation.last_delivery
    if minute is None or last is None or last.seconds >= limits["window"]:
        return None
    return minute if minute.in_circles and _comes_back(minute, limits) else None


def _comes_back(sent: Sent, limits: Limits) -> bool:
    return (
        sent.messages >= limits["least"]
        and sent.still_circling >= limits["share"] * sent.messages
        and sent.acknowledged < limits["acked"] * sent.messages
    )


def _nothing_comes_again(circulation: Circulation, limits: Limits) -> bool:
    """Whether there is nobody to send to, or nothing that is sent again and again."""
    sent, last = circulation.ever_sent, circulation.last_delivery
    if circulation.passes or (sent is not None and sent < limits["least"]):
        return True
    return last is not None and last.seconds > limits["round"]


def _by_life(circulation: Circulation, life: Sent, limits: Limits) -> Answers:
    """Where nothing was ever acknowledged: a storm, if the last round was just now."""
    last, begun = circulation.last_delivery, circulation.begun
    if last is None or begun is None:
        return
    rounds = life.messages / max(1, life.messages - life.again)
    if (begun.seconds - last.seconds) / rounds > limits["round"]:
        return
    if not last.exact:
        yield Unknown(
            f"{life.messages} messages were sent and none was acknowledged, but whether it still "
            "happens is not known, nor when these stats were taken: give --at"
        )
        return
    within = say("in {}", duration(begun.seconds))
    yield _finding(life, within, 0.7 if circulation.rate_redeliver else 0.6)


def _movement_unknown(circulation: Circulation, limits: Limits) -> Answers:
    if circulation.at_most_twice:
        return
    rate, out = circulation.rate_redeliver, circulation.rate_out
    needs = "two samples with the counters of the same consumers show it"
    # Both rates are of the same minute: where nothing went out, what came back was not sent again.
    if rate is not None and out is not None and out > 0 and rate >= limits["share"] * out:
        yield Unknown(
            f"messages came back within the last minutes ({rate:.3g}/s by the broker's rate); "
            f"whether they come back again and again: {needs}"
        )
    else:
        yield NotReported(f"whether messages come back again and again: {needs}")


def _finding(sent: Sent, within: str, confidence: float, most: int | None = None) -> Finding:
    acknowledged = say("at most {}", sent.acknowledged) if sent.acknowledged else "none"
    return Finding(
        severity="warning",
        confidence=confidence,
        summary=say(
            "the same messages come back again and again: of {:messages} delivered {} at least {} "
            "came"
            " back unacknowledged, and {} were acknowledged",
            *(sent.messages, within, sent.again, acknowledged),
        ),
        evidence=(
            Measure("messages_delivered", sent.messages, "messages"),
            Measure("messages_redelivered", sent.again, "messages"),
            Measure("messages_acknowledged", sent.acknowledged, "messages"),
            Measure("redelivery_count_most", most, "deliveries"),
        ),
    )


def _actions(view: SubscriptionView) -> Iterator[Action]:
    """The actions with the settings of the clients that are there."""
    versions = {consumer.client for consumer in view.consumers or ()}
    yield given_back(view, "messages are acknowledged, and few come back")
    for version in sorted(versions, key=str):
        for change in CHANGES:
            yield from change.on(view, version)


LONGEST_DELAY = 120.0  # seconds: what is given back comes again after 60 as a rule


def _excluded(view: SubscriptionView) -> str | None:
    """For longer than it takes to come again nothing was sent at all."""
    circulation, there = view.circulation, view.consumers or ()
    if circulation is not None and circulation.passes:
        return "what is sent again is acknowledged soon: all that waits has just been published"
    for_long = all(
        each.connected_for and each.connected_for.seconds > LONGEST_DELAY for each in there
    )
    if there and for_long and circulation is not None and circulation.ever_sent == 0:
        return "nothing was ever sent to the present consumers"
    if view.delivered == 0 and (view.watched_seconds or 0) > LONGEST_DELAY:
        return "nothing was sent in the window"
    return None


HYPOTHESIS = Hypothesis(
    "the same messages are sent again and again, and few are acknowledged",
    speaks_for=(
        "undecided", "in_circles", "again", "redelivers", "replay",
        "rate_redeliver",
    ),
    against=(
        "somebody_acks", "delivers_none", "delivered_long_ago", "backlog_falls", "rate_acks",
        "rate_none",
    ),
    excluded=(_excluded,),
    missing=("redelivered",),
    confirmed="if messages are sent and the backlog stays, this is the cause",
)  # fmt: skip
