"""The block of a verdict: nothing is left out or broken at any width."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from functools import cache

import pytest

from pulsar_doctor.diagnosis.answers import Action, Finding, Probe
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.numbers import ReportedConsumer
from pulsar_doctor.evidence.whereabouts import Whereabouts
from pulsar_doctor.report.stall_check.block import block, pasted
from pulsar_doctor.report.stall_check.pen import Pen
from pulsar_doctor.report.stall_check.tree import Alike
from pulsar_doctor.report.stall_check.verdict import SAVE
from pulsar_doctor.report.words import short_topic
from pulsar_doctor.wording.consoles import GatedConsole
from tests.made.states import RECORDED, judged, recorded
from tests.report.checkups import STUCK, checkup, finding, located, suspected, verdict, written

WIDTHS = (60, 80, 100, 120)
LINES_MOST = 14  # of 80 characters, and for the pace six


@cache
def unwell() -> dict[str, Diagnosis]:
    """Every recorded state that is not healthy, as it is judged."""
    found = {f"{at}/{name}": judged(name, recorded(at, name)) for at, name in RECORDED}
    return {name: each for name, each in found.items() if each.status != "healthy"}


def drawn(diagnosis: Diagnosis, width: int = 80, encoding: str = "utf-8") -> list[str]:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    pen = Pen(GatedConsole(file=out, width=width), tells_backlog=True)
    return [line.plain for line in block(pen, Alike.single(diagnosis))]


def rows_of(lines: list[str], width: int) -> int:
    """Rows of the terminal, which breaks a line that is too long."""
    return sum(-(-len(line) // width) for line in lines)


def to_paste(line: str) -> bool:
    return "pulsar-" in line or line.startswith("  fix     ss ")


def words(lines: list[str]) -> list[str]:
    """Without the sign of a comment, and `cause`, which is left out where that saves a line."""
    text = " ".join(lines).replace("; cause:", ":", 1)
    return [word for word in text.split() if word != "#"]


@pytest.mark.parametrize("width", WIDTHS)
def test_whatever_a_wide_screen_says_of_a_recorded_state_a_narrow_one_says(width: int) -> None:
    assert len(unwell()) > 60
    for name, diagnosis in unwell().items():
        wide = drawn(diagnosis, 20_000)
        narrow = [line.replace("%)", "%") for line in drawn(diagnosis, width)]
        assert words(narrow) == words([line.replace("%)", "%") for line in wide]), name


def test_every_recorded_state_takes_a_dozen_lines() -> None:
    for name, diagnosis in unwell().items():
        most = LINES_MOST + (6 if diagnosis.pace and diagnosis.pace.levers else 0)
        assert rows_of(drawn(diagnosis), 80) <= most, name


@pytest.mark.parametrize("width", WIDTHS)
def test_no_name_is_broken_and_each_block_has_all_its_parts(width: int) -> None:
    for diagnosis in unwell().values():
        lines = drawn(diagnosis, width)
        assert all(len(line) <= width for line in lines if not to_paste(line))
        head = " ".join(line for line in lines[:2] if line[0] != " ")
        topic = diagnosis.topic.rpartition("/")[2]
        assert topic in " ".join(lines)
        assert f"{diagnosis.subscription} on {topic}" in head
        names = [line[2:10].strip() for line in lines if line[:2] == "  "]
        taken = sum(-(-len(line) // width) for line in lines)
        assert "more" in names or taken == LINES_MOST, "it is left out first"
        assert "check" in names or "run" in names
        assert sum("stall-check" in line for line in lines) == 1, "the check stands once"
        for found in diagnosis.findings[:1]:
            address = found.where.address.lstrip("/") if found.where and found.where.address else ""
            assert address in " ".join(lines)
            assert f"explain {found.code}" in " ".join(" ".join(lines).split())


HOG = """
✖ STALLED  s on prefetch-hogging-5b6f5b; cause: prefetch-hogging of hog (NN%)
  hog holds 496 of the 496 unacknowledged messages, and needs at least 19 min
  for them, while idle-1, idle-2 had nothing to do for 12 s: it works, but
  slowly; 500 permits here, 20 there, next FLOW after at most 496 more messages,
  in about 25 min at 3.03 s each
  where   127.0.0.1:37502, CPP 4.2.0, connected 12 s
  waits   the backlog: 496 entries, falling by 19 a minute
  fix     Restart its process with a queue of 1; its other consumers stop too
  check   pulsar-doctor stall-check prefetch-hogging-5b6f5b -s s
          # this finding is gone
  more    pulsar-doctor explain prefetch-hogging; -v for details
