"""Messages expire before a consumer takes them: the consumers are slower than the time to live.

A message that is older than the time to live (TTL) of its topic or namespace is taken out of the
backlog, and counts as consumed. So the backlog stays small, consumers work, and messages are lost
to the subscription. The broker looks for expired messages every five minutes
(messageExpiryCheckIntervalInMinutes), counts them, and has a rate for its last full minute.

It is a warning where the count grew within the window, or that rate is above 0, unless nobody is
attached: that is no-consumer. A count alone is silent: it is of all the time since the topic was
loaded. That nothing grew rules nothing out either, as the next check may be minutes away.

Source: PersistentMessageExpiryMonitor.markDeleteCallback; `messageTTL`.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.actions.commands import policy_admin
from pulsar_doctor.diagnosis.actions.consumers import more_workers
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.sentences import say

THRESHOLDS: tuple[Threshold, ...] = ()
NEEDS = frozenset({STATS})
REMEDY = (
    "Add consumers or make the work faster, so that messages are taken before they expire; or "
    "raise the time to live, if they are wanted later, too."
)
TTL = "Check the time to live (in seconds), and raise it if the messages are wanted later, too."


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where messages expired lately, and not because nobody is attached."""
    grown, rate = view.expired, view.msg_rate_expired
    if view.consumers == () or not (grown or rate):
        return
    if grown:
        many = say("{:messages} expired within {}", grown, duration(view.watched_seconds or 0.0))
    else:
        many = say("in the broker's last full minute {} messages a second expired", f"{rate:.3g}")
    yield Finding(
        code="messages-expired",
        severity="warning",
        confidence=0.9,
        consumer=None,
        summary=say("{} before a consumer had acknowledged them, and count as consumed", many),
        evidence=(
            Measure("expired", grown, "messages"),
            Measure("msg_rate_expired", rate, "messages/second"),
        ),
        remedy=REMEDY,
        actions=(
            Action(
                "today",
                TTL,
                command=policy_admin(view, "get-message-ttl", "-ap"),
                check=check_line(view, "this finding is gone"),
            ),
            more_workers(view),
        ),
    )
