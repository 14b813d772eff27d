"""What a tap shows: a line for each consumer at any width, and what happened in a few lines."""

from __future__ import annotations

import io
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from pulsar_doctor.diagnosis.answers import Finding
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.parts.tap.events import (
    Answering,
    Counters,
    End,
    Event,
    Listening,
    not_recorded,
)
from pulsar_doctor.parts.tap.observer.events import (
    Counted,
    Gap,
    Kept,
    LivingConsumer,
    NextFlow,
    Sealed,
    Snapshot,
    Trouble,
    Verdict,
)
from pulsar_doctor.parts.tap.report.screens import JsonLines, happened
from pulsar_doctor.parts.tap.report.terminal import Terminal
from pulsar_doctor.parts.tap.report.watching import (
    ASCII,
    UNICODE,
    gauge,
    lines,
    title,
)
from pulsar_doctor.report.paper import PIPE
from pulsar_doctor.wording.consoles import GatedConsole
from tests.report.checkups import PROBE, suspected

AT_US = 1_790_000_000_000_000
AT = "2026-09-21T14:13:20.000000Z"
CONSUMER = LivingConsumer(
    incarnation=1,
    name="slow",
    topic="persistent://public/default/orders",
    partition=None,
    subscription="billing",
    type="Shared",
    client_version="Pulsar-CPP-v3.7.0",
    address="10.0.0.7:5000",
    receiver_queue_size=16,
    refill_threshold=8,
    available_permits=0,
    parked_permits=0,
    unsent_permits_min=4,
    flows=1,
    msg_out_counter=16,
    acknowledged=4,
    unacked_messages=12,
    since_last_flow=75.0,
    next_flow=NextFlow(4, at_most=True, seconds=12.0),
    certain=True,
    status="stalled",
    code="permits-exhausted",
)


def consumer(incarnation: int = 1, **values: Any) -> LivingConsumer:
    return replace(CONSUMER, incarnation=incarnation, **values)


def drawn(consumers: list[LivingConsumer], width: int, height: int = 20, signs=UNICODE):
    return [line.plain for line in lines(consumers, signs, width, height)]


def test_a_wide_terminal_has_every_number_of_a_consumer():
    heading, line = drawn([consumer()], 180)
    assert heading.split() == [
        "consumer", "subscription", "on", "topic", "queue", "permits", "available", "unsent",
        "FLOWs", "last", "FLOW", "delivered", "acked", "next", "FLOW", "after", "verdict",
    ]  # fmt: skip
    assert line.split() == [
        "slow", "billing", "on", "orders", "16", "············▒▒▒▒", "0", "4", "1", "75", "s",
        "16", "4", "≤4", "more", "in", "12", "s", "✖", "permits-exhausted",
    ]  # fmt: skip


NAMES = ["slow", "日本語の消費者の名前です", "x" * 60, "\x1b[31mred\n", ""]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 160, 250])
@pytest.mark.parametrize("signs", [UNICODE, ASCII], ids=["unicode", "ascii"])
def test_no_line_is_wider_than_the_terminal(width, signs):
    many = [
        consumer(n, name=name, status=status, code="blocked-on-unacked-subscription")
        for n, (name, status) in enumerate(
            zip(NAMES, ["stalled", "unknown", "warning", "healthy", None], strict=True)
        )
    ]
    shown = drawn(many, width, signs=signs)
    assert len(shown) == 6
    assert max(map(cell_len, shown)) <= width
    assert all(line.isprintable() for line in shown)
    words = ("consumer", "verdict") if width == 40 else ("consumer", "available", "verdict")
    assert all(word in shown[0] for word in words)
    if signs is ASCII:
        names = str.maketrans("", "", "日本語の消費者名前です\N{REPLACEMENT CHARACTER}")
        assert all(line.translate(names).isascii() for line in shown)


@pytest.mark.parametrize(
    ("code", "least"), [("prefetch-hogging", 40), ("blocked-on-unacked-subscription", 46)]
)
@pytest.mark.parametrize("width", [40, 46, 60, 80, 100, 120, 160, 200])
def test_the_verdict_is_whole_however_narrow_the_terminal_is(width, code, least):
    heading, line = drawn([consumer(name="worker-7", code=code)], width)
    assert line.startswith("worker-7" if width >= least else "worker-")
    assert line.endswith(code) == (width >= least)
    assert ("available" in heading) == (width >= least + 11 or code == "prefetch-hogging")