"""
NARROW = """
✖ STALLED  s on prefetch-hogging-5b6f5b; cause:
prefetch-hogging of hog (NN%)
  hog holds 496 of the 496 unacknowledged messages, and
  needs at least 19 min for them, while idle-1, idle-2 had
  nothing to do for 12 s: it works, but slowly; 500 permits
  here, 20 there, next FLOW after at most 496 more messages,
  in about 25 min at 3.03 s each
  where   127.0.0.1:37502, CPP 4.2.0, connected 12 s
  waits   the backlog: 496 entries, falling by 19 a minute
  fix     Restart its process with a queue of 1; its other
          consumers stop too
  check   pulsar-doctor stall-check prefetch-hogging-5b6f5b -s s
          # this finding is gone
  more    pulsar-doctor explain prefetch-hogging; -v for
          details
"""
HUNG = """
✖ STALLED  s on permits-exhausted-shared-hung-40edd2; cause: permits-exhausted of hung (NN%)
  hung has acknowledged none of its 10 messages for 17 s: it is stuck, or one message takes longer;
  the next ack will show; the broker may not send it more (0 permits), next FLOW after at most 5
  more messages
  where   127.0.0.1:33548, CPP 4.2.0, connected 17 s
  waits   50 of the 60 entries in the backlog wait to be sent
  fix     ss -tnp 'sport = :33548'  # On 127.0.0.1: dump its threads, restart it
  check   pulsar-doctor stall-check permits-exhausted-shared-hung-40edd2 -s s
          # cured: acks arrive, the backlog falls
  more    pulsar-doctor explain permits-exhausted; -v for details
"""
MAYBE = """
? UNKNOWN  s on zero-queue-long-work-645ae7: zero has 0 permits, quiet for 16 s: it asks for one message at a time:
working and hanging look the same
  probably nothing is wrong (NN%); otherwise it is likely permits-exhausted of zero
  where   127.0.0.1:60948, CPP 4.2.0, connected 16 s
  waits   the backlog: 20 entries (19 unread, 1 held by zero)
  decide  Watch for 60 s more: an acknowledgement or a FLOW shows that it works; its silence alone proves nothing yet.
  run     pulsar-doctor stall-check zero-queue-long-work-645ae7 -s s --window 60s
  more    pulsar-doctor explain permits-exhausted; -v for details
