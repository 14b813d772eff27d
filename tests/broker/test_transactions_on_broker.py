"""Two open transactions on a real broker: one of a producer, one of a consumer."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pulsar_doctor.broker.sampling import SamplingPlan
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.evidence.by_stats import subscription_view
from pulsar_doctor.parts.sandbox.lifetime import running
from pulsar_doctor.parts.sandbox.standalone import Sandbox
from tests.broker.test_sampling import SOON, read
from tests.broker.test_transactions import only, places
from tests.clients import RealClient, starting

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(240)]
WATCHED = SamplingPlan(6.0, 1.0)  # longer than a place may rest
OPEN = None  # neither committed nor aborted


@pytest.fixture(scope="module")
def coordinator(pytestconfig: pytest.Config) -> Iterator[Sandbox]:
    version = pytestconfig.getoption("--pulsar-version")
    conf = {"transactionCoordinatorEnabled": "true"}
    with running(reuse=False, conf=conf, version=version) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def java(coordinator: Sandbox, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealClient]:
    folder = tmp_path_factory.mktemp("java")
    with starting("java", folder, coordinator.service_url, transactions=True) as client:
        yield client


def account(sandbox: Sandbox, topic: str) -> dict[str, tuple[int | None, int | None]]:
    _, found = only(read(sandbox.admin_url, topic, plan=SOON).windows)
    assert found.contradiction is None
    return places(found)


def test_nothing_is_readable_behind_the_transaction_of_a_producer(
    coordinator: Sandbox, java: RealClient, topic: str
) -> None:
    java.subscribe(topic, name="reads", type="Shared", queue=100)
    java.order(do="transact", topic=topic, count=10, commit=OPEN)
    java.produce(topic, 200)
    assert account(coordinator, topic) == {"in-transaction": (210, 210)}


def test_what_is_acknowledged_in_a_transaction_is_pending(
    coordinator: Sandbox, java: RealClient, topic: str
) -> None:
    java.subscribe(topic, name="acks", type="Shared", queue=10)
    java.produce(topic, 1000)
    java.order(do="transact", name="acks", count=200, commit=OPEN)
    found = account(coordinator, topic)
    assert found["unread"][0] + found["held"][0] == 800
    assert found["pending-ack"] == (0, 200)


def judged(sandbox: Sandbox, topic: str) -> Diagnosis:
    observed, _ = only(read(sandbox.admin_url, topic, plan=WATCHED).windows)
    return diagnose(subscription_view(observed), load(), limits_of(load()))


def test_until_it_is_aborted_an_open_transaction_is_the_cause(
    coordinator: Sandbox, java: RealClient, topic: str
) -> None:
    java.subscribe(topic, name="works", type="Shared", queue=1000)
    java.produce(topic, 100)
    java.order(do="transact", name="works", count=50, commit=OPEN)
    java.receive(50, name="works", ack="individual")
    java.order(do="transact", topic=topic, count=10, commit=OPEN)
    found = judged(coordinator, topic)
    assert {each.code for each in found.findings} == {"uncommitted-messages", "uncommitted-acks"}
    java.order(do="end", commit=False)
    java.receive(50, name="works", ack="individual")
    assert judged(coordinator, topic).status == "healthy"


@pytest.mark.parametrize("ends", ["committed", "aborted", "timed out"])
def test_one_transaction_may_publish_and_acknowledge(
    coordinator: Sandbox, java: RealClient, topic: str, ends: str
) -> None:
    java.subscribe(topic, name="works", type="Shared", queue=1000)
    java.produce(topic, 100)
    seconds = 30 if ends == "timed out" else 1800
    java.order(do="transact", name="works", topic=topic, count=50, commit=OPEN, seconds=seconds)
    java.receive(50, name="works", ack="individual")
    found = judged(coordinator, topic)
    assert {each.code for each in found.findings} == {"uncommitted-messages", "uncommitted-acks"}
    if ends == "timed out":
        java.order(do="forget")
    else:
        java.order(do="end", commit=ends == "committed")
    java.receive(50, name="works", ack="individual", timeout_ms=60_000)
    assert judged(coordinator, topic).status == "healthy"
