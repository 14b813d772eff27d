"""What healthy means: the hypothesis that nothing is wrong, and what has to be so to say it."""

from __future__ import annotations

from pulsar_doctor.diagnosis.answers import HEALTHY, Clue
from pulsar_doctor.diagnosis.cause import Hypothesis
from pulsar_doctor.diagnosis.thresholds import Threshold

PROBLEM_AT_MOST = Threshold(
    "problem_at_most", 0.1, "share", "a problem that is more probable than this forbids healthy"
)
FIRST_ACK_WITHIN = Threshold(
    "first_ack_within", 60.0, "seconds", "one that holds messages for longer has acknowledged some"
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
EVERY_CONSUMER = {
    "all_lively": ("lively",),
    "all_work": ("works", "holds_nothing"),
    "all_acked": ("has_acked", "holds_nothing"),
    "all_soon": ("has_permits", "flow_soon"),
}

HYPOTHESIS = Hypothesis(
    "it works, or waits for what comes",
    speaks_for=(
        NOTHING_FOUND, "delivers", "somebody_acks", "reads", "nothing_left", "somebody_ready",
        "all_lively", "all_work", "all_acked", "all_soon", "rate_out", "read_waits",
    ),
    against=(
        "backlog_grows", "flag_all_blocked", "one_stuck", "one_blocked", "replay", "rate_redeliver",
        "hole_wide", "rate_none", "one_empty",
    ),
    stalls=False,
    confirmed="if messages go out or acknowledgements come, nothing is wrong",
    code=HEALTHY,
)  # fmt: skip
