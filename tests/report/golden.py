"""JSON of schema 2 as it was written before names changed: of recorded states and a trace.

`python -m tests.report.golden` writes json-2.jsonl.gz beside this file: a line for each command,
with what it printed. The file was made by the code before the change, so make it anew only if an
old name was wrong.
"""

from __future__ import annotations

import gzip
import io
import json
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from pulsar_doctor.cli import run
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.weighing import Diagnosis, diagnose
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.report.tap.document import event_json
from pulsar_doctor.tap.events import End
from pulsar_doctor.tap.observer.events import Verdict
from tests.checkup.test_recorded_states import FOLDER, recorded
from tests.checkup.test_recorded_states import RECORDED as EVERY_STATE
from tests.trace.journals import Wire, write_trace

GOLDEN = Path(__file__).with_name("json-2.jsonl.gz")
TOLD = {"slow": {"receiver_queue_size": 1000, "process_seconds": 600}}
CAUSES = load()
TAP_EACH = 10  # of that many states one is an event of a tap
# The states of these versions were there before the names changed.
NEWER = frozenset({"key-shared-look-ahead"})  # states recorded since
RECORDED = [
    (version, name)
    for version, name in EVERY_STATE
    if version in ("2.11.0", "3.3.5", "4.0.8") and name not in NEWER
]


def printed(*arguments: str) -> list[dict[str, Any]]:
    """The documents that stall-check prints."""
    out = io.StringIO()
    with redirect_stdout(out):
        run(["stall-check", "-q", *arguments])
    text = out.getvalue()
    decode = json.JSONDecoder().decode
    return [decode(each) for each in ([text] if "json" in arguments else text.splitlines())]


def of_states(*more: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Of each recorded state: what it is called, and both formats."""
    for version, name in RECORDED:
        file = str(FOLDER / version / f"{name}.jsonl.gz")
        for output in ("json", "jsonl"):
            found = printed("--stats", file, "-o", output, *more)
            yield f"{version}/{name} {output}", found


def of_a_trace(*more: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """A slow consumer took all of a thousand messages, a fast one has nothing to do."""
    said = Wire().open().subscribe(name="slow").flow(1000).messages(range(1000))
    said.open(1).subscribe(name="fast", conn_id=1).flow(1000, conn_id=1).wait(60)
    with tempfile.TemporaryDirectory() as folder:
        clocks = {"wall_us": 0, "mono_ns": 0}
        trace = write_trace(Path(folder) / "t.ptrace", said.blocks, told=TOLD, clocks=clocks)
        for output in ("json", "jsonl"):
            yield f"a trace {output}", printed("--trace", str(trace), "-o", output, *more)


def of_a_tap() -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Events as a tap shows them."""
    for version, name in RECORDED[::TAP_EACH]:
        verdict = _verdict(version, name)
        events = (Verdict(0, None, verdict), End(0, 1, 0, (), None, (verdict,)))
        yield f"{version}/{name} tap", [event_json(event) for event in events]


def _verdict(version: str, name: str) -> Diagnosis:
    view = by_stats.subscription_view(recorded(version, name))
    return diagnose(view, CAUSES, limits_of(CAUSES))


def write() -> None:
    """All of it, in a file that is the same each time."""
    found = (*of_states(), *of_a_trace(), *of_a_tap())
    lines = "".join(f"{json.dumps({'of': of, 'printed': told})}\n" for of, told in found)
    GOLDEN.write_bytes(gzip.compress(lines.encode(), mtime=0))


def golden() -> dict[str, Any]:
    """What was printed, by command."""
    lines = gzip.decompress(GOLDEN.read_bytes()).decode().splitlines()
    decode = json.JSONDecoder().decode
    return {each["of"]: each["printed"] for each in map(decode, lines)}


if __name__ == "__main__":
    write()
