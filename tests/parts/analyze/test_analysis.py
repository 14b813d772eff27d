"""What analyze prints: the worst of each table at any width, and all of it as JSON."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from rich.cells import cell_len
from rich.console import Console

from pulsar_doctor.diagnosis.status import FailOn, Status
from pulsar_doctor.parts.analyze.analysis import TABLES, Analysis, LeftOut
from pulsar_doctor.parts.analyze.report.analysis import Drawing, Growing, analysis_json, report
from pulsar_doctor.parts.analyze.report.over_time import steps
from pulsar_doctor.parts.analyze.verdicts import TraceVerdict
from pulsar_doctor.report.charts import ASCII, NOTHING, UNICODE, UNKNOWN, bar, blocks, stretch
from pulsar_doctor.report.paper import console_on
from tests.report.checkups import suspected, verdict

START = datetime(2026, 8, 1, 12, 0, tzinfo=UTC)
SECOND = 1_000_000
ORDERS = "persistent://public/default/orders"
STR, INT, FLOAT, TS, BOOL = (str,), (int,), (float,), (datetime,), (bool,)
# table -> column -> its types; a column in NULLABLE may be null.
TYPES: dict[str, dict[str, tuple[type, ...]]] = {
    "consumers": {
        "trace_id": STR, "incarnation": INT, "topic": STR, "subscription": STR,
        "subscription_type": STR, "consumer_name": STR, "client_version": STR,
        "receiver_queue_size": INT, "flow_count": INT, "flow_p50": INT, "flow_p99": INT,
        "permits_granted": INT, "permits_spent": INT, "messages": INT, "entries": INT,
        "bytes": INT, "batch_mean": FLOAT, "batch_most": INT, "redeliveries": INT,
        "acks_individual": INT, "acks_cumulative": INT, "acknowledged": INT, "starvations": INT,
        "starved_us": INT, "longest_starved_us": INT, "available_permits": INT,
        "unacked_messages": INT, "unacked_most": INT, "first_seen": TS, "last_seen": TS,
        "acknowledged_least": INT, "untold_acks": INT, "certain": BOOL,
    },
    "gaps": {
        "trace_id": STR, "incarnation": INT, "topic": STR, "subscription": STR,
        "consumer_name": STR, "measure": STR, "count": INT, "p50_us": INT, "p90_us": INT,
        "p99_us": INT, "max_us": INT, "error": FLOAT, "untold": INT,
    },
    "stalls": {
        "trace_id": STR, "incarnation": INT, "topic": STR, "subscription": STR,
        "consumer_name": STR, "start": TS, "end": TS, "duration_us": INT, "ended_by": STR,
        "unacked_at_start": INT, "available_lowest": INT, "acknowledged": INT, "code": STR,
        "severity": STR, "acknowledged_least": INT,
    },
    "timeline": {
        "start": TS, "delivered": INT, "acknowledged": INT, "flows": INT,
        "lowest_available": INT, "starved_consumers": INT, "acknowledged_least": INT,
        "certain": BOOL,
    },
    "subscriptions": {
        "topic": STR, "subscription": STR, "consumers": INT, "starved_consumers": INT,
        "starved_share": FLOAT, "starved_us": INT, "stalls": INT, "messages": INT,
        "acknowledged": INT, "redeliveries": INT, "unacked_messages": INT, "hoarder": STR,
        "hoarder_share": FLOAT, "skew": FLOAT, "acknowledged_least": INT, "unacked_least": INT,
        "certain": BOOL,
    },
    "holes": {
        "trace_id": STR, "topic": STR, "subscription": STR, "entries": INT,
        "acknowledged_entries": INT, "holes": INT, "partly_acknowledged": INT,
        "oldest_hole": STR, "highest_acknowledged": STR, "certain": BOOL,
    },
}  # fmt: skip
NULLABLE = {
    "consumers": {
        "topic", "subscription", "subscription_type", "consumer_name", "client_version",
        "receiver_queue_size", "flow_p50", "flow_p99", "batch_mean", "batch_most", "acknowledged",
        "longest_starved_us", "available_permits", "unacked_messages", "unacked_most",
    },
    "gaps": {"topic", "subscription", "consumer_name"},
    "stalls": {
        "topic", "subscription", "consumer_name", "unacked_at_start", "acknowledged", "code",
        "severity",
    },
    "timeline": {"acknowledged", "lowest_available"},
    "subscriptions": {
        "acknowledged", "unacked_messages", "hoarder", "hoarder_share", "skew",
    },
    "holes": {"oldest_hole", "highest_acknowledged"},
}  # fmt: skip


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def consumer(incarnation: int = 1, **values: Any) -> dict[str, Any]:
    return {
        "trace_id": "t1", "incarnation": incarnation, "topic": ORDERS, "subscription": "billing",
        "subscription_type": "Shared", "consumer_name": "slow", "client_version": "C++ 3.7.0",
        "receiver_queue_size": 1000, "flow_count": 3, "flow_p50": 500, "flow_p99": 1000,
        "permits_granted": 2000, "permits_spent": 2000, "messages": 2000, "entries": 20,
        "bytes": 1_048_576, "batch_mean": 100.0, "batch_most": 100, "redeliveries": 0,
        "acks_individual": 1200, "acks_cumulative": 0, "acknowledged": 1200, "starvations": 3,
        "starved_us": 1080 * SECOND, "longest_starved_us": 900 * SECOND, "available_permits": 0,
        "unacked_messages": 800, "unacked_most": 1000, "first_seen": at(0),
        "last_seen": at(1800), "acknowledged_least": 1200, "untold_acks": 0, "certain": True,
        **values,
    }  # fmt: skip


def stall(incarnation: int = 1, **values: Any) -> dict[str, Any]:
    return {
        "trace_id": "t1", "incarnation": incarnation, "topic": ORDERS, "subscription": "billing",
        "consumer_name": "slow", "start": at(900), "end": at(1800), "duration_us": 900 * SECOND,
        "ended_by": "end_of_trace", "unacked_at_start": 1000, "available_lowest": 0,
        "acknowledged": 200, "code": "permits-exhausted", "severity": "stalled",
        "acknowledged_least": 200,
        **values,
    }  # fmt: skip


def gap(measure: str, incarnation: int = 1, **values: Any) -> dict[str, Any]:
    return {
        "trace_id": "t1", "incarnation": incarnation, "topic": ORDERS, "subscription": "billing",
        "consumer_name": "slow", "measure": measure, "count": 3, "p50_us": 1450, "p90_us": 150_000,
        "p99_us": 900 * SECOND, "max_us": 900 * SECOND, "error": 0.0, "untold": 0,
        **values,
    }  # fmt: skip


def bucket(number: int, **values: Any) -> dict[str, Any]:
    return {
        "start": at(number * 10), "delivered": 100, "acknowledged": 50, "flows": 1,
        "lowest_available": 3, "starved_consumers": 0, "acknowledged_least": 50, "certain": True,
        **values,
    }  # fmt: skip


def subscription(**values: Any) -> dict[str, Any]:
    return {
        "topic": ORDERS, "subscription": "billing", "consumers": 4, "starved_consumers": 1,
        "starved_share": 0.25, "starved_us": 1080 * SECOND, "stalls": 3, "messages": 12_000,
        "acknowledged": 11_200, "redeliveries": 7, "unacked_messages": 803, "hoarder": "slow",
        "hoarder_share": 0.9963, "skew": 3.985, "acknowledged_least": 11_200,
        "unacked_least": 803, "certain": True,
        **values,
    }  # fmt: skip


def hole(**values: Any) -> dict[str, Any]:
    return {
        "trace_id": "t1", "topic": ORDERS, "subscription": "billing", "entries": 120,
        "acknowledged_entries": 110, "holes": 2, "partly_acknowledged": 1,
        "oldest_hole": "17:3", "highest_acknowledged": "17:119", "certain": True,
        **values,
    }  # fmt: skip


def analysis(**values: Any) -> Analysis:
    told = {
        "events": 24_310, "traces": 1, "first": START, "last": at(1800), "bucket_seconds": 10.0,
        **values,
    }  # fmt: skip
    return Analysis(**told)


EMPTY = Analysis(0, 0, None, None, None)


def ended(status: Status = "stalled", **more: Any) -> TraceVerdict:
    """What is judged of a subscription where its trace ends."""
    us = round(at(1800).timestamp() * SECOND)
    return TraceVerdict(more.pop("trace_id", "t1"), us, verdict(status, **more))


def full(**values: Any) -> Analysis:
    """Half an hour in which one of four consumers stands still from the 15th minute on."""
    fast = [
        consumer(
            n, consumer_name=f"fast-{n}", starvations=0, starved_us=0, longest_starved_us=None,
            available_permits=900, unacked_messages=1,
        )
        for n in (2, 3, 4)
    ]  # fmt: skip
    told = {
        "consumers": [consumer(), *fast],
        "gaps": [
            gap("without_permits"),
            gap("delivery_to_ack", count=1200),
            gap("delivery_to_ack", 2, consumer_name="fast-2", p50_us=850, p99_us=5 * SECOND),
            gap("between_flows", 2, consumer_name="fast-2", error=0.0078125),
        ],
        "stalls": [
            stall(),
            stall(
                start=at(60), end=at(230), duration_us=170 * SECOND, ended_by="flow",
                code="slow-but-progressing", severity="warning",
            ),
            stall(
                start=at(300), end=at(310), duration_us=10 * SECOND, ended_by="reconnect",
                code=None, severity=None, unacked_at_start=None, acknowledged=None,
            ),
        ],
        "timeline": [
            bucket(n, delivered=200 - n, lowest_available=-n if n > 90 else 5,
                   starved_consumers=int(n >= 90 or 6 <= n < 23))
            for n in range(180) if not 40 <= n < 50
        ],
        "subscriptions": [subscription()],
        "holes": [hole()],
        "verdicts": [ended(), ended("healthy", subscription="audit")],
        "totals": {"stalls": 3},
        "percentile_error": 0.0078125,
    }  # fmt: skip
    return analysis(**{**told, **values})


def drawn(drawing: Drawing, width: int = 120, encoding: str = "utf-8", **console: Any) -> list[str]:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, newline="\n")
    Console(file=out, width=width, highlight=False, **console).print(drawing)
    out.seek(0)
    return [line.rstrip() for line in out.read().splitlines()]


def test_in_a_pipe_no_line_is_padded_or_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    out, name = io.StringIO(), "x" * 190
    console_on(out).print(report(full(subscriptions=[subscription(topic=name)])))
    lines = out.getvalue().splitlines()
    assert [line for line in lines if line != line.rstrip()] == []
    assert [line for line in lines if name in line]
    assert max(len(line) for line in lines if line.startswith("  delivered")) <= 220


WHOLE = """
24,310 events of 1 trace, from 2026-08-01 12:00:00 to 12:30:00 UTC, 4 consumer incarnations
✖ STALLED  1 stalled, 1 healthy at the end; 3 times without permits: 1 stalled, 1 warning, 1
without a finding

