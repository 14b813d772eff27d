"""The aggregates of a trace once more, in plain Python: loops over rows in the order of their seq.

Written from the meaning of the columns and not from the Spark code, which is compared with this.
Rows go in as dictionaries of the columns of a trace (see `of_traces`), times as microseconds since
1970; what comes out are lists of dictionaries with the columns of the aggregate, times likewise.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pulsar_doctor.trace.reading import Trace
from pulsar_doctor.wire.columns import CLOSE, GAP, NAMES, UNPARSED
from tests.parts.analyze.twin_stalls import (
    IDENTITY,
    Values,
    acknowledged_by,
    acknowledged_least,
    grouped,
    incarnation_of,
    known,
    named,
    stalls,
)

__all__ = ["consumers", "gaps", "holes", "of_traces", "stalls", "subscriptions", "timeline"]

Position = tuple[int, int]

NOWHERE: Position = (-1, -1)
ERROR_OF_BUCKETS = 1 / 128
SECOND_US = 1_000_000


def of_traces(paths: Iterable[Path]) -> list[Values]:
    """The rows of these traces, each (trace_id, seq) once, trace after trace in order."""
    rows = {}
    for path in paths:
        for row in Trace(path).rows():
            rows[row.trace_id, row.seq] = {name: getattr(row, name) for name in NAMES}
    return [rows[key] for key in sorted(rows)]


def percentile(values: Iterable[int], percent: int) -> int | None:
    """Nearest rank: the smallest value that at least so many percent do not exceed."""
    ascending = sorted(values)
    if not ascending:
        return None
    rank = max(1, -(-percent * len(ascending) // 100))
    return ascending[rank - 1]


def bucketed(value: int) -> int:
    """The largest value of its bucket: a leading bit and the 7 behind it are kept."""
    shift = max(0, value.bit_length() - 8)
    return ((value >> shift) + 1 << shift) - 1


def of_consumers(rows: Iterable[Values]) -> dict[tuple[str, int], list[Values]]:
    return grouped((row for row in rows if row["incarnation"] is not None), incarnation_of)


def granted(flow: Values) -> bool:
    """Whether the broker took this FLOW: it drops one that comes before SUBSCRIBE has succeeded.

    A consumer that has subscribed and has no permits is starved, and its rows say so.
    """
    without = flow["available_permits"] is not None and flow["available_permits"] <= 0
    return not (without and flow["starved_since"] is None and flow["starved_us"] is None)


def consumers(rows: list[Values]) -> list[Values]:
    """One for each incarnation."""
    episodes, doubts = grouped(stalls(rows), incarnation_of), doubted(rows)
    return [
        _consumer(of_one, episodes.get(key, []), doubts.get(key))
        for key, of_one in of_consumers(rows).items()
    ]


def doubted(rows: list[Values]) -> dict[tuple[str, int], int]:
    """Incarnations of which commands are missing -> the seq behind the last that are.

    What begins without its SUBSCRIBE misses those before its first row.
    """
    found: dict[tuple[str, int], int] = {}
    for of_trace in grouped(rows, lambda row: row["trace_id"]).values():
        living: dict[int, Values] = {}  # incarnation -> its first row
        closing: set[int] = set()
        before = None
        for row in sorted(of_trace, key=lambda row: row["seq"]):
            incarnation, command = row["incarnation"], row["command"]
            if command == GAP or (before is not None and row["seq"] != before + 1):
                found |= {incarnation_of(first): row["seq"] for first in living.values()}
            before = row["seq"]
            here = {n for n, first in living.items() if first["conn_id"] == row["conn_id"]}
            if command == UNPARSED:
                found |= {incarnation_of(living[n]): row["seq"] for n in here}
            elif command == CLOSE:
                living = {n: first for n, first in living.items() if n not in here}
            elif command == "SUBSCRIBE":
                gone = [n for n in here if living[n]["consumer_id"] == row["consumer_id"]]
                living = {n: first for n, first in living.items() if n not in gone}
            if incarnation is None:
                continue
            if incarnation not in living and incarnation not in closing:
                living[incarnation] = row
                if command != "SUBSCRIBE":
                    found[incarnation_of(row)] = row["seq"]
            if command in ("CLOSE_CONSUMER", "UNSUBSCRIBE"):
                closing.add(incarnation)
                living.pop(incarnation, None)
            elif command != "SUCCESS" and incarnation in closing:  # it stays
                closing.discard(incarnation)
                living[incarnation] = row
    return found


def _consumer(rows: list[Values], episodes: list[Values], doubt: int | None) -> Values:
    flows = [row for row in rows if named(row, "FLOW") and granted(row)]
    messages = [row for row in rows if named(row, "MESSAGE")]
    acks = [row for row in rows if named(row, "ACK")]
    batches = [row["messages"] for row in messages]
    spent = sum(row["permits"] for row in messages)
    unacked = known(row["unacked_messages"] for row in rows)
    at_the_end = _last_told(rows, doubt)
    durations = [episode["duration_us"] for episode in episodes]
    identity = (*IDENTITY, "subscription_type", "client_version")
    return {
        **{name: rows[0][name] for name in identity},
        "receiver_queue_size": _receiver_queue_size(rows),
        "flow_count": len(flows),
        "flow_p50": percentile([flow["permits"] for flow in flows], 50),
        "flow_p99": percentile([flow["permits"] for flow in flows], 99),
        "permits_granted": sum(flow["permits"] for flow in flows),
        "permits_spent": spent,
        "messages": spent,
        "entries": len(messages),
        "bytes": sum(known(row["payload_bytes"] for row in messages)),
        "batch_mean": sum(batches) / len(batches) if batches else None,
        "batch_most": max(batches, default=None),
        "redeliveries": sum(row["permits"] for row in messages if row["redelivery_count"]),
        "acks_individual": sum(ack["ack_type"] == "individual" for ack in acks),
        "acks_cumulative": sum(ack["ack_type"] == "cumulative" for ack in acks),
        "acknowledged": acknowledged_by(acks),
        "starvations": len(durations),
        "starved_us": sum(durations),
        "longest_starved_us": max(durations, default=None),
        "available_permits": at_the_end.get("available_permits"),
        "unacked_messages": at_the_end.get("unacked_messages"),
        "unacked_most": max(unacked, default=None),
        "first_seen": min(row["ts"] for row in rows),
        "last_seen": max(row["ts"] for row in rows),
        "acknowledged_least": acknowledged_least(acks),
        "untold_acks": sum(ack.get("acknowledged_messages") is None for ack in acks),
        "certain": doubt is None,
    }


def _last_told(rows: list[Values], doubt: int | None) -> Values:
    """The last row that tells how it stands, if nothing is missing since then."""
    told = [row for row in rows if row["available_permits"] is not None]
    if not told or (doubt is not None and doubt > told[-1]["seq"]):
        return {}
    return told[-1]


def _receiver_queue_size(rows: list[Values]) -> int | None:
    """Permits of the first FLOW, where it is there; only ones may be a queue of 0 or of 1."""
    flows = [row for row in rows if named(row, "FLOW") and granted(row)]
    first = [f for f in flows if f["flow_gap_us"] is None and f["available_permits"] is not None]
    if not first or all(flow["permits"] == 1 for flow in flows):
        return None
    return int(first[0]["permits"])


def gaps(rows: list[Values], *, exact: bool = True) -> list[Values]:
    """Percentiles of three durations for each incarnation that has any."""
    found = []
    episodes = grouped(stalls(rows), incarnation_of)
    for key, of_one in of_consumers(rows).items():
        flows = [row for row in of_one if named(row, "FLOW") and granted(row)]
        first = any(named(row, "SUBSCRIBE") for row in of_one)  # whose first FLOW has none before
        without = sum(flow["flow_gap_us"] is None for flow in flows)
        untold = {
            "between_flows": max(0, without - first),
            "delivery_to_ack": sum(
                row["ack_delay_us"] is None for row in of_one if named(row, "ACK")
            ),
            "without_permits": sum(
                each["ended_by"] in ("not_known", "end_of_trace") for each in episodes.get(key, [])
            ),
        }
        measures = {
            "between_flows": known(row["flow_gap_us"] for row in of_one if named(row, "FLOW")),
            "delivery_to_ack": known(row["ack_delay_us"] for row in of_one if named(row, "ACK")),
            "without_permits": [each["duration_us"] for each in episodes.get(key, [])],
        }
        for measure, values in measures.items():
            if values:
                identity = {name: of_one[0][name] for name in IDENTITY}
                found.append(
                    {
                        **identity,
                        "measure": measure,
                        **percentiles(values, exact=exact),
                        "untold": untold[measure],
                    }
                )
    return found


def percentiles(values: list[int], *, exact: bool = True) -> Values:
    seen = values if exact else [bucketed(value) for value in values]
    return {
        "count": len(values),
        "p50_us": percentile(seen, 50),
        "p90_us": percentile(seen, 90),
        "p99_us": percentile(seen, 99),
        "max_us": max(values),
        "error": 0.0 if exact else ERROR_OF_BUCKETS,
    }


# --- timeline ---


def timeline(rows: list[Values], bucket_us: int) -> list[Values]:
    """One for each trace, topic and bucket in which a consumer of it did something or was starved.

    A consumer is starved in every bucket that a part of an episode of it lies in: from its start to
    just before its end, and in that of its start in any case.
    """

    def bucket_of(ts: int) -> int:
        return ts // bucket_us * bucket_us

    buckets: dict[tuple[str, str, int], list[Values]] = {}
    for row in rows:
        if row["incarnation"] is not None:
            key = (row["trace_id"], row["topic"], bucket_of(row["ts"]))
            buckets.setdefault(key, []).append(row)
    starved: dict[tuple[str, str, int], set[int]] = {}
    doubts = doubted(rows)
    for episode in stalls(rows):
        last = bucket_of(max(episode["start"], episode["end"] - 1))
        for start in range(bucket_of(episode["start"]), last + 1, bucket_us):
            key = (episode["trace_id"], episode["topic"], start)
            buckets.setdefault(key, [])
            starved.setdefault(key, set()).add(episode["incarnation"])
    return [
        {
            "trace_id": key[0],
            "topic": key[1],
            "start": key[2],
            "bucket_us": bucket_us,
            "delivered": sum(row["permits"] for row in inside if named(row, "MESSAGE")),
            "acknowledged": acknowledged_by([row for row in inside if named(row, "ACK")]),
            "flows": sum(named(row, "FLOW") and granted(row) for row in inside),
            "lowest_available": min(
                known(row["available_permits"] for row in inside), default=None
            ),
            "starved_consumers": len(starved.get(key, ())),
            "acknowledged_least": acknowledged_least([row for row in inside if named(row, "ACK")]),
            "certain": not any(incarnation_of(row) in doubts for row in inside),
        }
        for key, inside in buckets.items()
    ]


# --- subscriptions ---


def subscriptions(rows: list[Values], keys: tuple[str, ...]) -> list[Values]:
    """One for each value of these keys: topic and subscription, perhaps of one trace."""
    groups = grouped(consumers(rows), lambda consumer: tuple(consumer[key] for key in keys))
    return [
        {**dict(zip(keys, key, strict=True)), **_subscription(members)}
        for key, members in groups.items()
    ]


def _subscription(members: list[Values]) -> Values:
    """starved_consumers: for a second at a stretch. Who hoards is told by each name's peak."""
    starved = sum((member["longest_starved_us"] or 0) >= SECOND_US for member in members)
    acknowledged = [member["acknowledged"] for member in members]
    held = [0 if _idle(member) else member["unacked_messages"] for member in members]
    peaks: dict[str, int] = {}
    for member in members:
        name = member["consumer_name"]
        label = f"#{member['incarnation']}" if name is None else name
        if member["unacked_most"] is not None:
            peaks[label] = max(peaks.get(label, 0), member["unacked_most"])
    most, hoarder = max(((peak, label) for label, peak in peaks.items()), default=(0, None))
    if any(member["unacked_most"] is None and member["messages"] for member in members):
        most = 0
    return {
        "consumers": len(members),
        "starved_consumers": starved,
        "starved_share": starved / len(members),
        "starved_us": sum(member["starved_us"] for member in members),
        "stalls": sum(member["starvations"] for member in members),
        "messages": sum(member["messages"] for member in members),
        "acknowledged": None if None in acknowledged else sum(acknowledged),
        "redeliveries": sum(member["redeliveries"] for member in members),
        "unacked_messages": None if None in held else sum(known(held)),
        "hoarder": hoarder if most else None,
        "hoarder_share": most / sum(peaks.values()) if most else None,
        "skew": most * len(peaks) / sum(peaks.values()) if most else None,
        "acknowledged_least": sum(member["acknowledged_least"] for member in members),
        "unacked_least": sum(known(held)),
        "certain": all(member["certain"] for member in members),
    }


