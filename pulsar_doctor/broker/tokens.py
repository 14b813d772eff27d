"""Reads a token where its owner keeps it: in a file, in the environment, or as a command prints it.

A file is read each time the token is wanted, so that a renewed one is used at once. A command runs
again shortly before its token expires, as far as that says when; else after ten minutes.
"""

from __future__ import annotations

import base64
import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Event, Lock, Timer
from urllib.parse import unquote, urlsplit

from pulsar_doctor.broker.input_files import text_of
from pulsar_doctor.errors import DoctorError, InputError

COMMAND_SECONDS = 15.0  # some ask somebody far away
PRINTED_BYTES = 1 << 16
RENEWED_SECONDS = 600.0  # of a token that does not say when it expires
EARLY_SECONDS = 30.0  # a token is renewed before it expires

TokenSource = Callable[[], str]


def token_source(params: str) -> TokenSource:
    """What gives the token each time it is wanted. Raises InputError, also when it is called.

    params: a token, `token:…`, `file:///path`, `env:NAME` or `exec:COMMAND`.
    """
    if params.startswith("file:"):
        path = path_of(params)
        return lambda: clean(text_of(path, "the token file"), f"token in {path}")
    if params.startswith("env:"):
        name = params.removeprefix("env:")
        return lambda: clean(os.environ.get(name, ""), f"token in the environment's {name}")
    if params.startswith("exec:"):
        return PrintedToken(params.removeprefix("exec:"))
    token = clean(params.removeprefix("token:"), "token")
    return lambda: token


class PrintedToken:
    """What a command of the user prints, kept until it expires. Nothing of it is shown."""

    def __init__(self, command: str) -> None:
        try:
            self._arguments = shlex.split(command)
        except ValueError:
            raise InputError("the command of exec: has an open quote; see --auth-params") from None
        if not self._arguments:
            raise InputError("exec: names no command; see --auth-params")
        self._what = f"command {Path(self._arguments[0]).name} of exec:"
        self._lock = Lock()
        self._token = ""
        self._good_until = 0.0  # epoch seconds

    def __call__(self) -> str:
        """The token. Raises DoctorError where the command fails, InputError for rubbish."""
        with self._lock:
            if time.time() >= self._good_until:
                self._token = clean(self._printed(), f"token that the {self._what} prints")
                expires = expiry_of(self._token)
                now = time.time()
                self._good_until = expires - EARLY_SECONDS if expires else now + RENEWED_SECONDS
        return self._token

    def _printed(self) -> str:
        """Without a shell; what it says on stderr is not ours to show."""
        try:
            run = subprocess.Popen(
                self._arguments, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise DoctorError(f"the {self._what} cannot be run: {error.strerror}") from None
        is_late = Event()
        timer = Timer(COMMAND_SECONDS, _end_late, [run, is_late])
        timer.start()
        with run:
            printed = run.stdout.read(PRINTED_BYTES + 1) if run.stdout else b""
            if len(printed) > PRINTED_BYTES:
                _end(run)
        timer.cancel()
        if is_late.is_set():
            raise DoctorError(
                f"the {self._what} did not end within {COMMAND_SECONDS:g} s; run it by itself"
            )
        if run.returncode != 0 and len(printed) <= PRINTED_BYTES:
            raise DoctorError(
                f"the {self._what} ended with {run.returncode}; run it by itself to see why"
            )
        return printed.decode("ascii", "replace")


def _end_late(run: subprocess.Popen[bytes], is_late: Event) -> None:
    is_late.set()
    _end(run)


def _end(run: subprocess.Popen[bytes]) -> None:
    """Ends the command, and what it has started."""
    with suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(run.pid, signal.SIGKILL)
        else:
            run.kill()


def expiry_of(token: str) -> float | None:
    """When a JSON web token expires, in epoch seconds; None where it is none or does not say."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
        return float(claims["exp"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def clean(token: str, what: str) -> str:
    """A token that may be in a header. Raises InputError, which never quotes it."""
    token = token.strip()
    if not token:
        raise InputError(f"the {what} is empty; see --auth-params")
    if len(token) > PRINTED_BYTES or not all("!" <= character <= "~" for character in token):
        raise InputError(f"the {what} holds characters that no token has; see --auth-params")
    return token


def path_of(text: str) -> Path:
    """A path, or the one of a file: address."""
    return Path(unquote(urlsplit(text).path)) if text.startswith("file:") else Path(text)
