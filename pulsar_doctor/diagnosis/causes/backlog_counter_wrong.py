"""The broker's backlog counter is wrong, so it does not show what is unacknowledged.

You see: `msgBacklog` is 0 beside `nonContiguousDeletedMessagesRanges` 10, and `pulsar-admin topics
stats --get-precise-backlog` prints 10. It misleads alarms, quotas and autoscalers. The messages are
safe.

The broker counts the backlog (entries added less entries consumed), and nothing corrects the
counter until the topic is loaded again. A seek back after single acknowledgements makes it too low:
the broker forgets these acknowledgements, but the counter keeps them.

Positions show the right number: the entries after mark-delete, less those in acknowledged ranges.
It is a warning if, in every sample, the counter is below 0, or is 0 beside acknowledged ranges. It
is also a warning if two samples with internal stats differ from the counter by `least` entries or
more, and by more than what moved between them. All other checks then use the positions. Readers,
other non-durable subscriptions and the cursor of compaction are not judged, nor a counter below 0
that the broker replaces by the right number.

Source: ManagedCursorImpl.getNumberOfEntriesInBacklog and internalResetCursor; apache/pulsar#5202.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.commands import admin
from pulsar_doctor.diagnosis.actions.consumers import NO_MORE, unload
from pulsar_doctor.diagnosis.answers import Action, Answers, Finding, NotReported
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.probes import read_positions
from pulsar_doctor.diagnosis.thresholds import Limits, Threshold
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.sentences import fill, say

THRESHOLDS = (Threshold("least", 1.0, "entries", "a smaller difference is not reported"),)
NEEDS = frozenset({STATS})
SYMPTOM = "wrong backlog"
REMEDY = (
    "Unload the topic (`pulsar-admin topics unload`): the counter is computed anew when it "
    "is loaded. All its consumers and producers reconnect, and what was sent and not acknowledged "
    "is sent again. Until then ask for the precise backlog (--get-precise-backlog)."
)
SURE = {1: 0.6, 2: 0.8}  # by samples that show it; with more of them it is certain
CHECK = "msgBacklog shows the same number"
SUMMARY = "the broker's counter reports a backlog of {counter:entries}, {really}"


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found for a subscription with a counter and positions that contradict each other."""
    backlog = view.backlog
    if view.keeps_nothing or backlog is None or backlog.off < limits["least"]:
        return
    if backlog.wrong:
        yield _finding(view)
    elif backlog.doubtful and not view.watched and backlog.counted != backlog.positions:
        yield NotReported(
            f"the backlog counter says {backlog.counter}, the positions say {backlog.positions}; "
            "one sample does not show whether it is wrong, or was read at another moment"
        )


def _finding(view: SubscriptionView) -> Finding:
    backlog = view.backlog
    assert backlog is not None
    return Finding(
        severity="warning",
        confidence=SURE.get(backlog.shown_wrong, 0.95),
        summary=fill(SUMMARY, backlog, really=_really(backlog.positions, backlog.ranges)),
        evidence=(
            Measure("msg_backlog", backlog.counter, "entries"),
            Measure("backlog_by_positions", backlog.positions, "entries"),
            Measure("non_contiguous_deleted_messages_ranges", backlog.ranges, "ranges"),
            Measure("samples", backlog.shown_wrong, "samples"),
        ),
        actions=(
            Action(
                "now",
                "Get the backlog that is computed from positions, which is right, before you act "
                "on the counter.",
                command=admin(view, "topics stats", "--get-precise-backlog"),
                side_effect="the broker reads its ledgers for it: do not run it every second",
            ),
            unload(view, "When it can be afforded, unload", NO_MORE),
        ),
    )


def _really(positions: int | None, ranges: int | None) -> str:
    if positions is not None:
        return say("while by the positions {} are not acknowledged", positions)
    if ranges:
        return say(
            "and {:acknowledged ranges} lie behind entries that are not acknowledged", ranges
        )
    return "which is impossible"


def _excluded(view: SubscriptionView) -> str | None:
    """Two counts that agree."""
    backlog = view.backlog
    if backlog is None or backlog.counter is None or backlog.positions is None:
        return None
    same = backlog.positions in (backlog.counter, backlog.counted) and not backlog.wrong
    return say("counter and positions both say {:entries}", backlog.positions) if same else None


HYPOTHESIS = Hypothesis(
    "the broker miscounts the backlog: fewer entries wait than it says, or none",
    speaks_for=(
        "undecided", "counter_differs", "counter_below_0", "counted_far", "consumed_negative",
    ),
    against=("just_delivered", "went_round"),
    excluded=(_excluded,),
    missing=("backlog_by_positions",),
    stalls=False,
    confirmed="if nothing moves although by the positions nothing waits, this is the cause",
    probe=read_positions,
)  # fmt: skip
