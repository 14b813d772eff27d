"""--watch: what has changed from round to round, on a screen, in lines and in JSON."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.report.stall_check.round_lines import RoundLines
from pulsar_doctor.report.stall_check.round_screen import RoundScreen
from pulsar_doctor.report.stall_check.rounds import change_words, next_round
from pulsar_doctor.wording.consoles import GatedConsole
from tests.broker.replayed import HEALTHY, HOME, STUCK, Replay, cluster, states, stuck
from tests.report.checkups import AT, ORDERS, PROBE, checkup, finding, suspected, verdict
from tests.support import eventually
from tests.support.command_line import environment
from tests.support.terminals import on_terminal

GONE = "persistent://public/default/gone"


def run(number: int, *statuses: Status, backlog: int = 498, **more: Any) -> Checkup:
    """A round with a subscription s0, s1, … of each status, half a minute after the one before."""
    told = [verdict(status, f"s{n}", backlog=backlog) for n, status in enumerate(statuses)]
    return checkup(told, checked_at=AT + timedelta(seconds=30 * number), **more)


def changed(*runs: Checkup) -> list[str]:
    """What the last of them changed."""
    round_ = next_round(runs[0], None)
    for each in runs[1:]:
        round_ = next_round(each, round_.known)
    return [change_words(change, "->") for change in round_.changes]


def test_a_verdict_that_turns_is_a_change_and_the_worst_comes_first() -> None:
    assert changed(run(0, "healthy", "stalled")) == []
    assert changed(run(0, "stalled"), run(1, "stalled")) == []
    assert changed(run(0, "stalled", "healthy"), run(1, "healthy", "stalled")) == [
        "s1 on public/default/orders: healthy -> stalled, permits-exhausted of worker-3",
        "s0 on public/default/orders: stalled -> healthy",
    ]


def test_what_comes_and_goes() -> None:
    assert changed(run(0, "healthy"), run(1, "healthy", "healthy")) == []
    [new] = changed(run(0, "healthy"), run(1, "healthy", "warning"))
    assert new.startswith("s1 on public/default/orders: new -> warning")
    assert changed(run(0, "healthy", "healthy"), run(1, "healthy")) == [
        "s1 on public/default/orders: healthy -> gone"
    ]


@pytest.mark.parametrize("unread", [ORDERS, f"{ORDERS}-partition-3", "public/default"])
def test_what_could_not_be_read_has_not_gone(unread: str) -> None:
    missed = run(1, unreachable=[(unread, "no answer")])
    assert changed(run(0, "healthy"), missed) == []
    [back] = changed(run(0, "healthy"), missed, run(2, "stalled"))
    assert "healthy -> stalled" in back


def test_partitions_are_one() -> None:
    def of(*statuses: Status) -> Checkup:
        return checkup(verdict(status, partition=n) for n, status in enumerate(statuses))

    assert changed(of("stalled", "healthy"), of("healthy", "stalled")) == []
    [turned] = changed(of("healthy", "healthy"), of("healthy", "unknown"))
    assert "billing on public/default/orders: healthy -> unknown" in turned


def test_segments_are_one() -> None:
    def round_of(*statuses: Status) -> Checkup:
        names = (f"segment://a/b/orders/{n:04x}-{n + 1:04x}-{n}" for n in range(len(statuses)))
        told = [verdict(status, topic=name) for status, name in zip(statuses, names, strict=True)]
        return checkup(told)

    out = io.StringIO()
    lines = RoundLines(out)
    lines.show(round_of("stalled", "healthy"))
    lines.show(round_of("healthy", "stalled"))
    assert out.getvalue().count("  seen  ") == 1  # what is not new is not repeated
    [turned] = changed(round_of("healthy", "healthy"), round_of("healthy", "stalled"))
    assert turned.startswith("billing on topic://a/b/orders: healthy -> stalled, permits-exhausted")


def test_in_a_pipe_every_line_has_its_time() -> None:
    out = io.StringIO()
    lines = RoundLines(out)
    lines.show(run(0, "healthy", "stalled"))
    lines.show(run(1, "stalled", "stalled", "healthy"))
    lines.show(run(2, "healthy", "stalled", unreachable=[(GONE, "no answer")]))
    first, second, third = (
        [line.removeprefix(f"2026-05-01T{time}Z  ") for line in out.getvalue().splitlines()
         if line.startswith(f"2026-05-01T{time}Z  ")]
        for time in ("12:00:00", "12:00:30", "12:01:00")
    )  # fmt: skip
    cause = "permits-exhausted of worker-3, backlog 498"
    told = [
        "  seen    worker-3 holds 500 messages and has 0 permits",
        "  fix     Give this consumer a smaller receiver queue.",
        "  more    pulsar-doctor explain permits-exhausted; -v for details",
    ]
    assert first == [
        f"STALLED  s1 on public/default/orders  {cause}", *told,
        "2 subscriptions: 1 stalled, 1 healthy",
    ]  # fmt: skip
    assert second == [
        f"STALLED  s0 on public/default/orders  (was healthy)  {cause}", *told,
        "3 subscriptions: 2 stalled, 1 healthy; 1 not healthy as before, backlog 498",
    ]  # fmt: skip
    assert third == [
        "HEALTHY  s0 on public/default/orders  (was stalled)",
        "GONE  s2 on public/default/orders  (was healthy)",
        f"UNREAD  {GONE}: no answer",
        "2 subscriptions: 1 stalled, 1 healthy; 1 not healthy as before, backlog 498",
    ]


def test_in_a_pipe_a_line_comes_again_for_another_cause_and_not_for_other_numbers() -> None:
    def of(backlog: int, code: str = "permits-exhausted", confidence: float = 0.9) -> Checkup:
        found = replace(finding(code), confidence=confidence)
        told = [verdict("stalled", f"s{n}", backlog=backlog, findings=(found,)) for n in range(40)]
        return checkup(told, checked_at=AT)

    out = io.StringIO()
    lines = RoundLines(out)
    for round_ in (of(5), of(6, confidence=0.91), of(7), of(8, "prefetch-hogging")):
        lines.show(round_)
    rounds = out.getvalue().split("40 stalled")
    same = "; 40 not healthy as before, backlog"
    assert [each.count("Z  STALLED  ") for each in rounds] == [40, 0, 0, 40, 0]
    assert [each.split("\n")[0] for each in rounds[1:]] == ["", f"{same} 240", f"{same} 280", ""]


def test_of_what_is_suspected_the_first_and_what_would_decide_is_said_when_it_is_new() -> None:
    out = io.StringIO()
    lines = RoundLines(out)
    for _ in range(2):
        lines.show(checkup([suspected()], checked_at=AT))
    told = [line.removeprefix("2026-05-01T12:00:00Z  ") for line in out.getvalue().splitlines()]
    head = "UNKNOWN  ledger on public/default/orders"
    cause = "likely key-shared-blocked of ks-stuck (70%), backlog 498"
    assert told == [
        f"{head}  {cause}",
        "  seen    ks-stuck has returned none of its 10 messages",
        "  where   10.0.3.7:51494, Java 4.0.8, connected 2 h",
        f"  decide  {PROBE.text} (60 s)",
        "  run     pulsar-doctor stall-check orders -s billing --window 60s",
        "  more    pulsar-doctor explain key-shared-blocked; -v for details",
        "1 subscription: 1 unknown",
        "1 subscription: 1 unknown; 1 not healthy as before, backlog 498",
    ]


def test_a_screen_has_the_first_suspect_with_its_share() -> None:
    shown = screen(100, 30, checkup([suspected()]))
    assert "likely key-shared-blocked of ks-stuck (70%), backlog 498" in "\n".join(shown)
    assert not any("ruled out" in line for line in shown), "in short"
    low = screen(100, 8, checkup([suspected(), suspected("more")]))
    assert "ledger on public/default/orders: likely key-shared-blocked of ks-stuck (70%)" in low[3]


def screen(width: int, height: int, *runs: Checkup, encoding: str = "utf-8") -> list[str]:
    """The screen of the last of these rounds."""
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict", newline="\n")
    console = GatedConsole(file=out, width=width, height=height, force_terminal=True)
    drawn = RoundScreen(console, "orders at http://localhost:8080")
    for each in runs:
        drawn.show(each)
    lines = console.render_lines(drawn, console.options.update(height=None))
    return ["".join(segment.text for segment in line).rstrip() for line in lines]


@pytest.mark.parametrize("height", [3, 5, 8, 12, 24, 60])
@pytest.mark.parametrize("width", [30, 80, 200])
def test_a_screen_has_its_height_and_its_width(width: int, height: int) -> None:
    before = run(0, *["healthy"] * 30)
    after = run(1, *["stalled"] * 4, *["warning"] * 3, *["healthy"] * 23)
    lines = screen(width, height, before, after)
    assert len(lines) <= height
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("12:00:30 UTC  orders")
    assert lines[1].startswith("30 subscriptions: 4 stalled")


def test_a_screen_shows_the_worst_in_detail_and_counts_what_has_no_room() -> None:
    before = run(0, *["healthy"] * 15, backlog=400)
    after = run(1, *["healthy"] * 12, "stalled", "warning", "stalled")
    lines = screen(100, 18, before, after)
    assert lines[3:5] == [
        "✖ STALLED  s12 on orders; cause: permits-exhausted of worker-3 (90%), backlog 498 ↑, "
        "was healthy",
        "  worker-3 holds 500 messages and has 0 permits",
    ]
    assert "▲ WARNING  s13 on public/default/orders: permits-exhausted of worker-3, backlog" in (
        "\n".join(lines)
    )
    assert "… and 12 healthy" in lines
    assert lines[-4] == "what has changed"
    assert lines[-1].startswith("12:00:30  s13 on public/default/orders: healthy → warning")
    crowd = screen(100, 12, run(0, *["stalled"] * 20, *["healthy"] * 2))
    assert "… and 13 more not healthy" in crowd
    assert crowd[-1] == "… and 2 healthy"


def test_a_narrow_screen_has_the_whole_cause_where_there_is_room() -> None:
    unknown = [suspected(name) for name in ("ledger-of-the-first-quarter", "ledger-of-the-second")]
    words = "likely key-shared-blocked of ks-stuck (70%), backlog 498"
    for width, height, whole in ((60, 9, 2), (60, 8, 1), (60, 6, 0), (160, 6, 2)):
        lines = screen(width, height, checkup([*unknown, verdict("healthy")]))
        assert " ".join(lines).count(words) == whole, (width, height)


def test_a_screen_without_utf8() -> None:
    lines = screen(
        120, 24, run(0, *["healthy"] * 12, backlog=1), run(1, *["stalled"] * 12), encoding="ascii"
    )
    assert "".join(lines).isascii()
    assert "backlog 498 up" in lines[3]


def test_a_screen_says_what_was_not_judged() -> None:
    lines = screen(60, 24, run(0, unreachable=[(GONE, "no answer")], notes=[(ORDERS, "is empty")]))
    assert lines[1:4] == ["0 subscriptions; checking", "is empty", f"{GONE}: no answer"]


# As a process


def test_on_a_terminal_it_is_drawn_in_place_and_what_changed_stays() -> None:
    with cluster({"held": stuck(), "quiet": states(HEALTHY)}) as broker:
        stalls, broker.answer = broker.answer, cluster_of_health()
        command = (
            sys.executable, "-m", "pulsar_doctor", "stall-check", "held", "quiet", "--watch",
            "--every", "5s", "--window", "200ms", "--interval", "100ms",
        )  # fmt: skip
        with on_terminal(command, columns=100, lines=30, admin_url=broker.url) as pane:
            pane.says(": 1 unknown, 1 healthy; again in")
            broker.answer = stalls
            pane.says("what has changed")
            assert pane.seen[0].endswith(f"UTC  held and quiet at {broker.url}")
            assert pane.count("2 subscriptions: 1 stalled, 1 healthy")
            pane.resize(60, 12)
            eventually(lambda: pane.count(" UTC  held") == 1)
            assert pane.end() == 1
            eventually(lambda: pane.bytes.endswith(b"1 stalled, 1 healthy\r\n"))
    assert b"\x1b[?1049l" in pane.bytes  # the first screen is back
    last = pane.bytes.rpartition(b"\x1b[?1049l")[2].decode()
    assert "billing on public/default/held: unknown → stalled" in " ".join(last.split())


def cluster_of_health() -> Any:
    """How it answers while nothing is found."""
    return Replay({"held": states(STUCK), "quiet": states(HEALTHY)})


def test_jsonl_is_a_line_a_verdict_also_of_one_check() -> None:
    with cluster({"held": stuck(), "quiet": states(HEALTHY)}) as broker:
        ran = subprocess.run(
            [sys.executable, "-m", "pulsar_doctor", "stall-check", "held", "quiet", "gone",
             "--admin-url", broker.url, "--window", "0s", "-o", "jsonl"],
            env=environment(), capture_output=True, text=True, check=False,
        )  # fmt: skip
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [(one["topic"], one["status"]) for one in found] == [
        (f"{HOME}held", "stalled"), (f"{HOME}quiet", "healthy"), (f"{HOME}gone", "unknown"),
    ]  # fmt: skip
    assert list(found[0])[:8] == [
        "schema", "checked_at", "source", "sources", "cluster", "topic", "partition",
        "subscription",
    ]  # fmt: skip
    assert [one["sources"] for one in found] == [["stats", "internal-stats"], ["stats"], []]
    assert {one["cluster"]["admin_url"] for one in found} == {broker.url}
    assert found[0]["schema"] == "pulsar-doctor/verdict/3"
    assert {tuple(one) for one in found} == {tuple(found[0])}
    assert len({one["checked_at"] for one in found}) == 1
    assert found[2]["subscription"] is None
    assert "there is no topic" in found[2]["not_told"][0]
