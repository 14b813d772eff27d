"""Messages wait behind a producer's transaction that is open.

You see: `ongoingTxnCount` 1, `msgBacklog` 210, `availablePermits` above 0, and nothing is sent.

Until the transaction is committed or aborted, the broker delivers nothing that was published after
its first message, whoever published it. The cursor waits as if the topic had ended. That is by
design. A coordinator aborts a transaction after its time-out (1 min by default, longer if the
application says so). An unload does not help: the broker recovers the same position.

It is found if all that is unread lies after the last readable position (maxReadPosition, in the
internal statistics or `pulsar-admin transactions transaction-buffer-stats`): information while the
transaction is younger than `open_for`, then a warning, and a stall if its time-out has passed.
Without that position or its age it is unknown, once nothing was sent for half a minute. If
transactions are long by design, as between two checkpoints, set `open_for` to that time.

Source: TopicTransactionBuffer.getMaxReadPosition, ManagedCursorImpl.asyncReadEntriesWithSkipOrWait.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.actions import transactions
from pulsar_doctor.diagnosis.answers import Answers, NothingMoves
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.thresholds import PAUSE_SECONDS, Limits
from pulsar_doctor.evidence.measures import STATS, Measure
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import least
from pulsar_doctor.wording.sentences import say

THRESHOLDS = (transactions.OPEN_FOR,)
NEEDS = frozenset({STATS})
SYMPTOM = "nothing comes"
REMEDY = (
    "Find the transaction (`pulsar-admin transactions slow-transactions -t 10s`): it ends when its "
    "application commits or aborts it, or after its time-out. `pulsar-admin transactions "
    "abort-transaction` ends it now. Do not unload the topic: that changes nothing."
)


def check(view: SubscriptionView, limits: Limits) -> Answers:
    """Found where all that is unread lies behind an open transaction, and a consumer is ready."""
    waits = least(view.unread) if view.unread else least(view.left)
    ready = any(each.may_receive for each in view.served)
    reads = view.reads is not None and view.reads.moved
    if not (view.held_by_transaction and waits and ready) or view.nothing_left or reads:
        return
    behind, sent, finding = least(view.unreadable), view.since_delivery, None
    lately = sent is not None and sent.exact and sent.seconds < PAUSE_SECONDS
    if behind:
        text = (
            "{:entries} are behind {:open transactions} of a producer: the broker sends none of "
            "them before that is committed or aborted"
        )
        finding = transactions.found(
            view,
            say(text, waits, view.open_transactions),
            Measure("ongoing_txn_count", view.open_transactions, "transactions"),
            Measure("unreadable_entries", behind, "entries"),
            publishes=True,
            within=limits["open_for"],
            least=view.watched_seconds,
            is_young=lambda known: known is not None or lately,
        )
    if finding is not None:
        yield finding
    elif not (lately or view.sent_by_rate):
        text = "{:entries} {} behind {:open transactions} of a producer, and nothing is sent"
        are = "are" if behind else "may be"
        yield NothingMoves(say(text, waits, are, view.open_transactions))


HYPOTHESIS = Hypothesis(
    "messages wait behind a producer's transaction that is open",
    speaks_for=(
        "undecided", "open_transaction", "somebody_ready", "waits", "unread", "nobody_holds",
        "read_asleep", "backlog_grows", "rate_none", "delivered_long_ago",
    ),
    excluded=("none_open", "nothing_left", "reads"),
    missing=("read_position",),
    if_undecided=True,
    probe=transactions.list_slow,
)  # fmt: skip
