"""A tap and a capture of the same traffic, with the real broker: the rows are the same."""

from __future__ import annotations

import random
import shutil
import time
from collections import defaultdict
from pathlib import Path

import pytest

pulsar = pytest.importorskip("pulsar")

from pulsar_doctor.parts.capture.files import FileCounts, Packet, packets_of  # noqa: E402
from pulsar_doctor.parts.capture.following import CaptureFollowing  # noqa: E402
from pulsar_doctor.parts.capture.writing import TraceWriter  # noqa: E402
from pulsar_doctor.parts.consume import attach  # noqa: E402
from pulsar_doctor.trace.sealing import open_trace  # noqa: E402
from tests.parts.capture.beside import (  # noqa: E402
    BEFORE,
    CHANGED,
    MARKS,
    SHARED,
    assert_same,
    captured,
    listened,
    tcpdump,
    told,
    two_consumers,
)
from tests.parts.capture.packing import may_capture, pcap  # noqa: E402
from tests.parts.capture.talks import is_part_of  # noqa: E402
from tests.parts.tap.test_on_broker import QUIET, tap  # noqa: E402
from tests.support.wanting import wanting  # noqa: E402


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason=wanting("tcpdump"))
def test_a_capture_tells_what_a_tap_of_the_same_traffic_tells(broker, client, topic, tmp_path):
    for name in ("s0", "s1"):
        client.subscribe(topic, name, pulsar.ConsumerType.Shared).close()
    attach.produce(client, topic, 100)
    with (
        tap(broker, tmp_path / "tap") as (url, _),
        tcpdump(int(url.rpartition(":")[2]), tmp_path / "lo.pcap"),
    ):
        port = url.rpartition(":")[2]
        through = pulsar.Client(url, logger=QUIET)
        consumers = two_consumers(through, topic)
        producer = through.create_producer(topic)
        producer.send(bytes(2_000_000))
        for consumer in consumers:
            for _ in range(101):  # all: what is on its way at the end, a tap alone would see
                consumer.acknowledge(consumer.receive(timeout_millis=5000))
        time.sleep(0.5)
        through.close()
    tapped = told(tmp_path / "tap")
    assert sum(len(rows) for rows in tapped.values()) > 250
    assert_same(tapped, told(captured(tmp_path / "lo.pcap", tmp_path / "capture", int(port))))


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason=wanting("tcpdump"))
def test_a_capture_begun_in_the_middle_tells_all_from_where_it_joins(
    broker, client, topic, tmp_path
):
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared).close()
    with (
        tap(broker, tmp_path / "tap") as (url, _),
        tcpdump(int(url.rpartition(":")[2]), tmp_path / "lo.pcap"),
    ):
        port = url.rpartition(":")[2]
        through = pulsar.Client(url, logger=QUIET)
        consumer = through.subscribe(
            topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=10, consumer_name="one"
        )
        producer = through.create_producer(topic)
        for size in (100, 5_000_000, 100, 2_000_000, 100, 100):
            producer.send(bytes(size))
            consumer.acknowledge(consumer.receive(timeout_millis=5000))
            time.sleep(1.3)
        through.close()
    tapped = spoken(tmp_path / "tap")
    packets = list(packets_of([(tmp_path / "lo.pcap").read_bytes()], "lo.pcap", FileCounts()))
    large = [n for n, packet in enumerate(packets) if len(packet.data) > 10_000]
    assert len(large) > 100
    starts = [9, large[len(large) // 3], large[len(large) // 2], large[-1] + 3, len(packets) // 9]
    for number, start in enumerate(starts):
        file = tmp_path / f"from-{number}.pcap"
        file.write_bytes(pcap(packets[start:], nano=True))
        trace = tmp_path / f"capture-{number}"
        joined = spoken(captured(file, trace, int(port)))
        assert joined
        for key, rows in joined.items():
            assert rows == tapped[key][-len(rows) :], (start, key)
        assert {way for _, way in joined} == {"to_broker", "to_client"}, start


@pytest.mark.slow
@pytest.mark.skipif(not may_capture(), reason=wanting("the right to capture packets"))
@pytest.mark.parametrize("batching", [False, True])
@pytest.mark.parametrize("rate", [1, 10, 1000])
def test_joined_in_the_middle_of_a_busy_connection_it_tells_what_a_tap_tells(
    broker, client, topic, tmp_path, rate, batching
):
    seconds = 12 if rate == 1 else 6
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared).close()
    with (
        tap(broker, tmp_path / "tap") as (url, _),
        listened(port := int(url.rpartition(":")[2])) as packets,
    ):
        through = pulsar.Client(url, logger=QUIET)
        consumer = through.subscribe(
            topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=10, consumer_name="one"
        )
        options = {"batching_enabled": batching, "batching_max_publish_delay_ms": 5}
        producer = through.create_producer(topic, **options)
        for number in range(rate * seconds):
            producer.send_async(bytes(100), lambda *_: None)
            time.sleep(max(0.0, 1 / rate - 0.0002))
            if number % 10 == 9 or rate < 100:
                for _ in range(10 if rate >= 100 else 1):
                    consumer.acknowledge(consumer.receive(timeout_millis=5000))
        through.close()
    tapped = spoken(tmp_path / "tap")
    middle = packets[0].time_ns + (packets[-1].time_ns - packets[0].time_ns) // 3
    with TraceWriter(tmp_path / "capture", {"files": []}) as writer:
        following = CaptureFollowing(writer, [port])
        for packet in packets:
            if packet.time_ns > middle:
                following.packet(packet)
        following.finish()
    joined = spoken(tmp_path / "capture")
    ways = defaultdict(int)
    for key, rows in joined.items():
        assert rows == tapped[key][-len(rows) :], key  # all from there on, and nothing else
        ways[key[1]] += len(rows)
    print(rate, batching, dict(ways), {key[1]: len(rows) for key, rows in tapped.items()})
    assert set(ways) == {"to_broker", "to_client"}
    assert sum(ways.values()) > 0.3 * sum(map(len, tapped.values()))


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason=wanting("tcpdump"))
def test_packets_dropped_at_random_invent_nothing_and_are_accounted_for(
    broker, client, topic, tmp_path
):
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared).close()
    port = broker.service_url.rpartition(":")[2]
    with tcpdump(int(port), tmp_path / "lo.pcap"):
        through = pulsar.Client(broker.service_url, logger=QUIET)
        consumer = through.subscribe(
            topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=10, consumer_name="one"
        )
        producer = through.create_producer(topic)
        for _ in range(6):
            for size in (100, 60_000, 100, 100):
                producer.send(bytes(size))
            for _ in range(4):
                consumer.acknowledge(consumer.receive(timeout_millis=5000))
            time.sleep(1.3)
        through.close()
    packets = list(packets_of([(tmp_path / "lo.pcap").read_bytes()], "lo.pcap", FileCounts()))
    truth = ledgers(packets, tmp_path / "truth", int(port))
    assert sum(map(len, truth.values())) > 90
    lost = 0
    for percent in (1, 10):
        for seed in range(10):
            chance = random.Random(seed)
            left = [packet for packet in packets if chance.random() * 100 >= percent]
            told = ledgers(left, tmp_path / f"{percent}-{seed}", int(port))
            for key, rows in told.items():
                said = [command for command, _ in rows]
                assert is_part_of(said, [command for command, _ in truth[key]]), (percent, seed)
                known = [row for row in rows if row[1] is not None]
                assert is_part_of(known, truth[key]), (percent, seed, "a ledger")
            lost += sum(map(len, truth.values())) - sum(map(len, told.values()))
    assert lost > 0


