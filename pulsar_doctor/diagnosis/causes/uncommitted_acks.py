"""Messages are acknowledged in a transaction that is open.

You see: `msgBacklog` 50, `unackedMessages` 0, and nothing is sent. `pulsar-admin transactions
pending-ack-stats` reports an open transaction.

Such an acknowledgement counts only when the transaction is committed. Until then the messages hold
mark-delete back, and no consumer holds or gets them, not even after an unload or a restart. If the
application or, after its time-out (1 min by default), the coordinator aborts it, they come again.

If the broker reports open transactions of the subscription, it is information while they are
younger than `open_for`, and then a warning. It is unknown if their age is not reported, if
mark-delete has not moved for 5 min before, or, on Shared and Key_Shared, if no transactions are
reported and entries were read that no consumer holds: they may be lost on the way. Without a read
position, one document shows that if the oldest entry was sent, and none is held.

Source: PendingAckHandleImpl, Consumer.individualAckWithTransaction; seen on 4.0.8.
"""

from __future__ import annotations

from math import inf

from pulsar_doctor.broker.stats.transactions import SlowTransaction
from pulsar_doctor.diagnosis.actions.transactions import OPEN_FOR, found, list_slow
from pulsar_doctor.diagnosis.answers import Answers, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.thresholds import LONG_SECONDS, Limits
from pulsar_doctor.evidence.account import left_with_nobody
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.wording.sentences import say

THRESHOLDS = (OPEN_FOR,)
NEEDS = frozenset({STATS})
SYMPTOM = "wrong backlog"
REMEDY = (
    "Find the transaction (`pulsar-admin transactions slow-transactions -t 10s`): its application "
    "commits or aborts it, or its time-out does. Restarting consumers or unloading the topic "
    "changes nothing."
)
MAYBE_PENDING = "they may be acknowledged in an open transaction, which is not reported"


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where acknowledgements of the subscription are in an open transaction."""
    entries = left_with_nobody(view)
    if view.pending_acks:
        text = (
            "{} acknowledged in {:open transactions}: until that is committed they stay in the "
            "backlog, and no consumer holds them or is sent them"
        )
        what = say("{:entries} are", entries) if entries else "some of the messages are"
        text, within = say(text, what, view.pending_acks), limits["open_for"]
        quiet = view.served and all(each.quiet_at_least(within) for each in view.served)
        yield found(
            view,
            text,
            Measure("pending_ack_transactions", view.pending_acks, "transactions"),
            Measure("entries_with_nobody", entries or None, "entries", "at least"),
            publishes=False,
            within=within,
            least=within if quiet else None,  # the last acknowledgement is no older than it
            is_young=lambda known: not entries or _explains(view, known),
        ) or Unknown(say("{}; for how long is not known", text))
    elif view.pending_acks is None and entries:
        yield Unknown(worded("with_nobody", view, entries=entries, where=MAYBE_PENDING))


def _explains(view: SubscriptionView, known: SlowTransaction | None) -> bool:
    """Whether a young transaction may be all: its messages are not known to be older by far."""
    connected = [each.connected_for for each in view.served] if view.oldest_sent else []
    sent = max((each.seconds if each else inf for each in connected), default=inf)
    moved = view.since_mark_delete.seconds if view.since_mark_delete else inf
    return known is not None and min(moved, sent) < LONG_SECONDS


HYPOTHESIS = Hypothesis(
    "messages are acknowledged in a transaction that is not committed",
    speaks_for=(
        "undecided", "nobody_holds", "nothing_left", "somebody_ready", "hole", "hole_old",
        "read_waits",
    ),
    excluded=("none_pending",),
    stalls=False,
    if_undecided=True,
    probe=list_slow,
)  # fmt: skip
