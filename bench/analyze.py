"""Measures `analyze`: Spark against DuckDB and Polars, the same aggregates of the same traces.

    python bench/analyze.py FOLDER [--events 1000000 10000000 100000000] [--traces 1]
                            [--engines spark duckdb polars] [--cores 2] [--shape even]

FOLDER: where the traces are made (bench/traces.py), some GB; those that are there are used again.
DuckDB and Polars are no part of pulsar-doctor: `pip install duckdb polars`.

Each engine runs in a process of its own and makes each aggregate as a table in its memory, one
after the other; what they share is made once, with the first that needs it. Seconds are of the wall
clock, the start (imports, Java, session) apart; memory is what is resident of the whole tree of
processes. DuckDB and Polars take exact percentiles, which are the fastest that they have; Spark
takes exact ones of small traces and buckets of large ones. Then all tables are compared, row by
row, and the stalls of half a minute and more with those that were planted: if they differ, the
times mean nothing, and the exit code is 1.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from measured import table

sys.path.insert(0, str(Path(__file__).parent.parent))

TABLES = ("consumers", "gaps", "stalls", "timeline", "subscriptions", "holes")
START = "start"
SHAPES = ("even", "heavy", "many")
BOUNDS = ("acknowledged_least", "untold_acks", "unacked_least", "untold", "certain")  # Spark's only
KEYS = {
    "consumers": ("trace_id", "incarnation"),
    "gaps": ("trace_id", "incarnation", "measure"),
    "stalls": ("trace_id", "incarnation", "start"),
    "timeline": ("trace_id", "topic", "start"),
    "subscriptions": ("topic", "subscription"),
    "holes": ("trace_id", "topic", "subscription"),
}
PLANTED_US = 30_000_000
STEPS_MOST = 200  # of the timeline
STEPS_US = [n * 1_000_000 for n in (1, 2, 5, 10, 30, 60, 300, 600, 1800, 3600, 7200, 21600, 86400)]
REFILL_WAIT_US, SLOW_WAIT_US, STARVED_US = 300_000_000, 30_000_000, 1_000_000
BUCKET_ERROR = 1 / 128
LOOK_SECONDS = 0.05

# DuckDB. First what the aggregates share, then each of them; {bucket_us}: a step of the timeline.

PASSES = """
CREATE TEMP TABLE profile AS
SELECT trace_id, incarnation, epoch_us(ts) // {bucket_us} AS bucket,
    any_value(topic) AS topic, any_value(subscription) AS subscription,
    any_value(subscription_type) AS subscription_type, any_value(consumer_name) AS consumer_name,
    any_value(client_version) AS client_version, max(conn_id) AS conn_id,
    count(*) FILTER (command = 'FLOW') AS flows,
    sum(permits) FILTER (command = 'FLOW') AS granted,
    max(permits) FILTER (command = 'FLOW') AS flow_most,
    max(permits) FILTER (command = 'FLOW' AND flow_gap_us IS NULL
        AND available_permits IS NOT NULL) AS first_flow,
    sum(permits) FILTER (command = 'MESSAGE') AS messages,
    count(*) FILTER (command = 'MESSAGE') AS entries,
    sum(payload_bytes) FILTER (command = 'MESSAGE') AS bytes,
    sum(messages) FILTER (command = 'MESSAGE') AS batched,
    max(messages) FILTER (command = 'MESSAGE') AS batch_most,
    sum(permits) FILTER (command = 'MESSAGE' AND redelivery_count > 0) AS redeliveries,
    count(*) FILTER (command = 'ACK' AND ack_type = 'individual') AS acks_individual,
    count(*) FILTER (command = 'ACK' AND ack_type = 'cumulative') AS acks_cumulative,
    sum(acknowledged_messages) FILTER (command = 'ACK') AS acknowledged,
    max(unacked_messages) AS unacked_most, min(available_permits) AS available_lowest,
    arg_max(available_permits, seq) AS available_permits,
    arg_max(unacked_messages, seq) AS unacked_messages,
    min(seq) AS first_seq, max(seq) AS last_seq,
    min(epoch_us(ts)) AS first_us, max(epoch_us(ts)) AS last_us
FROM rows GROUP BY ALL;

CREATE TEMP TABLE waits AS
SELECT trace_id, incarnation, quantile_disc(permits, [0.5, 0.99]) AS flow_sizes,
    count(flow_gap_us) AS flow_gaps, max(flow_gap_us) AS flow_gap_most,
    quantile_disc(flow_gap_us, [0.5, 0.9, 0.99]) AS flow_gap_at,
    count(ack_delay_us) AS ack_delays, max(ack_delay_us) AS ack_delay_most,
    quantile_disc(ack_delay_us, [0.5, 0.9, 0.99]) AS ack_delay_at
FROM rows WHERE incarnation IS NOT NULL AND command IN ('FLOW', 'ACK') GROUP BY ALL;

CREATE TEMP TABLE episodes AS
SELECT trace_id, incarnation,
    coalesce(epoch_us(starved_since), epoch_us(starved_from), epoch_us(ts) - starved_us)
        AS since_us,
    max(seq) AS last_seq, max(epoch_us(ts)) AS known_us,
    max(epoch_us(ts)) FILTER (starved_since IS NOT NULL AND command IN
        ('MESSAGE', 'ACK', 'REDELIVER_UNACKNOWLEDGED_MESSAGES', 'TAKEN')) AS worked_us,
    max(epoch_us(ts)) FILTER (starved_us IS NOT NULL) AS ended_us,
    max(CASE command WHEN 'FLOW' THEN 'flow' WHEN 'ACK' THEN 'ack'
        WHEN 'REDELIVER_UNACKNOWLEDGED_MESSAGES' THEN 'redelivery' END)
        FILTER (starved_us IS NOT NULL) AS ending,
    max(starved_us) AS starved_us,
    arg_min(unacked_messages, seq) FILTER (ts = starved_since) AS unacked_at_start,
    arg_max(unacked_messages, seq) FILTER (starved_since IS NOT NULL) AS unacked_at_end,
    min(available_permits) FILTER (starved_since IS NOT NULL) AS available_lowest,
    count(*) FILTER (command = 'ACK') AS acks,
    sum(acknowledged_messages) FILTER (command = 'ACK') AS acknowledged
FROM rows
WHERE incarnation IS NOT NULL AND (starved_since IS NOT NULL OR starved_us IS NOT NULL)
GROUP BY ALL;

CREATE TEMP TABLE events AS
SELECT trace_id, conn_id, command, seq, epoch_us(ts) AS at_us
FROM rows WHERE command IN ('CLOSE', 'GAP', 'UNPARSED');

CREATE TEMP TABLE lives AS
WITH life AS (
    SELECT trace_id, incarnation, any_value(topic) AS topic,
        any_value(subscription) AS subscription, any_value(subscription_type) AS subscription_type,
        any_value(consumer_name) AS consumer_name, any_value(client_version) AS client_version,
        max(conn_id) AS conn_id, min(first_seq) AS opened_seq, max(first_flow) AS first_flow,
        max(flow_most) AS flow_most
    FROM profile WHERE incarnation IS NOT NULL GROUP BY ALL),