@pytest.mark.parametrize("width", range(60, 201, 10))
def test_a_name_or_a_topic_is_whole_or_its_column_is_left_out(width):
    name = "worker-of-the-invoices"
    where = "invoices-of-the-last-year on orders"
    ahead = NextFlow(461, at_most=True, seconds=1000.0)
    long = consumer(name=name, subscription="invoices-of-the-last-year", next_flow=ahead)
    heading, line = drawn([consumer(2), long], width)[:2]
    lines = drawn([consumer(2), long], width)
    assert any(line.startswith(name) for line in lines)
    assert any(where in line for line in lines) == ("subscription on topic" in heading)
    assert any("≤461 more in 17 min" in line for line in lines) == ("next FLOW after" in heading)
    assert "…" not in line
    assert width < 200 or "acked" in heading


def test_what_is_not_known_is_not_zero():
    unknown = dict.fromkeys(
        ("available_permits", "parked_permits", "unsent_permits_min", "flows", "msg_out_counter",
         "acknowledged", "receiver_queue_size", "next_flow", "since_last_flow")
    )  # fmt: skip
    (_, line) = drawn([consumer(**unknown, status=None, code=None)], 180)
    assert line.split() == [
        "slow", "billing", "on", "orders", "?", "?", "?", "?", "-", "?", "?", "-",
        "not", "judged", "yet",
    ]  # fmt: skip


def test_an_upper_bound_is_said_to_be_one():
    assert "≤7" in drawn([consumer(parked_permits=None, available_permits=7)], 180)[1]
    assert "≤7" not in drawn([consumer(parked_permits=0, available_permits=7)], 180)[1]
    ahead = NextFlow(4, at_most=False, seconds=None)
    assert "  4 more  " in drawn([consumer(next_flow=ahead)], 180)[1]


@pytest.mark.parametrize(
    ("available", "unsent", "size", "bar"),
    [
        (16, 0, 16, "████████████████"),
        (0, 0, 16, "················"),
        (4, 4, 16, "████········▒▒▒▒"),
        (-1360, 100, 1000, "··············▒▒"),
        (40, 5, 16, "████████████████"),  # more than one queue: a FLOW beyond it
        (1, 999, 1000, "█▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒"),
        (1, 1, 1000, "█··············▒"),
        (0, 0, 0, ""),
        (5, 0, None, ""),
        (None, 0, 16, ""),
    ],
)
def test_the_gauge_shows_a_queue_as_available_queued_and_unsent(available, unsent, size, bar):
    shown = consumer(
        available_permits=available, unsent_permits_min=unsent, receiver_queue_size=size
    )
    assert gauge(shown, UNICODE).plain == bar
    assert gauge(shown, ASCII).plain == bar.translate(str.maketrans("█·▒", "=.#"))


def test_the_worst_come_first_and_what_has_no_room_is_counted():
    statuses = ["healthy", None, "warning", "stalled", "unknown", "healthy"]
    many = [
        consumer(n, name=f"c{n}", status=status, code=None) for n, status in enumerate(statuses)
    ]
    shown = drawn(many, 120, height=5)
    assert [line.split()[0] for line in shown[1:4]] == ["c3", "c4", "c2"]
    assert shown[4] == "and 3 more: 2 healthy, 1 not judged yet"
    assert len(drawn(many, 120, height=7)) == 7
    assert drawn(many, 120, height=7)[-1].split()[0] == "c1"
    assert title(Snapshot(AT_US, tuple(many), 0), ASCII).plain == (
        "6 consumers: 1 stalled, 1 unknown, 1 warning, 2 healthy, 1 not judged yet   "
        "= available  . queued  # unsent  "
    )
    assert drawn([], 80)[0].startswith("consumer")


def finding(name: str, remedy: str = "Give it a smaller queue.") -> Finding:
    return Finding(
        code="permits-exhausted",
        severity="stalled",
        confidence=0.8,
        consumer=name,
        summary=f"{name} has 0 permits",
        evidence=(Measure("available_permits", 0, "permits"),),
        remedy=remedy,
    )


def verdict(status: Status, before: Status | None, *findings: Finding) -> Verdict:
    diagnosis = Diagnosis(
        topic="persistent://acme/shop/orders",
        partition=3,
        subscription="billing\n",
        type="Shared",
        status=status,
        findings=findings,
        unknowns=("permit-leak: nobody knows", "and more"),
        incarnations=frozenset({1, 2}),
    )
    return Verdict(AT_US, before, diagnosis)


def said(event: Verdict, console: GatedConsole = PIPE) -> list[str]:
    return [line.plain.strip() for line in happened(event, console)]


