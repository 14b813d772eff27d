"""Known lines of logs: each as the real program printed it, and what is returned of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.checkup.case import SavedCase, case_of, document_of
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.recorded import of_files
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.known.log_lines import AROUND, KnownLine, known_lines, rows
from pulsar_doctor.diagnosis.limits import limits_of
from tests.broker.test_metrics import real
from tests.cli.checked import Check, check

__all__ = ["check"]  # a fixture

PRINTED = Path(__file__).with_name("log_lines.txt").read_text("utf-8")
LINES = dict(line.split("\t", 1) for line in PRINTED.splitlines())
CODES = {cause.code for cause in load()}
SECRET = "eyJhbGciOiJIUzI1NiJ9.s3cr3t"
TOPIC = "persistent://public/default/orders"
FULL = f"{TOPIC}][billing] Message listener error in processing message: 1:0:-1"
THREW = f"INFO  org.apache.pulsar.client.impl.ConsumerBase - [{FULL}"


def line(time: str, rest: str = THREW) -> str:
    return f"{time} [pulsar-external-listener-6-1] {rest}\n"


@pytest.mark.parametrize("row", rows(), ids=lambda row: row.name)
def test_a_line_that_the_program_printed_is_known_by_its_row(row: object) -> None:
    [name] = [each.name for each in rows() if each is row]
    [found] = known_lines(LINES[name])
    assert found.row is row
    assert (found.count, found.first) == (1, found.last)
    assert found.first is not None
    assert found.first.startswith("2026-11-29 ")


def test_the_table_and_the_printed_lines_are_the_same() -> None:
    names = [row.name for row in rows()]
    assert sorted(names) == sorted(LINES)
    assert len(set(names)) == len(names)
    assert {code for row in rows() for code in row.codes} <= CODES
    assert len(rows()) > 50


def test_nothing_of_a_line_is_repeated_but_names() -> None:
    text = "".join(
        f"{each} {SECRET} payload={SECRET}\n{SECRET} {each}\n" for each in LINES.values()
    )
    found = known_lines(text)
    assert SECRET not in "".join(map(str, found))
    assert not any(SECRET in (each.topic or "") for each in found)
    assert not any(SECRET in (each.subscription or "") for each in found)


def test_a_kind_of_line_is_counted_from_its_first_to_its_last_time() -> None:
    days = ("2026-11-29T13:31:30,020+0000", "2026-11-29T13:31:31,020+0000")
    [found] = known_lines("".join(map(line, days)))
    assert str(found) == (
        "the message listener threw an exception, so its message is not acknowledged (the log of "
        "a Java client, 2 times, first at 2026-11-29 13:31:30 +0000, last at 2026-11-29 13:31:31 "
        "+0000)"
    )


@pytest.mark.parametrize(
    ("written", "topic", "subscription"),
    [
        (f"[{TOPIC}][s]", TOPIC, "s"),
        (f"[{TOPIC}] [s] Closed", TOPIC, "s"),
        (f"[{TOPIC}, s, 8] ", TOPIC, "s"),
        (f'subscription=s topic="{TOPIC}"', TOPIC, "s"),
        (f"ConsumerBase{{subscription='s', consumerName='c', topic='{TOPIC}'}}", TOPIC, "s"),
        (f"subscription=PersistentSubscription{{topic={TOPIC}, name=s}}, consumerId=2", TOPIC, "s"),
        (TOPIC, TOPIC, None),
        ("no topic", None, None),
    ],
)
def test_topics_and_subscriptions_of_each_program(
    written: str, topic: str | None, subscription: str | None
) -> None:
    [found] = known_lines(f"{written} Message listener error in processing message")
    assert (found.topic, found.subscription) == (topic, subscription)


def test_a_line_without_an_end_is_read_near_the_known_text_alone() -> None:
    known = "Message listener error in processing message "
    text = f"{TOPIC} " + "x" * 2 * AROUND + known + "y" * 2 * AROUND + TOPIC
    [found] = known_lines(text)
    assert (found.topic, found.first, found.count) == (None, None, 1)
    assert sum(each.count for each in known_lines(known * 20_000)) <= 20_000


def test_a_log_alone_is_no_verdict(check: Check, tmp_path: Path) -> None:
    (tmp_path / "app.log").write_text(line("2026-11-29T13:31:30,020+0000"), "utf-8")
    found = check(None, "--stats", str(tmp_path / "app.log"), "-o", "json")
    assert found.code == 3
    assert found.document["subscriptions"] == []
    (tmp_path / "quiet.log").write_text("12:00:00 INFO  org.apache.pulsar.x - ready\n", "utf-8")
    assert check(None, "--stats", str(tmp_path / "quiet.log")).code == 3


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-8-sig"])
@pytest.mark.parametrize("name", ["permits-exhausted-shared-hung", "healthy-idle"])
def test_a_log_joins_the_verdict_of_statistics_and_does_not_change_it(
    check: Check, tmp_path: Path, name: str, encoding: str
) -> None:
    stats = json.loads(real("statistics.json.gz"))[name][0]["stats"]
    document = tmp_path / "stats.json"
    document.write_text(json.dumps({TOPIC: stats}), "utf-8")
    log = tmp_path / "app.log"
    row = line("2026-11-29T13:31:30,020+0000", f"{SECRET} " + THREW.replace("billing", "s"))
    log.write_text(row, encoding, newline="\r\n")
    alone = check(None, "--stats", str(document), "-o", "json")
    both = check(None, "--stats", str(document), "--stats", str(log), "-o", "json")
    [before], [after] = (each.document["subscriptions"] for each in (alone, both))
    assert (after["status"], alone.code) == (before["status"], both.code)
    assert SECRET not in both.out + both.err
    means = "the message listener threw an exception"
    assert f"{log}: {TOPIC}: {means}" in both.out + both.err
    if name != "healthy-idle":
        assert "log" in after["suspects"][0]["for"]
    case = tmp_path / "case.json"
    case.write_text(json.dumps(document_of(saved(document, log))), "utf-8")
    again = check(None, "--case", str(case), "-o", "json").document["subscriptions"]
    assert again == [after]
    shown = check(None, "--stats", str(document), "--stats", str(log))
    assert "first at 2026-11-29 13:31:30 +0000" in shown.out


def saved(*files: Path) -> SavedCase:
    """The case of verdicts on these files."""
    judge = Judge(load(), limits_of(load()), keep_views=True)
    return case_of(of_files(SampleFiles([*map(str, files)]), judge, lambda _: None))


def test_lines_of_another_topic_or_subscription_join_nothing(check: Check, tmp_path: Path) -> None:
    stats = json.loads(real("statistics.json.gz"))["permits-exhausted-shared-hung"][0]["stats"]
    (tmp_path / "stats.json").write_text(json.dumps({TOPIC: stats}), "utf-8")
    (tmp_path / "app.log").write_text(line("2026-11-29T13:31:30"), "utf-8")
    files = "--stats", str(tmp_path / "stats.json"), "--stats", str(tmp_path / "app.log")
    [found] = check(None, *files, "-o", "json").document["subscriptions"]
    assert not any("log" in each["for"] for each in found["suspects"])


def test_what_is_added_spans_both() -> None:
    row = rows()[0]
    early, late = (KnownLine(row, None, None, 1, each, each) for each in ("1", "2"))
    untimed = KnownLine(row, None, None, 3, None, None)
    assert sum((early, untimed), late) == KnownLine(row, None, None, 5, "1", "2")
