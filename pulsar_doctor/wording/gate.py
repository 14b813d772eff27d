"""Filters all printed text, so that names from outside cannot control the terminal.

Names come from others: from clients, brokers and files. A control character among them would be
obeyed by a terminal, an override of the direction of writing would hide what is beside it. So
nothing else writes to stdout or stderr (tests/test_gate.py holds that), and here each character
that does not print is replaced, line ends excepted. Where a name must not bring a line end either,
the writer of the line uses `printable`; of what is printed line by line, each is one.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TextIO, cast

from pulsar_doctor.wording.printable import json_text, printable, printable_lines

NOT_ENCODED = "pulsar-doctor"  # the error handler
SIGNS = {"→": ">", "←": "<", "≤": "<=", "≥": ">=", "×": "x", "µ": "u", "…": "..."}
COERCED = ("C.UTF-8", "C.utf8", "UTF-8")  # what Python itself sets LC_CTYPE to


def tell(*lines: str) -> None:
    """Each is one line on stdout, whatever is in it; written at once."""
    _write(sys.stdout, lines)


def warn(*lines: str) -> None:
    """Each is one line on stderr."""
    _write(sys.stderr, lines)


def complain(sentence: str) -> None:
    """Prints what fails, on stderr; lines behind its first are set in, so none passes for ours."""
    first, *others = sentence.split("\n")
    warn(f"pulsar-doctor: {first}", *(f"  {line.removeprefix('  ')}" for line in others))


class Once:
    """Passes each sentence on once, and no more of them than so many."""

    def __init__(self, say: Callable[[str], object], most: int = 32) -> None:
        self._say, self._most = say, most
        self._passed: set[str] = set()

    def __call__(self, sentence: str) -> None:
        """Says it, where that is news."""
        if sentence not in self._passed and len(self._passed) < self._most:
            self._passed.add(sentence)
            self._say(sentence)


def tell_json(document: Any, indent: int | None = None) -> None:
    """A document on stdout: nothing is replaced in it, since what does not print is an escape."""
    stdout().write(json_text(document, indent) + "\n")
    sys.stdout.flush()


def stdout() -> TextIO:
    """The gate before stdout, for whoever writes a document piece by piece."""
    return gated(sys.stdout)


def stderr() -> TextIO:
    """The gate before stderr."""
    return gated(sys.stderr)


def gated(out: TextIO) -> TextIO:
    """The same stream behind the gate."""
    return out if isinstance(out, Gate) else cast(TextIO, Gate(out))


def behind(out: TextIO) -> TextIO:
    """The stream itself, for a console: it has a gate of its own, since it writes colours."""
    return out.behind if isinstance(out, Gate) else out


def survive(out: TextIO) -> None:
    """A character that the stream's encoding has not becomes a sign of ASCII or an escape.

    In the C locale that is every one that is not ASCII, although Python writes UTF-8 there.
    """
    if isinstance(out, io.TextIOWrapper) and out.errors != NOT_ENCODED:
        encoding = "ascii" if _is_ascii_only(os.environ) else out.encoding
        out.reconfigure(encoding=encoding, errors=NOT_ENCODED)


def _is_ascii_only(environment: Mapping[str, str]) -> bool:
    """Whether the locale was set to C, and Python was not given an encoding."""
    named = [environment.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG")]
    if named[1] in COERCED:
        named[1] = ""
    is_c = next(filter(None, named), "") in ("C", "POSIX")
    return is_c and not any(environment.get(name) for name in ("PYTHONIOENCODING", "PYTHONUTF8"))


def _in_ascii(error: UnicodeError) -> tuple[str | bytes, int]:
    """The error handler: our own signs have others, the rest is escaped."""
    if isinstance(error, UnicodeEncodeError):
        sign = error.object[error.start]
        if sign in SIGNS:
            return SIGNS[sign], error.start + 1
    return codecs.backslashreplace_errors(error)


codecs.register_error(NOT_ENCODED, _in_ascii)


class Gate:
    """A stream that lets through what prints, and line ends."""

    def __init__(self, out: TextIO) -> None:
        survive(out)
        self.behind = out

    def write(self, text: str) -> int:
        """Writes it without what a terminal would obey."""
        return self.behind.write(printable_lines(text))

    def writelines(self, lines: Iterable[str]) -> None:
        """One after the other."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Writes what is buffered."""
        self.behind.flush()

    def isatty(self) -> bool:
        """Whether a terminal reads it."""
        return self.behind.isatty()

    def fileno(self) -> int:
        """The file descriptor of the stream itself."""
        return self.behind.fileno()

    @property
    def name(self) -> str:
        """The name of the stream itself."""
        return self.behind.name

    @property
    def encoding(self) -> str:
        """That of the stream."""
        return self.behind.encoding


def _write(out: TextIO, lines: Iterable[str]) -> None:
    survive(out)
    for line in lines:
        out.write(f"{printable(line)}\n")
    out.flush()
