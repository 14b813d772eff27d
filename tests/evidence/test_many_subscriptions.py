"""One topic with thousands of subscriptions: what it takes grows with them, not their square."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pulsar_doctor.broker.stats import topic as stats_topic
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.evidence.by_stats import subscription_view
from tests.broker.recorded import recording, sample_of

MANY = 600


def test_what_a_subscription_is_does_not_take_a_look_at_all_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sample = sample_of(recording("4.0.8-shared-stuck")["samples"][0])
    (one,) = (sample.topic.subscriptions or {}).values()
    many = {f"sub-{number}": one for number in range(MANY)}
    window = Window((replace(sample, topic=replace(sample.topic, subscriptions=many)),))
    read = 0

    def counted(text: str | None) -> int | None:
        nonlocal read
        read += 1
        return epoch_ms(text)

    epoch_ms = stats_topic.epoch_ms
    monkeypatch.setattr(stats_topic, "epoch_ms", counted)
    views = [subscription_view(each) for each in TopicWindow("t", None, window).subscriptions()]
    assert len(views) == MANY
    assert read < 40 * MANY * len(one.consumers or ())


def test_a_connection_speaks_when_any_of_its_consumers_does() -> None:
    sample = sample_of(recording("4.0.8-shared-stuck")["samples"][0])
    (one,) = (sample.topic.subscriptions or {}).values()
    first, *others = one.consumers or ()
    busy = replace(one, consumers=(replace(first, last_acked_timestamp_ms=10**14), *others))
    alone = replace(one, consumers=(replace(first, address=None),))
    both = replace(sample.topic, subscriptions={"a": one, "b": busy, "c": alone})
    signs = Window((replace(sample, topic=both),)).signs
    assert signs[first.address or ""] == 10**14
    assert set(signs) == {consumer.address for consumer in one.consumers or ()}
