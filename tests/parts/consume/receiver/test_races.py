"""Our consumer and the real broker while it refuses: random lives, none of which may lose a thing.

A seed stands for one life: type, queue, batches, share of refusals, unloads and cut connections.
More of them at once, each line a life:

    python -m tests.parts.consume.receiver.test_races URL WEB_URL FIRST END [name=value ...]
"""

from __future__ import annotations

import random
import secrets
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import httpx2
import pulsar
import pytest

from pulsar_doctor.parts.consume.engines import Message
from pulsar_doctor.parts.consume.receiver.consumer import WireConsumer
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import Row
from tests.clients.payloads import payload
from tests.parts.consume.receiver.received import (
    ENOUGH,
    NO_MORE,
    SIZE,
    SLOW,
    available,
    contents_seen,
    meddled,
    plan_of,
    produce,
    stats,
    unload,
)
from tests.support import eventually

PATIENCE = 20.0  # seconds in which some message comes, as long as one is missing
REFUSALS_MOST = 60


@dataclass(frozen=True)
class Life:
    """What happens, drawn from a seed."""

    seed: int
    type: str
    queue: int
    batch: int
    share: float
    messages: int
    unloads: int
    cuts: int
    batch_index_acks: bool

    @classmethod
    def of(cls, seed: int, **given: Any) -> Life:
        rng = random.Random(seed)
        drawn = cls(
            seed,
            rng.choice(("exclusive", "failover", "exclusive", "failover", "shared", "key_shared")),
            rng.choice((0, 1, 1, 2, 3, 10)),
            rng.choice((1, 7, 7, 40)),
            rng.choice((0.02, 0.05, 0.1)),
            rng.choice((150, 400)),
            rng.choice((0, 2, 4)),
            rng.choice((0, 0, 1)),
            rng.random() < 0.5,
        )
        kinds = {each.name: type(getattr(drawn, each.name)) for each in fields(drawn)}
        more = {name: kinds[name](value) for name, value in given.items()}
        return cls(**{**{name: getattr(drawn, name) for name in kinds}, **more})


def lived(life: Life, broker: Any, admin: Any, client: Any, topic: str, trace: Path) -> None:
    """Asserts that everything came, nothing twice where it must not, and permits agree."""
    rng = random.Random(life.seed)
    plan = plan_of(topic, life.queue, type=life.type, batch_index_acks=life.batch_index_acks)
    got: list[Message] = []
    refused = 0
    with (
        contents_seen() as contents,
        epochs_seen() as epochs,
        meddled(broker, trace, plan) as (consumer, meddler),
    ):
        produce(client, topic, range(life.messages), life.batch)
        missing = Counter(payload(number, SIZE) for number in range(life.messages))
        moments = sorted(rng.sample(range(10, life.messages), life.unloads + life.cuts))
        kinds = ["unload"] * life.unloads + ["cut"] * life.cuts
        events = dict(zip(moments, rng.sample(kinds, len(kinds)), strict=True))
        came = time.monotonic()
        while missing:
            message = consumer.receive(rng.choice((0.0, 0.05, 0.3)))
            if message is None:
                assert time.monotonic() < came + PATIENCE, f"{life}: {len(missing)} did not come"
                continue
            came = time.monotonic()
            assert message.corrupt is None, life
            got.append(message)
            if refused < REFUSALS_MOST and rng.random() < life.share:
                refused += 1
                consumer.negative_acknowledge(message)
                continue
            missing.pop(contents[message.ledger_id, message.entry_id, message.batch_index], None)
            consumer.acknowledge(message)
            if (event := events.pop(len(got), None)) is not None:
                unload(admin, topic) if event == "unload" else meddler.cut()
        while (message := consumer.receive(NO_MORE)) is not None:  # what comes twice, or again
            got.append(message)
            consumer.acknowledge(message)
        eventually(lambda: stats(admin, topic)["msgBacklog"] == 0, ENOUGH)
        at_rest = available(admin, topic)
    rows = [row for row in open_trace(trace).rows() if row.incarnation is not None]
    assert at_rest == [permits_of(rows)], life
    if life.type in ("exclusive", "failover"):
        assert not twice(epochs), life


Taken = tuple[int, int, int, int, int | None]  # incarnation, epoch, ledger, entry, index


@contextmanager
def epochs_seen() -> Iterator[list[Taken]]:
    """Where and when each message was handed out, as it stands in the loop."""
    seen: list[Taken] = []
    take = WireConsumer._take

    def taking(self: WireConsumer) -> Message:
        message = take(self)
        partition = message.handle.partition
        epoch = partition._epochs.number
        seen.append((partition.incarnation, epoch, message.ledger_id, message.entry_id,
                     message.batch_index))  # fmt: skip
        return message

    with pytest.MonkeyPatch.context() as patching:
        patching.setattr(WireConsumer, "_take", taking)
        yield seen


def twice(handed_out: list[Taken]) -> list[Taken]:
    """What was handed out more than once before it was asked for again."""
    return [place for place, times in Counter(handed_out).items() if times > 1]


def permits_of(rows: list[Row]) -> int:
    """What the last incarnation was granted and was not debited."""
    last = max(row.incarnation or 0 for row in rows)
    return sum(
        (row.permits or 0) * (1 if row.command == "FLOW" else -1)
        for row in rows
        if row.incarnation == last and row.command in ("FLOW", "MESSAGE")
    )


@pytest.mark.parametrize(
    "life",
    [
        Life.of(803, type="exclusive", queue=1, batch=7, share=0.05, messages=150, unloads=1),
        Life.of(601, type="failover", queue=2, batch=7, share=0.1, messages=150, unloads=1),
        Life.of(1, type="failover", queue=0, batch=7, share=0.05, messages=60, unloads=0),
        Life.of(2, type="exclusive", queue=10, batch=1, share=0.1, messages=150, unloads=0),
    ],
    ids=str,
)
def test_refusals_lose_nothing(broker, admin, client, topic, tmp_path, life):
    lived(life, broker, admin, client, topic, tmp_path / "t.ptrace")


@SLOW
@pytest.mark.parametrize("seed", range(1000, 1040))
def test_a_random_life_loses_nothing(broker, admin, client, topic, tmp_path, seed):
    lived(Life.of(seed), broker, admin, client, topic, tmp_path / "t.ptrace")


@dataclass(frozen=True)
class Running:
    """A broker that runs already."""

    service_url: str


def main(service_url: str, web_url: str, first: str, end: str, *given: str) -> None:
    admin = httpx2.Client(base_url=web_url, timeout=30)
    client = pulsar.Client(service_url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error))
    for seed in range(int(first), int(end)):
        life = Life.of(seed, **dict(each.split("=") for each in given))
        topic = f"persistent://public/default/life-{seed}-{secrets.token_hex(3)}"
        with tempfile.TemporaryDirectory() as folder:
            began = time.monotonic()
            try:
                lived(life, Running(service_url), admin, client, topic, Path(folder) / "t.ptrace")
                told = "ok"
            except Exception as error:
                told = f"FAILED {type(error).__name__} {error}"
            print(f"{told} {time.monotonic() - began:.1f} s {life}", flush=True)
        admin.delete(
            topic.replace("persistent://", "/admin/v2/persistent/"), params={"force": "true"}
        )
    client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
