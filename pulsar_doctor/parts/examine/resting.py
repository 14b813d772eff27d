"""How long a thread has not run, by the kernel's scheduler.

/proc/PID/task/TID/sched shows when a thread ran last, by the clock of the CPU that it ran on. These
clocks differ, and stop while a hypervisor takes the CPU away. So this program reads its own time on
the same CPU, and the result is a lower bound. A thread that waits in a call does not run, and
cannot have left it. If the kernel does not show the time, nothing is reported. A thread that wakes
on another CPU has 0 there until it runs (seen on Linux 6.18): it does not rest.

Sources: kernel/sched/debug.c (proc_sched_show_task), se.exec_start; migrate_task_rq_fair in fair.c.
"""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path

from pulsar_doctor.parts.examine.identity import Process

LEAST_SECONDS = 0.5  # less is no rest


def resting_seconds(pid: int, threads: list[int]) -> dict[int, float]:
    """Seconds for which each thread has not run, at least. threads: the kernel's ids of them.

    Less than LEAST_SECONDS is 0; unknown threads are left out. Moves this thread from CPU to CPU
    for a moment.
    """
    ran = {}
    for thread in threads:
        try:
            ran[thread] = last_ran(Path(f"/proc/{pid}/task/{thread}"))
        except (OSError, ValueError, IndexError):
            continue
    clocks = _clocks({cpu for cpu, _ in ran.values()})
    found = {}
    for thread, (cpu, last) in ran.items():
        if cpu in clocks and last is not None:
            seconds = (clocks[cpu] - last) / 1000 if last else 0.0
            found[thread] = round(seconds, 1) if seconds >= LEAST_SECONDS else 0.0
    return found


def last_ran(task: Path) -> tuple[int, float | None]:
    """The CPU on which a thread ran last, and when, by the clock of that CPU in milliseconds.

    0: it is moving to another CPU. None: the kernel does not show when.
    """
    cpu, last = _cpu(task), _last_ran(task / "sched")
    now = _cpu(task)
    return now, last if now == cpu else 0.0


def _cpu(task: Path) -> int:
    return int((task / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[36])


def _clocks(cpus: set[int]) -> dict[int, float]:
    """The clock of each of these CPUs now, in milliseconds, if this process may run on it."""
    allowed = os.sched_getaffinity(0)
    clocks = {}
    try:
        for cpu in cpus & allowed:
            os.sched_setaffinity(0, {cpu})
            os.sched_yield()
            now = _last_ran(Path(f"/proc/self/task/{threading.get_native_id()}/sched"))
            if now is not None:
                clocks[cpu] = now
    except OSError:
        return clocks
    finally:
        os.sched_setaffinity(0, allowed)
    return clocks


def _last_ran(file: Path) -> float | None:
    try:
        match = re.search(
            r"^se\.exec_start\s*:\s*([\d.]+)", file.read_text("utf-8", "replace"), re.M
        )
    except OSError:
        return None
    return float(match[1]) if match else None


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
