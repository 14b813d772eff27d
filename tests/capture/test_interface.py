"""The kernel's filter, run by hand: what is let through, and what is not."""

from __future__ import annotations

import struct

import pytest

from pulsar_doctor.capture.interface import (
    AND,
    JUMP_EQUAL,
    LOAD_BYTE,
    LOAD_HALF,
    LOAD_HALF_X,
    LOAD_X_HEADER,
    PORTS_MOST,
    RETURN,
    filter_of,
)
from tests.capture.packing import tcp

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
