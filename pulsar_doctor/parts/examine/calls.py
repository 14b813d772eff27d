"""The system call in which a thread waits, below its last line of Python.

Only calls that may wait for long have a word here. Numbers differ from one processor to the other.

Sources: arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h.
"""

from __future__ import annotations

import platform
from pathlib import Path

SLEEP, LOCK = "a sleep", "a wait for a lock or for another thread"
READ, FILES = "a read", "a wait for a socket or a file"
CALLS = {
    "x86_64": {
        0: READ, 7: FILES, 23: FILES, 35: SLEEP, 42: "a connect", 44: "a send", 45: READ, 47: READ,
        61: "a wait for a child process", 73: "a wait for a file lock", 202: LOCK, 230: SLEEP,
        232: FILES, 270: FILES, 271: FILES, 281: FILES,
    },
    "aarch64": {
        22: FILES, 32: "a wait for a file lock", 63: READ, 72: FILES, 73: FILES, 98: LOCK,
        101: SLEEP, 115: SLEEP, 203: "a connect", 206: "a send", 207: READ, 212: READ,
        260: "a wait for a child process",
    },
}  # fmt: skip
SELECTS = frozenset({("x86_64", 23), ("x86_64", 270), ("aarch64", 72)})


def waits_in(pid: int, thread: int) -> str | None:
    """`a sleep`; None where it runs, waits in a call without a word, or may not be looked at."""
    try:
        words = Path(f"/proc/{pid}/task/{thread}/syscall").read_text().split()
        return word(platform.machine(), int(words[0]), int(words[1], 16))
    except (OSError, ValueError, IndexError):
        return None


def word(machine: str, number: int, first: int) -> str | None:
    """What this call does. first: its first argument; select() with no file is a sleep."""
    if (machine, number) in SELECTS and first == 0:
        return SLEEP
    return CALLS.get(machine, {}).get(number)
