"""All aggregates of some traces as JSON, computed by a Spark that is somewhere: one program run.

python tests/parts/analyze/job.py WHERE [KEY=VALUE …] -- TRACE…      WHERE: a master, or sc://…
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[3])]

from pulsar_doctor.parts.analyze.aggregations import aggregate  # noqa: E402
from pulsar_doctor.parts.analyze.reading import read_traces  # noqa: E402
from pulsar_doctor.parts.analyze.session import Where, session  # noqa: E402

TABLES = ("consumers", "gaps", "stalls", "timeline", "subscriptions", "holes")
BUCKET_US = 10_000_000


def main(place: str, *arguments: str) -> None:
    at = arguments.index("--")
    conf = dict(setting.split("=", 1) for setting in arguments[:at])
    where = Where(None, place, conf) if place.startswith("sc://") else Where(place, None, conf)
    with session(where) as spark:
        source = read_traces(spark, list(arguments[at + 1 :]))
        tables = aggregate(source.rows, bucket_us=BUCKET_US, exact=False)
        found: dict[str, Any] = {name: rows(getattr(tables, name)) for name in TABLES}
        found["events"] = source.events
    print(json.dumps(found))


def rows(table: Any) -> list[str]:
    """Every row of a DataFrame as text, in an order that does not depend on who computed it."""
    return sorted(json.dumps(row.asDict(), default=str) for row in table.collect())


if __name__ == "__main__":
    main(*sys.argv[1:])
