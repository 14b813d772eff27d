"""What a disk, or a write that was cut, may do to the bytes of a file."""

from __future__ import annotations

import random
from collections.abc import Callable

Damage = Callable[[random.Random, bytes], bytes]


def flipped(chance: random.Random, data: bytes) -> bytes:
    bit = chance.randrange(len(data) * 8)
    return data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :]


def _some(chance: random.Random, data: bytes) -> tuple[int, int]:
    first = chance.randrange(len(data))
    return first, min(len(data), first + chance.choice([1, 7, 16, 100, 512, 4096]))


def lost(chance: random.Random, data: bytes) -> bytes:
    first, last = _some(chance, data)
    return data[:first] + data[last:]


def zeroed(chance: random.Random, data: bytes) -> bytes:
    """A block that the disk gives back as zeros."""
    first, last = _some(chance, data)
    return data[:first] + bytes(last - first) + data[last:]


def noise(chance: random.Random, data: bytes) -> bytes:
    first, last = _some(chance, data)
    return data[:first] + chance.randbytes(last - first) + data[last:]


def added(chance: random.Random, data: bytes) -> bytes:
    first, last = _some(chance, data)
    return data[:first] + chance.randbytes(last - first) + data[first:]


def cut(chance: random.Random, data: bytes) -> bytes:
    return data[: chance.randrange(len(data))]


def twice(chance: random.Random, data: bytes) -> bytes:
    """The same bytes again, as a write that was tried twice."""
    first, last = _some(chance, data)
    return data[:last] + data[first:]


def many(chance: random.Random, data: bytes) -> bytes:
    for _ in range(chance.randrange(2, 20)):
        data = flipped(chance, data)
    return data


def swapped(chance: random.Random, data: bytes) -> bytes:
    """Two pieces of the same length change places."""
    size = chance.randint(1, max(1, len(data) // 3))
    first, second = sorted(chance.randrange(len(data) - size + 1) for _ in range(2))
    if second - first < size:
        return data
    between = data[first + size : second]
    pieces = data[second : second + size], between, data[first : first + size]
    return data[:first] + b"".join(pieces) + data[second + size :]


KINDS: tuple[Damage, ...] = (flipped, lost, zeroed, noise, added, cut, twice, many, swapped)
