"""The documents of the model are those of the real broker, in every field that a rule reads."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("pulsar", reason="needs the clients of the extra `consume`")

from pulsar_doctor.model.scenario import ProducedEntry
from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from tests.incidents.documents import SUBSCRIPTION, Document
from tests.incidents.moments import played
from tests.incidents.script import SECOND, Script, Worker
from tests.scenarios.scene import SUBSCRIPTION as REAL
from tests.scenarios.scene import Scene, scene

TIMES = {
    "lastAckedTimestamp",
    "lastConsumedTimestamp",
    "lastConsumedFlowTimestamp",
    "lastMarkDeleteAdvancedTimestamp",
}
# Of the machine and the clients, not of what happened.
ELSEWHERE = {"address", "connectedSince", "clientVersion", "ownerBroker", "producerName"}
SIZES = {"bytesInCounter", "bytesOutCounter", "storageSize", "backlogSize", "totalSize"}
RATES = {"msgRateIn", "msgRateOut", "messageAckRate", "msgRateRedeliver", "msgRateExpired"}
OF_TOPIC = {"publishers", "ledgers", "drainingHashes", "consumers", "cursors", "subscriptions"}
LATER = {"waitingCursorsCount", "pendingAddEntriesCount", "state"}
LEFT_OUT = ELSEWHERE | SIZES | RATES | OF_TOPIC | LATER

Play = Callable[[Scene], None]


@dataclass(frozen=True, slots=True)
class Same:
    """One incident twice: as the model's script, and as it is played with real clients."""

    script: Script
    play: Play


def script(type_: str, entries: int, *workers: Worker, batch: int = 1, limit: int = 0) -> Script:
    return Script(
        0, type_, workers, tuple(ProducedEntry(n, 0, 0, n * batch, batch) for n in range(entries)),
        (60 * SECOND,), consumer_limit=limit,
    )  # fmt: skip


def worker(name: str, takes: int, queue: int = 10, attach: int = 1, **more: Any) -> Worker:
    """One that takes so many, one a second, and hangs with the last of them in hand."""
    at_ns = attach * SECOND
    hangs_ns = at_ns + int((takes - 0.5) * SECOND)
    return Worker(name, "pulsar-client", queue, SECOND, attach_ns=at_ns, hangs_ns=hangs_ns, **more)


def attached(of: Scene, name: str, type_: str, holds: int, queue: int = 10) -> Any:
    """A real consumer that has been sent so many messages."""
    consumer = of.consume(name, type_, queue)
    of.until(lambda: of.consumer(name).get("msgOutCounter") == holds)
    return consumer


def shared(of: Scene) -> None:
    of.begin()
    of.produce(30)
    one, two = attached(of, "one", "shared", 10), attached(of, "two", "shared", 10)
    for consumer, takes in ((one, 4), (two, 2)):
        for message in of.take(consumer, takes)[:-1]:
            consumer.acknowledge(message)
    of.until(lambda: of.stats()["msgBacklog"] == 26)


def cumulative(of: Scene) -> None:
    of.begin("exclusive")
    of.produce(30)
    one = attached(of, "one", "exclusive", 10)
    one.acknowledge_cumulative(of.take(one, 8)[6])
    of.until(lambda: of.stats()["msgBacklog"] == 23)
    of.until(lambda: of.consumer("one")["msgOutCounter"] == 15)


def batches(of: Scene) -> None:
    of.begin()
    of.produce(40, 10)
    of.take(attached(of, "one", "shared", 20, 12), 3)


def failover(of: Scene) -> None:
    of.on_a_partition()
    of.begin("failover")
    of.produce(5)
    one = attached(of, "one", "failover", 5)
    attached(of, "two", "failover", 0)
    for message in of.take(one, 3)[:-1]:
        one.acknowledge(message)
    of.until(lambda: of.stats()["msgBacklog"] == 3)


def limited(of: Scene) -> None:
    of.begin()
    of.policy("maxUnackedMessagesOnConsumer", 10)
    of.produce(30)
    of.take(attached(of, "one", "shared", 10, 20), 4)


def never(name: str, takes: int, queue: int) -> Worker:
    return worker(name, takes, queue, acks="never")


INCIDENTS = {
    "two of Shared, one range": Same(
        script("shared", 30, worker("one", 4), worker("two", 2, attach=2)), shared
    ),
    "Exclusive, cumulative": Same(
        script("exclusive", 30, worker("one", 8, acks="cumulative", group=7)), cumulative
    ),
    "batches, below zero": Same(script("shared", 4, never("one", 3, 12), batch=10), batches),
    "Failover, all sent": Same(
        script("failover", 5, worker("one", 3), worker("two", 1, attach=2)), failover
    ),
    "limit of unacknowledged": Same(script("shared", 30, never("one", 4, 20), limit=10), limited),
}


@pytest.mark.parametrize("name", INCIDENTS)
def test_the_model_tells_what_the_broker_tells(broker: Sandbox, name: str) -> None:
    same = INCIDENTS[name]
    [moment] = played(same.script, (0,)).moments
    [made] = moment.taken
    topic = f"persistent://public/default/incident-{secrets.token_hex(4)}"
    with scene(broker.service_url, broker.admin_url, topic) as real:
        same.play(real)
        stats, internal = real.read().document, real.read("internalStats").document
    assert flat(made.stats, SUBSCRIPTION) == fields_of(flat(stats, REAL), made.stats)
    assert cursor(made.internal, SUBSCRIPTION) == cursor(internal, REAL, made.internal)


def flat(stats: Document, name: str) -> dict[str, Any]:
    """Topic, subscription and consumers in one, as far as these fields say what happened."""
    found = of_fields(stats, "")
    subscription = stats["subscriptions"][name]
    found |= of_fields(subscription, "subscription.")
    for consumer in subscription["consumers"]:
        found |= of_fields(consumer, f"{consumer['consumerName']}.")
    return found


def of_fields(document: Document, of: str) -> dict[str, Any]:
    return {
        f"{of}{name}": bool(value) if name in TIMES else value
        for name, value in document.items()
        if name not in LEFT_OUT
    }


def fields_of(real: dict[str, Any], made: Document) -> dict[str, Any]:
    """What the broker writes beside what the model does is read by nobody."""
    told = flat(made, SUBSCRIPTION)
    return {name: value for name, value in real.items() if name in told}


def cursor(internal: Document, name: str, made: Document | None = None) -> dict[str, Any]:
    """The cursor and the ledger, without the numbers of ledgers."""
    told = {**internal, **internal["cursors"][name]}
    names = (made or internal).keys() | next(iter((made or internal)["cursors"].values())).keys()
    return {
        field: re.sub(r"\d+:(-?\d+)", r"L:\1", value) if isinstance(value, str) else value
        for field, value in told.items()
        if field in names and field not in LEFT_OUT
    }
