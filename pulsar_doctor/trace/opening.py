"""Opens the folder of a trace without loading what reads it before it is needed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from pulsar_doctor.errors import needing

if TYPE_CHECKING:
    from pulsar_doctor.trace.reading import Trace

Say = Callable[[str], None]


def open_folder(folder: Path, say: Say, *, proven_only: bool = False) -> Trace:
    """A trace, to be read. say: takes what is missing from it, as soon as it is known.

    proven_only: without what is only likely of a capture. Raises MissingExtra, TraceError.
    """
    with needing("trace", "reading a trace"):
        from pulsar_doctor.trace.sealing import open_trace
    return open_trace(folder, lambda note: say(f"pulsar-doctor: {note}"), proven_only=proven_only)
