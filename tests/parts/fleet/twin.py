"""The same tables by DuckDB: the queries of sql/ over views of its own on the same Parquet."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb

from pulsar_doctor.parts.fleet.answering import ANSWERS, BETWEEN, DAILY, MOMENTS, query_of

MACROS = """
CREATE MACRO size(a) AS len(a);
CREATE MACRO array_except(a, b) AS [x for x in a if NOT list_contains(b, x)];
"""
VIEWS = """
CREATE VIEW records AS SELECT * FROM read_parquet({files}, hive_partitioning = true);
CREATE VIEW rounds_seen AS SELECT cluster, day, epoch_us(seen_at) / 1000000 AS t
  FROM records WHERE kind = 'round';
CREATE VIEW seen AS SELECT * FROM (
  SELECT cluster, day, topic, subscription, epoch_us(seen_at) / 1000000 AS t,
    coalesce(lead(epoch_us(seen_at) / 1000000) OVER (
      PARTITION BY cluster, day, topic, subscription ORDER BY seen_at), 1e18) AS next_row,
    CASE WHEN kind = 'seen' THEN status ELSE kind END AS status, cause, certainty, consumer,
    backlog, broker_version, comes_in, sent_out,
    [coalesce(c.name, '?') for c in consumers] AS names,
    [coalesce(c.name, '?') || '@' || coalesce(epoch_us(c.connected), 0) for c in consumers]
      AS lives,
    list_distinct([coalesce(c.version, '?') for c in consumers]) AS versions,
    list_max([epoch_us(c.connected) for c in consumers]) / 1000000 AS newest
  FROM records WHERE kind IN ('seen', 'gone', 'unread')) WHERE status <> 'unread';
CREATE VIEW levels_seen AS SELECT cluster, day, topic, subscription, t,
    unnest(limits, recursive := true)
  FROM (SELECT *, epoch_us(seen_at) / 1000000 AS t FROM records WHERE kind = 'seen');
CREATE VIEW consumers_seen AS SELECT cluster, day, topic, subscription, t, c.name AS name,
    c.version AS version, epoch_us(c.connected) / 1000000 AS connected, c.permits AS permits,
    c.unacked AS unacked, c.rate AS rate
  FROM (SELECT *, epoch_us(seen_at) / 1000000 AS t, unnest(consumers) AS c
    FROM records WHERE kind = 'seen');
"""
TIES = {
    "ended_by",
    "hour",
    "cause",
    "versions",
    "next_versions",
}  # of equal counts, or in any order

Rows = list[dict[str, Any]]


def tables(folder: Path, values: Mapping[str, float]) -> dict[str, Rows]:
    """Every table that is not of a day."""
    database = duckdb.connect()
    database.execute("SET TimeZone = 'UTC'")
    files = [str(file) for file in sorted(folder.glob("cluster=*/day=*/*.parquet"))]
    database.execute(MACROS + VIEWS.format(files=files))
    for name in (*DAILY, *BETWEEN):
        database.execute(f"CREATE TABLE {name} AS {query_of(name, values)}")
    return {
        name: rows_of(database, f"FROM {name}" if name in BETWEEN else query_of(name, values))
        for name in (*BETWEEN, *ANSWERS)
    }


def rows_of(database: duckdb.DuckDBPyConnection, query: str) -> Rows:
    """As Python values."""
    found = database.execute(query)
    names = [each[0] for each in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def alike(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Rows as texts in an order of their own; numbers to five digits."""
    return sorted(
        repr(sorted((name, _plain(name, value)) for name, value in row.items() if name not in TIES))
        for row in rows
    )


def _plain(name: str, value: Any) -> Any:
    """Moments to a second; engines add up other numbers in another order, and as float32 or not."""
    if isinstance(value, bool) or value is None:
        return value
    if name in MOMENTS:
        return round(value.timestamp() if hasattr(value, "timestamp") else value)
    return f"{value:.5g}" if isinstance(value, int | float) else str(value)
