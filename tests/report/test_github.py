"""GitHub annotations: the worst first, on one line each whatever the names are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pulsar_doctor.checkup.expected import Expectation
from tests.report.checkups import (
    actions_on,
    assert_actions_in_order,
    checkup,
    finding,
    verdict,
    written,
)

COMMAND = re.compile(r"::(?:error|warning|notice) title=([^:,\r\n]*)::([^\r\n]*)")

UNMET = Expectation(
    "--expect-acked all",
    False,
    "0 of 200 delivered messages acknowledged; worker-1 of billing on orders holds 200",
    action="see what it did: pulsar-doctor trace summary t.ptrace",
    topic="persistent://public/default/orders",
    subscription="billing",
    consumer="worker-1",
    delivered=200,
)


def read(text: str) -> str:
    """A command of GitHub's on each line, and nothing else."""
    *lines, end = text.split("\n")
    assert end == ""
    told = []
    for line in lines:
        assert not re.search("%(?!25|0A|3A|2C)", line)
        command = COMMAND.fullmatch(line)
        assert command, line
        told += [unescaped(part) for part in command.groups()]
    return "\n".join(told)


def unescaped(part: str) -> str:
    return re.sub("%(..)", lambda found: chr(int(found[1], 16)), part)


def test_the_worst_first_and_a_summary_last() -> None:
    run = checkup(
        [
            verdict("healthy", "search"),
            verdict("warning", "mail"),
            verdict("unknown", "audit"),
            verdict("stalled", "billing"),
        ],
        not_loaded=["persistent://a/b/quiet"],
        unreachable=[("persistent://a/b/gone", "404: no such topic")],
    )
    assert written("github", run).splitlines() == [
        "::error title=stalled%3A billing on public/default/orders%3A permits-exhausted of worker-3"
        "::permits-exhausted of worker-3: worker-3 holds 500 messages and has 0 permits"
        "%0ANumbers: last ack 12 min"
        "%0ARemedy: Give this consumer a smaller receiver queue."
        "%0AMore: pulsar-doctor explain permits-exhausted",
        "::error title=unknown%3A audit on public/default/orders%3A broker-read-stuck%3A one sample"
        " does not show whether it moves"
        "::Not reported: broker-read-stuck: one sample does not show whether it moves",
        "::error title=unreachable%3A persistent%3A//a/b/gone::404: no such topic",
        "::warning title=warning%3A mail on public/default/orders%3A permits-exhausted of worker-3"
        "::permits-exhausted of worker-3: worker-3 holds 500 messages and has 0 permits"
        "%0ANumbers: last ack 12 min"
        "%0ARemedy: Give this consumer a smaller receiver queue."
        "%0AMore: pulsar-doctor explain permits-exhausted",
        "::notice title=pulsar-doctor stall-check::4 subscriptions judged, 1 stalled, 1 unknown,"
        " 1 warning, 1 healthy, 1 topic unreachable, 1 topic not loaded",
    ]


def test_an_error_is_what_makes_the_exit_code() -> None:
    def kinds(fail_on: str) -> list[str]:
        run = checkup([verdict("warning"), verdict("stalled")])
        return [line.split()[0] for line in written("github", run, fail_on=fail_on).splitlines()]

    assert kinds("stalled") == ["::error", "::warning", "::notice"]
    assert kinds("warning") == ["::error", "::error", "::notice"]
    assert kinds("never") == ["::warning", "::warning", "::notice"]


def test_partitions_with_the_same_causes_share_an_annotation() -> None:
    unwell = [verdict("stalled", partition=number) for number in (3, 7)]
    first, _ = written("github", checkup([*unwell, verdict(partition=1)])).splitlines()
    assert "title=stalled%3A billing on public/default/orders%2C partitions 3 and 7 of 3" in first


def test_percent_signs_and_separators_are_escaped() -> None:
    odd = finding(consumer="100%,a:b", summary="50% :: done, more")
    first, _ = written("github", checkup([verdict("stalled", findings=(odd,))])).splitlines()
    assert "permits-exhausted of 100%25%2Ca%3Ab::" in first
    assert ": 50%25 :: done, more%0A" in first


def test_all_that_can_be_done_is_told_in_its_order() -> None:
    found = (finding(actions=actions_on("persistent://a/b/c d")),)
    text = read(written("github", checkup([verdict("stalled", findings=found)])))
    assert_actions_in_order(text)


def test_many_with_one_cause_share_an_annotation() -> None:
    dead = [verdict("warning", f"s{number}", backlog=10) for number in range(48)]
    first, notice = written("github", checkup(dead)).splitlines()
    assert first.startswith("::warning title=warning%3A 48 subscriptions%3A s0%2C s1%2C s2 and 45")
    assert "permits-exhausted%2C backlog 480 in all::" in first
    assert notice.endswith("48 subscriptions judged, 48 warning")


def test_an_expectation_that_is_not_met_is_in_every_format_for_ci(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    for name in ("junit", "github"):
        run = checkup([verdict("healthy")])
        run.expectations = (UNMET, Expectation("--expect-consumers 1", True, "1 consumer came"))
        text = written(name, run)
        assert UNMET.seen in text.replace("%3A", ":"), name
        assert UNMET.action in text, name
        assert "1 consumer came" not in text
    told = page.read_text()
    assert "### pulsar-doctor stall" in told
    assert "| \N{CROSS MARK} \\-\\-expect\\-acked all |" in told
    assert "| \N{WHITE HEAVY CHECK MARK} \\-\\-expect\\-consumers 1 |" in told
    assert "worker\\-1 of billing on orders holds 200" in told


def test_no_name_acts_on_the_page_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    evil = "a|b<img src=x>`c`[d](http://e)\n# f"
    written("github", checkup([verdict("stalled", evil)]))
    [row] = [line for line in page.read_text().splitlines() if line.startswith("| stalled")]
    assert (
        "a\\|b&lt;img src=x\\>\\`c\\`\\[d\\]\\(http\\://e\\)\N{REPLACEMENT CHARACTER}\\# f" in row
    )


def test_a_name_makes_no_link_and_no_formula_on_the_page_of_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(page))
    written("github", checkup([verdict("stalled", "www.evil.example WWW.x $a$ &b")]))
    [row] = [line for line in page.read_text().splitlines() if line.startswith("| stalled")]
    dollar = "<span>$</span>"
    assert f"www\\.evil.example WWW\\.x {dollar}a{dollar} &amp;b" in row