closes AS (
    SELECT trace_id, conn_id, min(at_us) AS closed_us, min(seq) AS closed_seq
    FROM events WHERE command = 'CLOSE' GROUP BY ALL),
lost AS (
    SELECT l.trace_id, l.incarnation, min(e.seq) AS lost_seq
    FROM life AS l JOIN events AS e ON l.trace_id = e.trace_id AND e.command <> 'CLOSE'
        AND e.seq > l.opened_seq AND (e.conn_id IS NULL OR e.conn_id = l.conn_id)
    GROUP BY ALL),
back AS (
    SELECT trace_id, topic, subscription, consumer_name, max(opened_seq) AS back_seq
    FROM life GROUP BY ALL),
ends AS (SELECT trace_id, max(last_us) AS trace_us FROM profile GROUP BY ALL)
SELECT * FROM life JOIN ends USING (trace_id)
LEFT JOIN closes USING (trace_id, conn_id) LEFT JOIN lost USING (trace_id, incarnation)
LEFT JOIN back USING (trace_id, topic, subscription, consumer_name);

CREATE TEMP TABLE found AS
WITH joined AS (
    SELECT e.*, l.* EXCLUDE (trace_id, incarnation),
        e.last_seq < l.lost_seq AND coalesce(l.lost_seq < l.closed_seq, true) AS lost,
        CASE WHEN l.back_seq > CASE WHEN ended_us IS NULL THEN closed_seq ELSE last_seq END
            THEN 'reconnect' ELSE 'close' END AS closed
    FROM episodes AS e JOIN lives AS l USING (trace_id, incarnation)),
ended AS (
    SELECT *,
        CASE WHEN ended_us IS NOT NULL THEN coalesce(ending, closed) WHEN lost THEN 'not_known'
            WHEN closed_us IS NOT NULL THEN closed ELSE 'end_of_trace' END AS ended_by,
        CASE WHEN ended_us IS NOT NULL THEN ended_us WHEN lost THEN known_us
            ELSE coalesce(closed_us, trace_us) END AS end_us
    FROM joined)
SELECT *, coalesce(starved_us, end_us - since_us) AS duration_us,
    end_us - coalesce(worked_us, since_us) AS quiet_us
FROM ended;
"""

STALLS = f"""
CREATE TEMP TABLE stalls AS
WITH judged AS (
    SELECT *, flow_most IS NOT NULL AND unacked_at_end > 0 AND flow_most <> 1 AS several,
        quiet_us >= {REFILL_WAIT_US} AS silent,
        ended_by = 'flow' OR coalesce(acknowledged, 0) > 0 AS works
    FROM found),
coded AS (
    SELECT *, CASE
        WHEN several AND (duration_us > {REFILL_WAIT_US} OR silent) THEN 'permits-exhausted'
        WHEN flow_most <> 1 AND unacked_at_end = 0 AND silent AND available_lowest < 0
            AND ended_by <> 'flow' THEN 'negative-permits'
        WHEN several AND duration_us > {SLOW_WAIT_US} AND works THEN 'slow-but-progressing'
        WHEN several AND duration_us > {SLOW_WAIT_US} AND quiet_us >= {SLOW_WAIT_US}
            THEN 'permits-exhausted' END AS code
    FROM judged)
SELECT trace_id, incarnation, topic, subscription, consumer_name, make_timestamp(since_us) AS start,
    make_timestamp(end_us) AS "end", duration_us, ended_by, unacked_at_start, available_lowest,
    CASE WHEN acks = 0 THEN 0 ELSE acknowledged END AS acknowledged, code,
    CASE WHEN silent OR duration_us > {REFILL_WAIT_US} AND code = 'permits-exhausted' THEN 'stalled'
        WHEN code IS NOT NULL THEN 'warning' END AS severity
FROM coded;
"""

CONSUMERS = """
CREATE TEMP TABLE consumers AS
WITH sums AS (
    SELECT trace_id, incarnation, sum(flows) AS flow_count, sum(granted) AS permits_granted,
        sum(messages) AS messages, sum(entries) AS entries, sum(bytes) AS bytes,
        sum(batched) AS batched, max(batch_most) AS batch_most, sum(redeliveries) AS redeliveries,
        sum(acks_individual) AS acks_individual, sum(acks_cumulative) AS acks_cumulative,
        sum(acknowledged) AS acknowledged, max(unacked_most) AS unacked_most,
        arg_max(available_permits, last_seq) AS available_permits,
        arg_max(unacked_messages, last_seq) AS unacked_messages,
        make_timestamp(min(first_us)) AS first_seen, make_timestamp(max(last_us)) AS last_seen
    FROM profile WHERE incarnation IS NOT NULL GROUP BY ALL),
starved AS (
    SELECT trace_id, incarnation, count(*) AS starvations, sum(duration_us) AS starved_us,
        max(duration_us) AS longest_starved_us
    FROM found GROUP BY ALL)
SELECT trace_id, incarnation, topic, subscription, subscription_type, consumer_name, client_version,
    CASE WHEN flow_most > 1 OR first_flow > 1 THEN first_flow END AS receiver_queue_size,
    flow_count, flow_sizes[1] AS flow_p50, flow_sizes[2] AS flow_p99,
    coalesce(permits_granted, 0) AS permits_granted, coalesce(messages, 0) AS permits_spent,
    coalesce(messages, 0) AS messages, entries, coalesce(bytes, 0) AS bytes,
    batched / nullif(entries, 0) AS batch_mean, batch_most,
    coalesce(redeliveries, 0) AS redeliveries, acks_individual, acks_cumulative,
    CASE WHEN acks_individual + acks_cumulative = 0 THEN 0 ELSE acknowledged END AS acknowledged,
    coalesce(starvations, 0) AS starvations, coalesce(starved_us, 0) AS starved_us,
    longest_starved_us, available_permits, unacked_messages, unacked_most, first_seen, last_seen
FROM sums JOIN lives USING (trace_id, incarnation) LEFT JOIN waits USING (trace_id, incarnation)
LEFT JOIN starved USING (trace_id, incarnation);
"""

GAPS = """
CREATE TEMP TABLE gaps AS
WITH measured AS (
    SELECT trace_id, incarnation, 'between_flows' AS measure, flow_gaps AS count,
        flow_gap_at AS ranks, flow_gap_most AS max_us
    FROM waits WHERE flow_gaps > 0
    UNION ALL
    SELECT trace_id, incarnation, 'delivery_to_ack', ack_delays, ack_delay_at, ack_delay_most
    FROM waits WHERE ack_delays > 0
    UNION ALL
    SELECT trace_id, incarnation, 'without_permits', count(*),
        quantile_disc(duration_us, [0.5, 0.9, 0.99]), max(duration_us)
    FROM found GROUP BY ALL)
SELECT trace_id, incarnation, topic, subscription, consumer_name, measure, count,
    ranks[1] AS p50_us, ranks[2] AS p90_us, ranks[3] AS p99_us, max_us, 0.0 AS error
