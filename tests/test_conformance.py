"""What real clients do with permits, measured through the tap: `python -m conformance` as tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from wanting import wanting

pytest.importorskip("pulsar", reason=wanting("pulsar-client"))

from conformance.__main__ import connected, missing
from conformance.behaviours import in_order
from conformance.driver import Client
from conformance.expected import EXPECTED
from conformance.raw_producer import RawConsumer
from conformance.stage import Stage, staging
from conformance.table import BEHAVIOURS, measure

# The rest takes minutes and is run by hand: -m slow.
QUICK = {
    "python": (
        "refill-1", "refill-10", "zero", "partitioned", "max-total", "batches-10",
        "half-acked", "seek-single", "listener-10", "listener-partition", "unload", "zero-unload",
        "no-key-discard", "chunk-last-twice",
    ),
    "java": (),  # nearly all of it would be the start of its virtual machine
    "go": (),
}  # fmt: skip


@pytest.fixture(scope="module")
def stage(broker) -> Iterator[Stage]:
    with staging(broker) as opened:
        yield opened


@pytest.fixture(scope="module")
def client_of(broker, stage) -> Iterator[Callable[[str], Client]]:
    clients: dict[str, Client] = {}
    with contextlib.ExitStack() as stack:

        def client_of(name: str) -> Client:
            if missing(name):
                pytest.skip(wanting("py4j" if name == "java" else name))
            if name not in clients:
                clients[name] = stack.enter_context(connected(name, broker, stage.service_url))
            return clients[name]

        yield client_of


def cases(quick: bool) -> list[tuple[str, str]]:
    return [
        (client, name)
        for client, rows in EXPECTED.items()
        for name in rows
        if (name in QUICK[client]) == quick
    ]


def check(stage: Stage, client: Client, name: str, expected: dict[str, Any]) -> None:
    measured = measure(name, stage, client)
    seen = {key: measured.values.get(key) for key in expected}
    assert seen == expected, measured.text


@pytest.mark.parametrize(("client", "name"), cases(quick=True))
def test_a_client_does_with_permits_what_the_table_says(client_of, stage, client, name):
    check(stage, client_of(client), name, EXPECTED[client][name])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("client", "name"), cases(quick=False))
def test_the_rest_of_the_table(client_of, stage, client, name):
    check(stage, client_of(client), name, EXPECTED[client][name])


def test_every_behaviour_has_an_expectation_for_every_client_that_has_the_feature():
    for client, rows in EXPECTED.items():
        assert set(rows) <= set(BEHAVIOURS) == set(in_order()), client
    everywhere = {name for name, each in BEHAVIOURS.items() if each.needs is None}
    assert all(everywhere <= set(rows) for rows in EXPECTED.values())
    assert set(BEHAVIOURS) == set().union(*EXPECTED.values())


def test_a_flow_of_0_closes_the_connection(broker, stage):
    topic = stage.topic("flow-0")
    stage.admin.get(f"{stage.path(topic)}/stats").raise_for_status()  # it is loaded now
    consumer = RawConsumer(broker.service_url, topic)
    consumer.flow(5)
    assert not consumer.closed(0.5)
    consumer.flow(0)
    assert consumer.closed(5)
    consumer.close()
