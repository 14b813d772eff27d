"""What is read of policies, and of which topics."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.fleet import Scope
from pulsar_doctor.broker.sampling import SamplingPlan
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.live import LiveRequest, of_topics
from pulsar_doctor.checkup.namespaces import of_fleet
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from tests.broker.replayed import HEALTHY, Reply, cluster, states
from tests.causes.stats_script import START_MS, Written
from tests.support import yaml_files

CASES = yaml_files.read(Path(__file__).parents[1] / "causes" / "falls-behind.yaml")
SLOW = {"stats": Written(CASES[0]["stats"], [0], 0).topic(), "internal": None, "date_ms": START_MS}
HOME = "persistent/public/default/slow"
HOUR = 3600
QUOTA = {"limitSize": 10**12, "limitTime": 24 * HOUR, "policy": "consumer_backlog_eviction"}
POLICIES: dict[str, Any] = {
    "backlogQuotaMap": {"destination_storage": QUOTA, "message_age": QUOTA},
    "messageTTL": 3 * HOUR,
}
JUDGE = Judge(load(), limits_of(load()))


def read(url: str, *topics: str) -> Checkup:
    asking = LiveRequest(Settings(admin_url=url), SamplingPlan(0.0))
    return of_topics(asking, topics, JUDGE) if topics else of_fleet(asking, Scope(), JUDGE)


@pytest.mark.parametrize("topics", [(), ("slow", "well")])
def test_policies_are_read_where_a_subscription_falls_behind_and_nowhere_else(
    topics: tuple[str, ...],
) -> None:
    replies = {f"{HOME}/{name}": Reply(document=told) for name, told in POLICIES.items()}
    with cluster({"slow": [SLOW], "well": states(HEALTHY)}, replies=replies) as broker:
        found = {each.topic[-4:]: each for each in read(broker.url, *topics).examined()}
    assert [each.limit for each in found["slow"].deadlines] == ["message-ttl", "backlog-quota-age"]
    impact = found["slow"].findings[0].impact
    assert impact
    assert "messages expire unread in about" in impact
    assert "drops the oldest messages unread in about" in impact
    asked = Counter(each.path.partition("?")[0].rpartition("/")[2] for each in broker.asked)
    assert (asked["backlogQuotaMap"], asked["messageTTL"]) == (1, 1)


def test_policies_that_are_refused_are_not_reported() -> None:
    replies = {f"{HOME}/{name}": Reply(403) for name in POLICIES}
    with cluster({"slow": [SLOW]}, replies=replies) as broker:
        [found] = read(broker.url, "slow").examined()
    assert found.findings[0].code == "falls-behind"
    assert found.deadlines == ()
