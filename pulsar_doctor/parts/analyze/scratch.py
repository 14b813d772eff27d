"""The folder of temporary files of one analysis, and how the next one removes it after a kill.

It is locked for as long as its process lives, whichever way that ends. So a folder of this name and
user without a lock is left over.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pulsar_doctor.owners import ANYTHING, FOLDER, belongs_to, locked

PREFIX = "pulsar-doctor-spark-"


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A new folder that nobody else may enter, removed afterwards; first, those left over."""
    _sweep()
    folder, lock = _new()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _new() -> tuple[Path, int]:
    while True:
        folder = Path(tempfile.mkdtemp(prefix=PREFIX))
        with contextlib.suppress(FileNotFoundError):  # swept before it was locked
            lock = os.open(folder, FOLDER)
            if locked(lock) and folder.exists():
                return folder, lock
            os.close(lock)


def _sweep() -> None:
    for each in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        with contextlib.suppress(OSError):
            lock = os.open(each, FOLDER)
            try:
                ours = belongs_to(os.fstat(lock), os.geteuid(), forbidden=ANYTHING)
                if ours and locked(lock):
                    shutil.rmtree(each, ignore_errors=True)
            finally:
                os.close(lock)
