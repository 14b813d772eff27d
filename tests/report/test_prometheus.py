"""Prometheus: what a scrape and node exporter's text file collector take, for any names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from prometheus_client.parser import text_string_to_metric_families as older_format
from prometheus_client.samples import Sample

from pulsar_doctor.checkup.result import STATUSES, Cluster
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.account import Account, Place, Rest
from pulsar_doctor.evidence.hole import AckedRanges
from pulsar_doctor.evidence.values import Count
from pulsar_doctor.report.stall_check.metrics import LABEL_MOST, METRICS, SERIES_MOST, Metrics
from tests.made.states import judged, recorded
from tests.report.checkups import (
    ANOTHER,
    DEADLINES,
    FALLING,
    SLOW,
    WELL,
    checkup,
    finding,
    suspected,
    verdict,
    written,
)

OF = {
    "cluster": "",
    "namespace": "public/default",
    "topic": "persistent://public/default/orders-partition-3",
    "subscription": "billing",
}


def parsed(text: str) -> list[Sample]:
    """All samples, by both of the client library's readers; all are gauges."""
    families = list(text_string_to_metric_families(text))
    assert {family.type for family in families} <= {"gauge"}
    samples = [sample for family in families for sample in family.samples]
    older = [sample for family in older_format(text) for sample in family.samples]
    key = [(each.name, each.labels, each.value) for each in samples]
    assert key == [(each.name, each.labels, each.value) for each in older]
    assert len(Counter(str(each[:2]) for each in key)) == len(key), "no series is there twice"
    return samples


def of(samples: Iterable[Sample], name: str) -> list[tuple[dict[str, str], float]]:
    full = f"pulsar_doctor_{name}"
    return [(sample.labels, sample.value) for sample in samples if sample.name == full]


def page(diagnoses: Iterable[Diagnosis], *, named: bool = False, **more: Any) -> list[Sample]:
    run, metrics = checkup(diagnoses, **more), Metrics(named=named)
    assert list(metrics.through(run.examined()))
    return parsed(metrics.text(run))


def held(name: str) -> str:
    return "".join(
        char if char.isprintable() or char == "\n" else f"\\x{ord(char):02x}" for char in name
    )


def ordered(diagnoses: Sequence[Diagnosis]) -> list[Diagnosis]:
    return sorted(diagnoses, key=lambda each: STATUSES.index(each.status))


def read(text: str) -> list[dict[str, Any]]:
    """What the samples of each subscription say."""
    samples = parsed(text)
    rows = [labels for labels, _ in of(samples, "subscription_status")]
    backlogs = {
        (each["topic"], each["subscription"]): value
        for each, value in of(samples, "subscription_backlog_entries")
    }
    return [
        {
            "full_topic": each["topic"],
            "subscription": each["subscription"],
            "status": each["status"],
            "backlog": backlogs.get((each["topic"], each["subscription"])),
        }
        for each in rows
    ]


def many(count: int, *, namespaces: int = 1, sick_every: int = 1) -> Iterator[Diagnosis]:
    for number in range(count):
        topic = f"persistent://tenant-0/space-{number % namespaces}/orders-{number:06}"
        yield verdict("healthy" if number % sick_every else "stalled", topic=topic)


def test_the_series_of_one_subscription() -> None:
    places = (
        Place("held", Count(5, 5), Rest(61.5, None), "worker-1"),
        Place("held", Count(2, 4), Rest(1.0, None), "worker-2"),
        Place("unread", Count(None, 9)),
    )
    stalled = replace(
        verdict("stalled", partition=3, balance=FALLING, deadlines=DEADLINES),
        account=Account(None, places, ()), oldest_seconds=77, flow_seconds=12.25,
        ranges=AckedRanges(7, 10_000, None),
    )  # fmt: skip
    samples = page([stalled])
    found = {each.name.removeprefix("pulsar_doctor_"): each for each in samples}
    assert of(samples, "subscription_status") == [(OF | {"status": "stalled", "suppressed": ""}, 1)]
    cause = {"cause": "permits-exhausted", "severity": "stalled", "suppressed": ""}
    assert of(samples, "finding") == [(OF | cause, 1)]
    assert of(samples, "subscription_place_entries") == [(OF | {"place": "held"}, 7)]
    assert of(samples, "subscription_limit_seconds") == [(OF | {"limit": "message-ttl"}, 3600)]
    assert {name: each.value for name, each in found.items() if each.labels == OF} == {
        "subscription_backlog_entries": 498,
        "subscription_oldest_message_seconds": 77,
        "subscription_next_flow_seconds": 12.25,
        "subscription_ranges": 7,
        "subscription_ranges_limit": 10_000,
        "subscription_growth_messages_per_second": 80,
        "subscription_rest_seconds": 61.5,
    }


