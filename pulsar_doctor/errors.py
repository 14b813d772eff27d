"""The errors of pulsar-doctor, each with its exit code."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class DoctorError(Exception):
    """Something could not be examined: one sentence that says what, where and what next."""

    exit_code = 3


class InputError(DoctorError):
    """Wrong usage, or input that cannot be read."""

    exit_code = 2


class MissingExtra(DoctorError):
    """A part of pulsar-doctor that is not installed."""

    def __init__(self, extra: str, what_for: str) -> None:
        super().__init__(f"{what_for} needs more: pip install 'pulsar-doctor[{extra}]'")


@contextmanager
def needing(extra: str, what_for: str) -> Iterator[None]:
    """Says MissingExtra where a module of others cannot be imported within."""
    try:
        yield
    except ImportError as error:
        if (error.name or "").startswith("pulsar_doctor"):  # a mistake of ours
            raise
        raise MissingExtra(extra, what_for) from error


def require_linux(what: str, instead: str) -> None:
    """Raises DoctorError on other systems: names what needs Linux, and what to do there instead."""
    if sys.platform != "linux":
        raise DoctorError(f"{what} needs Linux; {instead}")


class FramingError(DoctorError):
    """Bytes that are no frame of the Pulsar protocol."""


class TraceError(DoctorError):
    """A trace that is damaged, foreign, or newer than this program."""

    exit_code = 2
