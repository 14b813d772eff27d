"""The verdict healthy: enough was seen, and nothing of it suggests a problem.

No check finds a cause or is undecided, no fact forbids it, and by the odds a problem is improbable:
at most `problem_at_most`, a measured share (see what a percentage means). Otherwise the status is
unknown, and the likeliest cause is named. These facts forbid it whatever the odds:
- a consumer has held messages for `first_ack_within` or longer and has never acknowledged any, or
  ended so. It may work on its first messages, or acknowledge at checkpoints that lie further apart:
  then set it to the time between two checkpoints, and some more;
- a consumer has been sent messages for `first_ack_within` or longer and acknowledged none, and most
  of them are gone from it: it gives them back, or they expire;
- a consumer has acknowledged before, but nothing for five minutes or `first_ack_within`, if that is
  longer, and holds messages that are not new;
- no message waits by the backlog, and a silent consumer holds some: they expired or were skipped
  while it held them, or one of the two counters is wrong;
- entries could be sent (they are not delayed, and no transaction is open), a consumer has permits,
  and nothing moved within the window;
- a consumer is below zero permits, messages wait, and all that it holds cannot bring them back;
- messages wait, and the consumers of the subscription are not reported;
- the numbers are sums over partitions, and something waits on one of them;
- in a trace alone: consumers hold many messages, have permits and are sent nothing, as if the
  subscription had reached its limit of unacknowledged messages, which is not on the wire;
- in a trace alone: a message was published that no consumer was sent, though one has had permits;
- in a trace alone: consumers worked on messages that were published long before, and then nothing
  more came though they have permits, and it is not known that this was the end of the topic;
- in a trace of a non-persistent topic: no consumer has had permits for `first_ack_within`, so what
  was published meanwhile was dropped.
Where nothing needs to move, all is consumed or nobody promised to consume it, only messages that
are held without a backlog, or dropped, forbid it. Where a fact does, the probability that nothing
is wrong is given as half at most: few of the states to which it was fitted show such facts.
That a check was left out with --skip earns nothing.
"""

from __future__ import annotations

from pulsar_doctor.diagnosis.answers import HEALTHY, Clue
from pulsar_doctor.diagnosis.cause import Cause, Hypothesis
from pulsar_doctor.diagnosis.thresholds import Threshold
from pulsar_doctor.evidence.measures import STATS, WIRE

PROBLEM_AT_MOST = Threshold(
    "problem_at_most", 0.1, "share", "healthy is not given if a problem is more probable"
)
FIRST_ACK_WITHIN = Threshold(
    "first_ack_within",
    60.0,
    "seconds",
    "a consumer that holds messages for longer must have acknowledged some",
)
THRESHOLDS = (PROBLEM_AT_MOST, FIRST_ACK_WITHIN)

NOTHING_FOUND = "settled"  # the key of a clue: no cause was found, and no check was undecided
SETTLED = Clue("status", "no check finds anything")
# Clues of single consumers that count for the whole subscription: key -> any of these clues.
ANY_CONSUMER = {
    "one_stuck": ("quiet_long", "unusual", "neighbour_later", "still"),
    "one_blocked": ("flag_blocked",),
    "one_empty": ("empty_handed",),
}
AT_REST = {"has_permits", "holds_nothing"}  # clues of a consumer, where nothing is left to send
EVERY_CONSUMER = {
    "all_lively": ("lively",),
    "all_work": ("works", "holds_nothing"),
    "all_acked": ("has_acked", "holds_nothing"),
    "all_soon": ("has_permits", "flow_soon"),
}

HYPOTHESIS = Hypothesis(
    "it is working, or waits for new messages",
    speaks_for=(
        "delivers", "somebody_acks", "reads", "nothing_left", "somebody_ready",
        "all_lively", "all_work", "all_acked", "all_soon", "rate_out", "keeps_up", "read_waits",
    ),
    against=(
        "backlog_grows", "flag_all_blocked", "one_stuck", "one_blocked", "replay", "rate_redeliver",
        "hole_wide", "rate_none", "one_empty", "ended_holding",
    ),
    stalls=False,
    confirmed="if messages are sent or acknowledgements arrive, nothing is wrong",
    code=HEALTHY,
)  # fmt: skip

# As `explain` shows it, like a cause.
STATUS = Cause(
    HEALTHY,
    __doc__ or "",
    lambda view, limits: iter(()),
    frozenset({STATS, WIRE}),
    THRESHOLDS,
    hypothesis=HYPOTHESIS,
)
