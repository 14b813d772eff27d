"""CRC32C (Castagnoli), the checksum of a frame's metadata and payload.

In plain Python, eight bytes a step: about 17 MB/s on one core, twice what one byte a step gives,
so that 5 MB, the largest message of most clusters, take a third of a second. Every entry from a
broker carries one that the broker itself has checked when it was published; what is wrong here was
changed behind it.
"""

from __future__ import annotations

import struct

CASTAGNOLI = 0x82F63B78  # the polynomial, its bits reversed
_STEP = struct.Struct("<IBBBB")


def _tables() -> list[list[int]]:
    """Table n: the checksum of a byte with n zero bytes behind it."""
    first = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (CASTAGNOLI if crc & 1 else 0)
        first.append(crc)
    tables = [first]
    while len(tables) < 8:
        tables.append([first[crc & 255] ^ crc >> 8 for crc in tables[-1]])
    return tables


_TABLES = _tables()


def crc32c(data: bytes | memoryview) -> int:
    """The checksum as it stands in a frame."""
    t0, t1, t2, t3, t4, t5, t6, t7 = _TABLES
    crc = 0xFFFFFFFF
    whole = len(data) & ~7
    for four, b4, b5, b6, b7 in _STEP.iter_unpack(memoryview(data)[:whole]):
        crc ^= four
        crc = (
            t7[crc & 255] ^ t6[crc >> 8 & 255] ^ t5[crc >> 16 & 255] ^ t4[crc >> 24]
            ^ t3[b4] ^ t2[b5] ^ t1[b6] ^ t0[b7]
        )  # fmt: skip
    for byte in data[whole:]:
        crc = t0[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF
