"""Messages expire before a consumer acknowledges them: consumers are slower than the time to live.

You see: `msgRateExpired` 128, `totalMsgExpired` grows, and `msgBacklog` stays small.

The broker takes a message that is older than the time to live (`messageTTL`) out of the backlog,
and counts it as consumed. So consumers work, and the subscription loses messages. It searches for
expired messages every five minutes (messageExpiryCheckIntervalInMinutes).

It is a warning if the count grew in the window, or the rate of the last full minute is above 0. The
count alone is silent: it covers all the time since the topic was loaded. It is also a warning if
nobody has acknowledged for so long that only expiry can have moved mark-delete: it moved at the
moment of a search, less than ten minutes ago. An empty backlog then shows what was lost.

A consumer keeps what it holds when that expires, and works on it. It is a warning if consumers hold
more than twice what the backlog has, and some have expired since the topic was loaded. The acks of
these messages change nothing, and they do not come again if the work fails.

Source: PersistentMessageExpiryMonitor.markDeleteCallback, Consumer.pendingAcks.
"""

from __future__ import annotations

from collections.abc import Iterator

from pulsar_doctor.diagnosis.actions.commands import policy_admin
from pulsar_doctor.diagnosis.actions.consumers import more_workers, smaller_queue
from pulsar_doctor.diagnosis.actions.processes import place
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding
from pulsar_doctor.diagnosis.thresholds import Limits
from pulsar_doctor.evidence.account import expired_in_hand
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import Sentence, say

NEEDS = frozenset({STATS})
SYMPTOM = "nothing comes"
REMEDY = (
    "Add consumers or make the work faster, so that messages are taken before they expire; or "
    "raise the time to live, if they are wanted later, too."
)
COUNT = "before a consumer had acknowledged them, and count as consumed"
CHECK = "this finding is gone"
TOGETHER_SECONDS = 5.0  # a check of many messages takes a moment
CHECKS_SECONDS = 600.0  # two checks, at the broker's default
TTL = "Check the time to live (in seconds), and raise it if the messages are wanted later, too."


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where messages expired lately, or while somebody holds them."""
    grown, rate, held = view.expired, view.msg_rate_expired, expired_in_hand(view)
    at_last_check = _moved_by_expiry(view)
    if not (grown or rate or held or at_last_check):
        return
    holders = [each for each in view.served if held and not each.holds_nothing]
    who = holders[0] if len(holders) == 1 else None
    if held:
        summary = _in_hand(view, who, held)
    elif at_last_check is not None and not rate:
        text = "{:messages} have expired since the topic was loaded, the last {} ago,"
        summary = say(f"{text} {{}}", view.expired_ever or 0, duration(at_last_check), COUNT)
    elif grown:
        lost = say("{:messages} expired within {}", grown, duration(view.watched_seconds or 0.0))
        summary = say("{} {}", lost, COUNT)
    else:
        rated = f"in the broker's last full minute {rate:.3g} messages a second expired"
        summary = say("{} {}", rated, COUNT)
    yield Finding(
        severity="warning",
        confidence=0.9 if view.consumers else 0.8,  # that nobody is there comes first
        consumer=who.label if who else None,
        summary=summary,
        evidence=(
            Measure("expired_in_hand", held or None, "entries", "at least"),
            Measure("expired", grown, "messages"),
            Measure("msg_rate_expired", rate, "messages/second"),
        ),
        actions=tuple(_actions(view, who)),
    )


def _moved_by_expiry(view: SubscriptionView) -> float | None:
    """Seconds since a check took messages, where nobody has acknowledged any for longer."""
    checked, moved = view.since_expiry, view.since_mark_delete
    if view.consumers is None or not view.expired_ever or checked is None or moved is None:
        return None
    longer = checked.seconds + TOGETHER_SECONDS
    silent = all(_is_silent(each, longer) for each in view.consumers)
    together = abs(checked.seconds - moved.seconds) <= TOGETHER_SECONDS
    return checked.seconds if silent and together and checked.seconds <= CHECKS_SECONDS else None


def _is_silent(consumer: ConsumerView, seconds: float) -> bool:
    """Whether it is reported that it has acknowledged nothing for so long."""
    if consumer.never_acked:
        return True
    acked = consumer.since_last_ack
    return acked is not None and acked.seconds > seconds


def _in_hand(view: SubscriptionView, who: ConsumerView | None, held: int) -> Sentence:
    label = who.label if who else say("{:consumers}", len(view.served))
    text = (
        "{} {} on {:messages} or more that have expired: they count as consumed, and do not come "
        "again if the work fails"
    )
    return say(text, label, "works" if who else "work", held)


def _actions(view: SubscriptionView, who: ConsumerView | None) -> Iterator[Action]:
    if who is not None:
        text = (
            f"If expired messages are not wanted any more, restart the process {place(who)}: it "
            "continues with what is still in the backlog."
        )
        effect = "what it holds is not processed: what has expired does not come again"
        yield Action("now", text, side_effect=effect)
    if view.consumers == ():
        text = "Attach a consumer; or, if nobody wants these messages, remove the subscription."
        yield Action("now", text)
    command = policy_admin(view, "get-message-ttl", "-ap")
    yield Action("today", TTL, command=command)
    if who is not None:
        yield from smaller_queue(view, who)
    if view.consumers != ():
        yield more_workers(view)