"""  # noqa: E501


@pytest.mark.parametrize(
    ("state", "width", "expected"),
    [
        ("prefetch-hogging", 60, NARROW),
        ("prefetch-hogging", 80, HOG),
        ("permits-exhausted-shared-hung", 100, HUNG),
        ("zero-queue-long-work", 120, MAYBE),
    ],
)
def test_a_block_at_every_width(state: str, width: int, expected: str) -> None:
    lines = drawn(unwell()[f"4.0.8/{state}"], width)
    lines[:3] = [re.sub(r"\(\d\d%", "(NN%", line) for line in lines[:3]]  # it is fitted anew
    assert lines == expected.split("\n")[1:-1]


@pytest.mark.parametrize(
    ("state", "where"),
    [
        ("redelivery-storm", "the only consumer: nacks (127.0.0.1:35758)"),
        ("consumers-come-and-go", "the only consumer: seeks (127.0.0.1:33904)"),
        ("uncommitted-messages", ""),
    ],
)
def test_the_consumers_are_named_where_the_cause_is_of_one_of_them(state: str, where: str) -> None:
    lines = [each for each in drawn(unwell()[f"4.0.8/{state}"], 100) if each[2:7] == "where"]
    assert lines == ([f"  where   {where}"] if where else [])


def acting(*actions: Action) -> Diagnosis:
    return verdict("stalled", findings=(replace(located(), actions=actions),))


RESTART = Action("now", "Restart it: others take over.", brief="Restart it; it comes again")
CHECK = "pulsar-doctor stall-check persistent://public/default/orders -s billing  # healthy"
UNLOAD = Action("now", "Unload the topic.", "pulsar-admin topics unload orders", check=CHECK)


def test_the_share_is_of_the_cause_and_an_unlikely_one_names_the_next() -> None:
    unsure = replace(located(), confidence=0.49)
    rest = (finding("paused", consumer="worker-3"), finding("delayed-messages", severity="info"))
    heads = [
        drawn(verdict("stalled", findings=(unsure, *others)), 120)[0] for others in (rest, rest[1:])
    ]
    assert heads == [
        "✖ STALLED  billing on orders; likeliest cause: permits-exhausted of worker-3 (49%), "
        "then paused of worker-3",
        "✖ STALLED  billing on orders; likeliest cause: permits-exhausted of worker-3 (49%)",
    ]


def test_the_first_action_with_its_risk_and_the_first_check() -> None:
    assert drawn(acting(RESTART, UNLOAD)) == [
        "✖ STALLED  billing on orders; cause: permits-exhausted of worker-3 (90%)",
        "  worker-3 holds 500 messages and has 0 permits",
        "  where   10.0.3.7:51494, Java 4.0.8, connected 2 h",
        "  waits   40 entries wait to be sent",
        "  fix     Restart it; it comes again",
        "  check   pulsar-doctor stall-check orders -s billing  # healthy",
        "  more    pulsar-doctor explain permits-exhausted; -v for details",
    ]


def test_a_line_to_paste_has_its_text_as_a_comment_where_there_is_room() -> None:
    [fix] = [line for line in drawn(acting(UNLOAD)) if line.startswith("  fix")]
    assert fix == "  fix     pulsar-admin topics unload orders  # Unload the topic."
    why = replace(UNLOAD, text="So that all of its consumers are disconnected and come back.")
    lines = drawn(acting(why))
    at = next(number for number, line in enumerate(lines) if line.startswith("  fix"))
    assert lines[at : at + 2] == [
        "  fix     pulsar-admin topics unload orders",
        "          # So that all of its consumers are disconnected and come back.",
    ]
    assert drawn(acting(why), 60)[at + 1 : at + 4] == [  # its headline takes two
        "  fix     pulsar-admin topics unload orders",
        "          # So that all of its consumers are disconnected",
        "          # and come back.",
    ], "also where it is pasted as a whole"
    [fix] = [line for line in drawn(acting(why), 20_000) if line.startswith("  fix")]
    assert fix.endswith("orders  # So that all of its consumers are disconnected and come back.")


def test_where_names_are_very_long_the_check_is_whole() -> None:
    topic = f"persistent://public/default/{'n' * 70}"
    check = f"pulsar-doctor stall-check {topic} -s billing  # healthy"
    found = replace(located(), actions=(replace(UNLOAD, check=check),))
    lines = drawn(verdict("stalled", topic=topic, findings=(found,)))
    assert f"  check   pulsar-doctor stall-check {'n' * 70} -s billing" in lines
    assert "          # healthy" in lines


def test_where_no_row_says_whose_process_it_is_the_whole_text_does() -> None:
    found = replace(located(), where=None, actions=(RESTART,))
    assert "  fix     Restart it: others take over." in drawn(verdict("stalled", findings=(found,)))


def hogs(*ports: int) -> tuple[Finding, ...]:
    """One finding for each, alike but for the consumer."""
    return tuple(
        replace(
            finding("prefetch-hogging", consumer=f"w-{port}"),
            where=Whereabouts(f"/10.0.3.7:{port}"),
            actions=(
                Action("now", f"Restart at 10.0.3.7:{port}.", brief="Restart it", check=CHECK),
            ),
        )
        for port in ports
    )


def test_several_with_one_cause_are_named_together_and_advised_once() -> None:
    found = (*hogs(1, 2, 3), finding("paused", consumer="w-1"))
    lines = drawn(verdict("stalled", findings=found))
    assert lines[2:] == [
        "  where   w-1 at 10.0.3.7:1, w-2 at 10.0.3.7:2 and w-3 at 10.0.3.7:3",
        "  waits   the backlog: 498 entries",
        "  fix     each of these 3: restart it",
        "  check   pulsar-doctor stall-check orders -s billing  # healthy",
        "  more    pulsar-doctor explain prefetch-hogging; -v (1 more cause)",
    ]
    whole = written("table", checkup([verdict("stalled", findings=found)]), verbose=True)
    assert whole.count("Restart at 10.0.3.7:") == 1
    assert whole.count("  to do    the same as for w-1") == 2


def test_what_is_advised_otherwise_is_printed_with_v() -> None:
    one, other = hogs(1, 2)
    other = replace(other, actions=(Action("now", "Wait for it.", check=CHECK),))
    whole = written("table", checkup([verdict("stalled", findings=(one, other))]), verbose=True)
    assert "Wait for it." in whole
    assert "the same as" not in whole


def called(*named: tuple[str, str]) -> Diagnosis:
    there = tuple(ReportedConsumer(label=name, name=name, address=at) for name, at in named)
    return verdict("stalled", consumers=there)


@pytest.mark.parametrize(
    ("addresses", "says"),
    [
        (
            ("/10.0.3.7:36912", "/10.0.3.7:55078"),
            "2 consumers are called w (10.0.3.7:36912, :55078): does an old process still run?",
        ),
        (
            ("/10.0.3.7:1", "/10.0.3.8:1"),
            "2 consumers are called w (10.0.3.7:1, 10.0.3.8:1): does an old process still run?",
        ),
        (("/10.0.3.7:1", "/10.0.3.7:1"), ""),
        (("/10.0.3.7:1", "/10.0.3.7:2", "/10.0.3.7:3", "/10.0.3.7:4"), ""),
    ],
)
def test_a_name_that_repeats_on_other_addresses_is_a_line(
    addresses: tuple[str, ...], says: str
) -> None:
    lines = drawn(called(("v", "/10.0.3.7:9"), *(("w", each) for each in addresses)), 120)
    assert [line for line in lines if line.startswith("  names")] == (
        [f"  names   {says}"] if says else []
    )


def test_a_check_compares_with_what_this_call_has_saved() -> None:
    run = [acting(RESTART, UNLOAD)]
    line = "  check   pulsar-doctor stall-check orders -s billing --after before.gz  # healthy\n"
    shown = written("table", checkup(run), saves=True, saved="before.gz")
    assert line in shown
    assert SAVE not in shown
    detailed = written("table", checkup(run), verbose=True, saves=True, saved="be fore.gz")
    assert "billing --after 'be fore.gz'" in detailed
    unsaved = written("table", checkup([*run, *run]), saves=True)
    assert unsaved.count(SAVE) == 1
    assert "--after 'be" not in unsaved
    assert SAVE not in written("table", checkup(run))
    assert SAVE not in written("table", checkup([verdict()]), saves=True)


def test_further_causes_are_counted() -> None:
    three = tuple(finding(code) for code in ("permits-exhausted", "ack-hole", "permit-leak"))
    lines = drawn(verdict("stalled", findings=three))
    assert lines[-1] == "  more    pulsar-doctor explain permits-exhausted; -v (2 more causes)"
    assert not any("ack-hole" in line for line in lines)


def test_an_unknown_one_says_what_would_decide() -> None:
    assert drawn(suspected())[0].startswith("? SUSPECTED  ledger on orders: likely key-shared-bl")
    probe = Probe("Dump its threads", None, None, harmless=False)
    silent = replace(STUCK, speaks_for=(), decide=probe)
    lines = drawn(suspected(suspects=(silent,)))
    assert lines[0] == (
        "? UNKNOWN  ledger on orders: since ack is not reported, and would decide; also"
    )
    assert "  decide  Dump its threads; this does more than read" in lines


def test_a_terminal_without_utf8() -> None:
    assert "".join(drawn(acting(UNLOAD), encoding="ascii")).isascii()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (CHECK, "pulsar-doctor stall-check orders -s billing  # healthy"),
        ("pulsar-doctor holes persistent://public/default/a", "pulsar-doctor holes a"),
        ("x persistent://public/default/-v -s s", None),
        ("x persistent://public/default/a/b/c -s s", None),
        ("x persistent://acme/shop/orders -s s", None),
        ("x non-persistent://public/default/orders -s s", None),
        ("x orders -s 'a persistent://public/default/b c'", None),
    ],
)
def test_a_line_to_paste_has_the_short_name_where_that_means_the_same(
    line: str, says: str | None
) -> None:
    assert pasted(line) == (says or line)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("public/default/orders", "orders"),
        ("public/default/orders, partition 3", "orders, partition 3"),
        ("acme/shop/orders", "acme/shop/orders"),
        ("public/default/ns/topic", "public/default/ns/topic"),
        ("public/default/", "public/default/"),
    ],
)
def test_a_topic_of_the_default_namespace_is_named_by_its_short_name(name: str, says: str) -> None:
    assert short_topic(name) == says


def test_where_a_trace_shows_too_little_the_broker_is_to_be_asked() -> None:
    """Not where the statistics were read, and no name is known to ask about."""
    reason = "commands are missing from the trace, so its ledger is not known"
    unknown = verdict("unknown", unknowns=(reason, "no-consumer: needs the broker's stats"))
    assert drawn(replace(unknown, sources=("capture",))) == [
        "? UNKNOWN  billing on orders: commands are missing from the trace, so its ledger",
        "is not known",
        "  decide  Ask the broker, if it can be reached:",
        "  run     pulsar-doctor stall-check orders -s billing",
        "  more    -v (1 more reason)",
    ]
    for other in (
        replace(unknown, sources=("stats", "trace")),
        replace(unknown, sources=("trace",), topic="orders.json"),
    ):
        assert [line.split()[0] for line in drawn(other)[2:]] == ["more"]


def test_what_helps_is_advised_beside_a_suspect_with_a_process_that_was_examined() -> None:
    suspect = replace(suspected().suspects[0], remedy="Restart it.")
    unsure = replace(suspected(), suspects=(suspect,))
    assert not any("if so" in line for line in drawn(unsure))
    lines = drawn(replace(unsure, sources=("stats", "process")))
    assert "  if so   Restart it." in lines


def test_a_finding_beside_a_suspect_is_named() -> None:
    beside = replace(suspected(), findings=(finding("exclusive-zombie"),))
    assert "(1 more cause: exclusive-zombie of" in " ".join(drawn(beside, 200))


def test_options_are_added_behind_a_name_that_looks_like_a_comment() -> None:
    pen = Pen(GatedConsole(file=io.StringIO()), saved="before.gz", reach="--admin-url http://b:1")
    line = "pulsar-doctor stall-check orders -s 'a  # b'"
    assert pen.reaching(line) == f"{line} --admin-url http://b:1"
    after = f"{line} --admin-url http://b:1 --after before.gz  # it is gone"
    assert pen.compared(f"{line}  # it is gone") == after
