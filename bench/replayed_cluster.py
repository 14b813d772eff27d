"""Plays a Pulsar cluster of very many subscriptions over HTTP, so that a fleet run can be measured.

Two brokers, each a port of the loopback and the owner of half of the topics; it sends questions for
the other's topics there, as brokers do. Most topics are quiet. The suspects answer with recordings
of a real broker (tests/stats), aged so that they have stood still for ten minutes; only the clock
of the answers moves, so nothing else ever does. Others may hold messages and acknowledge them all
the time, or stand still with them for ten minutes. Every twentieth topic is loaded by no broker: to
ask for its stats would load it, which is refused and counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any

RECORDINGS = Path(__file__).parent.parent / "tests" / "stats"
STUCK = (
    "4.0.8-shared-stuck",
    "4.0.8-unacked-limit",
    "4.0.8-key-shared-draining",
    "4.0.8-no-consumer",
    "4.0.8-holes",
    "4.0.8-delayed",
)
AGE_MS = 600_000
NAMESPACES = tuple(f"tenant-{t}/space-{n}" for t in range(4) for n in range(5))
PARTITIONS = 10
PIECE_BYTES = 1 << 14
CONFIGURATION = {
    "managedLedgerMaxUnackedRangesToPersist": "10000",
    "exposeTopicLevelMetricsInPrometheus": "true",
    "metricsBufferResponse": "false",
}
METRICS = 93  # lines of a loaded topic with one subscription, 4.0.8, beside its backlog
HELD, PACE = 20, 50.0  # messages, messages a second
# What a real broker (4.0.8) writes in broker-stats for what is idle.
QUIET_CONSUMER = {
    "address": "/10.0.0.7:41312",
    "consumerName": "worker",
    "availablePermits": 1000,
    "connectedSince": "2026-11-21T08:00:00.000Z",
    "msgRateOut": 0.0,
    "msgThroughputOut": 0.0,
    "msgRateRedeliver": 0.0,
    "avgMessagesPerEntry": 1,
    "unackedMessages": 0,
    "blockedConsumerOnUnackedMsgs": False,
    "clientVersion": "Pulsar-Java-v4.0.8",
}
QUIET = {
    "msgBacklog": 0,
    "msgRateExpired": 0.0,
    "msgRateOut": 0.0,
    "messageAckRate": 0.0,
    "msgThroughputOut": 0.0,
    "msgRateRedeliver": 0.0,
    "numberOfEntriesSinceFirstNotAckedMessage": 1,
    "totalNonContiguousDeletedMessagesRange": 0,
    "type": "Shared",
    "blockedSubscriptionOnUnackedMsgs": False,
    "unackedMessages": 0,
}


@dataclass(slots=True)
class Topic:
    """One topic or partition. recording: number of its recording, None: it has none.

    holding: its consumers hold messages and acknowledge them.
    """

    namespace: str
    local: str
    broker: int
    subscriptions: int
    recording: int | None = None
    loaded: bool = True
    holding: bool = False

    @property
    def full(self) -> str:
        """Its full name."""
        return f"persistent://{self.namespace}/{self.local}"


@dataclass(slots=True)
class Cluster:
    """What there is, and what was asked. ports: of the two brokers. stuck_at: epoch seconds since
    when those that hold messages have stood still; None: they move.
    """

    topics: dict[str, Topic]
    recordings: list[tuple[list[bytes], bytes]]
    ports: list[int] = field(default_factory=list)
    asked: Counter[str] = field(default_factory=Counter)
    refused: int = 0
    stuck_at: float | None = None


def aged(value: Any, by_ms: int) -> Any:
    """A recorded document with all its moments moved by so many milliseconds."""
    if isinstance(value, list):
        return [aged(each, by_ms) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: _moment(key, inner, by_ms) for key, inner in value.items()}


def _moment(key: str, value: Any, by_ms: int) -> Any:
    if key.endswith("Timestamp") and isinstance(value, int) and value > 0:
        return value + by_ms
    if key == "connectedSince" and value:
        moved = datetime.fromisoformat(value) + timedelta(milliseconds=by_ms)
        return moved.isoformat().replace("+00:00", "Z")
    return aged(value, by_ms)


def recording(name: str, now_ms: int) -> tuple[list[bytes], bytes]:
    """The samples of one recording, and its internal stats, as bodies."""
    samples = json.loads((RECORDINGS / f"{name}.json").read_text("utf-8"))["samples"]
    by_ms = now_ms - AGE_MS - samples[-1]["date_ms"]
    bodies = [json.dumps(aged(sample["stats"], by_ms)).encode() for sample in samples]
    return bodies, json.dumps(aged(samples[-1]["internal"], by_ms)).encode()


def topics(subscriptions: int, suspects: int, holding: float) -> Iterator[Topic]:
    """Topics with one to four subscriptions; suspects with one, spread evenly.

    holding: the share of the other topics on which consumers hold messages.
    """
    every = subscriptions // suspects if suspects else sys.maxsize
    made, number, due = 0, 0, 0
    while made < subscriptions:
        suspect = made >= due and suspects > 0
        count = 1 if suspect else min(1 + number % 4, subscriptions - made)
        group, partition = divmod(number, PARTITIONS)
        # A tenth of them are the partitions of partitioned topics.
        local = f"orders-{number:06}" if group % 10 else f"bills-{group:05}-partition-{partition}"
        namespace = NAMESPACES[group % len(NAMESPACES)]
        yield Topic(
            namespace,
            local,
            broker=zlib.crc32(local.encode()) % 2,
            subscriptions=count,
            recording=(due // every) % len(STUCK) if suspect else None,
            loaded=suspect or number % 20 != 19,
            holding=not suspect and int((number + 1) * holding) > int(number * holding),
        )
        due += every if suspect else 0
        made, number = made + count, number + 1
    for namespace in NAMESPACES:
        yield Topic(namespace, "__change_events", broker=0, subscriptions=1)


def loaded_of(cluster: Cluster, broker: int) -> Iterator[bytes]:
    """broker-stats/topics of one broker, in pieces."""
    yield b"{"
    first_space = True
    for namespace in NAMESPACES:
        head = (
            f'{"" if first_space else ","}"{namespace}":{{"0x00000000_0xffffffff":{{"persistent":{{'
        )
        first_space, comma = False, ""
        for topic in cluster.topics.values():
            if topic.namespace == namespace and topic.broker == broker and topic.loaded:
                yield f'{head}{comma}"{topic.full}":'.encode() + _in_short(cluster, topic)
                head, comma = "", ","
        yield f"{head}}}}}}}".encode()
    yield b"}"


def _in_short(cluster: Cluster, topic: Topic) -> bytes:
    """What broker-stats says of a topic; of a suspect more than a real broker writes there."""
    if topic.recording is not None:
        return cluster.recordings[topic.recording][0][-1]
    subscriptions = {
        f"subscription-{number}": QUIET | {"consumers": [QUIET_CONSUMER] * (number % 3)}
        for number in range(topic.subscriptions)
    }
    if topic.holding:
        told = QUIET | {"msgBacklog": HELD, "unackedMessages": HELD, "messageAckRate": PACE}
        held = QUIET_CONSUMER | {"unackedMessages": HELD, "messageAckRate": PACE}
        subscriptions = {name: told | {"consumers": [held]} for name in subscriptions}
    return json.dumps(
        {"publishers": [], "subscriptions": subscriptions, "msgInCount": 0, "storageSize": 0}
    ).encode()


def moving(topic: Topic, now: float) -> bytes:
    """The stats of a topic whose consumers acknowledged at that moment, in epoch seconds."""
    sent, now_ms = int(PACE * (now % 100_000)), int(now * 1000)
    times = ("lastAckedTimestamp", "lastConsumedTimestamp", "lastConsumedFlowTimestamp")
    moved = {
        **dict.fromkeys(times, now_ms), "msgOutCounter": sent, "unackedMessages": HELD,
        "messageAckRate": PACE, "msgRateOut": PACE,
    }  # fmt: skip
    told = QUIET | moved | {
        "msgBacklog": HELD, "lastMarkDeleteAdvancedTimestamp": now_ms, "isDurable": True,
        "consumers": [QUIET_CONSUMER | moved], "nonContiguousDeletedMessagesRanges": 0,
        "msgDelayed": 0, "msgInReplay": 0,
    }  # fmt: skip
    subscriptions = {f"subscription-{number}": told for number in range(topic.subscriptions)}
    return json.dumps({"publishers": [], "subscriptions": subscriptions}).encode()


def metrics_of(cluster: Cluster, broker: int) -> Iterator[bytes]:
    """The metrics of one broker, as long as those of a real one."""
    loaded = [t for t in cluster.topics.values() if t.broker == broker and t.loaded]
    for number in range(METRICS):
        name = (
            "pulsar_subscriptions_count" if number == METRICS // 2 else f"pulsar_made_up_{number}"
        )
        for topic in loaded:
            labels = f'cluster="standalone",namespace="{topic.namespace}",topic="{topic.full}"'
            yield f"{name}{{{labels}}} 0\n".encode()
    for topic in loaded:
        labels = f'cluster="standalone",namespace="{topic.namespace}",topic="{topic.full}"'
        value = HELD if topic.holding or topic.recording is not None else 0
        for number in range(topic.subscriptions):
            whole = f'{{{labels},subscription="subscription-{number}"}} {value}\n'
            yield f"pulsar_subscription_back_log{whole}".encode()
            yield f"pulsar_subscription_unacked_messages{whole}".encode()


def answer(cluster: Cluster, broker: int, path: str) -> tuple[int, bytes | Iterator[bytes], str]:
    """Status, body and, where it is another broker's, the place to ask."""
    parts = path.partition("?")[0].removeprefix("/admin/v2/").split("/")
    if path == "/asked":
        told = {"asked": cluster.asked, "refused": cluster.refused}
        return 200, json.dumps(told).encode(), ""
    if path == "/metrics/":
        cluster.asked["metrics"] += 1
        return 200, metrics_of(cluster, broker), ""
    kind = parts[4] if len(parts) == 5 and parts[0] == "persistent" else ""
    kind = kind or "/".join(parts[:2] if parts[0] in ("broker-stats", "brokers") else parts[:1])
    cluster.asked["topic lists" if kind in ("persistent", "non-persistent") else kind] += 1
    if len(parts) == 5:
        return of_topic(cluster, broker, path, kind)
    return 200, listed(cluster, broker, parts), ""


