"""Shows what Spark plans and runs for `analyze`, table by table, and what it costs.

    python bench/plans.py TRACE... [--runs 3] [--conf KEY=VALUE]

First once with Spark's event log: for each table its queries, jobs, stages and tasks; of the plans
in Spark's words how often they read files, exchange rows and write to a cache, and how long they
are; CPU seconds of the tasks. What a plan finds in a cache counts with what filled it, since Spark
prints that too. Then `--runs` times without a log: CPU seconds of Python and Java together, and of
these what the start of a session alone takes.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from measured import table

HERE = Path(__file__).parent.parent
SQL_START = "org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionStart"
HEAD = ["table", "queries", "jobs", "stages", "tasks", "task CPU s", "scans", "exchanges", "chars"]
START_ONLY = """
import json, sys
from pulsar_doctor.parts.analyze.session import Where, session
with session(Where(conf=json.loads(sys.argv[1]), rows=float(sys.argv[2]))):
    pass
"""


@dataclass
class Run:
    """What Spark did under one description. scans, exchanges, chars: of the longest plan."""

    queries: int = 0
    jobs: int = 0
    stages: set[int] = field(default_factory=set)
    tasks: int = 0
    cpu_seconds: float = 0.0
    scans: int = 0
    exchanges: int = 0
    chars: int = 0

    def see(self, plan: str) -> None:
        self.queries += 1
        self.scans = max(self.scans, len(re.findall(r"^\(\d+\) Scan parquet", plan, re.M)))
        moved = re.findall(r"^\(\d+\) (?:Broadcast)?Exchange", plan, re.M)
        self.exchanges = max(self.exchanges, len(moved))
        self.chars = max(self.chars, len(plan))

    def cells(self, name: str) -> list[str]:
        told = [self.queries, self.jobs, len(self.stages), self.tasks]
        rest = [self.scans, self.exchanges, self.chars]
        return [name, *map(str, told), f"{self.cpu_seconds:.1f}", *(f"{each:,}" for each in rest)]


def runs_in(log: Path) -> dict[str, Run]:
    """By description, in the order in which they began; `all` is the last."""
    runs: dict[str, Run] = {}
    in_all = Run()
    by_query: dict[int, str] = {}
    by_stage: dict[int, str] = {}
    for event in events(log):
        kind = event["Event"]
        if kind == SQL_START:
            by_query[event["executionId"]] = event["physicalPlanDescription"]
        elif kind == "SparkListenerJobStart":
            told = event.get("Properties") or {}
            name = told.get("spark.job.description", "").partition(": ")[2] or "(untold)"
            run = runs.setdefault(name, Run())
            for each in (run, in_all):
                each.jobs += 1
                plan = by_query.get(int(told.get("spark.sql.execution.id", -1)))
                if plan is not None:
                    each.see(plan)
            by_query.pop(int(told.get("spark.sql.execution.id", -1)), None)
            by_stage |= dict.fromkeys(event["Stage IDs"], name)
        elif kind == "SparkListenerTaskEnd":
            for each in (runs[by_stage[event["Stage ID"]]], in_all):
                each.stages.add(event["Stage ID"])
                each.tasks += 1
                each.cpu_seconds += event["Task Metrics"]["Executor CPU Time"] / 1e9
    return {**runs, "all (plans: the longest)": in_all}


def events(log: Path) -> Iterator[dict[str, Any]]:
    for file in sorted(each for each in log.rglob("*") if each.is_file()):
        for line in file.read_text().splitlines():
            if line.startswith("{"):
                yield json.loads(line)


def ran(command: list[str]) -> tuple[float, float]:
    """CPU seconds and seconds of a command and all that it started."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    environment = {**os.environ, "PYTHONPATH": str(HERE)}
    done = subprocess.run(
        [sys.executable, *command], env=environment, stdout=subprocess.DEVNULL, check=False
    )
    if done.returncode not in (0, 1):
        sys.exit(f"it ended with {done.returncode}; what was said is above")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("traces", nargs="+", metavar="TRACE")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--conf", action="append", default=[])
    options = parser.parse_args()
    conf = [word for each in options.conf for word in ("--conf", each)]
    analyze = ["-m", "pulsar_doctor", "--quiet", "analyze", *options.traces, "-o", "json", *conf]
    with tempfile.TemporaryDirectory(prefix="plans-") as folder:
        log = {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": f"file:{folder}",
            "spark.eventLog.compress": "false",
            "spark.eventLog.rolling.enabled": "false",
        }
        ran([*analyze, *(word for pair in log.items() for word in ("--conf", "=".join(pair)))])
        print(table([HEAD, *(run.cells(name) for name, run in runs_in(Path(folder)).items())]))
    rows = str(rows_of(options.traces))
    settings = json.dumps(dict(each.split("=", 1) for each in options.conf))
    starts = [ran(["-c", START_ONLY, settings, rows]) for _ in range(options.runs)]
    whole = [ran(analyze) for _ in range(options.runs)]
    for name, times in (("start of a session", starts), ("analyze", whole)):
        if times:
            cpu, seconds = (statistics.median(each) for each in zip(*times, strict=True))
            print(f"{name}: {cpu:.1f} CPU s, {seconds:.1f} s (median of {len(times)})")


def rows_of(traces: list[str]) -> float:
    sys.path.insert(0, str(HERE))
    from pulsar_doctor.parts.analyze.reading import look

    return look(traces, here=True).rows


if __name__ == "__main__":
    main()
