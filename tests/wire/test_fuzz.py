"""Streams, journals and errors that chance has made (see fuzz_wire.py), and what a relay makes of
hostile commands. An eighth of twenty thousand in every run, all of them with -m slow."""

from __future__ import annotations

import random
import socket

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.framing import Cutter
from tests.parts.tap.tapped import flow, frame, tapping
from tests.wire import fuzz_wire

EXAMPLES = {
    fuzz_wire.any_cutting_gives_the_same_frames: 7000,
    fuzz_wire.any_cutting_gives_the_same_rows: 6000,
    fuzz_wire.a_damaged_journal_loses_rows_and_gains_none: 4000,
    fuzz_wire.errors_are_told_in_a_line: 3000,
}
TAPE_BYTES = 50, 120


def test_all_properties_are_tried_twenty_thousand_times_together():
    assert set(EXAMPLES) == set(fuzz_wire.PROPERTIES)
    assert sum(EXAMPLES.values()) >= 20_000


@pytest.mark.parametrize("share", [8, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("holds", EXAMPLES, ids=lambda holds: holds.__name__)
def test_it_holds_whatever_the_bytes(holds, share):
    examples, tried = EXAMPLES[holds] // share, 0

    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.binary(min_size=TAPE_BYTES[0], max_size=TAPE_BYTES[1]))
    def try_it(data: bytes) -> None:
        nonlocal tried
        tried += 1
        holds(fuzz_wire.Tape(data))

    try_it()
    assert tried >= examples


# Whatever is to be rewritten.

FLOWS = 60


def hostile(seed: int, codes: tuple[int, ...]) -> bytes:
    """Commands that the relay looks into, with anything in them, and FLOWs between them."""
    chance = random.Random(seed)
    said = bytearray()
    for number in range(FLOWS):
        tape = fuzz_wire.Tape(chance.randbytes(200))
        code = chance.choice(codes)
        command = fuzz_wire.command_of(tape, code).SerializeToString()
        if chance.random() < 0.3:
            at = chance.randrange(2, len(command) + 1)
            command = command[:at] + chance.randbytes(chance.randrange(6)) + command[at + 1 :]
        said += frame(command, chance.randbytes(chance.choice((0, 0, 7)))) + flow(number)
    return bytes(said)


def flows_in(heard: bytes) -> list[int]:
    frames = Cutter().feed(heard)
    commands = [wire.BaseCommand.FromString(one.command) for one in frames if one.code == 11]
    return [command.flow.message_permits for command in commands]


def test_hostile_commands_neither_hold_up_nor_change_what_stands_between_them(tmp_path):
    with tapping(tmp_path / "t") as tapped:
        for seed in range(20):
            ends = tapped.connected()
            codes = ((2, 23, 37), (15, 16, 24, 68))
            for one, other, its_codes in zip(ends, reversed(ends), codes, strict=True):
                one.send(hostile(seed, its_codes))
                one.sock.shutdown(socket.SHUT_WR)
                assert flows_in(other.rest()) == list(range(FLOWS))
            assert tapped.wait_for(ends[0], "CLOSE")
            assert "UNPARSED" not in tapped.commands(ends[0])
