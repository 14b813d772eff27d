"""What must hold of any bytes: as properties for test_fuzz.py, and for coverage-guided fuzzing.

    python tests/wire/fuzz_wire.py -max_total_time=600 CORPUS    (needs atheris, and pulsar_doctor)

A *tape* of bytes decides what is said on the wire, how it is mutated, and how it is cut. Whoever
makes tapes, chance or a fuzzer, so makes streams that are mostly valid and go wrong somewhere.
"""

from __future__ import annotations

import contextlib
import struct
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

from pulsar_doctor.errors import FramingError, TraceError
from pulsar_doctor.ledger import timeline
from pulsar_doctor.wire import commands, framing, journal, masking, redaction
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.columns import NAMES, values_of
from pulsar_doctor.wire.framing import DEFAULT_MAX_MESSAGE_BYTES, FRAME_PADDING_BYTES, Cutter, Frame
from tests.made.frames import frame

FRAME_BYTES_MOST = DEFAULT_MAX_MESSAGE_BYTES + FRAME_PADDING_BYTES
HELD = frozenset({2, 15, 16, 24, 68})
CODES = (*commands.COMMANDS, 41, 67, 90, 127, 128, 300)
MASK = masking.Mask(b"salt")


class Tape:
    """Numbers and pieces, read off bytes; behind their end there are only zeros."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def over(self) -> bool:
        return self._at >= len(self._data)

    def number(self, most: int) -> int:
        """0 to `most`, both included."""
        width = 1 if most < 256 else 2 if most < 65536 else 8
        return int.from_bytes(self.piece(width), "big") % (most + 1)

    def piece(self, size: int) -> bytes:
        piece = self._data[self._at : self._at + size]
        self._at += size
        return piece

    def one_of(self, things: Any) -> Any:
        return things[self.number(len(things) - 1)]


# Messages.


def stream_of(tape: Tape) -> bytes:
    said = bytearray()
    while not tape.over and len(said) < 5000:
        tape.one_of(SAYINGS)(tape, said)
    return bytes(said)


def _known(tape: Tape, said: bytearray) -> None:
    """A command as the protocol has it, with some of its fields."""
    said += frame(_command(tape).SerializeToString() + tape.piece(tape.number(3) // 3 * 5))


def _odd(tape: Tape, said: bytearray) -> None:
    """A command of any number, with any bytes."""
    code = tape.one_of(CODES)
    number = bytes([code]) if code < 128 else bytes([code & 0x7F | 0x80, code >> 7])
    said += frame(b"\x08" + number + tape.piece(tape.number(40)), tape.piece(tape.number(20)))


def _with_payload(tape: Tape, said: bytearray) -> None:
    """SEND or MESSAGE, and before its payload what may stand there, or nearly."""
    inner = wire.Message(consumer_id=tape.number(3), redelivery_count=tape.number(2))
    inner.message_id.ledger_id = tape.number(2**64 - 1)
    command = wire.BaseCommand(type=9, message=inner)
    if tape.number(1):
        command = wire.BaseCommand(type=6, send=wire.Send(producer_id=1))
    metadata = tape.piece(tape.number(30))
    if tape.number(3):
        known = wire.MessageMetadata(publish_time=tape.number(2**63))
        known.num_messages_in_batch = tape.number(300) - 10
        metadata = known.SerializeToString() + metadata[: tape.number(10)]
    size = len(metadata) if tape.number(7) else tape.number(2**32 - 1)
    part = struct.pack(">I", size) + metadata + tape.piece(tape.number(60))
    if tape.number(1):
        part = b"\x0e\x01" + tape.piece(4).ljust(4, b"\0") + part
    if tape.number(2) == 0:
        broker_metadata = tape.piece(tape.number(10))
        size = len(broker_metadata) if tape.number(5) else tape.number(100)
        part = b"\x0e\x02" + struct.pack(">I", size) + broker_metadata + part
    said += frame(command.SerializeToString(), part[: len(part) - tape.number(15) // 14 * 5])


def _tiny(tape: Tape, said: bytearray) -> None:
    """A command that ends before it could say its type, and what stands behind it."""
    said += frame(tape.piece(tape.number(3)), tape.piece(tape.number(6)))


def _mutated(tape: Tape, said: bytearray) -> None:
    """One bit of what was said is another, or one byte more or less is there."""
    if not said:
        return
    at = len(said) - 1 - tape.number(min(len(said) - 1, 60))
    how = tape.number(3)
    if how == 0:
        del said[at]
    elif how == 1:
        said.insert(at, tape.number(255))
    else:
        said[at] ^= 1 << tape.number(7)


def _anything(tape: Tape, said: bytearray) -> None:
    said += tape.piece(tape.number(20))


SAYINGS = (_known, _known, _odd, _with_payload, _with_payload, _tiny, _mutated, _anything)


def _command(tape: Tape) -> Any:
    return command_of(tape, tape.one_of(tuple(commands.COMMANDS)))


def command_of(tape: Tape, code: int) -> Any:
    """A command with some of its fields, and in them numbers at the edge of what they can be."""
    command = wire.BaseCommand(type=code)
    _fill(tape, getattr(command, commands.COMMANDS[code].field))
    return command


def _fill(tape: Tape, message: Any) -> None:
    message.SetInParent()
    for field in message.DESCRIPTOR.fields:
        if not tape.number(1):
            continue
        repeated = field.is_repeated
        if field.message_type is not None:
            _fill(
                tape,
                getattr(message, field.name).add() if repeated else getattr(message, field.name),
            )
            continue
        value: Any
        if field.cpp_type == field.CPPTYPE_STRING:
            value = tape.piece(tape.number(12)).decode("latin-1")
        elif field.cpp_type == field.CPPTYPE_BOOL:
            value = bool(tape.number(1))
        else:
            value = NUMBERS[field.cpp_type](tape)
        if repeated:
            getattr(message, field.name).append(value)
        else:
            setattr(message, field.name, value)


def _edge(bits: int, signed: bool) -> Callable[[Tape], int]:
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    edges = (0, 1, 2, 3, least, most, most - 1)

    def value(tape: Tape) -> int:
        which = tape.number(9)
        return edges[which] if which < len(edges) else tape.number(300)

    return value


_FIELD = wire.BaseCommand.DESCRIPTOR.fields[0]
NUMBERS = {
    _FIELD.CPPTYPE_INT32: _edge(32, True),
    _FIELD.CPPTYPE_INT64: _edge(64, True),
    _FIELD.CPPTYPE_UINT32: _edge(32, False),
    _FIELD.CPPTYPE_UINT64: _edge(64, False),
}


# How it is cut: once with care and slowly, to compare with.


class Cut(NamedTuple):
    """Frames, and whether something came behind them that is none."""

    frames: list[Frame]
    broken: bool


def cut_with_care(stream: bytes) -> Cut:
    """As framing.py says that a stream is cut."""
    frames: list[Frame] = []
    at = 0
    while len(stream) - at >= 8:
        total, size = struct.unpack_from(">II", stream, at)
        if total > FRAME_BYTES_MOST or size > total - 4:
            return Cut(frames, True)
        end, behind = at + 4 + total, at + 8 + size
        whole = end <= len(stream)
        if not whole and behind > len(stream):
            break
        command = stream[at + 8 : behind]
        code = framing.code_of(command)
        metadata, lies = None, False
        if behind < end and code in framing.WITH_METADATA:
            metadata, lies = _metadata_of(stream[behind:end], end - behind)
        if lies or (whole and behind < end and code in framing.WITH_METADATA and metadata is None):
            return Cut(frames, True)
        if not whole:
            break
        frames.append(Frame(code, command, metadata, total + 4, end - behind or None, end))
        at = end
    return Cut(frames, False)


def _metadata_of(part: bytes, size: int) -> tuple[bytes | None, bool]:
    """The metadata of a payload part of `size` bytes, None where it is not (all) here; and whether
    a length in it cannot be."""
    at = 0
    if part[:2] == b"\x0e\x02":
        if len(part) < 6:
            return None, False
        at = 6 + int.from_bytes(part[2:6], "big")
        if at > size:
            return None, True
    if len(part) < at + 2:
        return None, False
    if part[at : at + 2] == b"\x0e\x01":
        at += 6
    if len(part) < at + 4:
        return None, False
    length = int.from_bytes(part[at : at + 4], "big")
    at += 4
    if length > size - at:
        return None, True
    return (part[at : at + length], False) if len(part) >= at + length else (None, False)


def cut(pieces: list[bytes], held: frozenset[int] = frozenset()) -> Cut:
    """As the relay has it cut. Asserts on the way what its callers rely on."""
    cutter = Cutter(held)
    frames: list[Frame] = []
    passed = fed = 0
    for piece in pieces:
        fed += len(piece)
        try:
            cutter.feed(piece)
        except FramingError:
            return Cut(frames + list(cutter.frames), True)
        frames += cutter.frames
        assert cutter.position == fed
        assert passed <= fed - cutter.undecided <= fed, "what was passed on cannot be taken back"
        passed = fed - cutter.undecided
    return Cut(frames, False)


def pieces_of(tape: Tape, stream: bytes) -> list[bytes]:
    """The stream, cut at a few places, or everywhere."""
    if tape.number(9) == 0:
        return [stream[at : at + 1] for at in range(len(stream))]
    places = sorted(tape.number(len(stream)) for _ in range(tape.number(8)))
    begins, ends = [0, *places], [*places, len(stream)]
    return [stream[a:b] for a, b in zip(begins, ends, strict=True)]


# What must hold.


def any_cutting_gives_the_same_frames(tape: Tape) -> None:
    pieces_first = Tape(tape.piece(12))
    stream = stream_of(tape)
    expected = cut_with_care(stream)
    pieces = pieces_of(pieces_first, stream)
    assert cut([stream]) == expected
    assert cut(pieces) == expected
    assert cut(pieces, HELD) == expected


def rows_of(blocks: list[bytes]) -> list[tuple[Any, ...]]:
    """The rows that an observer gets to see, each with the ledger after it."""
    ledgers = timeline.Timeline("t")
    read = journal.read_blocks(b"".join(blocks))
    return [values_of(ledgers.apply(row)) for block, _ in read for row in commands.rows_of(block)]


def block_of(records: list[bytes], direction: int = 0, at: int = 1) -> bytes:
    return journal.pack_block(records, ts=at, mono_ns=at, conn_id=0, direction=direction)


def any_cutting_gives_the_same_rows(tape: Tape) -> None:
    """What the relay writes down of each read, against each frame of the stream on its own."""
    direction = tape.number(1)
    pieces_first = Tape(tape.piece(12))
    stream = stream_of(tape)
    cutter = Cutter(HELD)
    blocks = []
    with contextlib.suppress(FramingError):
        for piece in pieces_of(pieces_first, stream):
            with contextlib.ExitStack() as behind:
                behind.callback(
                    lambda: blocks.append(block_of(MASK.pack_all(cutter.frames), direction))
                )
                cutter.feed(piece)
    frames = cut_with_care(stream).frames
    rows = rows_of(blocks)
    assert rows == rows_of([block_of([MASK.pack(frame)], direction) for frame in frames])
    assert [row[FRAME_BYTES] for row in rows] == [frame.frame_bytes for frame in frames]


FRAME_BYTES = NAMES.index("frame_bytes")


def a_damaged_journal_loses_rows_and_gains_none(tape: Tape) -> None:
    """Bits are flipped, pieces cut out, swapped or doubled, behind the header."""
    damage = Tape(tape.piece(40))
    blocks: list[bytes] = []
    while not tape.over and len(blocks) < 4:
        frames = Cutter().feed(frame(_command(tape).SerializeToString()) * tape.number(3))
        blocks.append(block_of(MASK.pack_all(frames), at=len(blocks)))
    damaged = bytearray(b"".join(blocks))
    for _ in range(1 + damage.number(3)):
        if damaged:
            _damage(damage, damaged)
    whole = [read_as_rows(block) for block, _ in journal.read_blocks(b"".join(blocks))]
    with contextlib.suppress(TraceError):
        for block, end in journal.read_blocks(bytes(damaged)):
            assert read_as_rows(block) in whole
            assert end <= len(damaged)


def read_as_rows(block: journal.Block) -> list[tuple[Any, ...]]:
    return [values_of(row) for row in commands.rows_of(block)]


def _damage(tape: Tape, damaged: bytearray) -> None:
    at, how = tape.number(len(damaged) - 1), tape.number(3)
    if how == 0:
        del damaged[at:]
    elif how == 1:
        del damaged[at : at + 1 + tape.number(60)]
    elif how == 2:
        damaged[at:at] = damaged[: tape.number(80)]
    else:
        damaged[at] ^= 1 << tape.number(7)


def errors_are_told_in_a_line(tape: Tape) -> None:
    text = " ".join(tape.one_of(WORDS) for _ in range(tape.number(200)))
    told = redaction.redact(text + tape.piece(tape.number(30)).decode("latin-1"))
    assert len(told) <= redaction.ERROR_CHARACTERS
    assert "\n" not in told
    assert "hunter2" not in told


WORDS = (
    "token=hunter2", "token: hunter2", "Bearer hunter2", "pulsar://hunter2@host", "key", "", "=",
    ":", "\n", "//", "@", "eyJ", ".", "password", "basic", "a", "\t", "token", "x" * 50,
)  # fmt: skip

PROPERTIES = (
    any_cutting_gives_the_same_frames,
    any_cutting_gives_the_same_rows,
    a_damaged_journal_loses_rows_and_gains_none,
    errors_are_told_in_a_line,
)


def one_input(data: bytes) -> None:
    """The first byte says which of them."""
    tape = Tape(data)
    tape.one_of(PROPERTIES)(tape)


def main() -> None:
    import atheris

    atheris.instrument_all()
    atheris.Setup(sys.argv, one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
