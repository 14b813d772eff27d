"""The kernel's filter, run by hand: what is let through, and what is not."""

from __future__ import annotations

import socket
import struct
import time

import pytest

from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.capture.interface import (
    AND,
    JUMP_EQUAL,
    LOAD_BYTE,
    LOAD_HALF,
    LOAD_HALF_X,
    LOAD_X_HEADER,
    PORTS_MOST,
    RETURN,
    Interface,
    filter_of,
)
from pulsar_doctor.parts.capture.packets import TcpSegment, segment_of
from tests.parts.capture.packing import may_capture, tcp
from tests.support.wanting import wanting

ENDS = {4: (bytes(4), bytes(3) + b"\1"), 6: (bytes(16), bytes(15) + b"\1")}


def passes(program: list[tuple[int, int, int, int]], packet: bytes) -> bool:
    """As the kernel runs it."""
    at = a = x = 0
    while True:
        operation, then, otherwise, value = program[at]
        at += 1
        if operation == LOAD_BYTE:
            a = packet[value]
        elif operation == LOAD_HALF:
            (a,) = struct.unpack_from(">H", packet, value)
        elif operation == LOAD_HALF_X:
            (a,) = struct.unpack_from(">H", packet, x + value)
        elif operation == LOAD_X_HEADER:
            x = 4 * (packet[value] & 15)
        elif operation == AND:
            a &= value
        elif operation == JUMP_EQUAL:
            at += then if a == value else otherwise
        else:
            assert operation == RETURN
            return value > 0


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("count", [1, 2, PORTS_MOST])
def test_tcp_of_its_ports_passes_and_nothing_else(version, count):
    ports = list(range(6650, 6650 + count))
    program = filter_of(ports)
    client, broker = ENDS[version]
    for port in ports:
        assert passes(program, tcp((client, 5), (broker, port), 1, 1, 16, b"x"))
        assert passes(program, tcp((broker, port), (client, 5), 1, 1, 16, b"x"))
    assert not passes(program, tcp((client, 5), (broker, 6649), 1, 1, 16, b"x"))
    udp = bytearray(tcp((client, 5), (broker, 6650), 1, 1, 16, b"x"))
    udp[9 if version == 4 else 6] = 17
    assert not passes(program, bytes(udp))


def test_options_of_ip_are_stepped_over():
    packet = tcp((ENDS[4][0], 5), (ENDS[4][1], 6650), 1, 1, 16, b"x")
    longer = bytes([0x46]) + packet[1:20] + bytes(4) + packet[20:]
    assert passes(filter_of([6650]), longer)


def test_every_jump_fits_in_a_byte():
    assert all(
        0 <= jump < 256 for line in filter_of(range(1, PORTS_MOST + 1)) for jump in line[1:3]
    )


@pytest.mark.skipif(not may_capture(), reason=wanting("the right to capture packets"))
@pytest.mark.parametrize("name", ["lo", "any"])
def test_what_passes_on_loopback_is_read_once(name):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with Interface(name, [port]) as interface:
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.sendall(b"hello")
            data, deadline = [], time.monotonic() + 5
            for packet in interface.packets():
                if packet is None or time.monotonic() > deadline:
                    break
                segment = segment_of(packet.link, packet.data, packet.wire_bytes)
                assert isinstance(segment, TcpSegment)
                data.append(segment.data)
    assert b"".join(data) == b"hello"
    assert [each for each in data if each] == [b"hello"]
    assert interface.drops == 0


@pytest.mark.skipif(not may_capture(), reason=wanting("the right to capture packets"))
def test_where_there_is_no_such_interface_those_that_are_there_are_named(outside):
    with pytest.raises(InputError, match=r"cannot read nowhere: .*; there are .*\blo\b.*, any$"):
        Interface("nowhere", [6650])
