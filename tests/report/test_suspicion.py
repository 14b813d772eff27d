"""What is suspected, ruled out, and what would decide: in every format that people read."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from pulsar_doctor.diagnosis.answers import (
    NONE_OF_THESE,
    Clue,
    Probe,
    RuledOut,
    Suspect,
    TooProbable,
    Unknown,
)
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.report.words import cause
from tests.report.checkups import (
    ANOTHER,
    PROBE,
    SLOW,
    STUCK,
    WELL,
    checkup,
    finding,
    suspected,
    verdict,
    written,
)

ONE_UNDECIDED = {"unknown": (Unknown("one sample does not show whether it moves"),)}
BLOCK = """
? SUSPECTED key-shared-blocked of ks-stuck (70%)  ledger (Shared) on persistent://public/default/orders
  likely     key-shared-blocked of ks-stuck, 70%: ks-stuck has returned none of its 10 messages
  where      10.0.3.7:51494, Java 4.0.8, connected 2 h
  for        10 given, none ever acknowledged; ks-ok goes on
  against    connected for 20 s only
  missing    since ack, read position
  to decide  Read it once more in a minute: whether out is still 10 (60 s)
  run        pulsar-doctor stall-check persistent://public/default/orders -s billing --window 60s
  possible   slow-but-progressing of ks-stuck, 20%: its work takes more than 10 s a message
  unlikely   nothing is wrong, 7%; no known cause applies, 3%
  ruled out  no-consumer (2 consumers are attached); blocked-on-unacked-consumer (10 of 50000 used)
  more       pulsar-doctor explain key-shared-blocked
  backlog    498 entries
  undecided  key-shared-blocked: one sample does not show whether it moves
  no data    permit-leak: needs a trace of the wire
"""
SHORT = """
? SUSPECTED  ledger on orders: likely key-shared-blocked of ks-stuck (70%)
  ks-stuck has returned none of its 10 messages
  where   10.0.3.7:51494, Java 4.0.8, connected 2 h
  waits   the backlog: 498 entries
  decide  Read it once more in a minute: whether out is still 10 (60 s)
  run     pulsar-doctor stall-check orders -s billing --window 60s
  more    pulsar-doctor explain key-shared-blocked; -v for details
"""


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row of a verdict in one line."""
    monkeypatch.setenv("COLUMNS", "1000")


def table(*diagnoses: Diagnosis, **wanted: Any) -> list[str]:
    text = written("table", checkup(diagnoses), **wanted)
    return [line.rstrip() for line in text.splitlines()]


def details(*diagnoses: Diagnosis) -> list[str]:
    """With -v."""
    return table(*diagnoses, verbose=True)


def test_suspects_are_ranked_each_with_what_speaks_for_it_and_what_would_decide() -> None:
    assert details(suspected(**ONE_UNDECIDED)) == BLOCK.split("\n")[1:]
    assert table(suspected(**ONE_UNDECIDED)) == SHORT.split("\n")[1:]


def test_the_line_to_run_is_whole_at_any_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert f"  run        {PROBE.command}" in details(suspected())


def test_what_no_source_here_can_tell_is_no_reason_beside_suspects() -> None:
    for name in ("junit", "github", "nagios"):
        assert "needs a trace" not in written(name, checkup([suspected(**ONE_UNDECIDED)]))
    every = details(suspected(**ONE_UNDECIDED))
    assert "  no data    permit-leak: needs a trace of the wire" in every
    alone = details(suspected(suspects=(), ruled_out=(), **ONE_UNDECIDED))
    assert "  no data    permit-leak: needs a trace of the wire" in alone


@pytest.mark.parametrize(
    ("probability", "says"),
    [
        (0.999, "likely key-shared-blocked of ks-stuck (99%)"),
        (0.6, "likely key-shared-blocked of ks-stuck (60%)"),
        (0.59, "possible key-shared-blocked of ks-stuck (59%)"),
        (0.15, "possible key-shared-blocked of ks-stuck (15%)"),
        (0.14, "unlikely key-shared-blocked of ks-stuck (14%)"),
        (0.001, "unlikely key-shared-blocked of ks-stuck (1%)"),
    ],
)
def test_how_likely_it_is_in_a_word(probability: float, says: str) -> None:
    judged = suspected(suspects=(replace(STUCK, probability=probability),))
    assert cause(judged) == says
    assert details(judged)[1].split()[0] == says.split(maxsplit=1)[0]


