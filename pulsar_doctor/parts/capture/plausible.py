"""Which bytes may begin a frame of one direction, and where a chain of such frames ends.

A chain is a frame, the one right behind it, and so on. That a chain is sound proves nothing of
where it begins: a payload can hold whole frames, as many as it has room for (see boundaries.py).

Nor may a payload choose how long a search takes: each has a budget of work, counted in bytes that
are looked at, so that the searches of a direction together cost what its bytes allow for.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from heapq import heappop, heappush

from google_crc32c import value as crc32c

from pulsar_doctor.errors import FramingError
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.framing import (
    BROKER_METADATA_MAGIC,
    CHECKSUM_MAGIC,
    WITH_METADATA,
    Cutter,
    Frame,
    code_of,
)

TO_BROKER_ONLY = frozenset(
    {2, 4, 5, 6, 10, 11, 12, 20, 21, 23, 25, 28, 29, 32, 34, 37, 39}
)  # fmt: skip
TO_CLIENT_ONLY = frozenset(
    {3, 7, 8, 9, 13, 14, 17, 22, 24, 26, 27, 30, 31, 33, 35, 36, 38, 40, 68}
)  # fmt: skip
NEVER = (TO_CLIENT_ONLY, TO_BROKER_ONLY)  # by direction
# Commands of today that carry nothing behind them; what newer ones carry is not known.
WITHOUT_PAYLOAD = frozenset({*range(2, 41), *range(50, 69)}) - WITH_METADATA
NOT_ONE, NOT_ALL = -1, -2  # instead of where a frame ends

_SIZES = struct.Struct(">II")
_BROKER_METADATA, _CHECKSUM = (
    n.to_bytes(2, "big") for n in (BROKER_METADATA_MAGIC, CHECKSUM_MAGIC)
)
SEARCHED_BYTES_MOST = 1 << 24
# Acknowledgements one behind the other, of 20 bytes each, take a half of it.
WORK_OF_BYTE, WORK_OF_CANDIDATE, WORK_OF_CHECKSUM = 24, 100, 4
# A head, wherever it is: sizes below that, then the tag of a command's type.
_HEADS = re.compile(rb"(?=\x00...\x00...\x08)", re.DOTALL)


class WorkExhaustedError(Exception):
    """A search would take longer than it may."""


class SearchBudget:
    """What a search may cost yet. Changed in place."""

    __slots__ = ("left",)

    def __init__(self, left: int = 0) -> None:
        self.left = left

    def spend(self, size: int) -> None:
        """A candidate of so many bytes is looked at. Raises WorkExhaustedError."""
        self.left -= WORK_OF_CANDIDATE + size
        if self.left < 0:
            self.left = 0
            raise WorkExhaustedError

    def spend_on_checksum(self, size: int) -> None:
        """The checksum of a frame of so many bytes is compared. Raises WorkExhaustedError."""
        self.spend(WORK_OF_CHECKSUM * size)


def end_of_frame(
    data: bytes | bytearray, at: int, direction: int, most: int, budget: SearchBudget | None = None
) -> int:
    """Where the frame that begins at `at` ends; NOT_ALL where it is not all here, or NOT_ONE.

    Raises WorkExhaustedError where the work that is given does not suffice.
    """
    if len(data) - at < 11:
        return _short(data, at)
    total, command_bytes = _SIZES.unpack_from(data, at)
    room = total - 4 - command_bytes
    if total > most or room < 0 or command_bytes < 2:
        return NOT_ONE
    code = code_of(bytes(data[at + 8 : at + min(11, 8 + command_bytes)]))
    if code < 2 or code in NEVER[direction]:
        return NOT_ONE
    if code in (WITHOUT_PAYLOAD if room else WITH_METADATA):
        return NOT_ONE
    behind, end = at + 8 + command_bytes, at + 4 + int(total)
    if len(data) < behind:
        return NOT_ALL
    is_cut = code in WITH_METADATA and end <= len(data)
    if budget is not None:
        budget.spend(int(total) if is_cut else int(command_bytes))
    with memoryview(data) as view:
        if not _parses(bytes(view[at + 8 : behind]), code):
            return NOT_ONE
        if end > len(data):
            return NOT_ALL
        return end if not is_cut or _cuts(bytes(view[at:end])) else NOT_ONE


def needed_until(data: bytes | bytearray, at: int) -> int:
    """Up to where a frame that is not all here must be for more to be known of it."""
    total, command_bytes = _SIZES.unpack_from(data, at)
    behind = at + 8 + int(command_bytes)
    return behind if len(data) < behind else at + 4 + int(total)


def agrees_with_checksum(frame: bytes) -> bool | None:
    """Whether a whole SEND or MESSAGE is as its checksum says; None where it carries none."""
    at = 8 + int(_SIZES.unpack_from(frame)[1])
    if frame[at : at + 2] == _BROKER_METADATA:
        at += 6 + int.from_bytes(frame[at + 2 : at + 6], "big")
    if frame[at : at + 2] != _CHECKSUM:
        return None
    stated = int.from_bytes(frame[at + 2 : at + 6], "big")
    return bool(crc32c(frame[at + 6 :]) == stated)


def _short(data: bytes | bytearray, at: int) -> int:
    """A frame of fewer bytes than name a type; unlikely, yet not impossible."""
    if len(data) - at >= 8:
        total, command_bytes = _SIZES.unpack_from(data, at)
        if command_bytes < 2 or total < 4 + command_bytes:
            return NOT_ONE
    return NOT_ALL


def can_be(frame: Frame, direction: int) -> bool:
    """Whether a frame that was cut may be one of this direction."""
    if frame.code < 2 or frame.code in NEVER[direction]:
        return False
    has_more = frame.payload_bytes is not None
    if frame.code in (WITHOUT_PAYLOAD if has_more else WITH_METADATA):
        return False
    return _parses(frame.command, frame.code)


def _parses(command: bytes, code: int) -> bool:
    try:
        parsed = wire.BaseCommand.FromString(command)
    except Exception:  # upb's DecodeError
        return False
    return bool(parsed.type == code)


def _cuts(frame: bytes) -> bool:
    try:
        return len(Cutter().feed(frame)) == 1
    except FramingError:
        return False


def are_frames(data: bytes | bytearray, direction: int, most: int) -> bool:
    """Whether these bytes are whole frames and nothing else."""
    at = 0
    while 0 <= at < len(data):
        at = end_of_frame(data, at, direction, most)
    return at == len(data)


def messages_around(
    data: bytearray, place: int, direction: int, most: int, budget: SearchBudget
) -> Iterator[tuple[int, int]]:
    """Where each SEND or MESSAGE that may have begun before that place and go on there ends, and
    where it begins. Raises WorkExhaustedError."""
    for head in _HEADS.finditer(data, 0, place):
        at = head.start()
        end = end_of_frame(data, at, direction, most, budget)
        if end == NOT_ALL:
            end = at + 4 + int(_SIZES.unpack_from(data, at)[0])
        if end > place and code_of(bytes(data[at + 8 : at + 11])) in WITH_METADATA:
            yield end, at


def only_boundary(
    data: bytearray, direction: int, most: int, budget: SearchBudget | None = None
) -> int | None:
    """A true boundary in these bytes of a stream; None where nothing proves one within that budget.

    A true frame begins within the first `most` bytes, and its chain reaches the end, since it is
    the stream. So where all chains from there that go on to the end have become one, that one is
    true from where they meet. data: more than twice `most` bytes. Frames of 16 MiB are not searched
    for, so that nothing is proven where there may be some.
    """
    if most >= SEARCHED_BYTES_MOST:
        return None
    try:
        return _where_all_meet(
            data, direction, most, budget or SearchBudget(WORK_OF_BYTE * len(data))
        )
    except WorkExhaustedError:
        return None


def _where_all_meet(data: bytearray, direction: int, most: int, budget: SearchBudget) -> int | None:
    leads = bytearray(len(data))  # by position: not known yet, or one of those below
    alive = [
        found.start()
        for found in _HEADS.finditer(data, 0, most + 12)
        if _leads_on(data, found.start(), direction, most, leads, budget)
    ]
    ends = set(alive)  # where each chain is: the last one continues until all are one
    while len(ends) > 1:
        at = heappop(alive)  # ascending, so a heap from the start
        ends.discard(at)
        end = end_of_frame(data, at, direction, most, budget)
        if not 0 <= end < len(data):
            return None
        if end not in ends:
            ends.add(end)
            heappush(alive, end)
    return next(iter(ends), None)


LEADS_ON, LEADS_NOWHERE = 1, 2


def _leads_on(
    data: bytearray, at: int, direction: int, most: int, leads: bytearray, budget: SearchBudget
) -> bool:
    passed = []
    lead = LEADS_ON
    while at < len(data):
        if leads[at]:
            lead = leads[at]
            break
        passed.append(at)
        end = end_of_frame(data, at, direction, most, budget)
        if end < 0:
            lead = LEADS_ON if end == NOT_ALL else LEADS_NOWHERE
            break
        at = end
    for each in passed:
        leads[each] = lead
    return lead == LEADS_ON
