"""Amounts of bytes as people write them: 512MB, 2GiB, 65536."""

from __future__ import annotations

import re

UNIT_BYTES = {
    "": 1, "b": 1,
    "kb": 1000, "mb": 1000**2, "gb": 1000**3, "tb": 1000**4,
    "kib": 1024, "mib": 1024**2, "gib": 1024**3, "tib": 1024**4,
}  # fmt: skip


def bytes_of(text: str) -> int | None:
    """Bytes of a size with or without a unit, in any case of letters; None where it is none."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?([a-z]*)", text.strip().lower())
    if match is None or match[2] not in UNIT_BYTES:
        return None
    return int(float(match[1]) * UNIT_BYTES[match[2]])
