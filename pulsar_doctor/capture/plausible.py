"""What may be a frame of one direction, and where chains of such frames lead.

A chain is a frame, the one right behind it, and so on. That a chain is sound proves nothing of
where it begins: a payload can hold whole frames, as many as it has room for (see boundaries.py).
"""

from __future__ import annotations

import re
import struct

from pulsar_doctor.errors import FramingError
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.framing import WITH_METADATA, Cutter, code_of

TO_BROKER_ONLY = frozenset(
    {2, 4, 5, 6, 10, 11, 12, 20, 21, 23, 25, 28, 29, 32, 34, 37, 39}
)  # fmt: skip
TO_CLIENT_ONLY = frozenset(
    {3, 7, 8, 9, 13, 14, 17, 22, 24, 26, 27, 30, 31, 33, 35, 36, 38, 40, 68}
)  # fmt: skip
NEVER = (TO_CLIENT_ONLY, TO_BROKER_ONLY)  # by direction
CODES_MOST = 127  # of commands that are newer than we are
NOT_ONE, NOT_ALL = -1, -2  # instead of where a frame ends

_SIZES = struct.Struct(">II")
# A head, wherever it stands: sizes below 16 MiB, then the tag of a command's type.
_HEADS = re.compile(rb"(?=\x00...\x00...\x08)", re.DOTALL)


def end_of_frame(data: bytes | bytearray, at: int, direction: int, most: int) -> int:
    """Where the frame that begins at `at` ends; NOT_ALL where it is not all here, or NOT_ONE."""
    if len(data) - at < 11:
        return _short(data, at)
    total, command_bytes = _SIZES.unpack_from(data, at)
    room = total - 4 - command_bytes
    if total > most or room < 0 or command_bytes < 2:
        return NOT_ONE
    code = code_of(bytes(data[at + 8 : at + min(11, 8 + command_bytes)]))
    if code < 2 or code > CODES_MOST or code in NEVER[direction]:
        return NOT_ONE
    if bool(room) != (code in WITH_METADATA):
        return NOT_ONE
    behind, end = at + 8 + command_bytes, at + 4 + total
    if len(data) < behind:
        return NOT_ALL
    if not _parses(bytes(data[at + 8 : behind]), code):
        return NOT_ONE
    if end > len(data):
        return NOT_ALL
    return end if not room or _cuts(bytes(data[at:end])) else NOT_ONE


def _short(data: bytes | bytearray, at: int) -> int:
    """Of fewer bytes than say a type; an unlikely frame, yet none that cannot be."""
    if len(data) - at >= 8:
        total, command_bytes = _SIZES.unpack_from(data, at)
        if command_bytes < 2 or total < 4 + command_bytes:
            return NOT_ONE
        if total == 6 and len(data) - at == 10:  # a command that is its type alone
            return NOT_ONE
    return NOT_ALL


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


def frames_in(data: bytes | bytearray, direction: int, most: int) -> int | None:
    """How many frames these bytes are, no more and no less; None where they are something else."""
    at = count = 0
    while at < len(data):
        at = end_of_frame(data, at, direction, most)
        if at < 0:
            return None
        count += 1
    return count


def only_boundary(data: bytearray, direction: int, most: int) -> int | None:
    """A true boundary in these bytes of a stream; None where nothing proves one.

    A true frame begins within the first `most` bytes, and its chain goes on to the end, since it is
    the stream. So where all chains from there that go on to the end have become one, that one is
    true from where they meet. data: more than twice `most` bytes.
    """
    alive: list[int] = []
    leads: dict[int, bool] = {}  # boundary -> whether its chain goes on to the end
    for found in _HEADS.finditer(data, 0, most + 12):
        start = found.start()
        if _leads_on(data, start, direction, most, leads):
            alive.append(start)
    chains = [_boundaries(data, start, direction, most) for start in alive]
    if not chains:
        return None
    common = set(chains[0]).intersection(*chains[1:])
    return min(common, default=None)


def _leads_on(data: bytearray, at: int, direction: int, most: int, leads: dict[int, bool]) -> bool:
    passed = []
    sound = True
    while at < len(data):
        known = leads.get(at)
        if known is not None:
            sound = known
            break
        passed.append(at)
        end = end_of_frame(data, at, direction, most)
        if end < 0:
            sound = end == NOT_ALL
            break
        at = end
    for each in passed:
        leads[each] = sound
    return sound


def _boundaries(data: bytearray, at: int, direction: int, most: int) -> list[int]:
    """All boundaries of a chain that goes on to the end."""
    found = []
    while at < len(data):
        found.append(at)
        at = end_of_frame(data, at, direction, most)
        if at < 0:
            break
    return found