def of_topic(cluster: Cluster, broker: int, path: str, kind: str) -> tuple[int, bytes, str]:
    """What is asked of one topic."""
    _, _, _, _, tenant, space, local, _ = path.partition("?")[0].split("/")
    topic = cluster.topics.get(f"persistent://{tenant}/{space}/{local}")
    if kind.startswith("maxUnacked"):
        return 200, b"20", ""
    if topic is None:
        return 404, b'{"reason":"Topic not found"}', ""
    if not topic.loaded:
        cluster.refused += 1
        return 500, b'{"reason":"this would load the topic"}', ""
    if topic.broker != broker:
        return 307, b"", f"http://127.0.0.1:{cluster.ports[topic.broker]}{path}"
    if topic.holding and kind == "stats":
        return 200, moving(topic, cluster.stuck_at or time.time()), ""
    bodies, internal = cluster.recordings[topic.recording or 0]
    return 200, internal if kind == "internalStats" else bodies[-1], ""


def listed(cluster: Cluster, broker: int, parts: list[str]) -> bytes | Iterator[bytes]:
    """What there is in the cluster."""
    if parts == ["broker-stats", "topics"]:
        return loaded_of(cluster, broker)
    told: Any = []
    if parts == ["brokers"]:
        told = [f"127.0.0.1:{port}" for port in cluster.ports]
    elif parts == ["brokers", "configuration", "runtime"]:
        told = CONFIGURATION
    elif parts == ["tenants"]:
        told = sorted({namespace.partition("/")[0] for namespace in NAMESPACES})
    elif parts[0] == "namespaces":
        told = [namespace for namespace in NAMESPACES if namespace.startswith(f"{parts[1]}/")]
    elif parts[0] == "persistent" and len(parts) == 3:
        namespace = f"{parts[1]}/{parts[2]}"
        told = [topic.full for topic in cluster.topics.values() if topic.namespace == namespace]
    return json.dumps(told).encode()


