"""Where the threads of a Python program are, and what each does for a Pulsar consumer.

C code has no frames there. Who holds a lock of Python is not known.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pulsar_doctor.evidence.dumps.answers import Schema, checked
from pulsar_doctor.evidence.process_report import Pool, Role, Sitting, method
from pulsar_doctor.wire.redaction import redact_version

LIBRARY = (
    "pulsar/__init__.py", "_pulsar", "threading.py", "concurrent/futures/", "asyncio/", "queue.py",
)  # fmt: skip
RECEIVES = frozenset({"receive", "batch_receive", "read_next"})
FRAME: Schema = {"name": str, "filename": str, "short_filename": str, "line": int}
THREAD: Schema = {
    "thread_name": str, "os_thread_id": int, "active": bool, "frames": [dict], "pid": int
}  # fmt: skip
ACKNOWLEDGES = frozenset({"acknowledge", "acknowledge_cumulative", "negative_acknowledge"})
WORKS_IN_POOL = "_worker", "concurrent/futures/thread.py"


@dataclass(frozen=True, slots=True)
class PythonThread:
    """One thread."""

    sitting: Sitting
    pool: str | None  # how the names of all threads of the ThreadPoolExecutor begin; None: none


def checked_threads(document: object) -> list[dict[str, Any]]:
    """The threads of a document of `py-spy dump --json`, checked. Raises Unreadable."""
    threads = checked({"threads": document}, {"threads": [dict]}, ("threads",))["threads"]
    found = [checked(each, THREAD) for each in threads]
    return [e | {"frames": [checked(one, FRAME) for one in e.get("frames", ())]} for e in found]


def thread(
    thread: dict[str, Any], seconds: float | None = None, call: str | None = None
) -> PythonThread:
    """One thread of such an answer. seconds: for how long it has not run; call: of the kernel."""
    return PythonThread(sitting(thread, seconds, call), _pool(thread))


def sitting(thread: dict[str, Any], seconds: float | None, call: str | None = None) -> Sitting:
    """call: of the kernel, in which it waits."""
    frames = thread.get("frames") or []
    lines = tuple(_line(each) for each in frames)
    own = next((_line(each) for each in frames if _is_applications(each)), None)
    name = redact_version(thread.get("thread_name") or str(thread.get("os_thread_id")))
    state = "active" if thread.get("active") else "idle"
    top = lines[0] if lines else None
    inside = _inside(lines, own) or (() if call is None else (call,))
    where = top, own, lines[:12], thread.get("os_thread_id")
    return Sitting(name, _role(frames), state, *where, seconds, inside)


def pools_of(threads: Iterable[PythonThread]) -> tuple[Pool, ...]:
    """The pools; how many tasks wait in them is not known."""
    found: dict[str, list[int]] = {}
    for each in threads:
        if each.pool is not None and each.sitting.id is not None:
            found.setdefault(each.pool, []).append(each.sitting.id)
    return tuple(Pool(tuple(ids)) for ids in found.values())


def _pool(thread: dict[str, Any]) -> str | None:
    name, file = WORKS_IN_POOL
    frames = thread.get("frames") or ()
    if any(each.get("name") == name and file in (each.get("filename") or "") for each in frames):
        return str(thread.get("thread_name") or "").rpartition("_")[0]
    return None


def _inside(lines: tuple[str, ...], own: str | None) -> tuple[str, ...]:
    """The innermost call, and the one that the application has made there."""
    at = lines.index(own) if own in lines else 0
    return tuple(dict.fromkeys(map(method, lines[:1] + lines[at - 1 : at]))) if at else ()


def _role(frames: list[dict[str, Any]]) -> Role:
    # From Python 3.11 on a name is whole: `Consumer.receive`.
    theirs = [each for each in frames if "pulsar/" in (each.get("filename") or "")]
    calls = [each.get("name", "").rpartition(".")[2] for each in theirs]
    if any(call in RECEIVES for call in calls):
        return "receives"
    if any(call in ACKNOWLEDGES for call in calls):
        return "acknowledges"
    return "listens" if "wrapper" in calls else "application"  # pulsar's own, around a listener


def _is_applications(frame: dict[str, Any]) -> bool:
    file = frame.get("filename") or ""
    installed = "site-packages" in file or "/lib/python" in file
    return bool(file) and not installed and not any(part in file for part in LIBRARY)


def _line(frame: dict[str, Any]) -> str:
    file = (frame.get("short_filename") or frame.get("filename") or "?").rpartition("/")[2]
    return f"{frame.get('name', '?')} ({file}:{frame.get('line', 0)})"
