"""Sizes in bytes as people write them: 512MB, 2GiB, 65536."""

from __future__ import annotations

import re

# Apache Pulsar as the sandbox fetches it: every text that names a size takes it from here.
VERSION = "4.0.8"
DOWNLOAD_BYTES = 245_494_718  # its archive, as the repository tells its length
UNPACKED_BYTES = 263_787_885  # all files of it

UNIT_BYTES = {
    "": 1, "b": 1,
    "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4,
    "kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4,
}  # fmt: skip


def megabytes(count: float) -> str:
    """`245 MB`: millions of bytes, as --max-bytes and download bars count them."""
    return f"{count / 1e6:.0f} MB"


def bytes_of(text: str) -> int | None:
    """Bytes of a size with or without a unit, in any case of letters; None where it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([a-z]*)", text.strip().lower())
    if match is None or match[2] not in UNIT_BYTES:
        return None
    return int(float(match[1]) * UNIT_BYTES[match[2]])


def in_words(count: int) -> str:
    """Bytes as a person reads them: 512 bytes, 12 kB, 1.2 MB."""
    size, unit = float(count), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if round(size) < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.1f} {unit}" if size < 10 and unit != "bytes" else f"{size:.0f} {unit}"
