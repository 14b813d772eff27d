"""The result of a capture: sentences for people, all counters for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pulsar_doctor.parts.capture.files import INTERFACES_MOST, FileCounts
from pulsar_doctor.parts.capture.following import Totals
from pulsar_doctor.parts.capture.open_connections import CONNECTIONS_MOST, IDLE_NS
from pulsar_doctor.wording.printable import many

TLS = (
    "the traffic with {} is TLS, which packets cannot show: `pulsar-doctor tap` in front of the "
    "client can read it, and `stall-check` asks the broker"
)


def document(
    totals: Totals,
    *,
    rows: int,
    trace_dir: str,
    counts: FileCounts,
    not_written: int = 0,
    mistaken: int = 0,
) -> dict[str, Any]:
    """The document with every number: `pulsar-doctor/capture/1`."""
    return {
        "schema": "pulsar-doctor/capture/1",
        "trace_dir": trace_dir,
        "rows": rows,
        "rows_not_written": not_written,
        "names_taken_back": mistaken,
        "packets": {
            "read": totals.packets,
            "used": totals.segments,
            "of_others": totals.others,
            "fragments": totals.fragments,
            "of_unknown_links": totals.unread_links,
            "dropped_by_kernel": counts.kernel_drops,
            "of_impossible_times": counts.impossible_times,
            "of_too_many_interfaces": counts.beyond_interfaces,
        },
        "connections": {
            "seen": totals.connections,
            "joined_later": totals.joined,
            "not_recognised": totals.unrecognised,
            "not_pulsar": totals.foreign,
            "tls": totals.tls,
            "likely": totals.likely,
            "without_data": totals.mute,
            "gone_idle": totals.gone_idle,
            "too_many": totals.crowded_out,
        },
        "bytes": {
            "seen": totals.seen,
            "used": totals.used,
            "skipped": totals.skipped,
            "missing": totals.lost["missing"],
            "cut_off": totals.lost["snapped"],
            "repeated": totals.repeated,
            "differing": totals.differing,
        },
        "resumed": totals.resumed,
        "joins": {
            "likely": totals.likely_joins,
            "taken_back": totals.retracted,
            "rows_taken_back": totals.retracted_frames,
        },
    }


def lines(document: dict[str, Any]) -> Iterator[str]:
    """The same for a person: what there is, and only then what is missing of it."""
    packets, connections, counted = document["packets"], document["connections"], document["bytes"]
    read = many(connections["seen"], "connection")
    if document["rows"]:
        yield f"{document['rows']:,} rows of {read} are in {document['trace_dir']}"
    else:
        yield f"no rows of {read}, so no trace is kept"
    if connections["joined_later"]:
        yield (
            f"connections that were open before the capture: {connections['joined_later']}; what "
            "their consumers were granted before is known only from rows STATS (--topic, "
            "--admin-url)"
        )
    if connections["not_recognised"]:
        yield (
            f"connections that could not be read: {connections['not_recognised']}; "
            "capture for longer, a minute of little traffic is enough"
        )
    if connections["likely"]:
        yield (
            f"connections with commands that are likely and not proven: {connections['likely']}; "
            "a payload could look like them, so no verdict relies on them alone"
        )
    if connections["not_pulsar"]:
        count = connections["not_pulsar"]
        yield f"connections that are not Pulsar, and are not kept: {count}"
    yield from _let_go(connections)
    missing = [
        (counted["missing"], "bytes are not in the capture"),
        (counted["cut_off"], "bytes were cut off by the snap length: capture with -s 0"),
        (
            counted["skipped"],
            "bytes were skipped until frames could be distinguished from payloads",
        ),
        (counted["differing"], "bytes were sent again with other content: the first were taken"),
        (packets["dropped_by_kernel"], "packets were dropped by the kernel, as the file says"),
        (
            document["rows_not_written"],
            "rows could not be written: the disk or --max-bytes refused them",
        ),
        (
            document["joins"]["rows_taken_back"],
            "likely commands were not commands, and are taken back: rows RETRACTED",
        ),
        (
            document["names_taken_back"],
            "names of consumers were taken back: rows STATS, marked mistaken",
        ),
        (packets["fragments"], "packets are IP fragments, which are not reassembled"),
        (packets["of_unknown_links"], "packets have an unknown link type"),
        (packets["of_impossible_times"], "packets have an impossible time, and were left out"),
        (
            packets["of_too_many_interfaces"],
            f"packets were left out: their interfaces come after the first {INTERFACES_MOST:,}",
        ),
    ]
    for count, what in missing:
        if count:
            yield f"{count:,} {what}"


def _let_go(connections: dict[str, int]) -> Iterator[str]:
    later = "what they send later is read like connections that were open before the capture"
    if connections["without_data"]:
        yield f"connections that sent no data, as in a port scan: {connections['without_data']}"
    if connections["gone_idle"]:
        count, minutes = connections["gone_idle"], IDLE_NS // (60 * 10**9)
        yield f"connections dropped after {minutes} minutes without a packet: {count}; {later}"
    if connections["too_many"]:
        count = connections["too_many"]
        yield f"connections let go since more than {CONNECTIONS_MOST:,} are open: {count}; {later}"
