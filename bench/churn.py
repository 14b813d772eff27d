"""Measures the ledgers where consumers of one subscription come and go by thousands.

    python bench/churn.py                      rows/s while 100, 1,000, 3,000 consumers stand by
    python bench/churn.py 10000 --turns 5000   likewise, of 10,000, for 5,000 comings and goings

So many consumers are attached to one Shared subscription. Then others come, are sent a message
each, acknowledge it and go, while those that stand by are sent messages too, one after the other.
The rows are made before the clock runs. Time is CPU time of this process.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from measured import table

sys.path.insert(0, str(Path(__file__).parent.parent))

from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.wire.columns import Row
from tests.ledger.rows import ack, close_consumer, flow, message, paced, subscribe, success

CONNECTIONS = 10
STEP_SECONDS = 0.002


def comes(consumer: int, conn: int) -> Iterator[Row]:
    """A consumer that is attached, with a queue of 10."""
    yield subscribe(consumer, 2 * consumer, conn=conn, name=f"c{consumer}")
    yield success(2 * consumer, conn=conn)
    yield flow(10, consumer, conn=conn)


def comes_and_goes(consumer: int, standing: int) -> Iterator[Row]:
    """Another one for the time of a message, and a message for one of those that stand by."""
    conn, other = consumer % CONNECTIONS, consumer % standing
    yield from comes(consumer, conn)
    yield message(2 * consumer, consumer=consumer, conn=conn)
    yield message(2 * consumer + 1, consumer=other, conn=other % CONNECTIONS)
    yield ack(2 * consumer, consumer=consumer, conn=conn)
    yield ack(2 * consumer + 1, consumer=other, conn=other % CONNECTIONS)
    yield close_consumer(consumer, 2 * consumer + 1, conn=conn)
    yield success(2 * consumer + 1, conn=conn)


def seconds_of(timeline: Timeline, rows: list[Row]) -> float:
    before = time.process_time()
    for row in rows:
        timeline.apply(row)
    return time.process_time() - before


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("standing", type=int, nargs="*", default=[100, 1_000, 3_000])
    parser.add_argument("--turns", type=int, default=500)
    options = parser.parse_args()
    lines = [("standing by", "rows/s while they come", "rows/s of comings and goings")]
    for standing in options.standing:
        timeline = Timeline("churn")
        come = [row for consumer in range(standing) for row in comes(consumer, consumer % 10)]
        turns = range(standing, standing + options.turns)
        churn = [row for consumer in turns for row in comes_and_goes(consumer, standing)]
        paced(come, STEP_SECONDS)
        paced(churn, STEP_SECONDS, start=len(come) * STEP_SECONDS)
        coming, turning = (seconds_of(timeline, rows) for rows in (come, churn))
        lines.append(
            (f"{standing:,}", f"{len(come) / coming:,.0f}", f"{len(churn) / turning:,.0f}")
        )
    print(table(lines))


if __name__ == "__main__":
    main()