Verdicts  who is not healthy where its trace ends, as `stall-check --trace` says
  verdict     subscription on topic   cause                           at
  ────────────────────────────────────────────────────────────────────────────
  ✖ STALLED   billing on orders       permits-exhausted of worker-3   12:30:00

Timeline  what happened when, over all topics
  delivered     █████████▇▇▇▇▃  ▃▆▆▆▆▆▆▆▆▅▅▅▅▅▅▅▅▅▄▄▄▄▄▄▄▄▃▃▃▃▃▃▃▃▂▂▂▂▂▂▂▂▂▁  597
  acknowledged  █████████████▃  ▃███████████████████████████████████████████  150
  FLOWs         █████████████▃  ▃███████████████████████████████████████████  3
  starved       ··██████······  ··············██████████████████████████████  ≥ 1
                12:00:00                                            12:30:00
  each sign is 30 s; on the right, the highest number of a sign
  lowest available permits of a consumer: -179, first in the 10 s from 12:29:50

Stalls  each time a consumer had no permits: the broker could send it nothing
                           consumer,                               lasted,
  cause                    subscription on topic   from           ended by
  ────────────────────────────────────────────────────────────────────────
  ✖ permits-exhausted      slow #1                 12:15:00       ≥ 15 min
                           billing on orders                  end of trace
  ▲ slow-but-progressing   slow #1                 12:01:00       2.83 min
                           billing on orders                          FLOW
  -                        slow #1                 12:05:00           10 s
                           billing on orders                     reconnect

