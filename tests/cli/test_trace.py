"""`pulsar-doctor trace`, as a user types it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.errors import InputError
from pulsar_doctor.report.trace.consumers import sizes, summary_json, summary_lines
from pulsar_doctor.report.trace.rows import SHOWN, fitting, seconds
from pulsar_doctor.trace.named_rows import require_named
from pulsar_doctor.trace.ring import Ring, RingLimits
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import TO_BROKER, Row
from pulsar_doctor.wire.journal import pack_json
from tests.made.traces import relay_alive, write_trace
from tests.made.wire import EXCLUSIVE, Wire, slow_consumer


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """One consumer that is slow, and another that gets everything in a moment."""
    said = slow_consumer()
    said.attached(2, "quick", topic="persistent://public/default/bills").flow(1000, 2)
    said.pushed(range(100, 103), 2).acked([100, 101, 102], 2)
    return write_trace(tmp_path / "t.ptrace", said.wait(1).close().blocks, parts=2)


def rows(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def test_show_prints_a_heading_and_a_line_for_each_row(run: Any, trace: Path) -> None:
    code, out, err = run("trace", "show", trace)
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0].split() == [
        "seq", "time", "(UTC)", "conn", "consumer", "command", "message", "permits",
        "available", "unsent≥", "unacked", "note",
    ]  # fmt: skip
    assert lines[5] == (
        "       4  14:13:20.004000     0  slow              →  FLOW                              "
        "    +10         10        0        0  after 1 ms without permits"
    )
    assert lines[6].split()[:8] == [
        "5", "14:13:20.005000", "0", "slow", "←", "MESSAGE", "7:0", "-1",
    ]  # fmt: skip
    assert len(lines) == 1 + 65


def test_show_prints_json_without_what_is_null(run: Any, trace: Path) -> None:
    _, out, _ = run("trace", "show", trace, "-o", "jsonl", "--command", "ack", "-n", 1)
    (row,) = rows(out)
    assert row["ts"] == "2026-09-21T14:13:20.507000Z"
    assert row["starved_since"] == "2026-09-21T14:13:20.005000Z"
    assert row["message_ids"][0] == {"ledger_id": 7, "entry_id": 0}
    assert None not in row.values()
    assert "entry_id" not in row
    _, out, _ = run("trace", "show", trace, "-o", "json", "--command", "FLOW")
    assert [row["permits"] for row in json.loads(out)] == [10, 5, 5, 5, 5, 5, 5, 1000]
    _, out, _ = run("trace", "show", trace, "-o", "json", "--command", "SEND")
    assert json.loads(out) == []


@pytest.mark.parametrize(
    ("options", "flows"),
    [
        (["--consumer", "quick"], [1000]),
        (["--consumer", "2"], [1000]),
        (["--consumer", "1", "-n", "2"], [10, 5]),
        (["--consumer", "slow", "--command", "ACK"], [10, 5, 5, 5, 5, 5, 5]),
        (["--topic", "bills"], [1000]),
        (["--topic", "persistent://public/default/bills"], [1000]),
        (["--subscription", "billing", "--topic", "orders", "-n", "1"], [10]),
        (["--consumer", "quick", "--subscription", "billing", "--topic", "orders"], []),
        (["--since", "1s"], []),
        (["--since", "1100ms"], [1000]),
        (["--from", "1100ms", "--until", "1007ms"], []),
        (["--until", "2026-09-21T14:13:20.508Z"], [10, 5]),
        (["--until", "2026-09-21T14:13:20.507"], [10]),
        (["--until", "2026-09-21T16:13:20.508+02:00"], [10, 5]),
        (["--since", "2026-09-21T14:13:23", "--until", "1s"], [5, 1000]),
        (["-n", "0"], []),
    ],
)
def test_show_keeps_what_was_asked_for(
    run: Any, trace: Path, options: list[str], flows: list[int]
) -> None:
    code, out, _ = run("trace", "show", trace, "-o", "jsonl", "--command", "FLOW", *options)
    assert code == 0
    assert [row["permits"] for row in rows(out) if row["command"] == "FLOW"] == flows


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--consumer", "nosuch"], "consumer 'nosuch' in this trace; there are quick, slow"),
        (["--consumer", "slwo"], "consumer 'slwo' in this trace; did you mean slow?"),
        (["--consumer", "77"], "consumer '77' in this trace; there are quick, slow"),
        (["--command", "FLOWS"], "command 'FLOWS' in this trace; did you mean FLOW"),
        (["--command", "flow", "--command", "nosuch"],
         "command 'NOSUCH' in this trace; there are ACK, CLOSE, CONNECT, FLOW, "),
        (["--topic", "ills"], "topic 'ills' in this trace; did you mean bills?"),
        (["--topic", "a/b/c"], "topic 'a/b/c' in this trace; there are persistent://public/"
         "default/bills, persistent://public/default/orders"),
        (["--subscription", "other"], "subscription 'other' in this trace; there is billing"),
        (["--since", "1s", "--consumer", "nosuch"], "consumer 'nosuch' in this trace; there"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("output", ["table", "json"])
def test_show_names_those_that_there_are(
    run: Any, trace: Path, options: list[str], said: str, output: str
) -> None:
    code, out, err = run("trace", "show", trace, *options, "-o", output)
    assert (code, out) == (2, "")
    assert err.startswith(f"pulsar-doctor: there is no {said}")


def test_of_very_many_names_some_are_told() -> None:
    rows = [Row() for _ in range(900)]
    for number, row in enumerate(rows):
        row.command, row.incarnation, row.consumer_name = "FLOW", number, f"worker-{number:03}"
    with pytest.raises(InputError, match=r"there are worker-000, .*, worker-049 and 850 more$"):
        require_named(rows, consumer="x")
    with pytest.raises(InputError, match="did you mean worker-123"):
        require_named(rows, consumer="worker123")
    with pytest.raises(InputError, match="no topic 'x' in this trace; it has none"):
        require_named(rows, topic="x")


def test_show_refuses_a_time_that_is_none(run: Any, trace: Path) -> None:
    code, _, err = run("trace", "show", trace, "--since", "yesterday")
    assert code == 2
    assert "'yesterday' is not a time; write 2026-08-01T12:00:00Z, or 30s for the last 30" in err


def test_a_narrow_terminal_gets_the_columns_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    titles = [column.title for column in fitting(80)]
    assert titles == ["time (UTC)", "consumer", "", "command", "permits", "available"]
    assert fitting(200) == list(SHOWN)
    assert len(fitting(10)) == 4


def test_summary_tells_each_consumer(run: Any, trace: Path) -> None:
    code, out, _ = run("trace", "summary", trace)
    assert code == 0
    assert "10 inferred" in out
    assert "10, 5×6" in out
    assert "public/default/bills" in out


def test_summary_tells_how_a_client_has_put_acks_together(run: Any, tmp_path: Path) -> None:
    said = Wire().open().attached(1, "ordered", sub_type=EXCLUSIVE).flow(100).pushed(range(30))
    for entry in (9, 19, 14, 19):
        said.acked([entry], cumulative=True)
    said.attached(2, "each", subscription="audit").flow(100, 2).pushed(range(30), 2)
    said.acked(range(12), 2).acked([12, 13], 2)
    said.attached(3, "none", subscription="idle").flow(100, 3)
    trace = write_trace(tmp_path / "acks.ptrace", said.blocks)
    _, out, _ = run("trace", "summary", trace, "-o", "json")
    names = (
        "acknowledged", "ack_commands", "ack_ids", "ack_ids_most",
        "cumulative_acks", "cumulative_highest", "cumulative_forward_only", "taken",
    )  # fmt: skip
    assert [[each[name] for name in names] for each in json.loads(out)["consumers"]] == [
        [20, 4, 4, 1, 4, "7:19", False, None],
        [14, 2, 14, 12, 0, None, None, None],
        [0, 0, 0, 0, 0, None, None, None],
    ]
    lines = list(summary_lines(open_trace(trace).timeline(), {}))
    told = [line.strip() for line in lines if line.startswith("  acknowledged")]
    assert told == [
        "acknowledged 20, in 4 ACKs, cumulative, 1 back",
        "acknowledged 14, in 2 ACKs, ≤12 each",
        "acknowledged 0",
    ]


def test_what_a_transaction_acknowledges_is_told_apart_until_it_comes_again(
    run: Any, tmp_path: Path
) -> None:
    said = Wire().open().attached(1, "w").flow(100).pushed(range(30))
    said.acked(range(10)).acked(range(10, 20), transaction=1).acked(range(20, 30), transaction=2)
    said.pushed(range(20, 30), again=1)  # the second one was aborted
    trace = write_trace(tmp_path / "transactions.ptrace", said.blocks)
    _, out, _ = run("trace", "summary", trace, "-o", "json")
    (told,) = json.loads(out)["consumers"]
    names = ("messages", "acknowledged", "acknowledged_in_transactions", "unacked_messages")
    assert [told[name] for name in names] == [40, 10, 10, 10]
    lines = [line.strip() for line in summary_lines(open_trace(trace).timeline(), {})]
    assert "acknowledged 10, in 3 ACKs, ≤10 each, 10 more if committed" in lines
    acks = [row for row in open_trace(trace).rows() if row.command == "ACK"]
    assert [row.acknowledged_messages for row in acks] == [10, 0, 0]
    assert [row.unacked_messages for row in acks] == [20, 10, 0]


def test_a_verdict_has_its_place(trace: Path) -> None:
    timeline = open_trace(trace).timeline()
    verdicts = {1: "stalled: permits-exhausted"}
    found = summary_json("t", timeline, verdicts, live=False)
    assert [consumer["verdict"] for consumer in found["consumers"]] == [verdicts[1], None]
    lines = list(summary_lines(timeline, verdicts))
    assert lines[0].startswith("slow #1 closed  public/default/orders, billing (Shared)  stalled:")
    assert lines[1] == "  queue 10 inferred, 7 FLOWs of 10, 5×6"
    assert max(map(len, lines)) < 90


def test_a_queue_of_one_may_be_none(tmp_path: Path) -> None:
    said = Wire().open().attached().flow(1)
    timeline = open_trace(write_trace(tmp_path, said.blocks)).timeline()
    assert "  queue 0 or 1, 1 FLOW of 1" in list(summary_lines(timeline, {}))


@pytest.mark.parametrize(
    ("flows", "count", "text"),
    [
        ([], 0, "none"),
        ([10], 1, "10"),
        ([10, *[5] * 6], 7, "10, 5×6"),
        ([10, *[5] * 999], 5000, "10, 5×999, … 4000 more"),
        (list(range(1, 21)), 20, "1, 2, 3, 4, 5, 6, 7, 8, … 12 more"),
    ],
)
def test_runs_of_flows_are_told_short(flows: list[int], count: int, text: str) -> None:
    assert sizes(flows, count) == text


@pytest.mark.parametrize(
    ("us", "text"),
    [
        (0, "0 µs"),
        (999, "999 µs"),
        (12_345, "12 ms"),
        (3_249_999, "3.2 s"),
        (59_990_000, "1m 0s"),
        (320_000_000, "5m 20s"),
        (7_500_000_000, "2h 5m"),
    ],
)
def test_lengths_of_time_are_told_short(us: int, text: str) -> None:
    assert seconds(us) == text


def test_verify_says_whole_or_damaged_by_its_exit_code(run: Any, trace: Path) -> None:
    code, out, _ = run("trace", "verify", trace)
    assert code == 0
    assert out.splitlines()[0] == f"{trace}: whole and ended cleanly"
    run("trace", "summary", trace)
    segment = trace / "seg-000001.parquet"
    segment.write_bytes(segment.read_bytes()[:-1])
    code, out, _ = run("trace", "verify", trace)
    assert code == 2
    assert "  problem: seg-000001.parquet has " in out
    code, out, _ = run("trace", "verify", trace, "-o", "json")
    assert code == 2
    assert json.loads(out)["status"] == "damaged"


def test_verify_says_that_the_trace_of_a_killed_tap_did_not_end_cleanly(
    run: Any, tmp_path: Path
) -> None:
    path = write_trace(tmp_path / "t", Wire().open().attached().flow(5).blocks)
    code, out, _ = run("trace", "verify", path)
    verdict = f"{path}: sound as far as it goes, but it did not end cleanly"
    assert (code, out.splitlines()[0]) == (0, verdict)
    assert "connections that were open at its end: 1; the relay was killed" in out


MISSES: dict[str, tuple[int, str, str]] = {
    "gaps": (4, "sound, but commands are missing", "2 gaps: 8 commands were not recorded"),
    "expired": (5, "sound, but its beginning has expired", "rows have expired"),
    "set aside": (6, "sound, but records could not be read", "1 record was set aside"),
    "all": (
        4,
        "sound, but commands are missing, its beginning has expired, records could not be read",
        "1 gap: 5 commands were not recorded",
    ),
}


@pytest.mark.parametrize("misses", MISSES)
def test_verify_calls_nothing_whole_that_is_not(run: Any, tmp_path: Path, misses: str) -> None:
    said = Wire().open().attached().flow(5)
    if misses == "gaps":
        said.lost(3)
    if misses in ("gaps", "all"):
        said.lost(5)
    if misses in ("set aside", "all"):
        said.say(TO_BROKER, pack_json(b"[]"))
    path = write_trace(tmp_path / "t.ptrace", said.flow(5).close().blocks, parts=2)
    if misses in ("expired", "all"):
        open_trace(path)
        for _ in Ring(path, RingLimits()).dropping_steps(1):
            pass
    expected, verdict, line = MISSES[misses]
    code, out, _ = run("trace", "verify", path)
    assert (code, out.splitlines()[0]) == (expected, f"{path}: {verdict}")
    assert line in out
    code, out, _ = run("trace", "verify", path, "-o", "json")
    assert code == expected
    told = json.loads(out)
    assert (told["gaps"] > 0) == (expected == 4)
    assert (told["set_aside"] > 0) == (misses in ("set aside", "all"))


def test_a_live_trace_can_be_read(run: Any, trace: Path) -> None:
    with relay_alive(trace):
        assert len(rows(run("trace", "show", trace, "-o", "jsonl")[1])) == 65
        assert json.loads(run("trace", "summary", trace, "-o", "json")[1])["live"]
        assert "still being written" in run("trace", "verify", trace)[1]


@pytest.mark.parametrize("subcommand", ["show", "summary", "verify"])
def test_what_is_no_trace_is_said_in_one_sentence(
    run: Any, tmp_path: Path, subcommand: str
) -> None:
    code, out, err = run("trace", subcommand, tmp_path)
    assert (code, out) == (2, "")
    assert err == (
        f"pulsar-doctor: {tmp_path} is not a trace of pulsar-doctor: it has no _meta.json\n"
    )


def test_without_pyarrow_it_says_what_to_install(
    run: Any, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(sys.modules):
        if name.startswith(("pulsar_doctor.trace.sealing", "pulsar_doctor.trace.", "pyarrow")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    code, _, err = run("trace", "show", trace)
    assert code == 3
    assert err == (
        "pulsar-doctor: reading a trace needs more: pip install 'pulsar-doctor[trace]'\n"
    )


@pytest.mark.parametrize("subcommand", ["show", "summary", "verify"])
def test_the_help_has_an_example(run: Any, subcommand: str) -> None:
    assert f"pulsar-doctor trace {subcommand} incident.ptrace" in run("trace", subcommand, "-h")[1]


def test_when_nobody_reads_any_more_the_exit_code_is_not_that_of_a_stall(trace: Path) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "pulsar_doctor", "trace", "show", str(trace)]
    try:
        run = subprocess.run(command, stdout=writing, stderr=subprocess.PIPE, check=False)
    finally:
        os.close(writing)
    assert run.returncode == 128 + signal.SIGPIPE
    assert run.stderr == b""
