"""What real clients do with permits, measured through the tap: conformance as tests."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.wanting import wanting

pytest.importorskip("pulsar", reason=wanting("pulsar-client"))

from tests.conformance import published as published_now
from tests.conformance.__main__ import connected, missing
from tests.conformance.behaviours import in_order
from tests.conformance.driver import Client
from tests.conformance.expected import CELLS, EXPECTED, MEASURED
from tests.conformance.published import PAGE, as_json, published, take_over, with_table
from tests.conformance.raw_producer import RawConsumer
from tests.conformance.report import Table
from tests.conformance.stage import Stage, staging
from tests.conformance.table import BEHAVIOURS, Measured, balance, measure

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
    told = json.loads(json.dumps(measured.values))  # tuples and keys as measured.json has them
    seen = {key: told.get(key) for key in expected}
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


def test_the_table_of_the_page_is_what_was_measured_and_what_is_expected():
    assert MEASURED.read_text("utf-8") == as_json()
    assert published().markdown() in PAGE.read_text("utf-8")


def test_a_text_of_the_table_says_the_balance_that_is_expected():
    cells = [cell for row in CELLS.values() for cell in row.values() if "imbalance" in cell]
    assert len(cells) > 90
    assert [c["text"] for c in cells if balance(c["imbalance"]) not in c["text"]] == []


def test_a_measurement_takes_the_place_of_what_was(monkeypatch):
    table = Table(versions={"go": "Pulsar-Go-v9"})
    told = {"first": 2, "ahead": 0, "steps": [(1, 1)], "seconds": 0.7}
    table.add("refill-1", "go", Measured("2, then | 1", told))
    monkeypatch.setattr(published_now, "CELLS", copy.deepcopy(published_now.CELLS))
    monkeypatch.setattr(published_now, "VERSIONS", dict(published_now.VERSIONS))
    take_over(table)
    written = PAGE.read_text("utf-8")
    made = with_table(written)
    assert '"go": {"text": "2, then | 1", "first": 2, "ahead": 0, "steps": [[1, 1]]}' in as_json()
    changed = [line for line in made.splitlines() if line not in written.splitlines()]
    rows = [line for line in changed if "Pulsar-Go-v9" not in line]
    assert [row.rpartition(" taken | ")[2] for row in rows] == [r"2, then \| 1 |"]


def test_a_flow_of_0_closes_the_connection(broker, stage):
    topic = stage.topic("flow-0")
    stage.admin.get(f"{stage.path(topic)}/stats").raise_for_status()  # it is loaded now
    consumer = RawConsumer(broker.service_url, topic)
    consumer.flow(5)
    assert not consumer.closed(0.5)
    consumer.flow(0)
    assert consumer.closed(5)
    consumer.close()