@pytest.mark.parametrize(
    ("name", "seconds"),
    [
        ("permits-exhausted-shared-hung", []),
        ("permits-exhausted-exclusive-after-acks", []),
        ("prefetch-hogging", [1503.872]),
    ],
)
def test_a_consumer_that_hangs_has_no_next_flow(name: str, seconds: list[float]) -> None:
    found = page([judged(name, recorded("4.0.8", name))])
    assert [v for _, v in of(found, "subscription_next_flow_seconds")] == seconds


def test_what_is_not_reported_has_no_series() -> None:
    unread = replace(verdict("stalled", backlog=None), oldest_seconds=-1)
    names = {each.name.removeprefix("pulsar_doctor_") for each in page([unread])}
    of_it = {"subscription_status", "finding"}
    assert names == of_it | {"subscriptions", "topics_not_loaded", "topics_unreachable",
                             "checked_at_seconds"}  # fmt: skip


def test_totals_by_namespace_verdict_and_cause_without_zeros() -> None:
    there = [verdict("stalled"), verdict("stalled", "b"), verdict(), verdict(topic="t")]
    samples = page(there, cluster=Cluster("east", "http://x", None), not_loaded=["persistent://x"])
    stalled = {"status": "stalled", "cause": "permits-exhausted", "suppressed": ""}
    healthy = {"status": "healthy", "cause": "", "suppressed": ""}
    here = {"cluster": "east", "namespace": "public/default"}
    assert of(samples, "subscriptions") == [
        (here | stalled, 2), (here | healthy | {"namespace": ""}, 1), (here | healthy, 1),
    ]  # fmt: skip
    assert of(samples, "topics_not_loaded") == [({"cluster": "east"}, 1)]
    assert of(samples, "topics_unreachable") == [({"cluster": "east"}, 0)]
    assert of(samples, "checked_at_seconds") == [({"cluster": "east"}, 1777636800.25)]


def test_a_healthy_subscription_has_series_only_if_it_was_named() -> None:
    assert of(page([verdict()]), "subscription_status") == []
    assert len(of(page([verdict()], named=True), "subscription_status")) == 1


def test_that_nothing_is_wrong_or_nothing_known_is_no_suspect() -> None:
    well, another = replace(WELL, probability=0.9), replace(ANOTHER, probability=0.8)
    found = page([suspected("a", suspects=(well, another, SLOW)), suspected("b", suspects=(well,))])
    suspects = of(found, "suspect_probability")
    assert [(each["cause"], n) for each, n in suspects] == [("slow-but-progressing", 0.2)]
    totals = of(found, "subscriptions")
    assert {each["cause"] for each, _ in totals} == {"", "slow-but-progressing"}


def test_a_cause_of_several_consumers_is_one_series() -> None:
    findings = tuple(finding(consumer=name) for name in ("a", "b"))
    assert len(of(page([verdict("stalled", findings=findings)]), "finding")) == 1


@pytest.mark.parametrize("namespaces", [1, 20, 5000])
def test_no_page_has_more_series_than_the_cap_and_it_says_what_was_cut(namespaces: int) -> None:
    samples = page(many(5000, namespaces=namespaces))
    assert len(samples) <= SERIES_MOST
    shown = len(of(samples, "subscription_status"))
    assert of(samples, "subscriptions_cut") == [
        ({"cluster": "", "status": "stalled"}, 5000 - shown)
    ]
    assert sum(value for _, value in of(samples, "subscriptions")) == 5000
    assert shown > 300


