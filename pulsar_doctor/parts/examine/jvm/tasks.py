"""Maps the thread ids of a process to those in its own pid namespace."""

from __future__ import annotations

from pathlib import Path

from pulsar_doctor.parts.examine.identity import Process


def kernel_threads(process: Process) -> dict[int, int]:
    """A thread's id in there -> its id here. Those that have ended are left out."""
    found = {}
    for task in Path(f"/proc/{process.pid}/task").iterdir():
        try:
            status = task.joinpath("status").read_text("utf-8", "replace")
        except OSError:
            continue
        inner = status.partition("\nNSpid:")[2].partition("\n")[0].split()
        found[int(inner[-1]) if inner else int(task.name)] = int(task.name)
    return found