def test_a_verdict_that_changed_says_why_and_what_to_do():
    first, *rest = said(verdict("stalled", "healthy", finding("slow"), finding("slower")))
    assert first[8:] == "  ✖ STALLED  billing\N{REPLACEMENT CHARACTER} on acme/shop/orders, " + (
        "partition 3; cause: permits-exhausted of slow (80%), was healthy"
    )
    assert rest == [
        "slow has 0 permits",
        "where   slow and slower",
        "fix     Give it a smaller queue.",
        "more    pulsar-doctor explain permits-exhausted; -v for details",
    ]
    ascii_only = GatedConsole(file=io.TextIOWrapper(io.BytesIO(), encoding="ascii"), width=80)
    assert "X STALLED  billing" in said(verdict("stalled", None, finding("slow")), ascii_only)[0]
    assert said(verdict("unknown", "healthy"))[0].endswith("permit-leak: nobody knows, was healthy")
    assert len(said(verdict("healthy", "stalled"))) == 1


def test_of_an_unknown_verdict_it_says_what_is_likely_and_what_would_decide():
    first, *rest = said(Verdict(AT_US, "healthy", suspected()))
    assert first.endswith("likely key-shared-blocked of ks-stuck (70%), was healthy")
    assert rest == [
        "ks-stuck has returned none of its 10 messages",
        "where   10.0.3.7:51494, Java 4.0.8, connected 2 h",
        f"decide  {PROBE.text} (60 s)",
        "run     pulsar-doctor stall-check orders -s billing --window 60s",
        "more    pulsar-doctor explain key-shared-blocked; -v for details",
    ]


def test_a_gap_is_a_sentence():
    assert not_recorded(1) == "1 command was not recorded"
    assert not_recorded(12) == "12 commands were not recorded"
    assert not_recorded(None) == "some commands were not recorded; nobody knows how many"


def published(event: Event) -> str:
    """As a program reads it, without the schema and the time."""
    read, write = os.pipe()
    with os.fdopen(write, "w") as out:
        JsonLines(out, print, print).show(event)
    with os.fdopen(read) as line:
        text = line.read()
    kind = text.removeprefix('{"schema": "pulsar-doctor/tap/2", "event": ')
    assert kind != text
    return kind.replace(f'"at": "{AT}"', '"at": …')


VERDICT = (
    '"topic": "persistent://acme/shop/orders", "partition": 3, "subscription": "billing\\n", '
    '"type": "Shared", "status": "stalled", "backlog": null, "account": null, "balance": null, '
    '"pace": null, '
    '"findings": [{"code": '
    '"permits-exhausted", "severity": "stalled", "confidence": 0.8, "consumer": "slow", "summary": '
    '"slow has 0 permits", "evidence": [{"name": "available_permits", "value": 0, "unit": '
    '"permits"}], "since": null, "where": null, "impact": null, "remedy": "Give it a smaller '
    'queue.", "actions": [], "explain": "pulsar-doctor explain permits-exhausted", '
    '"page": "docs/causes/permits-exhausted.md"}], '
    '"suspects": [], "ruled_out": [], "not_told": '
    '["permit-leak: nobody knows", "and more"], "known_issues": [], "consumers": null}'
)
STALLED = verdict("stalled", None, finding("slow"))


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (
            Listening(AT_US, "pulsar://127.0.0.1:1", "b:6650", "/t"),
            '"listening", "at": …, "service_url": "pulsar://127.0.0.1:1", "upstream": "b:6650", '
            '"trace_dir": "/t"}',
        ),
        (
            Snapshot(AT_US, (CONSUMER,), 9),
            '"snapshot", "at": …, "consumers": [{"incarnation": 1, "name": "slow", '
            '"topic": "persistent://public/default/orders", "partition": null, "subscription": '
            '"billing", "type": "Shared", "client_version": "Pulsar-CPP-v3.7.0", "address": '
            '"10.0.0.7:5000", "receiver_queue_size": 16, "refill_threshold": 8, '
            '"available_permits": 0, "parked_permits": 0, "unsent_permits_min": 4, "flows": '
            '1, "msg_out_counter": 16, "acknowledged": 4, "unacked_messages": 12, '
            '"since_last_flow": 75.0, "next_flow": {"messages": 4, "at_most": true, "seconds": '
            '12.0}, "certain": true, "status": "stalled", "code": "permits-exhausted"}], '
            '"unread_bytes": 9}',
        ),
        (STALLED, f'"verdict", "at": …, "before": null, {VERDICT}'),
        (Gap(AT_US, 7, None), '"gap", "at": …, "seq": 7, "dropped": null}'),
        (Sealed(AT_US, 3), '"sealed", "at": …, "through": 3}'),
        (
            Kept(AT_US, 3, "a signal", None, "no"),
            '"kept", "at": …, "through": 3, "reason": "a signal", "path": null, "error": "no"}',
        ),
        (Trouble(AT_US, None), '"trouble", "at": …, "reason": null}'),
        (Answering(AT_US, False, 5.2), '"observer", "at": …, "answers": false, "seconds": 5.2}'),
        (
            Counters(AT_US, {"records_seen": 4}, Counted(AT_US, 4, 0, 1, 2)),
            '"counters", "at": …, "relay": {"records_seen": 4}, "observer": {"rows": 4, '
            '"unread_bytes": 0, "parts_sealed": 1, "expired_rows": 2}}',
        ),
        (Counters(AT_US, {}, None), '"counters", "at": …, "relay": {}, "observer": null}'),
        (
            End(AT_US, 1, 2, ("stalled",), None, (STALLED.diagnosis,)),
            '"end", "at": …, "exit_code": 1, "dropped": 2, "seen": ["stalled"], "trace_dir": null, '
            f'"subscriptions": [{{{VERDICT}], "written": null, "sealed": null, '
            '"expectations": []}',
        ),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_program_reads_the_same_text_for_ever(event, text):
    assert published(event) == f"{text}\n"


