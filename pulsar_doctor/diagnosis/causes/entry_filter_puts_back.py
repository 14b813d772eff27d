"""An entry filter of the broker puts messages back, again and again.

A filter (a JMS selector, a plug-in of the broker) is shown each entry before it is sent, and
accepts it, rejects it, or reschedules it: the broker puts it into the replay queue and reads it
again after a delay. What no consumer's selector accepts so waits for ever: consumers have permits,
the backlog stays, and the broker is busy reading. An unload alone changes nothing; a filter that is
removed from the topic's policies is still used until the topic is loaded anew.

The broker counts what the filter did since the topic was loaded. It is found where that is more
than twice what waits and the filter put back more in the window than was sent. One document alone
does not show whether it still does.

Source: AbstractBaseDispatcher.filterEntriesForConsumer (RESCHEDULE), SubscriptionStats.filter…;
seen on 4.0.8.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.actions.commands import policy_admin
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Rests
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.thresholds import Limits
from pulsar_doctor.evidence.filtering import Filtering
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.wording.sentences import Sentence, say

NEEDS = frozenset({STATS})
SYMPTOM = "again and again"
EXPLAINS = frozenset({"redelivery-storm", "ack-hole", "broker-read-stuck"})
REMEDY = (
    "Find the filter (`pulsar-admin topicPolicies get-entry-filters-per-topic -ap`, or "
    "entryFilterNames in broker.conf) and what it reads, such as the selectors of consumers."
)
REMOVE = (
    "Attach a consumer for which the filter accepts these messages, or remove the filter, and then "
    "let the topic be loaded anew: until then the removed filter is still used."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where a filter keeps putting back what waits."""
    filtering, sent = view.filtering, view.delivered or 0
    if filtering is None or not view.filter_keeps:
        return
    waits = (view.backlog.entries if view.backlog else None) or 1
    text = "an entry filter has put messages back {} times, about {} times each of {} that wait"
    seen = say(text, filtering.put_back, filtering.put_back // waits, waits)
    if filtering.lately is None:
        yield Rests(f"{seen}; one sample does not show whether it still does")
    elif filtering.lately > sent:
        text = "{}: {} times in the window, while {:messages} were sent"
        yield _finding(view, filtering, say(text, seen, filtering.lately, sent))


def _finding(view: SubscriptionView, filtering: Filtering, summary: Sentence) -> Finding:
    counts = {
        "filter_processed_msg_count": filtering.processed,
        "filter_rescheduled_msg_count": filtering.put_back,
        "put_back_in_the_window": filtering.lately,
    }
    return Finding(
        severity="warning",
        confidence=0.9,
        summary=summary,
        evidence=(
            *(Measure(name, count, "messages") for name, count in counts.items()),
            backlog_measure(view),
        ),
        actions=(
            Action("now", REMEDY, policy_admin(view, "get-entry-filters-per-topic", "-ap")),
            Action(
                "today",
                REMOVE,
                command=policy_admin(view, "remove-entry-filters-per-topic"),
                side_effect="consumers are sent what the filter keeps from them",
                undo="set it again (set-entry-filters-per-topic)",
                check=check_line(view, "the backlog falls"),
            ),
        ),
    )


HYPOTHESIS = Hypothesis(
    "an entry filter of the broker puts messages back again and again",
    speaks_for=(
        "undecided", "filter_puts_back", "somebody_ready", "waits", "nobody_holds", "unread",
        "backlog_grows", "rate_none",
    ),
    stalls=False,
    if_undecided=True,
    confirmed="if filterRescheduledMsgCount grows, this is the cause",
)  # fmt: skip