def test_what_is_no_rule_of_ours_is_said_in_words() -> None:
    well, another = replace(WELL, probability=0.8), replace(ANOTHER, probability=0.2)
    judged = suspected(suspects=(well, another), unknown=(TooProbable("20%, and 10% is allowed"),))
    assert cause(judged) == "likely nothing is wrong (80%)"
    doubted = replace(judged, unknown=(Unknown("w is silent"), *judged.unknown))
    assert cause(doubted) == "w is silent"
    assert details(judged)[1:3] == [
        "  likely     nothing is wrong, 80%",
        "  possible   no known cause applies, 20%",
    ]
    hidden = replace(ANOTHER, code=NONE_OF_THESE, probability=0.97)
    hardly = replace(STUCK, probability=0.03, speaks_for=())
    problem = TooProbable("the probability of a problem is 100%, and healthy allows 10%")
    beside = suspected(suspects=(hardly, hidden), unknown=(problem,))
    assert cause(beside) == "likely no known cause applies (97%)"
    hidden = replace(hidden, probability=0.9)
    assert cause(suspected(suspects=(hidden,))) == "likely no known cause applies (90%)"


def test_one_observation_that_decides_two_suspects_is_told_once_and_dangers_are_said() -> None:
    probe = Probe("Dump its threads", "jcmd 7 Thread.print", None, harmless=False)
    both = (replace(STUCK, decide=probe), replace(SLOW, decide=probe))
    lines = details(suspected(suspects=both))
    assert [line for line in lines if "to decide" in line] == [
        "  to decide  Dump its threads; this does more than read"
    ]


def test_at_most_three_are_told_in_detail() -> None:
    four = tuple(replace(SLOW, consumer=f"c{at}", probability=0.25) for at in range(4))
    lines = details(suspected(suspects=four))
    assert [line.split()[0] for line in lines[1:5]] == ["possible"] * 4
    assert lines[4] == "  possible   slow-but-progressing of c3, 25%"


def test_what_is_ruled_out_stands_by_its_reason_numbers_first() -> None:
    shared, permits = "it is Shared", "w has 9 permits"
    out = (
        RuledOut("key-shared-blocked", shared), RuledOut("permit-leak", permits),
        RuledOut("inactive-failover", shared), RuledOut("negative-permits", permits),
    )  # fmt: skip
    assert (
        "  ruled out  permit-leak and negative-permits (w has 9 permits); "
        "key-shared-blocked and inactive-failover (it is Shared)"
    ) in details(suspected(ruled_out=out))
    many = tuple(RuledOut(f"rule-{at}", f"why {at}") for at in range(9))
    text = written("junit", checkup([suspected(ruled_out=many)]))
    assert "; rule-3 (why 3); and 5 more with -v or -o json" in text
    [line] = [line for line in details(suspected(ruled_out=many)) if "ruled" in line]
    assert line.endswith("; rule-8 (why 8)")


def test_of_a_suspect_nothing_is_said_twice() -> None:
    clues = (Clue("permits", "a consumer has permits"), Clue("held", "b holds nothing"))
    summary = "nothing is wrong: it works; a consumer has permits"
    probe = replace(PROBE, text="Look again for 60 s: whether it moves.")
    well = replace(WELL, probability=0.9, summary=summary, speaks_for=clues, decide=probe)
    assert details(suspected(suspects=(well,)))[1:4] == [
        "  likely     nothing is wrong, 90%: it works; a consumer has permits",
        "  for        b holds nothing",
        "  to decide  Look again for 60 s: whether it moves.",
    ]


def test_beside_a_finding_they_stand_below_it() -> None:
    judged = verdict("warning", suspects=(STUCK, SLOW))
    names = [
        line.split()[0] for line in details(judged) if line.startswith("  ") and line[2] != " "
    ]
    assert names.index("cause") < names.index("likely") < names.index("possible")


