"""A capture that is watched: the picture of a tap, and what a ring keeps of a stall."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

pulsar = pytest.importorskip("pulsar")

from pulsar_doctor.parts.consume import attach  # noqa: E402
from pulsar_doctor.trace.sealing import open_trace  # noqa: E402
from tests.parts.capture.packing import may_capture  # noqa: E402
from tests.parts.tap.test_on_broker import QUIET  # noqa: E402
from tests.support import eventually  # noqa: E402
from tests.support.command_line import answered  # noqa: E402
from tests.support.terminals import on_terminal  # noqa: E402
from tests.support.wanting import wanting  # noqa: E402

pytestmark = pytest.mark.skipif(not may_capture(), reason=wanting("the right to capture packets"))
SOON = [f"--set=permits-exhausted.{limit}" for limit in ("refill_wait=2s", "quiet_after=1s")]


def test_on_a_terminal_consumers_are_drawn_and_a_stall_is_kept(broker, client, topic, tmp_path):
    trace = tmp_path / "t"
    port = broker.service_url.rpartition(":")[2]
    command = [sys.executable, "-m", "pulsar_doctor", "capture", "-i", "lo", "--port", port,
               "--trace", str(trace), "--ring", "60s", *SOON]  # fmt: skip
    client.subscribe(topic, "s", pulsar.ConsumerType.Shared).close()
    attach.produce(client, topic, 100)
    with on_terminal(command, columns=160) as pane:
        pane.says("capturing")
        eventually(lambda: list(trace.glob(".journal-*")))
        other = pulsar.Client(broker.service_url, logger=QUIET)
        consumer = other.subscribe(
            topic, "s", pulsar.ConsumerType.Shared, receiver_queue_size=10, consumer_name="busy"
        )
        for _ in range(4):
            consumer.acknowledge(consumer.receive(timeout_millis=5000))
        pane.says("1 stalled")
        pane.says("busy  ")
        assert topic.rpartition("/")[2][:10] in " ".join(pane.seen)
        pane.says("the ring is kept in")
        kept = eventually(lambda: list((trace / "_kept").iterdir()))
        assert pane.end(signal.SIGTERM) == 0
        other.close()
        pane.says("rows of")
    flows = [row for row in open_trace(Path(kept[0])).rows() if row.command == "FLOW"]
    assert [row.permits for row in flows] == [10]
    assert answered("trace", "verify", str(trace)).returncode == 0


def test_a_signal_seals_what_has_been_captured(broker, client, topic, tmp_path):
    trace = tmp_path / "t"
    port = broker.service_url.rpartition(":")[2]
    command = [sys.executable, "-m", "pulsar_doctor", "capture", "-i", "lo", "--port", port,
               "--trace", str(trace)]  # fmt: skip
    with on_terminal(command, columns=160) as pane:
        pane.says("capturing")
        eventually(lambda: list(trace.glob(".journal-*")))
        other = pulsar.Client(broker.service_url, logger=QUIET)
        other.subscribe(topic, "s", receiver_queue_size=7)
        pane.says("1 consumer: 1 healthy")
        assert not list(trace.glob("seg-*.parquet"))
        pane.process.send_signal(signal.SIGUSR2)
        pane.says("all that had passed is sealed")
        assert list(trace.glob("seg-*.parquet"))
        other.close()
        assert pane.end() == 0
    flows = [row.permits for row in open_trace(trace).rows() if row.command == "FLOW"]
    assert flows == [7]
