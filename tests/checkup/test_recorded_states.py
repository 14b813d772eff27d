"""Each recorded state of a real broker, and all that holds of it, whole and cut.

A state is read once, and every law is checked on it: the verdict is what its scenario expects, no
part of it is an alarm where the whole is healthy, a first verdict of stalled keeps its cause, only
the known issues that are true of it match, and its account adds up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from pulsar_doctor.broker.stats.followed import completed
from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.diagnosis.known.matching import matching, on_broker
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.evidence.account import Account, account_of
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.evidence.values import Count
from tests.evidence.test_account import found_in
from tests.made.states import RECORDED, VERSIONS, judged, recorded
from tests.scenarios import SCENARIOS
from tests.scenarios.table import HEALTHY, UNKNOWN, stalled

# Older brokers do not report throttled reads, nor which hashes drain. 5.0 persists 200,000 ranges.
# The last ack of the reader on 3.3.5 came within the window.
DIFFERS = {("5.0.0-M1", "holes-over-limit"): HEALTHY, ("3.3.5", "reader-stands-still"): HEALTHY} | {
    (version, name): expected
    for version in ("2.11.0", "3.3.5")
    for name, expected in (
        ("dispatch-throttled-subscription", UNKNOWN),
        ("dispatch-throttled-topic", UNKNOWN),
        ("exclusive-zombie-key-shared", stalled("permits-exhausted")),
    )
}
# Known issues that match: before 4.0 a Key_Shared consumer that joined later waits for what was
# delivered before.
TRUE = {
    (version, name): {"apache/pulsar#15705"}
    for version in ("2.11.0", "3.3.5")
    for name in ("key-shared-blocked", "exclusive-zombie-key-shared")
}


def of(
    observed: Observed, samples: tuple[Sample, ...], *, interval_ms: int | None = None
) -> Observed:
    window = Window(samples, interval_ms=interval_ms)
    return Observed(observed.topic, observed.partition, observed.subscription, window)


def test_states_of_each_version_are_there() -> None:
    assert {version for version, _ in RECORDED} == {*VERSIONS}
    assert len(RECORDED) > 230


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    "name", ["healthy-not-durable-idle", "reader-stands-still", "redelivery-storm"]
)
def test_what_follows_of_shortened_documents_is_so_in_whole_ones(version: str, name: str) -> None:
    observed = recorded(version, name)
    for sample in observed.window.samples:
        assert completed(sample.topic) == sample.topic  # nothing is left out
        assert sample.topic.subscriptions is not None
        for key, stats in sample.topic.subscriptions.items():
            held = [each.unacked_messages or 0 for each in stats.consumers or ()]
            assert sum(held) == stats.unacked_messages
            assert sample.topic.backlog_size or not stats.is_durable or not stats.msg_backlog
            cursor = ((sample.internal and sample.internal.cursors) or {}).get(key)
            assert cursor is None or cursor.durable == stats.is_durable


@pytest.mark.parametrize(("version", "name"), RECORDED)
def test_a_recorded_state(version: str, name: str) -> None:
    whole = recorded(version, name)
    for law in LAWS:
        law(version, name, whole)


def has_the_verdict_of_its_scenario(version: str, name: str, whole: Observed) -> None:
    verdict = judged(name, whole)
    expects = DIFFERS.get((version, name), SCENARIOS[name].expects)
    assert verdict.status == expects.status, (verdict.findings, verdict.unknowns)
    if expects.code is None:
        assert all(found.severity == "info" for found in verdict.findings), verdict.findings
    else:
        assert verdict.findings[0].code == expects.code


def without_internal(sample: Sample) -> Sample:
    return replace(sample, internal=None)


def without_clock(sample: Sample) -> Sample:
    return replace(sample, taken_ms=None)


def is_no_alarm_in_any_part_where_it_is_healthy(version: str, name: str, whole: Observed) -> None:
    if SCENARIOS[name].expects.status != "healthy":
        return
    samples = whole.window.samples
    cuts = [samples[:1], samples[-1:], samples[:3], samples[-2:], samples[::5], samples[::10]]
    for cut in (samples, *cuts):
        for change in (lambda sample: sample, without_internal, without_clock):
            verdict = judged(name, of(whole, tuple(map(change, cut)), interval_ms=1000))
            assert verdict.status in ("healthy", "unknown"), (len(cut), change, verdict.findings)


def has_a_cause_to_the_end_where_it_is_stalled_at_first(
    version: str, name: str, whole: Observed
) -> None:
    samples = whole.window.samples
    first = judged(name, of(whole, samples[:1]))
    if first.status == "stalled":
        for seen in range(2, len(samples) + 1):
            now = judged(name, of(whole, samples[:seen]))
            # With a pace it may be a warning; another cause may explain it.
            same = first.findings[0].code in {found.code for found in now.findings}
            assert now.status == "stalled" or (now.status == "warning" and same)


def matches_only_known_issues_that_are_true(version: str, name: str, whole: Observed) -> None:
    found = on_broker(matching(by_stats.subscription_view(whole)), version)
    matches = {each.issue.id for each in found if each.grade == "matches"}
    assert matches == TRUE.get((version, name), set())


def sums(account: Account) -> tuple[int, float]:
    """All places together, at least and at most."""
    counts = [place.entries or Count(0, None) for place in account.places]
    most = [float("inf") if each.most is None else each.most for each in counts]
    return sum(each.least or 0 for each in counts), sum(most)


def moved(view: SubscriptionView) -> int:
    """What may have moved between the reading of one number and of the next, in entries."""
    return sum(each or 0 for each in (view.published, view.delivered, view.finished))


def has_its_backlog_in_all_places_together(version: str, name: str, whole: Observed) -> None:
    view = by_stats.subscription_view(whole)
    account = account_of(view)
    assert account.total is not None
    least, most = sums(account)
    assert least - moved(view) <= (account.total.most or 0)
    assert most + moved(view) >= (account.total.least or 0)
    assert account.contradiction is None


def has_no_place_that_contradicts_without_internal_stats(
    version: str, name: str, observed: Observed
) -> None:
    samples = tuple(map(without_internal, observed.window.samples))
    less = replace(observed, window=replace(observed.window, given=samples))
    view = by_stats.subscription_view(observed)
    whole, short = account_of(view), account_of(by_stats.subscription_view(less))
    assert view.backlog is not None
    slack = moved(view) + abs((whole.total or Count(0, 0)).most or 0) * bool(view.backlog.wrong)
    assert found_in(short, "delayed") == found_in(whole, "delayed")
    unsent, among = found_in(short, "unsent"), ("unread", "unaccounted")
    parts = [place.entries for place in whole.places if place.name in among and place.entries]
    upper = 0 if unsent is None or unsent.entries is None else unsent.entries.most or 0
    if view.attended and short.total == whole.total:
        assert sum(each.least or 0 for each in parts) <= upper + slack


LAWS: tuple[Callable[[str, str, Observed], None], ...] = (
    has_the_verdict_of_its_scenario,
    is_no_alarm_in_any_part_where_it_is_healthy,
    has_a_cause_to_the_end_where_it_is_stalled_at_first,
    matches_only_known_issues_that_are_true,
    has_its_backlog_in_all_places_together,
    has_no_place_that_contradicts_without_internal_stats,
)
