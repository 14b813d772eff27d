"""Small reads of many connections, masked together a moment after they have passed."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.errors import TraceError
from pulsar_doctor.parts.tap.relay.connection_journal import (
    UNMASKED_FRAMES_MOST,
    ConnectionJournal,
    Unmasked,
)
from pulsar_doctor.wire.columns import values_of
from pulsar_doctor.wire.framing import Cutter
from pulsar_doctor.wire.journal import pack_block, read_blocks
from pulsar_doctor.wire.masking import Mask, Read
from tests.made.frames import command_of, field, frame
from tests.parts.tap.relay.transcripts import Kept, now
from tests.wire.test_batches import CANARY, frames_made, message

MASK = Mask(b"salt")
FLOW = frame(command_of(11, b"\x08\x01\x10\x05"))
SUCCESS = frame(command_of(13, b""))  # too rare to be masked with others
KEYED = message(9, b"\x18\x05" + field(6, b"k"))


@pytest.fixture
def kept():
    return Kept()


def journals(kept, connections=3):
    unmasked = Unmasked(kept, MASK)
    return unmasked, [ConnectionJournal(kept, unmasked, n) for n in range(connections)]


def cut(stream):
    return Cutter().feed(stream)


@settings(max_examples=100, deadline=None)
@given(
    reads=st.lists(
        st.tuples(
            st.integers(0, 2),
            st.integers(0, 1),
            st.lists(frames_made() | st.just(KEYED), min_size=1, max_size=4).map(b"".join),
        ),
        max_size=12,
    ),
    settled_after=st.sets(st.integers(0, 12)),
)
def test_the_rows_are_those_of_each_read_alone(reads, settled_after):
    together, alone = Kept(), Kept()
    unmasked, connections = journals(together)
    for number, (conn_id, direction, stream) in enumerate(reads):
        try:
            frames = cut(stream)
        except Exception:  # no stream of frames: not what this is about
            continue
        moment = now()
        connections[conn_id].frames(frames, direction, moment)
        read = Read(*moment, conn_id, direction, frames)
        alone.add_block(MASK.pack_all(cut(stream)), len(frames), read)
        if number in settled_after:
            unmasked.settle()
    unmasked.settle()
    assert list(map(values_of, together.read())) == list(map(values_of, alone.read()))
    assert together.seen == alone.seen
    assert CANARY not in b"".join(together.blocks)


def test_small_reads_of_several_connections_share_a_block(kept):
    unmasked, (first, second, _) = journals(kept)
    for connection, direction in ((first, 0), (second, 1), (first, 1)):
        connection.frames(cut(FLOW + message(1)), direction, now())
    assert kept.blocks == []
    unmasked.settle()
    assert len(kept.blocks) == 1
    blocks = list(read_blocks(kept.blocks[0]))
    assert [(block.conn_id, block.direction) for block, _ in blocks] == [(0, 0), (1, 1), (0, 1)]
    assert [end for _, end in blocks] == [0, 0, len(kept.blocks[0])]
    assert [[r.code for r in block.records] for block, _ in blocks] == [[11, 9]] * 3
    times = [block.mono_ns for block, _ in blocks]
    assert times == sorted(times)


def test_rare_commands_and_events_keep_their_place(kept):
    _, (first, second, _) = journals(kept)
    first.open("a:1", "b:1", now())
    first.frames(cut(FLOW), 0, now())
    second.frames(cut(FLOW), 0, now())
    first.frames(cut(SUCCESS + FLOW), 0, now())
    first.frames(cut(FLOW), 0, now())
    first.close("the end", now())
    names = [row.command for row in kept.read()]
    assert names == ["OPEN", "FLOW", "FLOW", "SUCCESS", "FLOW", "FLOW", "CLOSE"]


def test_enough_of_it_is_masked_at_once(kept):
    _, (first, *_) = journals(kept)
    for _ in range(UNMASKED_FRAMES_MOST - 1):
        first.frames(cut(FLOW), 0, now())
    assert kept.blocks == []
    first.frames(cut(FLOW), 0, now())
    assert len(kept.read()) == UNMASKED_FRAMES_MOST


def test_what_cannot_be_masked_ends_the_observing_of_its_connection_only(kept, monkeypatch):
    unmasked, (first, second, _) = journals(kept)
    bad = cut(SUCCESS)

    def pack_all(frames):
        if frames is bad:
            raise RuntimeError("a mistake of ours")
        return MASK.pack_all(frames)

    monkeypatch.setattr(unmasked, "_mask", type("Broken", (), {})())
    unmasked._mask.pack_all, unmasked._mask.pack_reads = pack_all, MASK.pack_reads
    first.frames(cut(FLOW), 0, now())
    second.frames(bad, 1, now())
    second.frames(cut(FLOW), 0, now())
    first.frames(cut(FLOW), 0, now())
    second.frames(cut(FLOW), 0, now())
    first.close("the end", now())
    told = [(row.conn_id, row.command) for row in kept.read()]
    assert told == [(0, "FLOW"), (1, "UNPARSED"), (0, "FLOW"), (0, "CLOSE")]
    assert (first.observed, second.observed) == (True, False)


def test_what_came_before_a_frame_that_is_none_is_told_before_that(kept):
    _, (first, second, _) = journals(kept)
    first.frames(cut(FLOW), 0, now())
    second.frames(cut(FLOW), 0, now())
    first.unparsed(ValueError("x"), 0, now())
    assert [(row.conn_id, row.command) for row in kept.read()] == [
        (0, "FLOW"),
        (1, "FLOW"),
        (0, "UNPARSED"),
    ]


def test_a_block_of_reads_that_do_not_fit_its_frames_is_damage():
    reads = [Read(1, 2, n, 0, cut(FLOW)) for n in range(3)]
    record = MASK.pack_reads(reads)
    for wrong in (record[:-29], record[:3] + b"\x07" + record[4:]):
        block = pack_block([wrong], ts=1, mono_ns=2)
        with pytest.raises(TraceError, match="the checksum of other records"):
            list(itertools.islice(read_blocks(block), 5))
