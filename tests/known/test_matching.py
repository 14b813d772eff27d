"""Messages of an issue that fits: how surely, of which version, and what is missing."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.checkup.result import Checkup, Cluster
from pulsar_doctor.diagnosis.causes import load as causes
from pulsar_doctor.diagnosis.known.issue import load
from pulsar_doctor.diagnosis.known.matching import KnownIssue, affects, matching, on_broker
from pulsar_doctor.diagnosis.known.versions import version_of
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.evidence.by_stats import subscription_view
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.measures import WIRE
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import exactly
from pulsar_doctor.report.known_issues import issue_rows
from pulsar_doctor.report.paper import console_on
from pulsar_doctor.report.stall_check.block import block
from pulsar_doctor.report.stall_check.pen import Pen
from pulsar_doctor.report.stall_check.tree import Alike
from tests.known.fixture import load as fixtures
from tests.support.counting import counting

FIXTURES = fixtures()
BY_ID = {issue.id: issue for issue in load()}
RULES = causes()


def judged(name: str) -> Diagnosis:
    return diagnose(subscription_view(FIXTURES[name].observed()), RULES, limits_of(RULES))


def test_an_issue_that_fits_several_consumers_is_one_row() -> None:
    found = next(each for each in map(judged, FIXTURES) if each.known_issues)
    twice = replace(found, known_issues=tuple(e for e in found.known_issues for _ in range(2)))
    assert [*issue_rows(twice)] == [*issue_rows(found)]


def test_a_screen_names_an_issue_only_where_it_is_that() -> None:
    found = [each for each in map(judged, FIXTURES) if each.known_issues]
    surely = {each: each.known_issues[0].grade == "matches" for each in found}
    assert set(surely.values()) == {True, False}
    for each, sure in surely.items():
        pen = Pen(console_on(io.StringIO()))
        shown = "".join(line.plain for line in block(pen, Alike.single(each)))
        assert ("fits " in shown) == (sure and each.status != "healthy"), each.known_issues[0]


def of(name: str, version: str | None) -> KnownIssue:
    found = on_broker(matching(subscription_view(FIXTURES[name].observed())), version)
    [known] = [each for each in found if each.issue.id == FIXTURES[name].issue]
    return known


def test_it_matches_only_once_the_version_is_known() -> None:
    assert of("shared-read-lost", "4.0.12").grade == "matches"
    unknown = of("shared-read-lost", None)
    assert (unknown.grade, unknown.missing) == ("possible", ("the version of the broker",))


def test_a_build_of_a_vendor_is_never_sure() -> None:
    known = of("shared-read-lost", "4.0.12.1")
    assert known.grade == "possible"
    assert known.missing == ("which fixes this vendor's build has",)
    assert known.affects.startswith("4.0.12.1 is in the range")


def test_without_a_proof_it_is_possible_at_most() -> None:
    known = of("shared-read-lost", "4.0.12")
    assert replace(known, issue=replace(known.issue, proof="")).grade == "possible"
    assert replace(known, issue=replace(known.issue, by_hand=("x",))).grade == "possible"


@pytest.mark.parametrize(
    ("issue", "version", "said"),
    [
        ("apache/pulsar#26236", "4.0.8", "your 4.0.8 has it, fixed in 4.0.13"),
        ("apache/pulsar#22454", "3.0.4", "3.0.4 is in the range, fixed in 3.0.5"),
        ("apache/pulsar#25028", "4.0.8", "your 4.0.8 has it, and no release fixes it yet"),
        ("apache/pulsar#25028", "4.2.0", "4.2.0 is in the range, and no release fixes it yet"),
        (
            "apache/pulsar-client-go#1180",
            "0.12.1",
            "your 0.12.1 of the go client has it, fixed in 0.13.0",
        ),
        ("apache/pulsar#26395", None, "affects >=2.11.0"),
    ],
)
def test_your_version_has_it_only_where_the_lower_end_is_known(
    issue: str, version: str | None, said: str
) -> None:
    assert affects(BY_ID[issue], version_of(version or "")) == said


def test_what_is_no_condition_on_consumers_is_evaluated_once() -> None:
    view = subscription_view(FIXTURES["shared-read-lost"].observed())
    issue = replace(BY_ID["apache/pulsar#25581"], when=("sub.type == 'Exclusive'", "con.held > 0"))

    def lines_run(times: int) -> int:
        with counting() as lines:
            assert not matching(replace(view, consumers=(view.consumers or ()) * times), [issue])
        return lines.run

    lines_run(1)  # which also parses the conditions
    assert lines_run(100) == lines_run(1)


def test_what_is_not_reported_is_named() -> None:
    stats = FIXTURES["shared-read-lost"]
    view = subscription_view(replace(stats, internal=None).observed())
    assert not [each for each in matching(view) if each.issue.id == stats.issue]  # most is unknown
    cut = subscription_view(stats.observed({"internal.cursors.s.pendingReadOps": None}))
    [known] = [each for each in matching(cut) if each.issue.id == stats.issue]
    assert "cursor.reads_under_way" in known.missing


def test_a_checkup_leaves_out_what_its_broker_does_not_have() -> None:
    named = {}
    for version in ("4.0.12", "4.0.11", None):
        checkup = Checkup("broker", [judged("shared-read-lost")])
        checkup.cluster = Cluster("c", "http://localhost:8080", version)
        [diagnosis] = checkup.examined()
        named[version] = [(each.issue.id, each.grade) for each in diagnosis.known_issues]
    assert named["4.0.12"][0] == ("apache/pulsar#26454", "matches")
    assert "apache/pulsar#26454" not in [issue for issue, _ in named["4.0.11"]]
    assert named[None][0] == ("apache/pulsar#26454", "possible")


def test_a_person_reads_the_issue_the_version_and_the_workaround_with_its_warning() -> None:
    found = judged("shared-read-lost")
    found = replace(found, known_issues=on_broker(found.known_issues, "4.0.12"))
    (name, line), (_, to_do), *_ = issue_rows(found)
    assert name == "known"
    assert line.startswith("apache/pulsar#26454: ")
    assert "your 4.0.12 has it, and no release fixes it yet" in line
    assert "Warning: an unload disconnects" in to_do


def test_a_healthy_verdict_names_none() -> None:
    assert judged("compacted-reader").known_issues == ()


def test_a_trace_alone_names_the_defect_of_a_client_and_what_only_a_broker_reports() -> None:
    consumer = ConsumerView(
        label="rust",
        client_version="pulsar-rs-v6.3.0",
        connected_for=Age(60_000, True),
        available_permits=exactly(0),
        unacked_messages=exactly(0),
        msg_out_counter=exactly(1),
        quiet_for=Age(50_000, True),
    )
    seen = SubscriptionView(
        topic="persistent://public/default/orders",
        partition=None,
        subscription="s",
        type="Shared",
        sources=frozenset({WIRE}),
        consumers=(consumer,),
    )
    [known] = [each for each in matching(seen) if each.issue.component == "rust"]
    assert (known.issue.id, known.grade) == ("streamnative/pulsar-rs#326", "possible")
    assert (known.consumer, known.missing) == ("rust", ("sub.backlog",))