Subscriptions  time without permits, summed over the consumers of each
                          without   consumers
  subscription on topic   permits     starved   redelivered   unacked   who holds most
  ────────────────────────────────────────────────────────────────────────────────────
  billing on orders        18 min      1 of 4             7       803   slow >99 %

Consumers  each incarnation: its time without permits, and what it was given
  consumer,               without                         permits   unacked
  subscription on topic   permits   of its time   times       now       now   messages
  ────────────────────────────────────────────────────────────────────────────────────
  slow #1                  18 min   ██████····        3         0       800      2,000
  billing on orders
  fast-2 #2                     -   ··········        0       900         1      2,000
  billing on orders
  fast-3 #3                     -   ··········        0       900         1      2,000
  billing on orders
  fast-4 #4                     -   ··········        0       900         1      2,000
  billing on orders

Gaps  how long things took, per consumer; percentiles are exact or within 0.8 %
  time without permits
  consumer,
  subscription on topic   count       p50      p90      p99      max   error
  ──────────────────────────────────────────────────────────────────────────
  slow #1                     3   1.45 ms   150 ms   15 min   15 min   exact
  billing on orders
  from delivery to ack
  consumer,
  subscription on topic   count       p50      p90      p99      max   error
  ──────────────────────────────────────────────────────────────────────────
  slow #1                 1,200   1.45 ms   150 ms   15 min   15 min   exact
  billing on orders
  fast-2 #2                   3    850 µs   150 ms      5 s   15 min   exact
  billing on orders
  between FLOWs
  consumer,
  subscription on topic   count       p50      p90      p99      max   error
  ─────────────────────────────────────────────────────────────────────────────────
  fast-2 #2                   3   1.45 ms   150 ms   15 min   15 min   within 0.8 %
  billing on orders

