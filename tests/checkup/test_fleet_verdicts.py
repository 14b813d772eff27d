"""The verdicts of a whole fleet: what they cost, and in which order they come."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from pulsar_doctor.broker.fleet import Scope
from pulsar_doctor.broker.sampling import SamplingPlan
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.live import LiveRequest
from pulsar_doctor.checkup.namespaces import AT_ONCE, of_fleet
from pulsar_doctor.diagnosis.answers import Answers
from pulsar_doctor.diagnosis.cause import Cause
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.thresholds import Limits
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.evidence.measures import STATS
from pulsar_doctor.evidence.subscription import SubscriptionView
from tests.broker.replayed import HEALTHY, cluster, states


class Asked:
    """A rule that finds nothing, and counts of what it was asked; fails on the last topics."""

    def __init__(self, fails_from: int = 1_000_000) -> None:
        self.topics: Counter[str] = Counter()
        self._fails_from = fails_from

    def check(self, view: SubscriptionView, _: Limits) -> Answers:
        self.topics[view.topic] += 1
        if self.topics.total() > self._fails_from:
            raise DoctorError("the rule is out of order")
        return iter(())

    def judge(self) -> Judge:
        rule = Cause("asked", "", self.check, frozenset({STATS}), "nothing comes")
        return Judge([rule], limits_of([rule]))


def checkup(topics: Mapping[str, Sequence[Any]], asked: Asked) -> tuple[list[Diagnosis], list[str]]:
    """The verdicts in their order, and the reasons why anything could not be read."""
    with cluster(topics) as broker:
        asking = LiveRequest(Settings(admin_url=broker.url), SamplingPlan(0.0))
        found = of_fleet(asking, Scope(), asked.judge())
        return list(found.examined()), [reason for _, reason in found.unreachable]


@pytest.mark.parametrize("count", [1, AT_ONCE - 1, AT_ONCE, AT_ONCE + 1])
def test_each_quiet_topic_is_judged_once_and_told_once(count: int) -> None:
    asked = Asked()
    told, unread = checkup({f"quiet-{number}": states(HEALTHY) for number in range(count)}, asked)
    assert Counter(each.topic for each in told) == asked.topics
    assert set(asked.topics.values()) == {1}
    assert len(told) == count
    assert unread == []


def test_what_fails_on_the_way_is_told_after_what_was_judged_before() -> None:
    asked = Asked(fails_from=AT_ONCE + 3)
    topics = {f"quiet-{number}": states(HEALTHY) for number in range(AT_ONCE + 9)}
    told, unread = checkup(topics, asked)
    assert len(told) == AT_ONCE + 3
    assert unread == ["the rule is out of order"]
