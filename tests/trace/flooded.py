"""A flood of numbered messages through a real relay, at a pace or as fast as it goes."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path

from tests.parts.tap.tapped import Peer, Tapped, command_frame, message

FIRST_ENTRY = 1 << 21  # from here on every number takes four bytes: all frames are of one length
BURST = 500
PAYLOAD = b"p" * 100


@cache
def bursts(count: int) -> list[bytes]:
    """So many times 500 frames, each with the next entry of a ledger."""
    return [
        b"".join(
            message(1, PAYLOAD, FIRST_ENTRY + burst * BURST + number) for number in range(BURST)
        )
        for burst in range(count)
    ]


def frame_bytes() -> int:
    return len(message(1, PAYLOAD, FIRST_ENTRY))


class Flood:
    """One consumer, and a broker that sends it messages as long as there are some left.

    received: (monotonic seconds, bytes) of what has arrived at the client, in order.
    """

    def __init__(self, tapped: Tapped, messages: int, *, rows_a_second: float | None) -> None:
        self.client, self.broker = tapped.connected()
        subscribe = command_frame(
            4, "subscribe", topic="persistent://public/default/orders", subscription="billing",
            sub_type=1, consumer_id=1, consumer_name="slow", request_id=1,
        )  # fmt: skip
        success = command_frame(13, "success", request_id=1)
        pass_on(self.client, self.broker, subscribe)
        pass_on(self.broker, self.client, success)
        pass_on(
            self.client,
            self.broker,
            command_frame(11, "flow", consumer_id=1, message_permits=messages),
        )
        self.received: list[tuple[float, int]] = [(time.monotonic(), 0)]
        self.over = threading.Event()
        self._bursts = bursts(messages // BURST)
        self._pause = BURST / rows_a_second if rows_a_second else 0.0
        self._threads = [threading.Thread(target=work) for work in (self._send, self._receive)]
        for thread in self._threads:
            thread.start()

    def entries_received(self, until: float = float("inf")) -> int:
        """How many messages had arrived by then."""
        arrived = [size for at, size in self.received if at <= until]
        return arrived[-1] // frame_bytes()

    def received_at(self, entries: int) -> float:
        """When so many had arrived."""
        return next((at for at, size in self.received if size >= entries * frame_bytes()), 0.0)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)

    def _send(self) -> None:
        due = time.monotonic()
        try:
            for burst in self._bursts:
                if self.over.is_set():
                    break
                self.broker.sock.sendall(burst)
                due += self._pause
                time.sleep(max(0.0, due - time.monotonic()))
        except OSError:  # the relay was killed
            return

    def _receive(self) -> None:
        size, everything = 0, sum(map(len, self._bursts))
        try:
            while size < everything and (data := self.client.sock.recv(1 << 20)):
                size += len(data)
                self.received.append((time.monotonic(), size))
        except OSError:
            return


def pass_on(sender: Peer, receiver: Peer, frame: bytes) -> None:
    sender.send(frame)
    assert receiver.read(len(frame)) == frame


def observer(trace_dir: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "pulsar_doctor.parts.tap.observer", str(trace_dir)]
    )