async def serve(
    cluster: Cluster, broker: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """One connection, question after question."""
    try:
        while request := await reader.readuntil(b"\r\n\r\n"):
            status, body, place = answer(cluster, broker, request.split(b" ", 2)[1].decode())
            head = f"HTTP/1.1 {status} .\r\nContent-Type: application/json\r\n"
            head += f"Date: {formatdate(usegmt=True)}\r\n"
            head += f"Location: {place}\r\n" if place else ""
            if isinstance(body, bytes):
                writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            else:
                writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
                await stream(body, writer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def stream(pieces: Iterator[bytes], writer: asyncio.StreamWriter) -> None:
    """A body in chunks, no faster than it is read."""
    gathered = b""
    for piece in pieces:
        gathered += piece
        if len(gathered) >= PIECE_BYTES:
            writer.write(b"%x\r\n%s\r\n" % (len(gathered), gathered))
            await writer.drain()
            gathered = b""
    writer.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(gathered), gathered))


async def play(subscriptions: int, suspects: int, holding: float, *, stuck: bool) -> None:
    """Says its two ports in one line, and serves until stdin is closed."""
    now_ms = int(time.time() * 1000)
    all_topics = {topic.full: topic for topic in topics(subscriptions, suspects, holding)}
    cluster = Cluster(all_topics, [recording(name, now_ms) for name in STUCK])
    cluster.stuck_at = now_ms / 1000 - AGE_MS / 1000 if stuck else None
    for broker in range(2):
        server = await asyncio.start_server(partial(serve, cluster, broker), "127.0.0.1", 0)
        cluster.ports.append(server.sockets[0].getsockname()[1])
    loaded = sum(topic.loaded for topic in all_topics.values())
    told = {"ports": cluster.ports, "topics": len(all_topics), "loaded": loaded}
    print(json.dumps(told), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--suspects", type=int, default=100)
    parser.add_argument("--holding", type=float, default=0.0)
    parser.add_argument("--stuck", action="store_true", help="what holds messages stands still")
    asked = parser.parse_args()
    asyncio.run(play(asked.subscriptions, asked.suspects, asked.holding, stuck=asked.stuck))
