"""An entry filter of the broker puts messages back, again and again.

You see: `filterRescheduledMsgCount` grows, `msgBacklog` stays at 200, and nothing is sent.

The broker shows each entry to the filter (a JMS selector, a plug-in) before it sends it. The filter
accepts, rejects or reschedules it: then the broker reads it again after a delay, and what no
consumer's selector accepts waits for ever. A filter that is removed from the topic's policies is
still used until the topic is loaded anew.

It is a warning if the filter has put back at least twice what waits since the topic was loaded, and
more in the window than was sent. One document shows it if nothing was sent for `sent_none_for`,
though a consumer has permits and messages wait.

Source: AbstractBaseDispatcher.filterEntriesForConsumer (RESCHEDULE), SubscriptionStats.filter….
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.commands import check as check_line
from pulsar_doctor.diagnosis.actions.commands import policy_admin
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, Rests
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.subscription import SubscriptionView, backlog_measure
from pulsar_doctor.wording.sentences import say

THRESHOLDS = (Threshold("sent_none_for", 300.0, "seconds", "one document finds it beyond that"),)
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
    filtering, sent, since = view.filtering, view.delivered or 0, view.since_delivery
    if filtering is None or not view.filter_keeps:
        return
    ready = any(each.may_receive for each in view.served)
    waits, lately = (view.backlog.entries if view.backlog else None) or 1, filtering.lately
    text = "an entry filter has put messages back {} times, about {} times each of {} that wait"
    text = say(text, filtering.put_back, filtering.put_back // waits, waits)
    if lately is not None:
        if lately > sent:
            seen = "{}: {} times in the window, while {:messages} were sent"
            yield _finding(view, say(seen, text, lately, sent), 0.9)
    elif since is not None and since.seconds >= limits["sent_none_for"] and ready:
        none = "{}: none was sent for {}, though a consumer has permits"
        yield _finding(view, say(none, text, since), 0.75)
    else:
        yield Rests(f"{text}; one sample does not show whether it still does")


def _finding(view: SubscriptionView, summary: str, confidence: float) -> Finding:
    return Finding(
        severity="warning",
        confidence=confidence,
        summary=summary,
        evidence=(*(view.filtering.measures() if view.filtering else ()), backlog_measure(view)),
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