class Screenful:
    """A terminal of ours, and what was written to it."""

    def __init__(self, **options: Any) -> None:
        self.file = io.StringIO()
        console = GatedConsole(
            file=self.file, width=120, height=8, force_terminal=True, highlight=False, **options
        )
        self.talk: list[str] = []
        self.terminal = Terminal(console, self.talk.append, self.talk.append)

    def show(self, event: Event) -> str:
        before = len(self.file.getvalue())
        self.terminal.show(event)
        return self.file.getvalue()[before:]


def test_a_terminal_is_drawn_again_and_a_changed_verdict_stays_above():
    screen = Screenful(color_system=None)
    listening = Listening(AT_US, "pulsar://127.0.0.1:1", "127.0.0.1:2", None)
    assert screen.show(listening) == "pulsar://127.0.0.1:1\n"
    many = tuple(consumer(n, name=f"c{n}") for n in range(20))
    first = screen.show(Snapshot(AT_US, many, 0))
    assert "and 16 more: 16 stalled" in first
    assert first.count("\n") < 8
    again = screen.show(Snapshot(AT_US, many[:1], 0))
    assert "\x1b[1A" in again  # it goes up, and draws over what was there
    changed = screen.show(verdict("stalled", None, finding("slow")))
    assert changed.index("STALLED") < changed.index("1 consumer: 1 stalled")
    assert screen.show(Snapshot(AT_US, (), 0)).count("STALLED") == 0
    screen.terminal.close()
    screen.terminal.close()


def test_the_first_healthy_verdict_is_no_news():
    screen = Screenful(color_system=None)
    assert screen.show(verdict("healthy", None)) == ""
    assert "HEALTHY" in screen.show(verdict("healthy", "stalled"))


def test_no_color_is_respected(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Screenful(color_system="standard").show(verdict("stalled", None, finding("slow")))
    monkeypatch.delenv("NO_COLOR")
    coloured = Screenful(color_system="standard").show(verdict("stalled", None))
    assert "31m" not in plain
    assert "31m" in coloured


SEALED = Sealed(AT_US, 1)
BIG = Trouble(AT_US, "x" * 1_000_000)


def test_a_reader_that_goes_away_is_told_once_and_ends_nothing():
    talk: list[str] = []
    read, write = os.pipe()
    with os.fdopen(write, "w") as out:
        screen = JsonLines(out, talk.append, talk.append)
        os.close(read)
        for _ in range(3):
            screen.show(SEALED)
    assert talk == [f"nothing more is written to {write}: Broken pipe; the tap goes on"]


def test_a_line_that_was_interrupted_is_finished_before_the_next():
    read, write = os.pipe()
    with os.fdopen(write, "w") as out, os.fdopen(read, "rb") as lines:
        screen = JsonLines(out, print, print)

        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        before = signal.signal(signal.SIGALRM, interrupt)
        signal.setitimer(signal.ITIMER_REAL, 0.2)
        try:
            with pytest.raises(KeyboardInterrupt):
                screen.show(BIG)
        finally:
            signal.signal(signal.SIGALRM, before)
        screen.hurry()
        reader = ThreadPoolExecutor(1)
        told = reader.submit(lambda: [json.loads(lines.readline()) for _ in range(2)])
        screen.show(SEALED)
        assert [event["event"] for event in told.result(10)] == ["trouble", "sealed"]
        reader.shutdown()


def test_whoever_does_not_read_in_the_end_is_not_waited_for(monkeypatch):
    monkeypatch.setattr("pulsar_doctor.parts.tap.report.screens.LAST_SECONDS", 0.1)
    talk: list[str] = []
    read, write = os.pipe()
    with os.fdopen(write, "w") as out:
        screen = JsonLines(out, talk.append, talk.append)
        screen.hurry()
        screen.show(BIG)
    os.close(read)
    assert talk == [f"nothing more is written to {write}: it is not read; the tap goes on"]
