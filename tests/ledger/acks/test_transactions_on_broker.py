"""Acknowledgements in transactions of the Java client, on a real broker with a coordinator."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from pulsar_doctor.ledger.balance import Ledger
from pulsar_doctor.parts.sandbox.lifetime import running
from pulsar_doctor.parts.sandbox.standalone import Sandbox
from pulsar_doctor.parts.tap.relaying import relaying
from pulsar_doctor.trace.sealing import open_trace
from tests.clients import RealClient, starting
from tests.support import eventually
from tests.support.command_line import pulsar_doctor

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(240)]
QUEUE, MESSAGES, EACH = 10, 30, 5


@pytest.fixture(scope="module")
def coordinator() -> Iterator[Sandbox]:
    with running(reuse=False, conf={"transactionCoordinatorEnabled": "true"}) as sandbox:
        yield sandbox


def consumer_of(sandbox: Sandbox, topic: str) -> dict[str, Any]:
    """What the broker says of the only consumer."""
    path = topic.replace("persistent://", f"{sandbox.admin_url}/admin/v2/persistent/")
    subscription = httpx2.get(f"{path}/stats", trust_env=False).json()["subscriptions"]["s"]
    (found,) = subscription["consumers"]
    return dict(found) | {"backlog": subscription["msgBacklog"]}


def transacted(client: RealClient, commit: bool) -> None:
    client.order(do="transact", name="c", count=EACH, commit=commit)


@pytest.mark.parametrize("commit", [True, False], ids=["committed", "aborted"])
def test_the_ledger_agrees_with_the_broker(coordinator, topic, tmp_path, commit):
    trace = tmp_path / "t"
    hello = {"transactions": True}
    with (
        relaying(coordinator.service_url, trace) as relay,
        starting("java", tmp_path, relay.service_url, **hello) as client,
    ):
        client.subscribe(topic, type="Shared", queue=QUEUE)
        client.produce(topic, MESSAGES)
        client.receive(EACH)
        transacted(client, commit)
        left = MESSAGES - EACH - EACH * commit
        client.receive(left - 1)  # what was aborted comes again
        eventually(lambda: consumer_of(coordinator, topic)["backlog"] == 1)
        time.sleep(1)
        said = consumer_of(coordinator, topic)
        relay.flush()
    rows = list(open_trace(trace).rows())
    acks = [row for row in rows if row.command == "ACK"]
    (ledger,) = ledgers_of(trace)
    print(f"{said['unackedMessages']=}, {said['availablePermits']=}, {ledger}")
    assert sum(row.transaction is not None for row in acks) == EACH
    assert ledger.acknowledged == EACH + left - 1
    assert ledger.in_transactions == EACH * commit
    assert ledger.unacked == said["unackedMessages"]
    assert ledger.available_permits == said["availablePermits"]
    told = pulsar_doctor("holes", "--trace", str(trace))
    print(told.stdout, told.stderr)
    assert ("whether transactions were committed does not show" in told.stdout) is commit
    assert ("no holes" in told.stdout) is not commit


def ledgers_of(trace: Any) -> list[Ledger]:
    return [consumer.ledger for consumer in open_trace(trace).timeline().consumers]
