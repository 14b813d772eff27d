"""Acknowledged ranges as one JSON document, with null for what is not reported."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any, TextIO

from pulsar_doctor.checkup.holes.account import CursorAccount
from pulsar_doctor.checkup.holes.found import Acknowledged
from pulsar_doctor.checkup.holes.held import BrokerCursor
from pulsar_doctor.checkup.holes.origins import Origin
from pulsar_doctor.ledger.acks.persisting import RECORD_BYTES_MOST
from pulsar_doctor.report.holes.lives import life_json
from pulsar_doctor.report.stall_check.document import messages_json
from pulsar_doctor.wording.printable import json_text

SCHEMA = "pulsar-doctor/holes/1"


def write(found: Acknowledged, out: TextIO) -> None:
    """The document, a line for each subscription, then the cursors of the broker's own.

    What became of entries in holes, and what is missing, is written where a trace shows them.
    """
    of_trace = found.source == "trace"
    out.write(f'{{"schema": {json_text(SCHEMA)}, "source": {json_text(found.source)}, ')
    cluster = None if found.cluster is None else asdict(found.cluster)
    out.write(f'"cluster": {json_text(cluster)}, "subscriptions": [')
    for number, each in enumerate(found.accounts):
        out.write(",\n" if number else "\n")
        document = account_json(each)
        if of_trace:
            lives = found.biographies.get(each.key, ())
            document["biographies"] = [life_json(life) for life in lives]
        out.write(json_text(document))
    tail = {
        "cursors": [cursor_json(each) for each in found.cursors],
        "not_loaded": list(found.not_loaded),
        "unreachable": [{"topic": topic, "reason": why} for topic, why in found.unreachable],
        **({"notes": list(found.notes)} if of_trace else {}),
    }
    out.write(f"\n], {json_text(tail)[1:]}\n")
    out.flush()


def cursor_json(cursor: BrokerCursor) -> dict[str, Any]:
    """One of the document's cursors; `held_` is what no subscription needs."""
    account, held = cursor.account, cursor.held
    return {
        "topic": account.topic,
        "partition": account.partition,
        "cursor": account.subscription,
        "kind": cursor.owner.kind,
        "of": cursor.owner.of,
        "connected": cursor.connected,
        "status": account.status,
        "held_ledgers": None if held is None else held.ledgers,
        "held_bytes": None if held is None else held.bytes,
        "held_ledgers_alone": None if held is None else held.alone,
        "held_bytes_alone": None if held is None else held.bytes_alone,
        "held_with": [] if held is None else list(held.others),
        **_behind(account),
        **_certain(account),
        **_cost(account),
        "moves": cursor.moves,
        "practice": cursor.practice,
        "not_told": list(account.unknowns),
    }


def account_json(account: CursorAccount) -> dict[str, Any]:
    """One of the document's subscriptions."""
    return {
        "topic": account.topic,
        "partition": account.partition,
        "subscription": account.subscription,
        "type": account.type,
        "durable": account.durable,
        "status": account.status,
        "backlog": account.backlog,
        "backlog_by_positions": account.backlog_by_positions,
        "backlog_counter_wrong": account.backlog_wrong,
        "ack_hole": account.stuck,
        **_behind(account),
        **_certain(account),
        **_cost(account),
        "origin": account.origin,
        "origins": [_origin(origin) for origin in account.origins],
        "not_told": list(account.unknowns),
    }


def _behind(account: CursorAccount) -> dict[str, Any]:
    shape, oldest = account.shape, account.oldest_hole
    return {
        "mark_delete": _at(account.mark_delete),
        "mark_delete_stood_seconds": None if account.stood is None else account.stood.ms / 1000,
        "mark_delete_stood_at_least": None if account.stood is None else not account.stood.exact,
        "read_position": _at(account.read_position),
        "ranges": account.ranges,
        "acknowledged_entries": account.acknowledged_entries,
        "holes": account.holes,
        "hole_entries": account.hole_entries,
        "hole_entries_not_sent": None if shape is None else shape.hole_entries[1],
        "oldest_hole": None if oldest is None else [_at(oldest[0]), _at(oldest[1])],
        "account": messages_json(account.messages),
    }


def _certain(account: CursorAccount) -> dict[str, Any]:
    """What surely holds; without doubts least and most are the number itself."""
    between = account.between
    counts = ("ranges", "acknowledged_entries", "holes", "hole_entries")
    bounds: dict[str, tuple[Any, Any]] = {name: getattr(between, name) for name in counts}
    for name, positions in (
        ("mark_delete", between.mark_delete),
        ("oldest_hole_begin", between.oldest_hole),
    ):
        bounds[name] = _at(positions[0]), _at(positions[1])
    sides = ("least", 0), ("most", 1)
    return {f"{name}_{side}": each[at] for name, each in bounds.items() for side, at in sides}


def _cost(account: CursorAccount) -> dict[str, Any]:
    ahead, pinned, storing = account.forecast, account.pinned, account.storing
    stored = {True: "bit arrays", False: "ranges"}
    return {
        "persisted_limit": storing.limit,
        "persisted_limit_assumed": storing.max_ranges is None,
        "share_of_limit": account.share_of_limit,
        "stored_as": None if storing.bit_arrays is None else stored[storing.bit_arrays],
        "record_bytes": account.record_bytes,
        "record_bytes_told": account.record_known,
        "record_bytes_limit": RECORD_BYTES_MOST,
        "redelivered_at_load": None if ahead is None else ahead.entries,
        "redelivered_at_load_least": None if ahead is None else ahead.least,
        "redelivered_at_load_most": None if ahead is None else ahead.most,
        "pinned_ledgers": None if pinned is None else pinned.ledgers,
        "pinned_bytes": None if pinned is None else pinned.bytes,
        "pinned_bytes_without_oldest_hole": None if pinned is None else pinned.without_oldest,
        "pinned_bytes_without_holes": None if pinned is None else pinned.without_any,
    }


def _origin(origin: Origin) -> dict[str, Any]:
    return {
        "origin": origin.code,
        "entries_least": origin.least,
        "entries_most": origin.most,
        "because": origin.because,
        "practice": origin.practice,
    }


def _at(position: tuple[int, int] | None) -> str | None:
    return None if position is None else f"{position[0]}:{position[1]}"
