"""One real broker for the whole run, started by the first test that asks for it."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

import httpx
import pytest

if TYPE_CHECKING:
    import pulsar

    from pulsar_doctor.sandbox import Sandbox


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever uses the broker carries the mark `broker`."""
    for item in items:
        if "broker" in getattr(item, "fixturenames", ()):
            item.add_marker("broker")


@pytest.fixture(scope="session")
def broker() -> Iterator[Sandbox]:
    from pulsar_doctor.sandbox import running

    with running(batch_index_acks=True, reuse=False) as sandbox:
        yield sandbox


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")
    return f"persistent://public/default/{name}-{secrets.token_hex(4)}"


@pytest.fixture
def client(broker: Sandbox) -> Iterator[pulsar.Client]:
    import pulsar

    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(broker.service_url, logger=quiet)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture
def admin(broker: Sandbox) -> Iterator[httpx.Client]:
    """The broker's REST API, for tests that set the scene: they may write."""
    with httpx.Client(base_url=broker.admin_url, timeout=30, trust_env=False) as admin:
        yield admin