def ledgers(
    packets: list[Packet], folder: Path, port: int
) -> dict[tuple[object, object], list[tuple[object, int | None]]]:
    """By client and direction, each command and the permits after it, of a whole capture."""
    with TraceWriter(folder, {}) as writer:
        following = CaptureFollowing(writer, [port])
        for packet in packets:
            following.packet(packet)
        following.finish()
    totals = following.totals
    assert totals.seen == totals.used + totals.skipped + sum(totals.lost.values())
    found: dict[tuple[object, object], list[tuple[object, int | None]]] = defaultdict(list)
    for row in open_trace(folder).rows():
        if row.client_addr and row.command not in ("OPEN", "CLOSE", *MARKS):
            said = row.command, row.request_id, row.permits, row.ledger_id, row.entry_id
            sizes = row.frame_bytes, row.payload_bytes, repr(row.message_ids)
            found[row.client_addr, row.direction].append(((said, sizes), row.available_permits))
    return found


def spoken(trace: Path) -> dict[tuple[object, ...], list[tuple[object, ...]]]:
    """By client and direction, what each command said by itself."""
    names = [name for name in SHARED if name not in (*BEFORE, "consumer_id")]
    found: dict[tuple[object, ...], list[tuple[object, ...]]] = defaultdict(list)
    for row in open_trace(trace).rows():
        if row.client_addr is not None and row.command not in (*CHANGED, *MARKS):
            whose = None if row.command in ("SUCCESS", "ERROR") else row.consumer_id
            values = tuple(getattr(row, name) for name in names)
            found[row.client_addr, row.direction].append((whose, *values))
    return dict(found)
