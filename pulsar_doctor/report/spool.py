"""Buffers text that must wait for earlier output, in memory or on disk."""

from __future__ import annotations

import shutil
from tempfile import SpooledTemporaryFile
from typing import TextIO

IN_MEMORY_BYTES = 1 << 20


def spool() -> SpooledTemporaryFile[str]:
    """A place to write text to; it is gone when closed. Line ends stay as they are."""
    return SpooledTemporaryFile(IN_MEMORY_BYTES, "w+", encoding="utf-8", newline="")


def pour(spooled: SpooledTemporaryFile[str], out: TextIO) -> None:
    """Writes all that was spooled to out."""
    spooled.seek(0)
    shutil.copyfileobj(spooled, out)
