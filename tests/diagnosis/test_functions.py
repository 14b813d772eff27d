"""A consumer that Pulsar itself runs is restarted by a line, and set where it is set."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import read
from pulsar_doctor.broker.samples.reading import StatsAnswer
from pulsar_doctor.broker.stats.functions import FunctionInstance, function_of
from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.diagnosis.actions.consumers import restart, treatment
from pulsar_doctor.diagnosis.actions.sentence import remedy
from pulsar_doctor.evidence.consumer import ConsumerView
from tests.broker.test_samples import ORDERS, lines, save
from tests.diagnosis.shell import assert_taken, plain_words
from tests.diagnosis.test_activity import ONE
from tests.diagnosis.test_commands import view

TOLD = {
    "application": "pulsar-function",
    "id": "public/default/enrich",
    "instance_id": "3",
    "instance_hostname": "SECRET",
    "team": "SECRET",
}
ENRICH = FunctionInstance("function", "public/default/enrich", 3)
AT_HAND = replace(ONE, client_version="Pulsar-Java-v4.0.8", function=ENRICH)


def test_a_function_and_a_sink_are_known_by_what_their_framework_attaches() -> None:
    assert function_of(TOLD) == ENRICH
    sink = TOLD | {"application": "pulsar-sink"}
    assert function_of(sink) == replace(ENRICH, kind="sink")


@pytest.mark.parametrize(
    "other",
    [
        None,
        "x",
        {},
        {"application": "billing", "id": "a/b/c", "instance_id": "1"},
        TOLD | {"application": "pulsar-source"},
        TOLD | {"id": "enrich"},
        TOLD | {"id": "a/b/$(touch x)"},
        TOLD | {"id": 7},
        TOLD | {"instance_id": "x"},
        TOLD | {"instance_id": None},
        TOLD | {"application": ["pulsar-function"]},
    ],
)
def test_whatever_else_somebody_attaches_is_not_looked_at(other: Any) -> None:
    assert function_of(other) is None
    document = {"subscriptions": {"s": {"consumers": [{"metadata": other}]}}}
    stats = topic_stats(document)
    assert stats.subscriptions
    assert stats.subscriptions["s"].consumers[0].metadata is None


def test_of_metadata_only_that_is_kept(tmp_path: Path) -> None:
    stats = {"subscriptions": {"s": {"consumers": [{"consumerName": "c", "metadata": TOLD}]}}}
    saved = save(tmp_path / "s", StatsAnswer(ORDERS, 1, stats, None))
    (_, kept) = lines(tmp_path / "s")
    assert "SECRET" not in json.dumps(kept)
    (window,) = read(SampleFiles([saved])).windows
    assert window.window.last.topic.subscriptions["s"].consumers[0].metadata == ENRICH


@pytest.mark.parametrize(
    ("instance", "line"),
    [
        (ENRICH, "pulsar-admin functions restart --fqfn public/default/enrich --instance-id 3"),
        (
            FunctionInstance("sink", "a/b/c", 0),
            "pulsar-admin sinks restart --tenant a --namespace b --name c --instance-id 0",
        ),
    ],
)
def test_its_restart_is_a_line(instance: FunctionInstance, line: str) -> None:
    action = restart(view(), replace(ONE, function=instance))
    assert action.command == line
    assert_taken(plain_words(line))
    assert str(instance) in action.text
    assert restart(view(), ONE).command is None


def slow(consumer: ConsumerView) -> ConsumerView:
    return replace(consumer, works=True)


def test_its_settings_are_those_of_the_framework() -> None:
    [first, *_] = treatment(view(), slow(AT_HAND))
    assert "receiverQueueSize 1 for its topic in --input-specs (Functions)" in first.text
    assert "Java" not in first.text
    assert "--input-specs (Functions)" in remedy(view(), slow(AT_HAND))
    hanging = [action.text for action in treatment(view(), AT_HAND)]
    assert any("--timeout-ms 3600000 (Functions)" in text for text in hanging)
