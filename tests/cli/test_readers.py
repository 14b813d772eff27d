"""A reader that stands still: its screen, one row for a namespace, and who accepts it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import pytest

from pulsar_doctor.cli import run

STATES = Path(__file__).parents[1] / "states" / "4.0.8"
READER = STATES / "reader-stands-still.jsonl.gz"
HUNG = STATES / "permits-exhausted-shared-hung-lately.jsonl.gz"  # unknown for another reason
OPENS = {"all": 0, "readers": 0, None: 3}


def stall_check(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str, str]:
    code = run(["stall-check", "-q", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def readers(folder: Path, topics: Sequence[str]) -> Path:
    """Readers of these topics, the next one a message further behind than the one before."""
    head, *samples = gzip.decompress(READER.read_bytes()).decode().splitlines()
    [name] = json.loads(samples[0])["stats"]["subscriptions"]
    topic = json.loads(samples[0])["topic"].removeprefix("persistent://")
    lines = [head]
    for number, new in enumerate(topics):
        for sample in samples:
            its = sample.replace(topic, new).replace(name, f"{name}{number}")
            lines.append(its.replace('"msgBacklog":50', f'"msgBacklog":{50 + number}'))
    written = folder / "readers.jsonl"
    written.write_text("\n".join(lines) + "\n")
    return written


def test_the_screen_says_what_stands_still_and_how_to_decide(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, out, _ = stall_check(capsys, "--stats", READER)
    headline, *rows = out.splitlines()
    assert code == 3
    assert headline.startswith("? UNKNOWN  reader-")
    assert "a reader stands still with 50 entries to read, and none was sent for" in headline
    assert "its last ack came" in headline
    assert [row.split()[0] for row in rows if row.strip()] == ["decide", "run", "else", "more"]
    assert "Watch for 60 s more" in rows[0]
    assert rows[1].endswith("--window 60s")
    assert "--accept-unknown readers" in rows[2]
    assert "pulsar-doctor examine" in rows[2]


def test_what_waits_in_its_queue_waits_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head, *samples = gzip.decompress(READER.read_bytes()).decode().splitlines()
    lines = [head]
    for sample in map(json.loads, samples):
        [subscription] = sample["stats"]["subscriptions"].values()
        [cursor] = sample["internal"]["cursors"].values()
        subscription["consumers"][0]["availablePermits"] = 700
        ledger, last = sample["internal"]["lastConfirmedEntry"].split(":")
        cursor.update(readPosition=f"{ledger}:{int(last) + 1}", waitingReadOp=True)
        lines.append(json.dumps(sample))
    (file := tmp_path / "read.jsonl").write_text("\n".join(lines) + "\n")
    code, out, _ = stall_check(capsys, "--stats", file)
    assert code == 3
    stands = "a reader stands still with 50 entries to read in its queue, and none was sent for"
    assert stands in out


def test_readers_of_one_namespace_are_one_row(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    topics = [*(f"a/b/t{number}" for number in range(12)), "c/d/t", "c/d/u", "e/f/t"]
    code, out, _ = stall_check(capsys, "--stats", readers(tmp_path, topics))
    assert code == 3
    assert "? UNKNOWN  12 readers stand still while messages wait, backlog 666 in all" in out
    assert "? UNKNOWN  2 readers stand still while messages wait, backlog 125 in all" in out
    assert out.count("? UNKNOWN") == 3
    assert "64 entries to read" in out


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "300")


@pytest.mark.parametrize(("accept", "code"), OPENS.items())
@pytest.mark.parametrize("output", ["table", "json", "nagios", "github", "junit"])
def test_a_reader_may_be_accepted(
    accept: str | None, code: int, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    accepting = () if accept is None else ("--accept-unknown", accept)
    got, out, err = stall_check(capsys, "--stats", READER, "-o", output, *accepting)
    assert got == code
    assert ("accepted (--accept-unknown" in err) is (accept is not None)
    if output == "github":
        assert out.startswith("::warning" if accept else "::error")
    if output == "junit":
        suite = ElementTree.fromstring(out)[0]
        assert suite.get("skipped" if accept else "errors") == "1"
    if output == "nagios":
        assert out.startswith(f"PULSAR STALL-CHECK {'OK' if accept else 'UNKNOWN'} - ")


@pytest.mark.parametrize("output", ["table", "json", "nagios", "github", "junit"])
def test_accepting_readers_accepts_nothing_else(
    output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = (gzip.decompress(each.read_bytes()) for each in (READER, HUNG))
    (file := tmp_path / "both.jsonl").write_bytes(first + second.partition(b"\n")[2])
    both = ("--stats", file, "-o", output)
    code, _, err = stall_check(capsys, *both, "--accept-unknown", "readers")
    assert code == 3
    assert "1 verdict unknown: accepted (--accept-unknown readers)" in err
    code, _, err = stall_check(capsys, *both, "--accept-unknown", "all")
    assert code == 0
    assert "2 verdicts unknown: accepted (--accept-unknown all)" in err


def test_that_nothing_was_judged_is_accepted_by_all_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    nobody = ("--stats", READER, "-s", "nobody")
    assert stall_check(capsys, *nobody, "--accept-unknown", "readers")[0] == 3


def test_a_wrong_value_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = stall_check(capsys, "--stats", READER, "--accept-unknown", "some")
    assert code == 2
    assert "'some' is not one of 'all', 'readers'" in err
