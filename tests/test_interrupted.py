"""Ctrl-C while the program is being read in, and at any moment after: no traceback, ever."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import pulsar_doctor
from tests.support.command_line import environment

PACKAGE = str(Path(pulsar_doctor.__file__).parent)
# SIGINT comes at the very moment when a module is looked for, once.
AT_IMPORT = """
import os, runpy, signal, sys

wanted, how = sys.argv.pop(1), sys.argv.pop(1)

class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == wanted and Finder in sys.meta_path:
            sys.meta_path.remove(Finder)
            if how == "in a destructor":
                Dying()
            else:
                os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finder)
sys.argv[0] = "pulsar-doctor"
runpy.run_module("pulsar_doctor", run_name="__main__", alter_sys=True)
"""
NOWHERE = {
    "XDG_STATE_HOME": "/dev/null",  # nothing is left in the home of whoever runs this
    "PULSAR_DOCTOR_SERVICE_URL": "pulsar://127.0.0.1:1",
    "PULSAR_DOCTOR_ADMIN_URL": "http://127.0.0.1:1",
}
SUBCOMMANDS: dict[str, tuple[str, ...]] = {
    "stall-check": ("stall-check", "orders"),
    "tap": ("tap", "--listen", "127.0.0.1:0"),
    "consume": ("consume", "orders", "-s", "billing"),
    "simulate": ("simulate", "--backlog", "10"),
    "holes": ("holes", "orders"),
    "analyze": ("analyze", "no.ptrace"),
    "fleet": ("fleet", "no.records"),
    "trace": ("trace", "show", "no.ptrace"),
}
ENDED = {"simulate": 0, "analyze": 2, "fleet": 2, "trace": 2}  # there before the signal


def interrupted(module: str, *arguments: str, how: str = "at once") -> Any:
    """A run that gets SIGINT when this module is about to be imported."""
    return subprocess.run(
        [sys.executable, "-c", AT_IMPORT, module, how, *arguments],
        env=environment() | NOWHERE, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


@pytest.mark.parametrize("module", ["pulsar_doctor.cli", "click", "pulsar_doctor.cli._options"])
def test_while_the_program_is_read_in_it_ends_as_any_program_does(module):
    run = interrupted(module, "stall-check", "orders")
    assert (run.returncode, run.stdout, run.stderr) == (-signal.SIGINT, "", "")


IN_THE_COMMAND = [
    ("stall-check", "pulsar_doctor.cli.stall_check"),
    ("stall-check", "httpx2"),
    ("tap", "pulsar_doctor.diagnosis.causes"),
    ("tap", "rich.console"),
    ("consume", "pulsar_doctor.parts.consume.session"),
    ("consume", "pulsar_doctor.parts.tap.relaying"),
    ("simulate", "pulsar_doctor.model"),
    ("holes", "pulsar_doctor.cli.holes"),
    ("analyze", "pyspark"),
    ("fleet", "pyspark"),
    ("trace", "pyarrow"),
]


@pytest.mark.parametrize(("command", "module"), IN_THE_COMMAND)
def test_while_a_command_reads_in_what_it_needs_it_is_130_and_nothing_else(command, module):
    run = interrupted(module, *SUBCOMMANDS[command])
    said = run.stderr.removeprefix("looking at the traces …\n")  # by `analyze`, before it
    assert (run.returncode, run.stdout, said.strip()) == (130, "", "")


@pytest.mark.parametrize("command", ["stall-check", "tap"])
def test_where_python_would_drop_it_it_is_not_lost(command):
    module = "pulsar_doctor.diagnosis.causes"
    run = interrupted(module, *SUBCOMMANDS[command], how="in a destructor")
    assert (run.returncode, run.stdout, run.stderr.strip()) == (130, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("command", [c for c in SUBCOMMANDS if c not in ("analyze", "fleet")])
def test_at_any_moment_there_is_no_traceback_of_ours(command):
    script = [str(Path(sys.executable).parent / "pulsar-doctor"), *SUBCOMMANDS[command]]
    for moment in range(0, 500, 10):
        process = subprocess.Popen(
            script, env=environment() | NOWHERE, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        time.sleep(moment / 1000)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
        assert PACKAGE + os.sep not in said, f"after {moment} ms: {said}"
        assert "Exception ignored" not in said, f"after {moment} ms: {said}"
        if "Traceback" not in said and "Fatal" not in said:  # the interpreter's own first moments
            ended = (130, -signal.SIGINT, ENDED.get(command, 3))
            assert process.returncode in ended, f"after {moment} ms: {said}"
