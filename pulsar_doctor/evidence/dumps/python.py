"""Where the threads of a Python program are, and what each does for a Pulsar consumer.

C code has no frames there. Who holds a lock of Python is not known.

What `py-spy dump` prints, and the dumps of faulthandler, are read as py-spy's JSON has threads.
py-spy leaves out the folder of each file: `receive (pulsar/__init__.py:1233)`. Which of them are
the application's follows from the outermost frame that is not Python's own: the application begins
there. What is in another package is a library's.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
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
PY_SPY = re.compile(r'Thread (0x[0-9A-Fa-f]{1,18}|\d{1,18}) \((\w[\w+ ]{0,40})\)(?:: "(.*)")?$')
FAULT = re.compile(
    r"(?:Current t|T)hread (0x[0-9a-f]{1,18})(?: \[(.{0,200})\])? \(most recent call first\):$"
)
PLACE = re.compile(r"(.{1,1000}):(\d{1,9})\)$")
FAULT_FRAME = re.compile(r'  File "(.{1,1000})", line (\d{1,9}) in (.{1,300})$')
PROCESS = re.compile(r"Process \d{1,10}: ")
MARK = re.compile(rf"^(?:{PY_SPY.pattern}|{FAULT.pattern})", re.MULTILINE)
BEGINS = "    ", "Thread ", "Process "  # of lines of py-spy
OUTERMOST = "<module>", "_run_module_as_main"  # of the main thread
OWN = ("pulsar", "_pulsar", *sys.stdlib_module_names)
THREADS, FRAMES = 20_000, 500


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
    thread: dict[str, Any],
    seconds: float | None = None,
    call: str | None = None,
    reads: str | None = None,
) -> PythonThread:
    """One thread of such an answer. seconds: for how long it has not run; call: of the kernel.

    reads: `a read from 10.0.0.9:8080`, where that is its call.
    """
    return PythonThread(sitting(thread, seconds, call, reads), _pool(thread))


def sitting(
    thread: dict[str, Any], seconds: float | None, call: str | None = None, reads: str | None = None
) -> Sitting:
    """call, reads: of the kernel, in which it waits."""
    frames = thread.get("frames") or []
    lines = tuple(_line(each) for each in frames)
    own = next((_line(each) for each in frames if _is_applications(each)), None)
    name = redact_version(thread.get("thread_name") or str(thread.get("os_thread_id")))
    state = "active" if thread.get("active") else "idle"
    top = lines[0] if lines else None
    inside = _inside(lines, own) or (() if call is None or reads else (call,))
    inside = inside if reads is None else (reads, *inside)
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


def dumps(lines: Iterator[str]) -> list[list[dict[str, Any]]]:
    """The threads of each dump; it begins where a thread comes again, or py-spy names a process."""
    found: list[list[dict[str, Any]]] = []
    met: set[str] = set()
    for thread in islice(_threads(lines), THREADS):
        if thread is None or thread["key"] in met or not found:
            met = set()
            found.append([])
        if thread is not None:
            met.add(thread["key"])
            thread["frames"] = _placed(thread["frames"])
            found[-1].append(thread)
    return [each for each in found if each]


def is_whole(threads: list[dict[str, Any]], text: str) -> bool:
    """Whether a dump, the text of which has this end, is not cut within a line. Of faulthandler's,
    which has the main thread last, whether that is there to its outermost frame."""
    line, last = text.rpartition("\n")[2], threads[-1]
    if last["of_faulthandler"]:
        return any(each["name"] in OUTERMOST for each in last["frames"][-1:])
    begins = any(each.startswith(line) or line.startswith(each) for each in BEGINS)
    return not (line.strip() and begins) or _frame(line) is not None


def _threads(lines: Iterator[str]) -> Iterator[dict[str, Any] | None]:
    """Thread by thread; None where a process begins."""
    thread: dict[str, Any] | None = None
    for line in lines:
        head = PY_SPY.match(line) or FAULT.match(line)
        if head is not None or PROCESS.match(line):
            if thread is not None:
                yield thread
            thread = None if head is None else _head(head)
            if head is None:
                yield None
        elif thread is not None and (frame := _frame(line)) and len(thread["frames"]) < FRAMES:
            thread["frames"].append(frame)
    if thread is not None:
        yield thread


def _head(match: re.Match[str]) -> dict[str, Any]:
    key, name = match[1], match[match.re.groups]
    state = match[2] if match.re is PY_SPY else None
    number = int(key, 16) if key.startswith("0x") else int(key)
    return {"key": key, "thread_name": name or key, "os_thread_id": number, "frames": [],
            "active": state is not None and state.startswith("active"),
            "of_faulthandler": match.re is FAULT}  # fmt: skip


def _frame(line: str) -> dict[str, Any] | None:
    name, bracket, place = line.rpartition(" (")
    if line.startswith("    ") and bracket and (match := PLACE.match(place)) is not None:
        name, (file, at) = name.strip(), match.groups()
    elif (match := FAULT_FRAME.match(line)) is not None:
        file, at, name = match.groups()
    else:
        return None
    return {"name": name, "filename": file, "short_filename": file, "line": int(at)}


def _placed(frames: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The same with a folder for files of libraries, where theirs was left out."""
    roots = [_root(each["filename"]) for each in frames]
    begins = next((root for root in reversed(roots) if root not in OWN), None)
    return [
        each | {"filename": f"site-packages/{each['filename']}"}
        if not each["filename"].startswith("/") and root != begins and "/" in each["filename"]
        else each | ({"filename": f"/lib/python/{each['filename']}"} if root in OWN[2:] else {})
        for each, root in zip(frames, roots, strict=True)
    ]


def _root(file: str) -> str:
    """`requests` of requests/api.py; of a whole path its name, which is no package."""
    return file if file.startswith("/") else file.partition("/")[0].removesuffix(".py")