def test_what_is_worst_is_cut_last() -> None:
    late = [verdict("unknown", topic=f"persistent://a/b/{number}") for number in range(1500)]
    samples = page([*late, *many(100)])
    statuses = Counter(labels["status"] for labels, _ in of(samples, "subscription_status"))
    assert statuses["stalled"] == 100
    assert [labels["status"] for labels, _ in of(samples, "subscriptions_cut")] == ["unknown"]


def test_ten_thousand_of_which_one_in_a_hundred_is_sick_are_few_series() -> None:
    run, metrics = checkup(many(10_000, namespaces=20, sick_every=100)), Metrics(named=False)
    assert len(list(metrics.through(run.examined()))) == 10_000
    text = metrics.text(run)
    assert len(parsed(text)) < SERIES_MOST
    assert len(text) < 300_000


def test_what_could_not_be_read_keeps_its_series_and_what_was_read_does_not() -> None:
    names = ("lost", "lost-partition-1", "cured", "gone")
    topics = [f"persistent://public/default/{name}" for name in names]
    first = Metrics(named=False)
    assert list(first.through([verdict("stalled", topic=topic) for topic in topics]))
    for unread, kept in ((topics[0], topics[:2]), ("(the rest)", [*topics[:2], topics[3]])):
        run = checkup([verdict(topic=topics[2])], unreachable=[(unread, "503")])
        second = Metrics(named=False, before=first)
        assert list(second.through(run.examined()))
        samples = parsed(second.text(run))
        assert [labels["topic"] for labels, _ in of(samples, "finding")] == kept
        assert sum(value for _, value in of(samples, "subscriptions")) == len(kept) + 1
        assert of(samples, "subscriptions_cut") == []


def test_where_nothing_was_read_the_page_is_not_fresh() -> None:
    lost = [("persistent://public/default/orders", "503")]
    assert "checked_at" not in written("prometheus", checkup([], unreachable=lost))
    assert "checked_at" in written("prometheus", checkup([]))
    first, read_at = Metrics(named=True), checkup([verdict("stalled")])
    assert list(first.through(read_at.examined()))
    before = of(parsed(first.text(read_at)), "checked_at_seconds")
    later = checkup([], unreachable=lost)
    later.checked_at = datetime.now(UTC)
    second = Metrics(named=True, before=first)
    assert of(parsed(second.text(later)), "checked_at_seconds") == before


def test_labels_are_those_that_are_declared_and_hold_no_consumer_and_no_address() -> None:
    secret = "canary"
    findings = (finding(consumer=f"{secret}-1", summary=secret),)
    stalled = verdict("stalled", findings=findings, unknowns=(secret,))
    places = (Place("held", Count(5, 5), None, secret),)
    samples = page([replace(stalled, account=Account(None, places, ()))])
    known = {label for metric in METRICS.values() for label in metric.labels} | OF.keys()
    assert {label for sample in samples for label in sample.labels} <= known
    assert secret not in str(samples)


def test_quotes_backslashes_line_ends_and_half_characters_in_a_name() -> None:
    text = written("prometheus", checkup([verdict(subscription='a\\n"b\nc\ud800é')]))
    assert 'subscription="a\\\\n\\"b\\nc\\\\xd800é"' in text
    [(labels, _)] = of(parsed(text), "subscription_status")
    assert labels["subscription"] == 'a\\n"b\nc\\xd800é'


def test_the_page_has_all_whatever_is_shown() -> None:
    there = [verdict("stalled"), verdict("unknown", "b")]
    only = frozenset({"healthy"})
    assert written("prometheus", checkup(there, only=only)) == written("prometheus", checkup(there))


def test_names_that_are_alike_as_far_as_a_label_goes_are_one_series_and_one_is_cut() -> None:
    long = "x" * LABEL_MOST
    samples = page([verdict("stalled", f"{long}{number}") for number in range(3)])
    assert len(of(samples, "subscription_status")) == 1
    assert of(samples, "subscriptions_cut") == [({"cluster": "", "status": "stalled"}, 2)]