FROM measured JOIN lives USING (trace_id, incarnation);
"""

TIMELINE = """
CREATE TEMP TABLE timeline AS
WITH done AS (
    SELECT trace_id, topic, bucket, sum(messages) AS delivered, sum(acknowledged) AS told,
        sum(acks_individual + acks_cumulative) AS acks, sum(flows) AS flows,
        min(available_lowest) AS lowest_available
    FROM profile WHERE incarnation IS NOT NULL GROUP BY ALL),
spread AS (
    SELECT trace_id, topic, incarnation, unnest(range(since_us // {bucket_us},
        greatest(since_us, end_us - 1) // {bucket_us} + 1)) AS bucket
    FROM found),
starved AS (
    SELECT trace_id, topic, bucket, count(DISTINCT incarnation) AS starved_consumers
    FROM spread GROUP BY ALL)
SELECT trace_id, topic, make_timestamp(bucket * {bucket_us}) AS start, {bucket_us} AS bucket_us,
    coalesce(delivered, 0) AS delivered,
    CASE WHEN coalesce(acks, 0) = 0 THEN 0 ELSE told END AS acknowledged,
    coalesce(flows, 0) AS flows, lowest_available,
    coalesce(starved_consumers, 0) AS starved_consumers
FROM done FULL JOIN starved USING (trace_id, topic, bucket);
"""

SUBSCRIPTIONS = f"""
CREATE TEMP TABLE subscriptions AS
WITH sums AS (
    SELECT topic, subscription, count(*) AS consumers,
        count(*) FILTER (longest_starved_us >= {STARVED_US}) AS starved_consumers,
        sum(starved_us) AS starved_us, sum(starvations) AS stalls, sum(messages) AS messages,
        CASE WHEN count(acknowledged) = count(*) THEN sum(acknowledged) END AS acknowledged,
        sum(redeliveries) AS redeliveries, sum(unacked_messages) AS unacked_messages
    FROM consumers GROUP BY ALL),
peaks AS (
    SELECT topic, subscription, coalesce(consumer_name, '#' || incarnation) AS label,
        max(unacked_most) AS peak
    FROM consumers GROUP BY ALL),
hoarders AS (
    SELECT topic, subscription, max({{'peak': peak, 'label': label}}).label AS hoarder,
        max(peak) / sum(peak) AS hoarder_share, max(peak) / avg(peak) AS skew
    FROM peaks GROUP BY ALL HAVING max(peak) > 0)
SELECT topic, subscription, consumers, starved_consumers,
    starved_consumers / consumers AS starved_share, starved_us, stalls, messages, acknowledged,
    redeliveries, unacked_messages, hoarder, hoarder_share, skew
FROM sums LEFT JOIN hoarders USING (topic, subscription)
ORDER BY starved_us DESC, starved_share DESC, redeliveries DESC;
"""

HOLES = """
CREATE TEMP TABLE holes AS
WITH acked AS (
    SELECT hash(trace_id, topic, subscription) AS number, ack_type, subscription_type,
        coalesce(message_ids, [{'ledger_id': ledger_id, 'entry_id': entry_id,
            'ack_set': ack_set}]) AS ids
    FROM rows WHERE command = 'ACK' AND incarnation IS NOT NULL),
each_id AS (
    SELECT number, id.ledger_id, id.entry_id,
        coalesce(trim(hex(id.ack_set), '0') = '', true) AS whole
    FROM (SELECT number, unnest(ids) AS id FROM acked WHERE ack_type = 'individual')
    WHERE id.entry_id IS NOT NULL),
up_to AS (
    SELECT number, max({'ledger_id': ids[-1].ledger_id, 'entry_id': ids[-1].entry_id
        - (coalesce(trim(hex(ids[-1].ack_set), '0'), '') <> '')::INT}) AS up_to
    FROM acked WHERE ack_type = 'cumulative' AND subscription_type IN ('Exclusive', 'Failover')
        AND ids[-1].entry_id IS NOT NULL
    GROUP BY ALL),
entries AS (
    SELECT number, ledger_id, entry_id, bool_or(delivered) AS delivered, bool_or(whole) AS whole,
        bool_or(part) AS part
    FROM (
        SELECT hash(trace_id, topic, subscription) AS number, ledger_id, entry_id,
            true AS delivered, false AS whole, false AS part
        FROM rows WHERE command = 'MESSAGE' AND incarnation IS NOT NULL
        UNION ALL
        SELECT number, ledger_id, entry_id, false, whole, NOT whole FROM each_id)
    GROUP BY ALL),
newest AS (
    SELECT number, ledger_id, max(entry_id) AS entry_id FROM each_id WHERE whole GROUP BY ALL),
singly AS (
    SELECT number, max({'ledger_id': ledger_id, 'entry_id': entry_id}) AS singly
    FROM newest GROUP BY ALL),
highest AS (
    SELECT number, up_to, greatest(singly, up_to) AS highest
    FROM singly FULL JOIN up_to USING (number)),
judged AS (
    SELECT number, highest, {'ledger_id': ledger_id, 'entry_id': entry_id} AS position,
        whole OR coalesce(ledger_id < up_to.ledger_id
            OR ledger_id = up_to.ledger_id AND entry_id <= up_to.entry_id, false) AS done,
        NOT done AND part AS partly,
        NOT done AND NOT part AND coalesce(ledger_id < highest.ledger_id
            OR ledger_id = highest.ledger_id AND entry_id <= highest.entry_id, false) AS hole
    FROM entries LEFT JOIN highest USING (number) WHERE delivered),
counted AS (
    SELECT number, count(*) AS entries, count(*) FILTER (done) AS acknowledged_entries,
        count(*) FILTER (hole) AS holes, count(*) FILTER (partly) AS partly_acknowledged,
        min(position) FILTER (hole) AS oldest, any_value(highest) AS highest
    FROM judged GROUP BY ALL),
names AS (
    SELECT DISTINCT trace_id, topic, subscription, hash(trace_id, topic, subscription) AS number
    FROM lives)
SELECT trace_id, topic, subscription, entries, acknowledged_entries, holes, partly_acknowledged,
    oldest.ledger_id || ':' || oldest.entry_id AS oldest_hole,
    highest.ledger_id || ':' || highest.entry_id AS highest_acknowledged
FROM counted JOIN names USING (number);
"""

SQL = {
    "consumers": PASSES + CONSUMERS,
    "gaps": GAPS,
    "stalls": STALLS,
    "timeline": TIMELINE,
    "subscriptions": SUBSCRIPTIONS,
    "holes": HOLES,
}


@dataclass(frozen=True, slots=True)
class Task:
    """What an engine is to do. out: a folder that gets TABLE.parquet, file or folder, of each."""

    traces: list[Path]
    out: Path
    bucket_us: int
    cores: int
    events: int

    @property
    def segments(self) -> list[str]:
        return [str(segment) for trace in self.traces for segment in sorted(trace.glob("seg-*"))]


# An engine yields the name of each step when it is done, and writes its tables after the last.


def with_duckdb(task: Task) -> Iterator[str]:
    import duckdb

    database = duckdb.connect()
    database.sql(f"SET threads = {task.cores}; SET preserve_insertion_order = false")
    database.sql(f"SET temp_directory = '{task.out}'")
    yield START
    database.sql(f"CREATE TEMP VIEW rows AS SELECT * FROM read_parquet({task.segments})")
    for name, statements in SQL.items():
        database.sql(statements.replace("{bucket_us}", str(task.bucket_us)))
        yield name
    for name in TABLES:
        database.sql(f"COPY {name} TO '{task.out / name}.parquet'")


def with_polars(task: Task) -> Iterator[str]:
    os.environ["POLARS_MAX_THREADS"] = str(task.cores)
    import polars as pl

    yield START
    rows = pl.scan_parquet(task.segments)
    shared = polars_passes(rows, task.bucket_us)
    made: dict[str, Any] = {}
    for name, aggregate in POLARS.items():
        made[name] = aggregate(rows, shared, made, task.bucket_us)
        yield name
    for name in TABLES:
        made[name].write_parquet(task.out / f"{name}.parquet")


CONSUMER = ("trace_id", "incarnation")
NAMES = ("topic", "subscription", "consumer_name")
LABELS = ("topic", "subscription", "subscription_type", "consumer_name", "client_version")
SUBSCRIPTION = ("trace_id", "topic", "subscription")


def polars_passes(rows: Any, bucket_us: int) -> dict[str, Any]:
    """What the aggregates share, out of one scan: profile, waits, episodes, events, lives."""
    import polars as pl

    def named(command: str) -> Any:
        return pl.col("command") == command

    def total(name: str, which: Any) -> Any:
        return pl.col(name).filter(which).cast(pl.Int64).sum()

    at = pl.col("ts").dt.epoch("us")
    flow, message, ack = named("FLOW"), named("MESSAGE"), named("ACK")
    profile = rows.group_by(*CONSUMER, (at // bucket_us).alias("bucket")).agg(
        pl.col(LABELS).drop_nulls().first(),
        pl.col("conn_id").max(),
        flow.sum().alias("flows"),
        total("permits", flow).alias("granted"),
        pl.col("permits").filter(flow).max().alias("flow_most"),
        pl.col("permits")
        .filter(flow & pl.col("flow_gap_us").is_null() & pl.col("available_permits").is_not_null())
        .max()
        .alias("first_flow"),
        total("permits", message).alias("messages"),
        message.sum().alias("entries"),
        total("payload_bytes", message).alias("bytes"),
        total("messages", message).alias("batched"),
        pl.col("messages").filter(message).max().alias("batch_most"),
        total("permits", message & (pl.col("redelivery_count") > 0)).alias("redeliveries"),
        (ack & (pl.col("ack_type") == "individual")).sum().alias("acks_individual"),
        (ack & (pl.col("ack_type") == "cumulative")).sum().alias("acks_cumulative"),
        total("acknowledged_messages", ack).alias("acknowledged"),
        pl.col("acknowledged_messages").filter(ack).count().alias("told"),
        pl.col("unacked_messages").max().alias("unacked_most"),
        pl.col("available_permits").min().alias("available_lowest"),
        pl.col("available_permits").drop_nulls().last(),
        pl.col("unacked_messages").drop_nulls().last(),
        pl.col("seq").min().alias("first_seq"),
        pl.col("seq").max().alias("last_seq"),
        at.min().alias("first_us"),
        at.max().alias("last_us"),
    )
    ranks = [
        pl.col(name).quantile(percent / 100, "equiprobable").alias(f"{name}_{percent}")
        for name in ("flow_gap_us", "ack_delay_us")
        for percent in (50, 90, 99)
    ]
    of_consumers = rows.filter(pl.col("incarnation").is_not_null())
    waits = (
        of_consumers.filter(pl.col("command").is_in(["FLOW", "ACK"]))
        .group_by(*CONSUMER)
        .agg(
            pl.col("permits").quantile(0.5, "equiprobable").alias("flow_p50"),
            pl.col("permits").quantile(0.99, "equiprobable").alias("flow_p99"),
            pl.col("flow_gap_us", "ack_delay_us").count().name.suffix("_count"),
            pl.col("flow_gap_us", "ack_delay_us").max().name.suffix("_max"),
            *ranks,
        )
    )
    starved, ended = pl.col("starved_since").is_not_null(), pl.col("starved_us").is_not_null()
    since = pl.coalesce(
        pl.col("starved_since").dt.epoch("us"),
        pl.col("starved_from").dt.epoch("us"),
        at - pl.col("starved_us"),
    )
    works = ["MESSAGE", "ACK", "REDELIVER_UNACKNOWLEDGED_MESSAGES", "TAKEN"]
    endings = {"FLOW": "flow", "ACK": "ack", "REDELIVER_UNACKNOWLEDGED_MESSAGES": "redelivery"}
    episodes = (
        of_consumers.filter(starved | ended)
        .group_by(*CONSUMER, since.alias("since_us"))
        .agg(
            pl.col("seq").max().alias("last_seq"),
            at.max().alias("known_us"),
            at.filter(starved & pl.col("command").is_in(works)).max().alias("worked_us"),
            at.filter(ended).max().alias("ended_us"),
            pl.col("command").filter(ended).last().alias("ending"),
            pl.col("starved_us").max(),
            pl.col("unacked_messages")
            .filter(pl.col("ts") == pl.col("starved_since"))
            .first()
            .alias("unacked_at_start"),
            pl.col("unacked_messages").filter(starved).last().alias("unacked_at_end"),
            pl.col("available_permits").filter(starved).min().alias("available_lowest"),
            ack.sum().alias("acks"),
            total("acknowledged_messages", ack).alias("acknowledged"),
            pl.col("acknowledged_messages").filter(ack).count().alias("told"),
        )
        .with_columns(pl.col("ending").replace_strict(endings, default=None))
    )
    events = rows.filter(pl.col("command").is_in(["CLOSE", "GAP", "UNPARSED"])).select(
        "trace_id", "conn_id", "command", "seq", at.alias("at_us")
    )
    each = pl.collect_all([profile, waits, episodes, events], engine="streaming")
    shared = dict(zip(("profile", "waits", "episodes", "events"), each, strict=True))
    shared["lives"] = polars_lives(shared["profile"], shared["events"])
    shared["found"] = polars_found(shared["episodes"], shared["lives"])
    return shared


def polars_lives(profile: Any, events: Any) -> Any:
    """Of each consumer: its labels, its queue, when its life ended, whether it came back."""
    import polars as pl

    life = (
        profile.filter(pl.col("incarnation").is_not_null())
        .group_by(*CONSUMER)
        .agg(
            pl.col(LABELS).first(),
            pl.col("conn_id", "first_flow", "flow_most").max(),
            pl.col("first_seq").min().alias("opened_seq"),
        )
    )
    closes = (
        events.filter(pl.col("command") == "CLOSE")
        .group_by("trace_id", "conn_id")
        .agg(pl.col("at_us").min().alias("closed_us"), pl.col("seq").min().alias("closed_seq"))
    )
    missing = events.filter(pl.col("command") != "CLOSE")
    lost = (
        life.join(missing, on="trace_id", suffix="_of")
        .filter(
            (pl.col("seq") > pl.col("opened_seq"))
            & (pl.col("conn_id_of").is_null() | (pl.col("conn_id_of") == pl.col("conn_id")))
        )
        .group_by(*CONSUMER)
        .agg(pl.col("seq").min().alias("lost_seq"))
    )
    name = ("trace_id", *NAMES)
    back = life.group_by(name).agg(pl.col("opened_seq").max().alias("back_seq"))
    ends = profile.group_by("trace_id").agg(pl.col("last_us").max().alias("trace_us"))
    return (
        life.join(ends, on="trace_id")
        .join(closes, on=("trace_id", "conn_id"), how="left")
        .join(lost, on=CONSUMER, how="left")
        .join(back, on=name, how="left")
    )


def polars_found(episodes: Any, lives: Any) -> Any:
    """Every time without permits, with how it ended."""
    import polars as pl

    ended = pl.col("ended_us").is_not_null()
    gone_seq = pl.when(ended).then("last_seq").otherwise("closed_seq")
    closed = (
        pl.when(pl.col("back_seq") > gone_seq).then(pl.lit("reconnect")).otherwise(pl.lit("close"))
    )
    lost = (pl.col("last_seq") < pl.col("lost_seq")) & (
        pl.col("lost_seq") < pl.col("closed_seq")
    ).fill_null(True)
    return (
        episodes.join(lives, on=CONSUMER)
        .with_columns(
            pl.when(ended)
            .then(pl.coalesce("ending", closed))
            .when(lost)
            .then(pl.lit("not_known"))
            .when(pl.col("closed_us").is_not_null())
            .then(closed)
            .otherwise(pl.lit("end_of_trace"))
            .alias("ended_by"),
            pl.when(ended)
            .then("ended_us")
            .when(lost)
            .then("known_us")
            .otherwise(pl.coalesce("closed_us", "trace_us"))
            .alias("end_us"),
        )
        .with_columns(
            pl.coalesce("starved_us", pl.col("end_us") - pl.col("since_us")).alias("duration_us"),
            (pl.col("end_us") - pl.coalesce("worked_us", "since_us")).alias("quiet_us"),
        )
    )


def told(acks: Any) -> Any:
    """Messages that were acknowledged; null where there were acks and none of them tells."""
    import polars as pl

    return pl.when((acks > 0) & (pl.col("told") == 0)).then(None).otherwise("acknowledged")


def polars_consumers(rows: Any, shared: Mapping[str, Any], made: Any, bucket_us: int) -> Any:
    import polars as pl

    sums = (
        shared["profile"]
        .filter(pl.col("incarnation").is_not_null())
        .sort("bucket")
        .group_by(*CONSUMER, maintain_order=True)
        .agg(
            pl.col("flows").sum().alias("flow_count"),
            pl.col("granted").sum().alias("permits_granted"),
            pl.col("messages").sum().alias("permits_spent"),
            pl.col("messages", "entries", "bytes", "batched", "redeliveries").sum(),
            pl.col("batch_most", "unacked_most").max(),
            pl.col("acks_individual", "acks_cumulative", "acknowledged", "told").sum(),
            pl.col("available_permits", "unacked_messages").drop_nulls().last(),
            pl.from_epoch(pl.col("first_us").min(), "us").alias("first_seen"),
            pl.from_epoch(pl.col("last_us").max(), "us").alias("last_seen"),
        )
    )
    starved = (
        shared["found"]
        .group_by(*CONSUMER)
        .agg(
            pl.len().alias("starvations"),
            pl.col("duration_us").sum().alias("starved_us"),
            pl.col("duration_us").max().alias("longest_starved_us"),
        )
    )
    queue = pl.when((pl.col("flow_most") > 1) | (pl.col("first_flow") > 1)).then("first_flow")
    counts = pl.col("flow_count", "permits_granted", "permits_spent", "messages", "entries")
    return (
        sums.join(shared["lives"], on=CONSUMER)
        .join(shared["waits"], on=CONSUMER, how="left")
        .join(starved, on=CONSUMER, how="left")
        .select(
            *CONSUMER,
            *LABELS,
            queue.alias("receiver_queue_size"),
            pl.col("flow_p50", "flow_p99").cast(pl.Int64),
            counts,
            "bytes",
            pl.when(pl.col("entries") > 0)
            .then(pl.col("batched") / pl.col("entries"))
            .alias("batch_mean"),
            pl.col("batch_most", "redeliveries", "acks_individual", "acks_cumulative"),
            told(pl.col("acks_individual") + pl.col("acks_cumulative")).alias("acknowledged"),
            pl.col("starvations", "starved_us").fill_null(0),
            pl.col("longest_starved_us", "available_permits", "unacked_messages"),
            pl.col("unacked_most", "first_seen", "last_seen"),
        )
    )


def polars_gaps(rows: Any, shared: Mapping[str, Any], made: Any, bucket_us: int) -> Any:
    import polars as pl

    def measured(of: Any, measure: str, name: str) -> Any:
        return of.filter(pl.col(f"{name}_count") > 0).select(
            *CONSUMER,
            pl.lit(measure).alias("measure"),
            pl.col(f"{name}_count").cast(pl.Int64).alias("count"),
            *(pl.col(f"{name}_{p}").cast(pl.Int64).alias(f"p{p}_us") for p in (50, 90, 99)),
            pl.col(f"{name}_max").alias("max_us"),
            pl.lit(0.0).alias("error"),
        )

    us = pl.col("duration_us")
    stood = (
        shared["found"]
        .group_by(*CONSUMER)
        .agg(
            us.count().name.suffix("_count"),
            us.max().name.suffix("_max"),
            *(us.quantile(p / 100, "equiprobable").alias(f"duration_us_{p}") for p in (50, 90, 99)),
        )
    )
    whole = pl.concat(
        [
            measured(shared["waits"], "between_flows", "flow_gap_us"),
            measured(shared["waits"], "delivery_to_ack", "ack_delay_us"),
            measured(stood, "without_permits", "duration_us"),
        ]
    )
    return whole.join(shared["lives"].select(*CONSUMER, *NAMES), on=CONSUMER)


def polars_stalls(rows: Any, shared: Mapping[str, Any], made: Any, bucket_us: int) -> Any:
    import polars as pl

    asked, held, us = pl.col("flow_most"), pl.col("unacked_at_end"), pl.col("duration_us")
    several = asked.is_not_null() & (asked != 1) & (held > 0)
    silent = pl.col("quiet_us") >= REFILL_WAIT_US
    works = (pl.col("ended_by") == "flow") | (pl.col("acknowledged") > 0)
    exhausted = several & ((us > REFILL_WAIT_US) | silent)
    negative = (asked != 1) & (held == 0) & silent & (pl.col("available_lowest") < 0)
    negative = negative & (pl.col("ended_by") != "flow")
    slow = several & (us > SLOW_WAIT_US)
    code = (
        pl.when(exhausted)
        .then(pl.lit("permits-exhausted"))
        .when(negative)
        .then(pl.lit("negative-permits"))
        .when(slow & works)
        .then(pl.lit("slow-but-progressing"))
        .when(slow & (pl.col("quiet_us") >= SLOW_WAIT_US))
        .then(pl.lit("permits-exhausted"))
    )
    severity = (
        pl.when(exhausted | negative)
        .then(pl.lit("stalled"))
        .when(code.is_not_null())
        .then(pl.lit("warning"))
    )
    return shared["found"].select(
        *CONSUMER,
        *NAMES,
        pl.from_epoch("since_us", "us").alias("start"),
        pl.from_epoch("end_us", "us").alias("end"),
        "duration_us",
        "ended_by",
        "unacked_at_start",
        "available_lowest",
        told(pl.col("acks")).alias("acknowledged"),
        code.alias("code"),
        severity.alias("severity"),
    )


def polars_timeline(rows: Any, shared: Mapping[str, Any], made: Any, bucket_us: int) -> Any:
    import polars as pl

    step = ("trace_id", "topic", "bucket")
    done = (
        shared["profile"]
        .filter(pl.col("incarnation").is_not_null())
        .group_by(step)
        .agg(
            pl.col("messages").sum().alias("delivered"),
            pl.col("acknowledged", "told", "flows").sum(),
            (pl.col("acks_individual") + pl.col("acks_cumulative")).sum().alias("acks"),
            pl.col("available_lowest").min().alias("lowest_available"),
        )
    )
    last_us = pl.max_horizontal("since_us", pl.col("end_us") - 1)
    starved = (
        shared["found"]
        .select(
            *CONSUMER,
            "topic",
            pl.int_ranges(pl.col("since_us") // bucket_us, last_us // bucket_us + 1).alias(
                "bucket"
            ),
        )
        .explode("bucket")
        .group_by(step)
        .agg(pl.col("incarnation").n_unique().alias("starved_consumers"))
    )
    return done.join(starved, on=step, how="full", coalesce=True).select(
        "trace_id",
        "topic",
        pl.from_epoch(pl.col("bucket") * bucket_us, "us").alias("start"),
        pl.lit(bucket_us).alias("bucket_us"),
        pl.col("delivered").fill_null(0),
        told(pl.col("acks")).fill_null(0).alias("acknowledged"),
        pl.col("flows").fill_null(0),
        "lowest_available",
        pl.col("starved_consumers").fill_null(0),
    )


def polars_subscriptions(rows: Any, shared: Any, made: Mapping[str, Any], bucket_us: int) -> Any:
    import polars as pl

    consumers, keys = made["consumers"], ("topic", "subscription")
    whole = pl.col("acknowledged").null_count() == 0
    sums = consumers.group_by(keys).agg(
        pl.len().alias("consumers"),
        (pl.col("longest_starved_us") >= STARVED_US).sum().alias("starved_consumers"),
        pl.col("starved_us", "messages", "redeliveries").sum(),
        pl.col("starvations").sum().alias("stalls"),
        pl.when(whole).then(pl.col("acknowledged").sum()).alias("acknowledged"),
        pl.col("unacked_messages").sum(),
    )
    label = pl.coalesce("consumer_name", "#" + pl.col("incarnation").cast(pl.String))
    peaks = consumers.group_by(*keys, label.alias("label")).agg(pl.col("unacked_most").max())
    peak = pl.col("unacked_most").cast(pl.Int64)
    hoarders = (
        peaks.sort("unacked_most", "label")
        .group_by(keys, maintain_order=True)
        .agg(
            pl.col("label").last().alias("hoarder"),
            (peak.max() / peak.sum()).alias("hoarder_share"),
            (peak.max() / peak.mean()).alias("skew"),
        )
        .filter(pl.col("skew").is_not_nan())
    )
    share = pl.col("starved_consumers") / pl.col("consumers")
    joined = sums.join(hoarders, on=keys, how="left").with_columns(share.alias("starved_share"))
    return joined.sort("starved_us", "starved_share", "redeliveries", descending=True)


def polars_holes(rows: Any, shared: Mapping[str, Any], made: Any, bucket_us: int) -> Any:
    import polars as pl

    entry = ("number", "ledger_id", "entry_id")
    names = shared["lives"].select(SUBSCRIPTION).unique().with_row_index("number")
    lives = shared["lives"].join(names, on=SUBSCRIPTION, nulls_equal=True)
    numbers = lives.select(*CONSUMER, "number").lazy()
    consumed = rows.join(numbers, on=CONSUMER)
    acked = consumed.filter(pl.col("command") == "ACK")
    singly = acked.filter(pl.col("ack_type") == "individual")
    one = singly.filter(pl.col("message_ids").is_null()).select(*entry, "ack_set")
    several = (
        singly.filter(pl.col("message_ids").is_not_null())
        .select("number", "message_ids")
        .explode("message_ids")
        .unnest("message_ids")
    )
    left = pl.col("ack_set").bin.encode("hex").str.strip_chars("0").fill_null("") != ""
    told_ids = (
        pl.concat([one, several.select(*entry, "ack_set")])
        .filter(pl.col("entry_id").is_not_null())
        .select(*entry, pl.lit(False).alias("delivered"), (~left).alias("whole"))
    )
    delivered = consumed.filter(pl.col("command") == "MESSAGE").select(
        *entry, pl.lit(True).alias("delivered"), pl.lit(False).alias("whole")
    )
    each = pl.col("delivered", "whole").any()
    part = (~pl.col("delivered") & ~pl.col("whole")).any().alias("part")
    entries = pl.concat([delivered, told_ids]).group_by(entry).agg(each, part)
    last = pl.col("message_ids").list.last().struct
    takes = (pl.col("ack_type") == "cumulative") & pl.col("subscription_type").is_in(
        ["Exclusive", "Failover"]
    )
    up_to = (
        acked.filter(takes)
        .select(
            "number",
            *(pl.coalesce(last.field(n), n).alias(n) for n in ("ledger_id", "entry_id")),
            pl.when(pl.col("message_ids").is_null())
            .then("ack_set")
            .otherwise(last.field("ack_set"))
            .alias("ack_set"),
        )
        .filter(pl.col("entry_id").is_not_null())
        .group_by("number", "ledger_id")
        .agg((pl.col("entry_id") - left.cast(pl.Int64)).max())
    )
    whole = told_ids.filter("whole").group_by("number", "ledger_id").agg(pl.col("entry_id").max())
    entries, up_to, whole = pl.collect_all([entries, up_to, whole], engine="streaming")

    def highest(positions: Any, name: str) -> Any:
        last_one = positions.sort("ledger_id", "entry_id").group_by("number").last()
        return last_one.rename({"ledger_id": f"{name}_ledger", "entry_id": f"{name}_entry"})

    limits = highest(up_to, "up_to").join(
        highest(pl.concat([up_to, whole]), "highest"), on="number", how="right"
    )

    def reached(name: str) -> Any:
        ledger, position = pl.col(f"{name}_ledger"), pl.col(f"{name}_entry")
        before = (pl.col("ledger_id") == ledger) & (pl.col("entry_id") <= position)
        return ((pl.col("ledger_id") < ledger) | before).fill_null(False)

    judged = (
        entries.filter("delivered")
        .join(limits, on="number", how="left")
        .with_columns(done=pl.col("whole") | reached("up_to"))
        .with_columns(part=~pl.col("done") & pl.col("part"))
        .with_columns(hole=~pl.col("done") & ~pl.col("part") & reached("highest"))
    )
    counted = judged.group_by("number").agg(
        pl.len().alias("entries"),
        pl.col("done").sum().alias("acknowledged_entries"),
        pl.col("hole").sum().alias("holes"),
        pl.col("part").sum().alias("partly_acknowledged"),
        pl.col("highest_ledger", "highest_entry").first(),
    )
    oldest = judged.filter("hole").sort("ledger_id", "entry_id").group_by("number").first()
    return (
        counted.join(names, on="number")
        .join(oldest.select(entry), on="number", how="left")
        .select(
            *SUBSCRIPTION,
            *("entries", "acknowledged_entries", "holes", "partly_acknowledged"),
            pl.format("{}:{}", "ledger_id", "entry_id").alias("oldest_hole"),
            pl.format("{}:{}", "highest_ledger", "highest_entry").alias("highest_acknowledged"),
        )
    )


POLARS: dict[str, Callable[..., Any]] = {
    "consumers": polars_consumers,
    "gaps": polars_gaps,
    "stalls": polars_stalls,
    "timeline": polars_timeline,
    "subscriptions": polars_subscriptions,
    "holes": polars_holes,
}


def with_spark(task: Task) -> Iterator[str]:
    from pulsar_doctor.parts.analyze.reading import look, read_traces
    from pulsar_doctor.parts.analyze.running import aggregated
    from pulsar_doctor.parts.analyze.session import Where, session

    paths = [*map(str, task.traces)]
    looked = look(paths, here=True)
    with session(Where(master=f"local[{task.cores}]", rows=looked.rows)) as spark:
        yield START
        source = read_traces(spark, paths, looked)
        with aggregated(source, task.bucket_us) as tables:
            made = {name: getattr(tables, name).drop(*BOUNDS).persist() for name in TABLES}
            for name in TABLES:
                made[name].write.format("noop").mode("overwrite").save()
                yield name
            for name in TABLES:
                made[name].write.mode("overwrite").parquet(f"{task.out / name}.parquet")


ENGINES: dict[str, Callable[[Task], Iterator[str]]] = {
    "spark": with_spark,
    "duckdb": with_duckdb,
    "polars": with_polars,
}
MODULES = {"spark": "pyspark", "duckdb": "duckdb", "polars": "polars"}


def work(engine: str, task: Task) -> dict[str, float]:
    """Seconds of each step of an engine, in this process."""
    seconds, before = {}, time.monotonic()
    for step in ENGINES[engine](task):
        seconds[step] = time.monotonic() - before
        before = time.monotonic()
    return seconds


@dataclass(frozen=True, slots=True)
class Result:
    """What an engine took for a trace. seconds: by step; cpu_seconds: of all, start included."""

    engine: str
    events: int
    seconds: dict[str, float]
    cpu_seconds: float
    peak_mib: float

    @property
    def in_all(self) -> float:
        """Seconds for all aggregates but *holes*."""
        return sum(self.seconds[name] for name in TABLES if name != "holes")

    def cells(self) -> list[str]:
        steps = [f"{self.seconds[step]:.2f}" for step in (START, *TABLES[:-1])]
        rest = [f"{each:.2f}" for each in (self.in_all, self.seconds["holes"], self.cpu_seconds)]
        return [f"{self.events:,}", self.engine, *steps, *rest, f"{self.peak_mib:.0f}"]


HEAD = ["events", "engine", START, *TABLES[:-1], "in all", "holes", "CPU", "peak MiB"]


def measured(engine: str, task: Task) -> Result | None:
    """Runs an engine in a process of its own; None where it failed, as for want of memory."""
    shutil.rmtree(task.out, ignore_errors=True)
    task.out.mkdir(parents=True)
    told: dict[str, Any] = {
        "engine": engine,
        "traces": [*map(str, task.traces)],
        "out": str(task.out),
    }
    told |= {"bucket_us": task.bucket_us, "cores": task.cores, "events": task.events}
    command = [sys.executable, __file__, "--work", json.dumps(told)]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with (task.out / "said").open("wb") as said:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=said)
        peak_kib = 0
        while process.poll() is None:
            peak_kib = max(peak_kib, tree_kib(process.pid))
            time.sleep(LOOK_SECONDS)
    if process.returncode:
        peak = f"{peak_kib / 1024:,.0f} MiB"
        say(f"{engine} failed on {task.events:,} events (code {process.returncode}, {peak})")
        return None
    seconds = json.loads((task.out / "said").read_text().splitlines()[-1])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Result(engine, task.events, seconds, cpu_seconds, peak_kib / 1024)


def tree_kib(pid: int) -> int:
    """What a process and all below it have resident, in KiB.

    A child with the command line of its parent is a fork that is about to become another program:
    all that it has is its parent's.
    """
    try:
        process = Path(f"/proc/{pid}")
        resident = re.search(r"VmRSS:\s+(\d+) kB", (process / "status").read_text())
        command = (process / "cmdline").read_bytes()
        below = [child for each in process.glob("task/*/children") for child in words(each)]
        others = [
            child for child in below if Path(f"/proc/{child}/cmdline").read_bytes() != command
        ]
    except OSError:  # it has just ended, or a child of it
        return 0
    return (int(resident[1]) if resident else 0) + sum(map(tree_kib, map(int, others)))


def words(path: Path) -> list[str]:
    return path.read_text().split()


# Whether they have found the same


def differences(one: Path, other: Path, database: Any) -> Iterator[str]:
    """What two engines' tables do not agree on; a percentile may be as far off as buckets allow."""
    for name in TABLES:
        tables = [f"read_parquet('{table_path(out, name)}')" for out in (one, other)]
        described = database.sql(f"DESCRIBE SELECT * FROM {tables[1]}").fetchall()
        keys, same = [], []
        for column, kind, *_ in described:
            a, b = f'a."{column}"', f'b."{column}"'
            if "TIMESTAMP" in kind:
                a, b = f"epoch_us({a})", f"epoch_us({b})"
            if column in KEYS[name]:
                keys.append(f"{a} IS NOT DISTINCT FROM {b}")
            elif name == "gaps" and column in ("p50_us", "p90_us", "p99_us"):
                least, most = f"least({a}, {b})", f"greatest({a}, {b})"
                same.append((column, f"{most} <= {least} * (1 + {BUCKET_ERROR}) + 1"))
            elif column in ("batch_mean", "starved_share", "hoarder_share", "skew"):
                near = f"abs({a} - {b}) <= 1e-9 * abs({a})"
                same.append((column, f"coalesce({near}, {a} IS NULL AND {b} IS NULL)"))
            elif column != "error":
                cast = "" if "CHAR" in kind or "TIMESTAMP" in kind else "::BIGINT"
                same.append((column, f"{a}{cast} IS NOT DISTINCT FROM {b}{cast}"))
        off = ", ".join(f"count(*) FILTER (NOT ({each}))" for _, each in same)
        joined = f"{tables[0]} AS a JOIN {tables[1]} AS b ON {' AND '.join(keys)}"
        rows = [database.sql(f"SELECT count(*) FROM {each}").fetchall()[0][0] for each in tables]
        [(both, *wrong)] = database.sql(f"SELECT count(*), {off} FROM {joined}").fetchall()
        if rows != [both, both]:
            yield f"{name}: {rows[0]:,} and {rows[1]:,} rows, {both:,} of them in both"
        for (column, _), count in zip(same, wrong, strict=True):
            if count:
                yield f"{name}.{column}: {count:,} of {both:,} rows differ"


def table_path(out: Path, name: str) -> str:
    path = out / f"{name}.parquet"
    return f"{path}/*.parquet" if path.is_dir() else str(path)


def not_as_planted(folder: Path, out: Path, database: Any) -> Iterator[str]:
    """Stalls that were planted and not found as they were, or found and not planted."""
    columns = ("trace_id", "incarnation", "consumer_name", "start_us", "end_us", "duration_us",
               "ended_by", "unacked_at_start")  # fmt: skip
    told = json.loads((folder / "planted.json").read_text())
    planted = {tuple(stall[column] for column in columns) for stall in told}
    found = database.sql(
        'SELECT trace_id, incarnation, consumer_name, epoch_us(start), epoch_us("end"), '
        "duration_us, ended_by, unacked_at_start "
        f"FROM read_parquet('{table_path(out, 'stalls')}') WHERE duration_us >= {PLANTED_US}"
    )
    stalls = set(found.fetchall())
    for missing in sorted(planted - stalls)[:3]:
        yield f"planted and not found so ({len(planted - stalls)} in all): {missing}"
    for invented in sorted(stalls - planted)[:3]:
        yield f"found so and not planted ({len(stalls - planted)} in all): {invented}"
    if not planted:
        yield "nothing was planted"


def check(folder: Path, tasks: Mapping[str, Task]) -> bool:
    """Compares what the engines have made, and says it; whether all agree."""
    import duckdb

    database, wrong = duckdb.connect(), []
    first, *others = tasks
    for engine in tasks:
        faults = not_as_planted(folder, tasks[engine].out, database)
        wrong += [f"{engine}: {fault}" for fault in faults]
    for engine in others:
        faults = differences(tasks[first].out, tasks[engine].out, database)
        wrong += [f"{first} and {engine}: {fault}" for fault in faults]
    stalls = len(json.loads((folder / "planted.json").read_text()))
    say("\n".join(wrong) or f"all tables agree; all {stalls} planted stalls found, none invented")
    return not wrong


# All together


def traces_of(folder: Path, events: int, traces: int, *, shape: str) -> tuple[Path, list[Path]]:
    """The folder of so many events, which is made where it is not there, and its traces."""
    path = folder / f"events-{events}-{traces}{'' if shape == 'even' else '-' + shape}"
    if not (path / "planted.json").exists():
        shutil.rmtree(path, ignore_errors=True)
        maker = Path(__file__).parent / "traces.py"
        told = [path, "--events", events, "--traces", traces, "--shape", shape]
        if subprocess.run([sys.executable, maker, *map(str, told)], check=False).returncode:
            sys.exit(f"{events:,} events could not be made; what was said is above")
    return path, sorted(path.glob("trace-*.ptrace"))


def step_us(traces: Sequence[Path]) -> int:
    """A round length for the steps of the timeline, which are not to be too many."""
    ends = []
    for path in traces:
        lines = (path / "_segments.jsonl").read_text().splitlines()
        ends.append(json.loads(lines[-1])["until_ns"] // 1000)
    return next((step for step in STEPS_US if max(ends) / step <= STEPS_MOST), STEPS_US[-1])


def warmed(task: Task) -> None:
    """Reads all files once, so that nobody waits for the disk."""
    for segment in task.segments:
        Path(segment).read_bytes()


def say(text: str) -> None:
    print(text, flush=True)


def growth(results: Sequence[Result]) -> Iterator[list[str]]:
    """How times grow from each size to the next, and how Spark's compare with the others'."""
    for engine in dict.fromkeys(result.engine for result in results):
        own = [result for result in results if result.engine == engine]
        for less, more in pairwise(own):
            yield [
                f"{engine}, {less.events:,} -> {more.events:,} (x {more.events / less.events:g})",
                f"x {more.in_all / less.in_all:.1f}",
                f"x {more.seconds['holes'] / less.seconds['holes']:.1f}",
            ]
    for spark in (result for result in results if result.engine == "spark"):
        for other in results:
            if other.events == spark.events and other is not spark:
                yield [
                    f"spark : {other.engine}, {spark.events:,}",
                    f"x {spark.in_all / other.in_all:.1f}",
                    f"x {spark.seconds['holes'] / other.seconds['holes']:.1f}",
                ]


def compared(options: argparse.Namespace) -> int:
    """Runs every engine on every size; the exit code."""
    results, agree = [], True
    for events in sorted(options.events):
        path, traces = traces_of(options.folder, events, options.traces, shape=options.shape)
        bucket_us = step_us(traces)
        tasks = {
            engine: Task(traces, path / "out" / engine, bucket_us, options.cores, events)
            for engine in options.engines
        }
        warmed(tasks[options.engines[0]])
        attempts = {engine: measured(engine, task) for engine, task in tasks.items()}
        of_size = [result for result in attempts.values() if result]
        tasks = {engine: task for engine, task in tasks.items() if attempts[engine]}
        say(f"\n{events:,} events, {len(traces)} traces, steps of {bucket_us / 1e6:g} s")
        say(table([HEAD, *(result.cells() for result in of_size)]))
        agree &= check(path, tasks)
        shutil.rmtree(path / "out")
        results += of_size
    say("\n" + table([HEAD, *(result.cells() for result in results)]))
    if ratios := [*growth(results)]:
        say("\n" + table([["", "in all", "holes"], *ratios]))
    return 0 if agree else 1


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, nargs="?")
    parser.add_argument("--events", type=int, nargs="+", default=[10**6, 10**7, 10**8])
    parser.add_argument("--traces", type=int, default=1)
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES))
    parser.add_argument("--cores", type=int, default=2)
    parser.add_argument("--shape", choices=SHAPES, default="even", help="as of bench/traces.py")
    parser.add_argument("--work", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        engine, told = options.work.pop("engine"), options.work
        traces = [Path(path) for path in told.pop("traces")]
        print(json.dumps(work(engine, Task(traces, Path(told.pop("out")), **told))))
        return
    if options.folder is None:
        parser.error("say in which folder the traces are to be made")
    for engine in {*options.engines, "duckdb"}:  # DuckDB also compares
        if importlib.util.find_spec(MODULES[engine]) is None:
            sys.exit(f"{MODULES[engine]} is not installed here: pip install {MODULES[engine]}")
    sys.exit(compared(options))


if __name__ == "__main__":
    main()
