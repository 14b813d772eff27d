"""Reads what `jcmd PID Thread.dump_to_file` has written, as text or as JSON, virtual threads too.

Both are written again as HotSpot prints a dump, so that one reader reads all. Each thread has the
moment of the dump there, in place of its age. Locks are in it since Java 25.

Source: jdk.internal.vm.ThreadDumper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from pulsar_doctor.evidence.dumps import hotspot
from pulsar_doctor.evidence.dumps.answers import documents_in
from pulsar_doctor.evidence.dumps.hotspot import Dump

BEGINS = re.compile(r"^(\d{1,10})\n(\d{4}-\d\d-\d\dT[\d:.]{8,20}Z)\n[\w.+-]{1,60}\n\n(?=#\d)", re.M)
IN_JSON = re.compile(r'\{\s{0,20}"threadDump"\s{0,20}:\s{0,20}\{')
MARK = re.compile(rf"{BEGINS.pattern}|{IN_JSON.pattern}", re.M)
HEAD = re.compile(r'#(\d{1,18}) "(.{0,500}?)"(?: virtual)?(?: ([A-Z_]{3,20}) [\dT:.Z-]{20,40})?$')
OBJECT = re.compile(r"<?([\w.$/\[;]{1,500})@([0-9a-f]{1,16})>?$")
WAITS = {"blockedOn": "waiting to lock ", "waitingOn": "waiting on "}


def dumps(text: str) -> list[Dump]:
    """Each dump of a text. Behind one in JSON that does not end nothing is read."""
    begins = list(BEGINS.finditer(text))
    ends = [*(each.start() for each in begins[1:]), len(text)][: len(begins)]
    plain = (
        hotspot.dump("\n".join(_of_text(text[begin.end() : end], begin[1], begin[2])))
        for begin, end in zip(begins, ends, strict=True)
    )
    documents, cut = documents_in(text, IN_JSON)
    found = (hotspot.dump("\n".join(_of_json(each["threadDump"]))) for each in documents)
    return [replace(e, whole=e.whole and not cut) for e in (*plain, *found) if e.threads]


def _of_text(text: str, process: str, moment: str) -> Iterator[str]:
    for line in text.split("\n"):
        if (head := HEAD.match(line)) is not None:
            yield from _head(head[1], head[2], head[3], process, moment)
        elif line.startswith("    "):
            place = line.strip()
            yield _lock(place) if place.startswith("- ") else f"\tat {place.removeprefix('at ')}"
        else:
            yield ""


def _head(number: str, name: str, state: str | None, process: str, moment: str) -> Iterator[str]:
    yield ""
    name = name or f"thread {number}"
    yield f'"{name}" #{number} elapsed={_seconds(moment):.3f}s tid={process} nid=0'
    yield f"   java.lang.Thread.State: {state or 'UNKNOWN'}"


def _seconds(moment: str) -> float:
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0


def _lock(place: str) -> str:
    """`- locked <java.lang.Object@296bea7f>` as HotSpot writes it."""
    how, _, of = place.rpartition(" ")
    match = OBJECT.match(of)
    return f"\t{place}" if match is None else f"\t{how} <0x{match[2]}> (a {match[1]})"


def _of_json(dump: Mapping[str, Any]) -> Iterator[str]:
    process, moment = str(dump.get("processId")), str(dump.get("time"))
    for container in _objects(dump.get("threadContainers")):
        for thread in _objects(container.get("threads")):
            name = " ".join(str(thread.get("name") or "").split())
            state = str(thread.get("state") or "") or None
            yield from _head(str(thread.get("tid")), name, state, process, moment)
            yield from _frames(thread)


def _frames(thread: Mapping[str, Any]) -> Iterator[str]:
    owned = {each.get("depth"): each.get("locks") for each in _objects(thread.get("monitorsOwned"))}
    blocker = thread.get("parkBlocker")
    waits = {how: thread.get(field) for field, how in WAITS.items()}
    waits["parking to wait for "] = blocker.get("object") if isinstance(blocker, dict) else None
    stack = thread.get("stack")
    for depth, frame in enumerate(stack if isinstance(stack, list) else ()):
        yield f"\tat {frame}"
        if depth == 0:
            yield from (_lock(f"- {how}<{of}>") for how, of in waits.items() if of)
        locks = owned.get(depth)
        yield from (_lock(f"- locked <{of}>") for of in (locks if isinstance(locks, list) else ()))


def _objects(value: Any) -> Iterator[Mapping[str, Any]]:
    return (each for each in (value if isinstance(value, list) else ()) if isinstance(each, dict))
