"""Opens files that the user named, and refuses devices, silent pipes and endless input.

What is opened is looked at before it is read, so that nobody waits for a pipe without a writer.
A pipe of the shell, as in `--stats <(pulsar-admin …)`, is read like a file.
"""

from __future__ import annotations

import io
import os
import re
import select
import stat
from pathlib import Path

from pulsar_doctor.errors import InputError

SILENT_SECONDS = 60.0  # a pulsar-admin that starts in a container far away takes some of them
TEXT_BYTES = 1 << 20  # client.conf, tokens, keys
CONTEXTS_BYTES = 1 << 18  # a file of contexts: a few KB, but what reads it may be slow
NOT_WAITING = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
INHERITED = re.compile(r"/(?:dev|proc/self)/fd/([0-9]+)")


def open_input(path: Path) -> io.BufferedReader:
    """A file, or a pipe that somebody writes to. Raises OSError, InputError for anything else."""
    descriptor = _descriptor(path)
    try:
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            return io.BufferedReader(_Pipe(descriptor, path))
        if not stat.S_ISREG(mode) and not stat.S_ISDIR(mode) and not _may_end(descriptor):
            raise InputError(f"{path} is a device; give the name of a file")
        if NOT_WAITING:
            os.set_blocking(descriptor, True)
        return io.BufferedReader(io.FileIO(descriptor, "rb"))  # which refuses a folder
    except BaseException:
        os.close(descriptor)
        raise


def text_of(path: Path, what: str, most: int = TEXT_BYTES) -> str:
    """Reads the whole of a small text. what: "the token file". most: bytes. Raises InputError."""
    try:
        with open_input(path) as file:
            content = file.read(most + 1)
        if len(content) > most:
            raise InputError(f"{what} {path} is longer than {most >> 10:,} KiB")
        return content.decode()
    except OSError as error:
        raise InputError(f"cannot read {what} {path}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise InputError(f"{what} {path} is not text") from None
    except ValueError:  # a character that no file has in its name
        raise InputError(f"{what} {path} cannot be the name of a file") from None


def require_files(*paths: Path | None) -> None:
    """Raises InputError for what a library, which opens it by its name, could wait for for ever.

    What is not there at all, or may not be read, the library says.
    """
    for path in filter(None, paths):
        try:
            mode = path.stat().st_mode
        except OSError:
            continue
        except ValueError:  # a character that no file has in its name
            raise InputError(f"{path} cannot be the name of a file") from None
        if not stat.S_ISREG(mode) and not INHERITED.fullmatch(str(path)):
            raise InputError(f"{path} is not a file, but a folder, a pipe or a device")


def _descriptor(path: Path) -> int:
    """Opened without waiting. A pipe that this process holds is taken as it is held.

    Opened anew, such a pipe would not say that its writer has ended already.
    """
    held = INHERITED.fullmatch("/dev/fd/0" if str(path) == "/dev/stdin" else str(path))
    if held is not None and not stat.S_ISREG(os.fstat(int(held[1])).st_mode):
        return os.dup(int(held[1]))
    return os.open(path, os.O_RDONLY | NOT_WAITING | getattr(os, "O_BINARY", 0))


def _may_end(device: int) -> bool:
    """Whether it is a terminal or the null device, which other devices are not."""
    return os.isatty(device) or os.path.samestat(os.fstat(device), Path(os.devnull).stat())


def _has_more(pipe: io.FileIO) -> bool:
    """Waits for bytes or the end; whether they came in time. Windows says so only by reading."""
    if not hasattr(select, "poll"):
        return True
    waiting = select.poll()
    waiting.register(pipe, select.POLLIN)
    return bool(waiting.poll(SILENT_SECONDS * 1000))


class _Pipe(io.RawIOBase):
    """A pipe, of which each part has to come in time."""

    def __init__(self, descriptor: int, path: Path) -> None:
        self._file = io.FileIO(descriptor, "rb")
        self._path = path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int | None:  # type: ignore[override]
        """Waits for the next bytes or the end. Raises InputError where there is neither."""
        if not _has_more(self._file):
            raise InputError(
                f"nothing came from the pipe {self._path} for {SILENT_SECONDS:g} s; "
                "give the name of a file, or begin to write first"
            )
        return self._file.readinto(buffer)

    def close(self) -> None:
        self._file.close()
        super().close()