def test_a_row_of_many_names_the_first_suspect_and_its_share(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "140")
    stalled = [verdict("stalled", f"t{at}", backlog=at) for at in range(3)]
    some = [suspected(f"s{at}", backlog=at) for at in (1, 2)]
    lines = table(*stalled, *some, verdict("unknown", "none", backlog=0))
    rows = [line for line in lines if "UNKNOWN" in line]
    assert [re.split(r" {2,}", row)[4:6] for row in rows] == [
        ["ks-stuck", "likely key-shared-blocked (70%)"],
        ["ks-stuck", "likely key-shared-blocked (70%)"],
        ["-", "broker-read-stuck: one sample does not show whether it moves"],
    ]
    at = lines.index(
        "key-shared-blocked, suspected; to decide: "
        "Read it once more in a minute: whether out is still 10 (60 s)"
    )
    assert lines[at + 1] == f"  {PROBE.command}"
    monkeypatch.setenv("COLUMNS", "80")
    narrow = table(*stalled, *some, verdict("unknown", "none", backlog=0))
    assert "  likely key-shared-blocked of ks-stuck (70%), backlog 2" in narrow


def case_of(**wanted: Any) -> ElementTree.Element:
    root = ElementTree.fromstring(written("junit", checkup([suspected()]), **wanted))
    [[found]] = root.iter("testcase")
    return found


def test_junit_has_it_as_an_error_or_where_it_is_asked_for_as_a_failure() -> None:
    says = "likely key-shared-blocked of ks-stuck (70%)"
    assert (case_of().tag, case_of().attrib) == ("error", {"type": "unknown", "message": says})
    failure = case_of(fail_on="suspect")
    assert (failure.tag, failure.attrib) == ("failure", {"type": "suspect", "message": says})
    lines = (failure.text or "").splitlines()
    assert lines[0].startswith("Likely: key-shared-blocked of ks-stuck, 70%: ks-stuck has")
    assert f"Run: {PROBE.command}" in lines
    assert "Ruled out: no-consumer (2 consumers are attached); blocked-on" in "\n".join(lines)


def test_nagios_and_github_name_it_in_their_first_line() -> None:
    said = written("nagios", checkup([suspected()])).splitlines()
    assert said[0].startswith(
        "PULSAR STALL-CHECK UNKNOWN - 1 of 1 subscription unknown: ledger on "
        "public/default/orders: likely key-shared-blocked of ks-stuck (70%)|"
    )
    assert said[2].startswith("  Likely: key-shared-blocked of ks-stuck, 70%: ks-stuck has")
    said = written("github", checkup([suspected()])).splitlines()
    assert "orders%3A likely key-shared-blocked of ks-stuck (70%25)::Likely: " in said[0]


def test_prometheus_has_the_probability_of_the_first() -> None:
    lines = written("prometheus", checkup([suspected(), verdict("stalled")])).splitlines()
    names = 'subscription="ledger",topic="persistent://public/default/orders"'
    of = f'cause="key-shared-blocked",cluster="",namespace="public/default",{names}'
    assert [line for line in lines if line.startswith("pulsar_doctor_suspect")] == [
        f"pulsar_doctor_suspect_probability{{{of}}} 0.7"
    ]


def test_partitions_that_are_unknown_for_different_suspects_have_a_block_each() -> None:
    slow = suspected(partition=1, suspects=(Suspect("slow-but-progressing", None, 1.0, ""),))
    alike = [suspected(partition=at) for at in (2, 3)]
    heads = [line for line in details(slow, *alike) if line.startswith("?")]
    assert [line.partition("orders, ")[2] for line in heads] == [
        "partitions 2 and 3 of 3", "partition 1 of 3",
    ]  # fmt: skip


def test_a_warning_with_a_likely_stall_is_a_failure_of_its_own_cause() -> None:
    judged = verdict("warning", suspects=(STUCK,), findings=(finding("ack-hole", "warning"),))
    text = written("junit", checkup([judged]), fail_on="suspect")
    assert '<failure type="ack-hole"' in text
    assert "<failure" not in written("junit", checkup([judged]))


def test_what_a_healthy_verdict_may_hide_stands_below_it() -> None:
    hides = replace(suspected(suspects=(STUCK, ANOTHER)), status="healthy", unknown=())
    lines = table(hides)
    assert lines[0].startswith("✔ HEALTHY  ledger")
    assert lines[1].startswith("  not ruled out  key-shared-blocked of ks-stuck, 70%")
    assert [line[2:11] for line in lines[2:]] == ["to decide", "run      "]
    assert not any(line.startswith(("  likely", "  ruled out")) for line in lines)


def test_what_to_do_if_it_is_that_is_said_once() -> None:
    both = tuple(
        replace(each, remedy="restart it") for each in (STUCK, replace(SLOW, probability=0.3))
    )
    lines = details(suspected(suspects=both))
    assert [line for line in lines if "restart it" in line] == ["  if so      restart it"]
