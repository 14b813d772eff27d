"""The verdict healthy: each place of a message is empty, or was seen to move in its time.

No check finds a cause or is undecided, no message rests for longer than its place allows, and by
the odds a problem is improbable: at most `problem_at_most`, a measured share (see
`explain -v`). Otherwise the status is unknown, and the likeliest cause is named. Messages may rest:
- held by a consumer that shows nothing: for 30 seconds, or as long as its rhythm says, which is at
  most twice the usual time for a message. A `first_ack_within` above its default replaces them;
- held by a consumer that has never acknowledged any: for `first_ack_within`. It may work on its
  first messages, or acknowledge at checkpoints that lie further apart: then set it to the time
  between two checkpoints, and some more. Not at all where it ended so;
- sent to a consumer that acknowledges none of them and does not keep them: for `first_ack_within`.
  It gives them back, or they expire;
- sent, over and over, to consumers that have left: not at all, if that was three times all that can
  be sent, and nobody has acknowledged any; nor in the first `first_ack_within` of all who are
  there, if others were sent messages before and the oldest was not acknowledged since: a new
  consumer is sent the oldest first; nor if all who were there left within that time;
- in the queue of a client to which more are sent: for 30 seconds, or its rhythm, while its
  application takes and acknowledges none. With fewer permits than half of the queue, some are
  there;
- held, and not new, by a consumer that has acknowledged before: for five minutes since its last
  acknowledgement, or `first_ack_within`, if that is longer. Where a window or a trace saw three
  gaps or more over half a minute: for ten times the longest one, and at least 30 seconds. Where it
  acknowledged in the first third of its life only: for twice as long as it did, and at least for
  `first_ack_within`, as one that never did. Where others acknowledge as they go: for 30 seconds and
  ten times their longest gap;
- held by a consumer that acknowledges half of what it is sent at most, and sent before its last
  acknowledgement: as many as come in 7.5 minutes. After a checkpoint only what came since is left;
- held by a silent consumer, while no message waits by the backlog: for `first_ack_within`. They
  expired or were skipped while it held them, or one of the two counters is wrong;
- due, while a consumer has permits: for 5 seconds of a window. Delayed messages and open
  transactions make others wait, too;
- due, while nobody has permits and nobody holds anything: for `first_ack_within`;
- due, while a consumer is below zero permits and cannot get above it with all that it holds: not;
- for a reader: at the end of the topic for ever, else for 5 seconds of a window, or 30 seconds
  since the last message was sent; not where one sample has no clock.

Nothing is healthy, either, where messages wait and the consumers are not reported, where the broker
counts less than no unacknowledged message, or where the numbers are sums over partitions and
something waits on one of them. In a trace alone:
- consumers hold many messages, have permits and are sent nothing, as if the subscription had
  reached its limit of unacknowledged messages, which is not on the wire;
- a message was published that no consumer was sent, though one has had permits;
- consumers worked on messages that were published long before, and then nothing more came though
  they have permits, and it is not known that this was the end of the topic;
- by a trace alone, new messages come longer and longer after they were published, for 7.5 minutes;
- the last consumer has left, and messages wait;
- on a non-persistent topic no consumer has had permits for `first_ack_within`, so what was
  published meanwhile was dropped.

Statistics of one moment hold the last acknowledgement and averages of a life. By them a rest
resembles a hang: between two checkpoints, while a batch is collected, in one long job. Such a state
is unknown once it takes longer than these times; a longer watch (`--window`) or a trace sees how
far apart the acknowledgements are. A hang that begins seems healthy until then.

Where nothing needs to move, all is consumed or nobody promised to consume it, only messages that
are held without a backlog, or dropped, count. Where something rests too long, the probability that
nothing is wrong is given as half at most, and after five minutes as a fifth: few of the states to
which it was fitted show that.
A check that --skip leaves out never makes a verdict healthy.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.answers import HEALTHY, Clue
from pulsar_doctor.diagnosis.cause import Cause, Hypothesis
from pulsar_doctor.diagnosis.thresholds import FIRST_ACK_WITHIN, Threshold
from pulsar_doctor.evidence.account import left_with_nobody
from pulsar_doctor.evidence.measures import STATS, WIRE
from pulsar_doctor.evidence.subscription import SubscriptionView

PROBLEM_AT_MOST = Threshold(
    "problem_at_most", 0.1, "share", "healthy is not given if a problem is more probable"
)
THRESHOLDS = (PROBLEM_AT_MOST, FIRST_ACK_WITHIN)

NOTHING_FOUND = "settled"  # the key of a clue: no cause was found, and no check was undecided
SETTLED = Clue("status", "no check finds anything")
# Clues that each consumer shows count for the whole subscription: key -> any of these clues.
EVERY_CONSUMER = {
    "all_lively": ("lively",),
    "all_work": ("works", "holds_nothing"),
    "all_young": ("young",),
    "all_acked": ("has_acked", "holds_nothing"),
    "all_soon": ("has_permits", "flow_soon"),
}


def _in_no_hands(view: SubscriptionView) -> str | None:
    nobody = left_with_nobody(view) and not view.pending_acks
    return "entries were read that no consumer holds" if nobody else None


HYPOTHESIS = Hypothesis(
    "it is working, or waits for new messages",
    speaks_for=(
        "somebody_acks", "nothing_left", "somebody_ready",
        "all_lively", "all_work", "all_acked", "all_soon", "rate_out", "keeps_up", "read_waits",
    ),
    against=(
        "flag_all_blocked", "rate_redeliver", "hole_wide", "rate_none", "ended_holding",
    ),
    excluded=(_in_no_hands,),
    stalls=False,
    confirmed="if acknowledgements arrive from all who hold messages, nothing is wrong",
    code=HEALTHY,
)  # fmt: skip

# As `explain` shows it, like a cause.
STATUS = Cause(
    HEALTHY,
    __doc__ or "",
    lambda view, limits: iter(()),
    frozenset({STATS, WIRE}),
    "unknown",
    THRESHOLDS,
    hypothesis=HYPOTHESIS,
)
