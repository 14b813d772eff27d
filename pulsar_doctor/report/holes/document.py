"""Acknowledged ranges as one JSON document, with null for what is not reported."""

from __future__ import annotations

from typing import Any, TextIO

from pulsar_doctor.checkup.holes.account import CursorAccount
from pulsar_doctor.checkup.holes.found import Acknowledged
from pulsar_doctor.checkup.holes.held import BrokerCursor
from pulsar_doctor.checkup.holes.origins import Origin
from pulsar_doctor.ledger.acks.biographies import Biography
from pulsar_doctor.ledger.acks.persisting import RECORD_BYTES_MOST
from pulsar_doctor.report.documents import SHAPES, each_as, fields
from pulsar_doctor.report.stall_check.document import as_json
from pulsar_doctor.report.trace.rows import iso
from pulsar_doctor.wording.printable import json_text

SCHEMA = "pulsar-doctor/holes/1"
COUNTS = ("ranges", "acknowledged_entries", "holes", "hole_entries")
CERTAIN = {name: name for name in (*COUNTS, "mark_delete")} | {"oldest_hole_begin": "oldest_hole"}
STORED = {True: "bit arrays", False: "ranges", None: None}


def write(found: Acknowledged, out: TextIO) -> None:
    """The document, a line for each subscription, then the cursors of the broker's own.

    What became of entries in holes, and what is missing, is written where a trace shows them.
    """
    of_trace = found.source == "trace"
    out.write(f'{{"schema": {json_text(SCHEMA)}, "source": {json_text(found.source)}, ')
    out.write(f'"cluster": {json_text(as_json(found.cluster))}, "subscriptions": [')
    for number, each in enumerate(found.accounts):
        out.write(",\n" if number else "\n")
        lives = {"biographies": as_json(found.biographies.get(each.key, ()))} if of_trace else {}
        out.write(json_text(as_json(each) | lives))
    tail = {
        "cursors": as_json(found.cursors),
        "not_loaded": list(found.not_loaded),
        "unreachable": [{"topic": topic, "reason": why} for topic, why in found.unreachable],
        **({"notes": list(found.notes)} if of_trace else {}),
    }
    out.write(f"\n], {json_text(tail)[1:]}\n")
    out.flush()


def _at(value: Any) -> Any:
    """A position as one text."""
    return "{}:{}".format(*value) if isinstance(value, tuple) else value


def _certain(account: CursorAccount) -> dict[str, Any]:
    """What surely holds; without doubts least and most are the number itself."""
    return {
        f"{name}_{side}": _at(bound)
        for name, field in CERTAIN.items()
        for side, bound in zip(("least", "most"), getattr(account.between, field), strict=True)
    }


BEHIND = fields(
    "mark_delete mark_delete_stood_seconds=stood.seconds mark_delete_stood_at_least read_position"
    " ranges acknowledged_entries holes hole_entries hole_entries_not_sent oldest_hole"
    " account=messages *certain persisted_limit=storing.limit persisted_limit_assumed"
    " share_of_limit stored_as record_bytes record_bytes_told=record_known record_bytes_limit"
    " redelivered_at_load=forecast.entries redelivered_at_load_least=forecast.least"
    " redelivered_at_load_most=forecast.most pinned_ledgers=pinned.ledgers"
    " pinned_bytes=pinned.bytes pinned_bytes_without_oldest_hole=pinned.without_oldest"
    " pinned_bytes_without_holes=pinned.without_any",
    certain=_certain,
    **each_as(_at, "mark_delete read_position"),
    mark_delete_stood_at_least=lambda of: of.stood and not of.stood.exact,
    hole_entries_not_sent=lambda of: of.shape and of.shape.hole_entries[1],
    oldest_hole=lambda of: of.oldest_hole and [*map(_at, of.oldest_hole)],
    persisted_limit_assumed=lambda of: of.storing.max_ranges is None,
    stored_as=lambda of: STORED[of.storing.bit_arrays],
    record_bytes_limit=lambda of: RECORD_BYTES_MOST,
)
SHAPES |= {
    CursorAccount: fields(
        "topic partition subscription type durable status backlog backlog_by_positions"
        " backlog_counter_wrong=backlog_wrong ack_hole=stuck *behind origin origins"
        " not_told=unknowns",
        behind=BEHIND,
    ),
    BrokerCursor: fields(  # `held_` is what no subscription needs
        "topic=account.topic partition=account.partition cursor=account.subscription"
        " kind=owner.kind of=owner.of connected status=account.status held_ledgers=held.ledgers"
        " held_bytes=held.bytes held_ledgers_alone=held.alone held_bytes_alone=held.bytes_alone"
        " held_with *behind moves practice not_told=account.unknowns",
        held_with=lambda of: of.held.others if of.held else [],
        behind=lambda of: BEHIND(of.account),
    ),
    Origin: fields("origin=code entries_least=least entries_most=most because practice"),
    Biography: fields(
        "entry first_delivered first_consumer deliveries last_delivered last_consumer acknowledged"
        " acknowledged_by open_messages",
        entry=lambda of: f"{of.ledger_id}:{of.entry_id}",
        **each_as(iso, "first_delivered=first_delivered_us last_delivered=last_delivered_us"),
        **each_as(iso, "acknowledged=acknowledged_us"),
    ),
}
