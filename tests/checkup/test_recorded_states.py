"""States of real brokers as they were recorded, each judged whole and cut.

tests/states/VERSION/SCENARIO.jsonl.gz is what `stall-check --save` keeps of a scenario of
tests/scenarios, 11 samples, recorded with `python -m tests.scenarios record` on a broker of
that version.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import read
from pulsar_doctor.broker.stats.followed import completed
from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.weighing import Diagnosis, diagnose
from pulsar_doctor.evidence import by_stats
from tests.scenarios import SCENARIOS
from tests.scenarios.table import HEALTHY, UNKNOWN, stalled

FOLDER = Path(__file__).parents[1] / "states"
RECORDED = sorted(
    (path.parent.name, path.name.partition(".")[0]) for path in FOLDER.glob("*/*.jsonl.gz")
)
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
QUIET = [each for each in RECORDED if SCENARIOS[each[1]].expects.status == "healthy"]
RULES = load()


def recorded(version: str, name: str) -> Observed:
    [window] = read(SampleFiles([str(FOLDER / version / f"{name}.jsonl.gz")])).windows
    [observed] = window.subscriptions()
    return observed


def judged(name: str, observed: Observed) -> Diagnosis:
    return diagnose(
        by_stats.subscription_view(observed), RULES, limits_of(RULES, SCENARIOS[name].settings)
    )


def of(
    observed: Observed, samples: tuple[Sample, ...], *, interval_ms: int | None = None
) -> Observed:
    window = Window(samples, interval_ms=interval_ms)
    return Observed(observed.topic, observed.partition, observed.subscription, window)


VERSIONS = ("2.11.0", "3.3.5", "4.0.8", "4.2.4", "5.0.0-M1")


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
def test_the_verdict_on_a_recorded_state(version: str, name: str) -> None:
    verdict = judged(name, recorded(version, name))
    expects = DIFFERS.get((version, name), SCENARIOS[name].expects)
    assert verdict.status == expects.status, (verdict.findings, verdict.not_told)
    if expects.code is None:
        assert all(found.severity == "info" for found in verdict.findings), verdict.findings
    else:
        assert verdict.findings[0].code == expects.code


def without_internal(sample: Sample) -> Sample:
    return replace(sample, internal=None)


def without_clock(sample: Sample) -> Sample:
    return replace(sample, taken_ms=None)


@pytest.mark.parametrize(("version", "name"), QUIET)
def test_no_cut_of_a_healthy_state_is_an_alarm(version: str, name: str) -> None:
    whole = recorded(version, name)
    samples = whole.window.samples
    cuts = [samples[:1], samples[-1:], samples[:3], samples[-2:], samples[::5], samples[::10]]
    for cut in (samples, *cuts):
        for change in (lambda sample: sample, without_internal, without_clock):
            verdict = judged(name, of(whole, tuple(map(change, cut)), interval_ms=1000))
            assert verdict.status in ("healthy", "unknown"), (len(cut), change, verdict.findings)


@pytest.mark.parametrize(("version", "name"), RECORDED)
def test_what_a_first_reading_calls_stalled_has_a_cause_to_the_end(version: str, name: str) -> None:
    whole = recorded(version, name)
    samples = whole.window.samples
    first = judged(name, of(whole, samples[:1]))
    if first.status == "stalled":
        for seen in range(2, len(samples) + 1):
            now = judged(name, of(whole, samples[:seen]))
            # With a pace it may be a warning; another cause may explain it.
            same = first.findings[0].code in {found.code for found in now.findings}
            assert now.status == "stalled" or (now.status == "warning" and same)
