"""Runs pulsar-doctor as a process of its own, and says what that cost."""

from __future__ import annotations

import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LOOK_SECONDS = 0.02
NO_BYTE_CODE = "PYTHONDONTWRITEBYTECODE"


@dataclass(frozen=True, slots=True)
class Run:
    """One run. peak_mib: the most memory that was resident at once, by the kernel's account."""

    code: int
    seconds: float
    cpu_seconds: float
    peak_mib: float
    out: bytes
    err: str


def doctor(*arguments: str) -> Run:
    """`pulsar-doctor ARGUMENTS` to its end.

    With its byte code kept, as that of an installed program is: measure from the second run on.
    """
    return run([sys.executable, "-m", "pulsar_doctor", *arguments])


def run(command: Sequence[str]) -> Run:
    """A command to its end."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        began, here = time.monotonic(), Path(__file__).parent.parent
        kept = {name: value for name, value in os.environ.items() if name != NO_BYTE_CODE}
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=here, env=kept
        )
        peak_kib, usage = watched(process)
        seconds, cpu_seconds = time.monotonic() - began, usage.ru_utime + usage.ru_stime
        out.seek(0)
        err.seek(0)
        said, complained = out.read(), err.read().decode()
        return Run(process.returncode, seconds, cpu_seconds, peak_kib / 1024, said, complained)


def watched(process: subprocess.Popen[bytes]) -> tuple[int, resource.struct_rusage]:
    """Waits for its end; the most memory that was resident, in KiB, and its CPU time.

    ru_maxrss would not do: a child begins with the peak of the process that started it.
    """
    status, peak_kib = Path(f"/proc/{process.pid}/status"), 0
    while True:
        found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
        peak_kib = max(peak_kib, int(found[1]) if found else 0)
        pid, code, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(code)
            return peak_kib, usage
        time.sleep(LOOK_SECONDS)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Rows of text in columns, the first row on top."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    ]
    return "\n".join(lines)