Holes  entries delivered and never acknowledged, although later ones were
                                                                  entries   entries
  subscription on topic   holes   oldest hole   highest acked   delivered     acked
  ─────────────────────────────────────────────────────────────────────────────────
  billing on orders           2   17:3          17:119                120       110
"""


def test_a_whole_report() -> None:
    assert drawn(report(full()), 92) == WHOLE.strip("\n").split("\n")


def test_each_table_is_printed_as_soon_as_it_is_there() -> None:
    out, whole, totals = io.StringIO(), full(), dict[str, int]()
    growing = Growing(Console(file=out, width=92), top=10)
    printed = {}
    for table in ("stalls", "consumers", "holes", "timeline", "subscriptions", "gaps"):
        totals[table] = whole.total(table)
        growing.show(replace(whole, totals=dict(totals)))
        printed[table] = [line.split("  ")[0] for line in out.getvalue().split("\n\n")[1:]]
    assert printed["stalls"] == []
    assert printed["consumers"] == printed["holes"] == ["Verdicts"]
    assert printed["timeline"] == ["Verdicts", "Timeline", "Stalls"]
    assert printed["subscriptions"][3:] == ["Subscriptions", "Consumers"]
    assert printed["gaps"][5:] == ["Gaps", "Holes"]
    lines = [line.rstrip() for line in out.getvalue().rstrip().split("\n")]
    assert lines == drawn(report(whole), 92)


def test_without_events_nothing_is_claimed() -> None:
    assert drawn(report(EMPTY)) == [
        "0 events of 0 traces, 0 consumer incarnations",
        "nothing was recorded, so nothing can be said",
    ]


def test_what_is_empty_says_so_in_one_line() -> None:
    assert drawn(report(analysis())) == [
        "24,310 events of 1 trace, from 2026-08-01 12:00:00 to 12:30:00 UTC, 0 consumer"
        " incarnations",
        "? UNKNOWN  nothing could be judged; no consumer was ever without permits",
        "",
        "Timeline  nothing happened that is counted over time",
        "",
        "Stalls  no consumer was ever without permits",
        "",
        "Subscriptions  no consumer of a subscription was seen",
        "",
        "Consumers  no consumer was seen",
        "",
        "Gaps  no time between two events is known",
        "",
        "Holes  no entry was left behind: none is unacknowledged before an acknowledged one",
    ]


Severities = Sequence[str | None]


@pytest.mark.parametrize(
    ("ends", "severities", "status", "codes"),
    [
        ([], [], "unknown", {"stalled": 3, "warning": 3, "never": 3}),
        (["healthy"], [], "healthy", {"stalled": 0, "warning": 0, "never": 0}),
        (["healthy"], [None, "warning"], "healthy", {"stalled": 0, "warning": 3, "never": 0}),
        (["healthy"], ["stalled"], "unknown", {"stalled": 3, "warning": 3, "never": 3}),
        (["warning", "healthy"], [], "warning", {"stalled": 0, "warning": 1, "never": 0}),
        (["warning"], ["stalled"], "warning", {"stalled": 3, "warning": 1, "never": 0}),
        (["unknown", "warning"], [], "unknown", {"stalled": 3, "warning": 1, "never": 3}),
        (["unknown", "stalled"], [], "stalled", {"stalled": 1, "warning": 1, "never": 3}),
    ],
)
def test_the_status_is_that_of_the_ends_and_what_is_over_only_forbids_a_green(
    ends: list[Status], severities: Severities, status: Status, codes: dict[FailOn, int]
) -> None:
    stalls = [stall(severity=each, ended_by="flow") for each in severities]
    found = analysis(verdicts=[ended(each) for each in ends], stalls=stalls)
    assert found.status == status
    assert {fail_on: found.exit_code(fail_on) for fail_on in codes} == codes
    accepted = {fail_on: found.exit_code(fail_on, accept="all") for fail_on in codes}
    assert accepted == {fail_on: 0 if code == 3 else code for fail_on, code in codes.items()}
    lines = drawn(report(found))
    assert f" {status.upper()}  " in lines[1]
    over = status == "unknown" and "stalled" in severities
    assert lines[2].startswith("a time without permits was as long as a stall") == over


def test_what_could_not_be_judged_forbids_a_green() -> None:
    found = analysis(verdicts=[ended("healthy")], all_judged=False, notes=["x is not judged"])
    assert (found.status, found.exit_code("never")) == ("unknown", 3)
    assert "note: x is not judged" in drawn(report(found))
    assert replace(found, verdicts=[ended(), ended("healthy")]).exit_code("stalled") == 1


def test_only_the_worst_are_counted_by_kind_where_only_they_are_there() -> None:
    found = analysis(stalls=[stall(), stall(severity=None, code=None)], totals={"stalls": 312})
    told = "312 times without permits: 1 stalled, 1 without a finding (of the worst 2)"
    assert drawn(report(found))[1] == f"? UNKNOWN  nothing could be judged; {told}"


def many(number: int) -> Analysis:
    """So many rows of everything; of the stalls, there were a million."""
    return analysis(
        traces=2,
        consumers=[consumer(n) for n in range(number)],
        gaps=[gap("between_flows", n) for n in range(number)],
        stalls=[stall(n) for n in range(number)],
        timeline=[bucket(n) for n in range(number)],
        subscriptions=[subscription(subscription=f"s{n}") for n in range(number)],
        holes=[hole(subscription=f"s{n}") for n in range(number)],
        verdicts=[ended(subscription=f"s{n}") for n in range(number)],
        totals={"stalls": 1_000_000},
    )


def test_of_thousands_the_first_are_shown_and_the_rest_counted() -> None:
    lines = drawn(report(many(5000), top=3), 200)
    assert len(lines) < 77
    assert [line for line in lines if "more" in line] == [
        "  … and 4,997 more: -o json or --save",
        "  … and 999,997 more: -o json or --save",
        *["  … and 4,997 more: -o json or --save"] * 4,
    ]
    shown = [line.split()[0] for line in lines if re.match(r"  s\d", line)]
    assert shown == ["s0", "s1", "s2"] * 2


def test_no_rows_wanted_are_no_rows_shown() -> None:
    lines = drawn(report(many(2), top=0))
    assert "  … and 1,000,000 more: -o json or --save" in lines
    assert not any("slow #" in line for line in lines)


def test_one_row_of_each() -> None:
    lines = drawn(report(many(1)), 200)
    assert sum("slow #0" in line for line in lines) == 3
    assert "  delivered     █  100" in lines


def test_the_trace_is_named_where_there_are_several() -> None:
    assert any("trace" in line.split() for line in drawn(report(many(1)), 200)[5:])
    assert not any("t1" in line for line in drawn(report(full()), 200))


def with_nulls() -> Analysis:
    def blank(table: str, row: dict[str, Any]) -> dict[str, Any]:
        return {**row, **dict.fromkeys(NULLABLE[table])}

    return analysis(
        consumers=[blank("consumers", consumer(acknowledged_least=0))],
        gaps=[blank("gaps", gap("without_permits"))],
        stalls=[blank("stalls", stall(acknowledged_least=0))],
        timeline=[blank("timeline", bucket(n)) for n in range(3)],
        subscriptions=[blank("subscriptions", subscription(acknowledged_least=0))],
        holes=[blank("holes", hole())],
    )


def test_times_too_short_to_be_rows_are_told_in_a_line() -> None:
    brief = [{"below_us": 1000, "count": 18_829, "total_us": 9}, {"below_us": 10**6, "count": 1}]
    told = "18,830 times shorter than 1 s without a finding (18,829 below 1 ms, 1 below 1 s)"
    for stalls in ([], [stall()]):
        found = analysis(stalls=stalls, brief_stalls=brief, stall_floor_seconds=1.0)
        assert any(told in line for line in drawn(report(found), 200))


def test_what_was_asked_for_is_told_behind_the_first_line() -> None:
    lines = drawn(report(analysis(since=START, topic="orders")))
    assert lines[1].rstrip() == "selected: since 2026-08-01T12:00:00.000000Z, topic orders"
    assert "asked for" not in "".join(drawn(report(analysis())))


def test_a_trace_that_was_left_out_is_told_on_top() -> None:
    lines = drawn(report(analysis(left_out=[LeftOut("/t/x.ptrace", "/t/x.ptrace is damaged")])))
    assert "left out: /t/x.ptrace is damaged" in lines[:4]


def test_what_is_told_of_a_part_only_is_at_least_so_much() -> None:
    partly = subscription(acknowledged=None, acknowledged_least=467, certain=False)
    lines = drawn(report(analysis(subscriptions=[partly])), 250)
    cells = cells_of(lines, "Subscriptions")
    assert [cell for cell in cells if cell.startswith("≥")] == ["≥ 12,000", "≥ 467", "≥ 7"]


def test_what_is_not_told_is_never_zero() -> None:
    lines = drawn(report(with_nulls()), 250)
    assert "  acknowledged  ???  ?" in lines
    assert "  lowest available permits of a consumer: not reported" in lines
    assert cells_of(lines, "Holes") == ["billing on orders", "2", "?", "?", "120", "110", "1"]
    assert cells_of(lines, "Subscriptions") == [
        "billing on orders", "18 min", "1 of 4", "██········", "3", "12,000", "?", "7", "?", "-",
        "?",
    ]  # fmt: skip
    assert cells_of(lines, "Consumers") == [
        "#1", "18 min", "██████····", "3", "?", "?", "?", "?", "3", "?", "2,000", "?", "0",
        "1,200 + 0", "20", "1,048,576",
    ]  # fmt: skip
    assert cells_of(lines, "Stalls") == ["-", "#1", "12:15:00", "≥ 15 min", "········████████",
                                         "?", "?", "0"]  # fmt: skip


def cells_of(lines: list[str], title: str) -> list[str]:
    """The first row of a table."""
    start = next(number for number, line in enumerate(lines) if line.startswith(title))
    rule = next(n for n, line in enumerate(lines) if n > start and line.startswith("  ──"))
    return [cell.strip() for cell in lines[rule + 1].split("   ") if cell.strip()]


HOSTILE = [
    "[bold red]not markup[/bold red]",
    "[/nothing] [link=https://example.org]x",
    "\x1b[31mred\x1b[0m\a",
    "two\nlines\r\t",
    "\u202eback to front",
    "日本語の消費者の名前です" * 4,
    "x" * 5000,
    "half \ud800 a character",
    "",
]
WIDTHS = [20, 40, 59, 60, 80, 120, 200]


def hostile(name: str) -> Analysis:
    names = {"topic": f"persistent://{name}", "subscription": name}
    who = {**names, "consumer_name": name}
    return analysis(
        traces=2,
        consumers=[consumer(trace_id=name, **who)],
        gaps=[gap(name, trace_id=name, **who)],
        stalls=[stall(trace_id=name, code=name, ended_by=name, **who)],
        timeline=[bucket(0)],
        subscriptions=[subscription(hoarder=name, **names)],
        holes=[hole(oldest_hole="1" * 15, **names)],
        notes=[f"{name} could not be read"],
        verdicts=[ended(subscription=name, topic=f"persistent://{name}", trace_id=name)],
    )


@pytest.mark.parametrize("width", WIDTHS)
def test_hostile_names_are_shown_and_nothing_else(width: int) -> None:
    for name in HOSTILE:
        lines = drawn(report(hostile(name)), width)
        assert all(cell_len(line) <= width for line in lines), name
        assert all(line.isprintable() for line in lines), name


def test_markup_in_a_name_is_text() -> None:
    text = "\n".join(drawn(report(hostile(HOSTILE[0])), 250))
    assert text.count("[bold red]not markup[/bold red]") > 10


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("found", [full(), many(30), with_nulls()], ids=["full", "many", "nulls"])
def test_no_line_is_wider_than_the_terminal(found: Analysis, width: int) -> None:
    assert max(map(cell_len, drawn(report(found), width))) <= width


@pytest.mark.parametrize("width", [56, 60, 64, 70, 80])
def test_no_letter_of_a_cause_is_lost_where_columns_have_no_room(width: int) -> None:
    name = "a-long-name-of-a-subscription"
    found = analysis(verdicts=[replace(ended(), diagnosis=suspected(name))])
    lines = drawn(report(found), width)
    first = next(number for number, line in enumerate(lines) if line.startswith("Verdicts"))
    rows = lines[first + 1 : lines.index("", first)]
    letters = Counter("".join(rows))
    cause = "likely key-shared-blocked of ks-stuck (70%)"
    assert not Counter(f"{name} on orders{cause}".replace(" ", "")) - letters
    assert max(map(cell_len, rows)) <= width


@pytest.mark.parametrize("width", WIDTHS[1:])
def test_no_number_is_cut_or_broken_at_any_width(width: int) -> None:
    lines = drawn(report(full(holes=[hole(holes=123_456_789_012)])), width)
    assert any("123,456,789,012" in line for line in lines)
    assert any("billing on" in line for line in lines)
    if width >= 40:
        assert not any("…" in line for line in lines)


def test_a_terminal_without_unicode_needs_no_escapes() -> None:
    lines = drawn(report(many(20)), 120, encoding="ascii")
    assert all(line.isascii() for line in lines)
    assert lines[1].startswith("X STALLED")
    assert "  ... and 10 more: -o json or --save" in lines


def test_no_color_is_respected_and_nothing_is_told_by_colour_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terminal = {"force_terminal": True, "color_system": "standard"}
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert any("\x1b[1;31m" in line for line in drawn(report(full()), **terminal))
    monkeypatch.setenv("NO_COLOR", "1")
    assert not any("31m" in line for line in drawn(report(full()), **terminal))
    assert not any("\x1b" in line for line in drawn(report(full())))


def test_a_document_has_the_stated_columns_and_types() -> None:
    for found in (full(), with_nulls(), many(2), EMPTY):
        document = json.loads(json.dumps(analysis_json(found), allow_nan=False))
        assert list(document) == [
            "schema", "events", "traces", "first", "last", "bucket_seconds", "percentile_error",
            "totals", *TABLES, "stall_floor_seconds", "brief_stalls", "notes", "left_out",
            "since", "until", "topic", "subscription", "status", "statuses", "verdicts",
        ]  # fmt: skip
        assert sum(document["statuses"].values()) == len(document["verdicts"])
        for table in TABLES:
            assert len(document[table]) == len(found.rows(table))
            for row in document[table]:
                check(table, row)


def check(table: str, row: dict[str, Any]) -> None:
    assert list(row) == list(TYPES[table])
    for column, types in TYPES[table].items():
        value = row[column]
        if value is None:
            assert column in NULLABLE[table], f"{table}.{column}"
        elif types == TS:
            datetime.strptime(value, "%Y-%m-%dT%H:%M:%S.%fZ")
            assert len(value) == 27
        else:
            assert type(value) in types, f"{table}.{column}"


def test_a_document_word_for_word() -> None:
    found = analysis(
        timeline=[bucket(1, acknowledged=None)], totals={"timeline": 180, "gaps": 12},
        percentile_error=0.0078125, notes=["one segment of t1 is torn"],
    )  # fmt: skip
    assert analysis_json(found) == {
        "schema": "pulsar-doctor/analyze/2",
        "events": 24_310,
        "traces": 1,
        "first": "2026-08-01T12:00:00.000000Z",
        "last": "2026-08-01T12:30:00.000000Z",
        "bucket_seconds": 10.0,
        "percentile_error": 0.0078125,
        "totals": {
            "consumers": 0,
            "gaps": 12,
            "stalls": 0,
            "timeline": 180,
            "subscriptions": 0,
            "holes": 0,
        },
        "consumers": [],
        "gaps": [],
        "stalls": [],
        "timeline": [
            {
                "start": "2026-08-01T12:00:10.000000Z",
                "delivered": 100,
                "acknowledged": None,
                "flows": 1,
                "lowest_available": 3,
                "starved_consumers": 0,
                "acknowledged_least": 50,
                "certain": True,
            }
        ],
        "subscriptions": [],
        "holes": [],
        "stall_floor_seconds": None,
        "brief_stalls": [],
        "notes": ["one segment of t1 is torn"],
        "left_out": [],
        "since": None,
        "until": None,
        "topic": None,
        "subscription": None,
        "status": "unknown",
        "statuses": {"stalled": 0, "unknown": 0, "warning": 0, "healthy": 0},
        "verdicts": [],
    }


def test_moments_are_told_in_utc_whatever_their_zone() -> None:
    here = timezone(timedelta(hours=5, minutes=30))
    found = analysis(stalls=[stall()])
    moved = analysis(
        first=START.astimezone(here),
        last=at(1800).astimezone(here),
        stalls=[stall(start=at(900).astimezone(here), end=at(1800).astimezone(here))],
    )
    assert analysis_json(moved) == analysis_json(found)
    assert drawn(report(moved)) == drawn(report(found))
    with pytest.raises(ValueError, match="says no zone"):
        analysis_json(analysis(first=START.replace(tzinfo=None)))


def test_days_are_told_where_there_are_several() -> None:
    lines = drawn(report(full(last=at(86_400 * 2))), 200)
    assert "from 2026-08-01 12:00:00 to 2026-08-03 12:00:00 UTC" in lines[0]
    assert "08-01 12:15:00" in cells_of(lines, "Stalls")


@pytest.mark.parametrize(
    ("values", "lasted"),
    [
        ({"ended_by": "flow"}, "15 min"),
        ({"ended_by": "close", "duration_us": 999}, "999 µs"),
        ({"ended_by": "ack", "duration_us": 1_449}, "1.45 ms"),
        ({"ended_by": "redelivery", "duration_us": 9_999}, "10 ms"),
        ({"ended_by": "reconnect", "duration_us": 83 * 3600 * SECOND}, "83 h"),
        ({"ended_by": "not_known"}, "≥ 15 min"),
        ({"ended_by": "end_of_trace"}, "≥ 15 min"),
    ],
)
def test_how_long_a_stall_lasted_at_least_where_its_end_was_not_seen(
    values: dict[str, Any], lasted: str
) -> None:
    lines = drawn(report(analysis(stalls=[stall(**values)])), 200)
    assert lasted in cells_of(lines, "Stalls")


@pytest.mark.parametrize(
    ("share", "told"),
    [(0.0, "slow 0 %"), (0.004, "slow <1 %"), (0.5, "slow 50 %"), (0.996, "slow >99 %"),
     (1.0, "slow 100 %"), (None, "slow ?")],
)  # fmt: skip
def test_a_share_is_neither_none_nor_all_where_it_is_neither(
    share: float | None, told: str
) -> None:
    lines = drawn(report(analysis(subscriptions=[subscription(hoarder_share=share)])), 200)
    assert told in cells_of(lines, "Subscriptions")


def test_percentiles_say_how_far_they_may_be_off() -> None:
    exact = drawn(report(analysis(gaps=[gap("between_flows")])))
    assert "Gaps  how long things took, per consumer; percentiles are exact" in exact
    assert cells_of(exact, "Gaps")[-1] == "exact"
    rough = analysis(gaps=[gap("between_flows", error=0.0078125)], percentile_error=0.0078125)
    assert cells_of(drawn(report(rough)), "Gaps")[-1] == "within 0.8 %"
    assert any(line.endswith("exact or within 0.8 %") for line in drawn(report(rough)))


def test_a_bar_of_some_is_neither_empty_nor_full() -> None:
    shares = [-1, 0, 0.001, 0.5, 0.999, 1, 7]
    assert [bar(share, 4, UNICODE) for share in shares] == [
        "····", "····", "█···", "██··", "███·", "████", "████",
    ]  # fmt: skip
    assert bar(0.5, 4, ASCII) == "@@.."


def test_a_stretch_of_time_has_a_sign_however_short() -> None:
    assert stretch(0, 1, 4, UNICODE) == "████"
    assert stretch(0.5, 0.5, 4, UNICODE) == "··█·"
    assert stretch(1, 1, 4, UNICODE) == "···█"
    assert stretch(0.26, 0.6, 4, UNICODE) == "·██·"
    assert stretch(-1, 0.1, 4, UNICODE) == "█···"


def test_blocks_tell_none_from_little_nothing_and_not_told() -> None:
    assert blocks([0, 1, 1000, NOTHING, UNKNOWN, 500], UNICODE) == "·▁█ ?▄"
    assert blocks([0, 0], UNICODE) == "··"
    assert blocks([], UNICODE) == ""
    assert blocks(list(range(9)), ASCII) == "._-=+*%#@"


def test_buckets_are_put_together_until_there_is_room() -> None:
    timeline = [bucket(n, delivered=n) for n in (9, 0, 1, 2, 5)]
    assert steps(timeline, 10, 100).numbers("delivered", sum) == [
        0, 1, 2, NOTHING, NOTHING, 5, NOTHING, NOTHING, NOTHING, 9,
    ]  # fmt: skip
    narrow = steps(timeline, 10, 4)
    assert narrow.numbers("delivered", sum) == [3, 5, NOTHING, 9]
    assert (narrow.buckets, narrow.step, narrow.end) == (3, timedelta(seconds=30), at(120))


def test_a_step_with_a_bucket_that_does_not_tell_does_not_tell() -> None:
    timeline = [bucket(0), bucket(1, acknowledged=None), bucket(2), bucket(3)]
    assert steps(timeline, 10, 2).numbers("acknowledged", sum) == [UNKNOWN, 100]
    lines = drawn(report(analysis(timeline=timeline)))
    assert "  acknowledged  █?██  ≥ 50" in lines


def test_starved_consumers_of_several_buckets_are_no_more_than_a_bound() -> None:
    timeline = [bucket(n, starved_consumers=2) for n in range(20)]
    whole, narrow = (drawn(report(analysis(timeline=timeline)), width) for width in (120, 40))
    assert "  starved       ████████████████████  2" in whole
    assert "  starved       ██████████  ≥ 2" in narrow
    assert "  delivered     ██████████  200" in narrow


@pytest.mark.parametrize("width", [50, 80, 200])
def test_a_long_name_is_whole_and_an_endless_one_is_not(width: int) -> None:
    def shown(length: int) -> int:
        found = analysis(holes=[hole(topic=f"persistent://{'#' * length}")])
        return "".join(drawn(report(found), width)).count("#")

    assert [shown(150), shown(5000)] == [150, 200]


def test_who_was_never_starved_has_no_longest_time_of_it() -> None:
    never = {"starvations": 0, "starved_us": 0, "longest_starved_us": None}
    lines = drawn(report(analysis(consumers=[consumer(**never)])), 200)
    assert cells_of(lines, "Consumers")[1:5] == ["-", "··········", "0", "-"]