def _idle(member: Values) -> bool:
    """Whether it was sent nothing, of all that there was: then it holds nothing."""
    unknown = member["unacked_messages"] is None
    return bool(unknown and member["certain"] and not member["messages"])


# --- holes ---


def holes(rows: list[Values]) -> list[Values]:
    """One for each trace, topic and subscription of which something was delivered."""
    of_subscriptions = grouped(
        (row for row in rows if row["incarnation"] is not None),
        lambda row: (row["trace_id"], row["topic"], row["subscription"]),
    )
    found, doubts = [], doubted(rows)
    for (trace_id, topic, subscription), inside in of_subscriptions.items():
        counts = _holes(inside)
        counts["certain"] = not any(incarnation_of(row) in doubts for row in inside)
        if counts["entries"]:
            identity = {"trace_id": trace_id, "topic": topic, "subscription": subscription}
            found.append({**identity, **counts})
    return found


def _holes(rows: list[Values]) -> Values:
    delivered = {
        (row["ledger_id"], row["entry_id"])
        for row in rows
        if named(row, "MESSAGE") and None not in (row["ledger_id"], row["entry_id"])
    }
    one_by_one: set[Position] = set()  # acknowledged in full by their ids
    partly: set[Position] = set()
    up_to = NOWHERE  # acknowledged with all before it
    for row in rows:
        if not named(row, "ACK") or row["transaction"] is not None:
            continue
        shared = row["subscription_type"] in ("Shared", "Key_Shared")
        for position, in_full in _acknowledged_ids(row):
            if row["ack_type"] == "individual":
                (one_by_one if in_full else partly).add(position)
            elif shared:
                continue  # the broker drops it
            elif in_full:
                up_to = max(up_to, position)
            else:  # the broker goes to the position before it, which is ledger:-1 for entry 0
                up_to = max(up_to, (position[0], position[1] - 1))
                partly.add(position)
    done = {each for each in delivered if each in one_by_one or each <= up_to}
    half = (delivered & partly) - done
    highest = max(up_to, *one_by_one) if one_by_one else up_to
    left = sorted(position for position in delivered - done - half if position < highest)
    return {
        "entries": len(delivered),
        "acknowledged_entries": len(done),
        "holes": len(left),
        "partly_acknowledged": len(half),
        "oldest_hole": _written(left[0] if left else None),
        "highest_acknowledged": _written(None if highest == NOWHERE else highest),
    }


def _acknowledged_ids(ack: Values) -> Iterator[tuple[Position, bool]]:
    """The ids of an ACK, and whether all of the entry is acknowledged: no bit is left."""
    ids = ack["message_ids"]
    if ids is None:
        ids = [(ack["ledger_id"], ack["entry_id"], ack["ack_set"])]
    for ledger_id, entry_id, ack_set in ids:
        if ledger_id is not None and entry_id is not None:
            yield (ledger_id, entry_id), not any(ack_set or b"")


def _written(position: Position | None) -> str | None:
    return None if position is None else f"{position[0]}:{position[1]}"
