"""Messages are acknowledged in a transaction that is open.

You see: `msgBacklog` 50, `unackedMessages` 0, and nothing is sent. `pulsar-admin transactions
pending-ack-stats` reports an open transaction.

Such an acknowledgement counts only when the transaction is committed. Until then the messages hold
mark-delete back, and no consumer holds or gets them, not even after an unload or a restart. If the
application or, after its time-out (1 min by default), the coordinator aborts it, they come again.

If the broker reports open transactions of the subscription, it is information while they are
younger than `open_for`, and then a warning. If it does not, it is unknown on Shared and Key_Shared
where entries were read that no consumer holds: they may also be lost on the way. Without a read
position, one document shows that if the oldest entry was sent, and none is held.

Source: PendingAckHandleImpl, Consumer.individualAckWithTransaction; seen on 4.0.8.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions.transactions import OPEN_FOR, age_of, found, list_slow, oldest
from pulsar_doctor.diagnosis.answers import Answers, Severity, Unknown
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.observing import worded
from pulsar_doctor.diagnosis.thresholds import Limits
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
        counts = (
            Measure("pending_ack_transactions", view.pending_acks, "transactions"),
            Measure("entries_with_nobody", entries or None, "entries", "at least"),
        )
        text = say(text, what, view.pending_acks)
        yield found(view, _severity(view, limits["open_for"]), text, *counts, publishes=False)
    elif view.pending_acks is None and entries:
        yield Unknown(worded("with_nobody", view, entries=entries, where=MAYBE_PENDING))


def _severity(view: SubscriptionView, within: float) -> Severity:
    """By the transaction's age, else by that of the last acknowledgement, which is no older."""
    known = oldest(view, publishes=False)
    if known is not None:
        old = age_of(view, known) >= within
    else:
        old = bool(view.served) and all(each.quiet_at_least(within) for each in view.served)
    return "warning" if old else "info"


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
