"""Runs pulsar-doctor as a user does: in a process of its own, or, quicker, in ours."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import Any
from unittest.mock import patch

from pulsar_doctor.cli import run
from tests.support import schemas

MINE = ("-s", "s", "--take-messages")  # a subscription that the test has made for this


def pulsar_doctor(
    *arguments: str, broker: Any = None, timeout: float = 60
) -> subprocess.CompletedProcess[str]:
    """One command line, against this broker where one is given."""
    ran = subprocess.run(
        [sys.executable, "-m", "pulsar_doctor", *arguments],
        env=environment(broker),
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    schemas.check_text(ran.stdout)
    return ran


def answered(*arguments: str, broker: Any = None) -> subprocess.CompletedProcess[str]:
    """The same in our own process, of a subcommand that neither starts any nor waits for a signal.

    Half a second less, most of which a process takes to read the program in.
    """
    out, err = io.StringIO(), io.StringIO()
    ours = patch.dict(os.environ, environment(broker), clear=True)
    with ours, redirect_stdout(out), redirect_stderr(err):
        code = run(list(arguments))
    schemas.check_text(out.getvalue())
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


class Terminal(io.TextIOWrapper):
    """A stdout that is a terminal."""

    def isatty(self) -> bool:
        return True


def on_terminal(*arguments: str, width: int, **variables: str) -> str:
    """What `answered` would have on stdout, printed on a terminal; width 0: in a pipe."""
    written = io.BytesIO()
    out = (Terminal if width else io.TextIOWrapper)(written, encoding="utf-8")
    size = {"COLUMNS": str(width or ""), "LINES": "24", "TERM": "xterm-256color"}
    ours = patch.dict(os.environ, environment() | size | variables, clear=True)
    with ours, redirect_stdout(out), redirect_stderr(io.StringIO()):
        code = run(list(arguments))
    assert code in (0, 1), arguments
    out.flush()
    return written.getvalue().decode()


def environment(broker: Any = None) -> dict[str, str]:
    """The environment without settings of whoever runs the tests."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("PULSAR_")}
    cache = os.environ.get("PULSAR_DOCTOR_CACHE")
    if cache:
        kept["PULSAR_DOCTOR_CACHE"] = cache
    if broker is not None:
        kept["PULSAR_DOCTOR_SERVICE_URL"] = broker.service_url
        kept["PULSAR_DOCTOR_ADMIN_URL"] = broker.admin_url
    kept["PULSAR_DOCTOR_CONTEXT"] = ""  # none, whatever files there are
    kept["COLUMNS"] = "160"
    return kept
