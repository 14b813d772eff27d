"""A tap and a capture of the same traffic: what both tell, so that it can be compared."""

from __future__ import annotations

import re
import signal
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from pulsar_doctor.parts.capture.files import Packet
from pulsar_doctor.parts.capture.interface import Interface
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import NAMES
from tests.support.command_line import pulsar_doctor
from tests.support.wanting import wanting

if TYPE_CHECKING:
    import pulsar

# What two observers of the same commands may tell differently: numbers and clocks of their own,
# salted hashes, where the tap connects to, and answers that the tap changes on their way.
OWN = frozenset(
    {"trace_id", "seq", "ts", "mono_ns", "conn_id", "incarnation", "broker_addr", "key_hash",
     "known_by", "grade", "join", "available_permits_min", "unacked_messages_min", "flow_gap_us",
     "starved_us", "starved_since", "starved_from", "ack_delay_us"}
)  # fmt: skip
# Where it ends alike, whatever stood between a command and an answer that crossed it.
LEDGER = ("available_permits", "parked_permits", "unacked_messages")
# A bound: lower where nobody knows who had a message before.
BOUND = "unsent_permits_min"
MARKS = ("JOINED", "RETRACTED", "UNPARSED")
# What is known of a consumer whose SUBSCRIBE was seen only, and what had come before.
BEFORE = frozenset(
    {"topic", "subscription", "subscription_type", "consumer_name", "client_version", "partition",
     "acknowledged_messages", "starved_us", "redelivery_count"}
)  # fmt: skip
SHARED = [name for name in NAMES if name not in OWN and name not in (*LEDGER, BOUND)]
RESIZED = ("CLOSE_PRODUCER", "CLOSE_CONSUMER")  # where a topic goes to is nothing for clients
CHANGED = ("LOOKUP_RESPONSE", "OPEN", "CLOSE")


@contextmanager
def tcpdump(port: int | None, file: Path, *more: str) -> Iterator[None]:
    """What passes on loopback to and from a port, or all TCP, written by tcpdump, which may go
    before others: on a busy machine the kernel drops what it does not take in time."""
    what = "tcp" if port is None else f"tcp port {port}"
    options = ["-i", "lo", "-U", "-B", "262144", "-s", "0", "-w", str(file), *more]
    command = ["nice", "-n", "-10", "tcpdump", *options, what]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    begun = next((line for line in process.stderr if "listening" in line), "")
    if not begun:
        pytest.skip(wanting("the right to capture packets"))
    try:
        yield
        time.sleep(1)  # its buffer
    finally:
        process.send_signal(signal.SIGINT)
        _, counts = process.communicate(timeout=10)
    assert re.search(r"^0 packets dropped by kernel", counts, re.MULTILINE), counts


@contextmanager
def listened(*ports: int) -> Iterator[list[Packet]]:
    """What passes on loopback to and from ports, as we capture it; complete at the end."""
    packets: list[Packet] = []
    over = threading.Event()
    with Interface("lo", ports) as interface:

        def listen() -> None:
            for packet in interface.packets():
                if packet is not None:
                    packets.append(packet)
                elif over.is_set():
                    return

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield packets
        finally:
            over.set()
            thread.join()
    assert not interface.drops


Told = dict[tuple[object, ...], list[tuple[object, ...]]]


def told(trace: Path) -> Told:
    """By client and direction, what each command said; and where the ledgers stood in the end."""
    found: dict[tuple[object, ...], list[tuple[object, ...]]] = defaultdict(list)
    for row in open_trace(trace).rows():
        if row.client_addr is None or row.command in CHANGED:
            continue
        values = tuple(
            None if name == "frame_bytes" and row.command in RESIZED else getattr(row, name)
            for name in SHARED
        )
        found[row.client_addr, row.direction].append(values)
        if row.consumer_id is not None:
            last = tuple(getattr(row, name) for name in LEDGER)
            found[row.client_addr, "ledger", row.consumer_id] = [last]
    return dict(found)


def captured(file: Path, trace: Path, *ports: int) -> Path:
    """The trace of a capture file, which is whole and in order."""
    options = [option for port in ports for option in ("--port", str(port))]
    made = pulsar_doctor("capture", str(file), *options, "--trace", str(trace))
    assert made.returncode == 0, made.stderr
    checked = pulsar_doctor("trace", "verify", str(trace))
    assert checked.returncode == 0, checked.stdout
    return trace


def assert_same(tapped: Told, captured: Told) -> None:
    """By key, each row of one is that of the other."""
    assert captured.keys() == tapped.keys()
    for key, rows in tapped.items():
        pairs = zip(captured[key], rows, strict=True)
        different = [pair for pair in pairs if pair[0] != pair[1] and not _left_open(*pair)]
        assert not different, (key, _parted(different[0]))


def _left_open(captured: tuple[object, ...], tapped: tuple[object, ...]) -> bool:
    """An ACK of what nobody in the trace holds: a tap knows that it was nobody, a capture may
    have begun after somebody had it."""
    at = SHARED.index("acknowledged_messages")
    open_, known = captured[at : at + 1], tapped[at : at + 1]
    rest = captured[:at] == tapped[:at] and captured[at + 1 :] == tapped[at + 1 :]
    return rest and (open_, known) == ((None,), (0,))


def _parted(rows: tuple[tuple[object, ...], tuple[object, ...]]) -> str:
    pairs = zip(SHARED, *rows, strict=False)
    return str([pair for pair in pairs if pair[0] == "command" or pair[1] != pair[2]])


def two_consumers(client: pulsar.Client, topic: str) -> list[pulsar.Consumer]:
    """On one connection, each with a subscription of its own (s0, s1) and a queue of 10."""
    from pulsar import ConsumerType

    return [
        client.subscribe(
            topic, f"s{number}", ConsumerType.Shared,
            receiver_queue_size=10, consumer_name=f"number {number}",
        )
        for number in range(2)
    ]  # fmt: skip
