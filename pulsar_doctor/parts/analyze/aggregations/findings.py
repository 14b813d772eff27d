"""The checks on permits for a past episode, as Spark columns.

Where a trace ends in an episode the checks judge it themselves, if its ledgers lie beside it; see
spark.verdicts. The checks judge a consumer at one moment and must forecast its next FLOW; here the
whole episode is known, and with it how far away that FLOW was. Not on columns, and so not judged:
the rhythm of an application (a silence shorter than `refill_wait` counts from `slow_wait` on
only), whether a backlog waited, what neighbours did meanwhile (`subscriptions` shows who hoards),
and what queue size the application was given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from pulsar_doctor.diagnosis.cause import Cause
from pulsar_doctor.diagnosis.causes import named

if TYPE_CHECKING:
    from pyspark.sql import Column


def _microseconds(cause: Cause, name: str) -> int:
    """A threshold of a cause, as it is by default."""
    (default,) = (each.default for each in cause.thresholds if each.name == name)
    return int(default * 1e6)


EXHAUSTED, SLOW, NEGATIVE = named(["permits-exhausted", "slow-but-progressing", "negative-permits"])
REFILL_WAIT_US = _microseconds(EXHAUSTED, "refill_wait")
SLOW_WAIT_US = _microseconds(SLOW, "slow_wait")


def judged() -> tuple[Column, Column]:
    """Code and severity of an episode, null where it is nothing to speak of.

    Needs duration_us, quiet_us (since its last sign of work), ended_by, acknowledged_least
    (messages), untold_acks (which may have acknowledged any number), unacked_at_end,
    available_lowest, first_flow, flow_most.

    permits-exhausted: it held messages and its FLOW was further away than refill_wait, or it was
    quiet for so long; a warning where it never sent another FLOW and was quiet for slow_wait.
    slow-but-progressing: the FLOW came, or acks do, and it takes longer than slow_wait.
    negative-permits: it held nothing that could bring its permits back. A queue that may be 0 or 1
    sends a FLOW after each message: it is judged by its silence with several.
    """
    holds = F.col("unacked_at_end") > 0
    one_by_one = F.coalesce(F.col("flow_most") == 1, F.lit(False))
    sent_flow = F.coalesce(F.col("flow_most").isNotNull(), F.lit(False))
    long, slow = (F.col("duration_us") > each for each in (REFILL_WAIT_US, SLOW_WAIT_US))
    silent = F.col("quiet_us") >= REFILL_WAIT_US
    acks = (F.col("acknowledged_least") > 0) | (F.col("untold_acks") > 0)
    works = (F.col("ended_by") == "flow") | acks
    exhausted = sent_flow & holds & ~one_by_one & (long | silent)
    negative = sent_flow & ~one_by_one & (F.col("unacked_at_end") == 0) & silent
    negative = negative & (F.col("available_lowest") < 0) & (F.col("ended_by") != "flow")
    several = holds & ~one_by_one & sent_flow & slow
    code = (
        F.when(exhausted, EXHAUSTED.code)
        .when(negative, NEGATIVE.code)
        .when(several & works, SLOW.code)
        .when(several & (F.col("quiet_us") >= SLOW_WAIT_US), EXHAUSTED.code)
    )
    severity = F.when(exhausted | negative, "stalled").when(code.isNotNull(), "warning")
    return code, severity
