"""Measures stall-check over a replayed cluster: seconds, memory and requests by subscriptions.

The cluster is played by bench/replayed_cluster.py, in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from measured import Run, doctor, table

RUNS = (
    "1000:100,10000:100,10000:100:table,50000:100,50000:100:table,50000:500,10000:1000,10000:2000"
)
TITLES = (
    *("subscriptions", "suspects", "topics", "loaded", "-o", "window"),
    *("seconds", "CPU s", "peak MiB", "requests", "would load", "exit"),
)


@contextmanager
def cluster(subscriptions: int, suspects: int, *holding: str) -> Iterator[dict[str, Any]]:
    """A replayed cluster; what it says of itself. holding: options of those that hold messages."""
    script = Path(__file__).with_name("replayed_cluster.py")
    command = [
        sys.executable,
        str(script),
        f"--subscriptions={subscriptions}",
        f"--suspects={suspects}",
        *holding,
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin
        assert process.stdout
        yield json.loads(process.stdout.readline())
        process.stdin.close()


def asked_of(there: dict[str, Any]) -> dict[str, Any]:
    """What was asked of the cluster, by kind, and how many questions would have loaded a topic."""
    url = f"http://127.0.0.1:{there['ports'][0]}/asked"
    with urllib.request.urlopen(url, timeout=10) as response:
        told: dict[str, Any] = json.load(response)
    return told


def measure(
    subscriptions: int, suspects: int, output: str, window: str, holding: Sequence[str]
) -> list[str]:
    """One row of the table; what else is worth to be known goes to stderr."""
    with cluster(subscriptions, suspects, *holding) as there:
        url = f"http://127.0.0.1:{there['ports'][0]}"
        arguments = ("stall-check", "--all", "-o", output, "--window", window, "--admin-url", url)
        run = doctor(*arguments)
        told = asked_of(there)
    say(f"{subscriptions} subscriptions, {suspects} suspects: asked {told['asked']}")
    say(found(run, output))
    return [
        *(f"{number:,}" for number in (subscriptions, suspects, there["topics"], there["loaded"])),
        *(output, window, f"{run.seconds:.1f}", f"{run.cpu_seconds:.1f}", f"{run.peak_mib:.0f}"),
        *(f"{sum(told['asked'].values()):,}", str(told["refused"]), str(run.code)),
    ]


def found(run: Run, output: str) -> str:
    """The verdicts of a run, how many of each."""
    if output != "json" or not run.out:
        return f"{len(run.out)} bytes; {run.err[-300:]}"
    document = json.loads(run.out)
    status = Counter(each["status"] for each in document["subscriptions"])
    codes = Counter(f["code"] for each in document["subscriptions"] for f in each["findings"])
    rest = {name: len(document[name]) for name in ("not_loaded", "unreachable")}
    rest |= {name: document.get(name) for name in ("topics_read_once", "topics_watched")}
    return f"  {dict(status)} {dict(codes)} {rest}"


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--runs", default=RUNS,
        help="SUBSCRIPTIONS:SUSPECTS or SUBSCRIPTIONS:SUSPECTS:FORMAT, with commas "
        "(default %(default)s)",
    )  # fmt: skip
    parser.add_argument("--window", default="10s", help="as of stall-check (default %(default)s)")
    parser.add_argument(
        "--holding", type=float, default=0.0,
        help="share of the other topics whose consumers hold messages (default %(default)s)",
    )  # fmt: skip
    parser.add_argument("--stuck", action="store_true", help="and stand still with them")
    asked = parser.parse_args()
    holding = [f"--holding={asked.holding}", *(["--stuck"] if asked.stuck else [])]
    doctor("stall-check", "nosuch", "--admin-url", "http://127.0.0.1:1")  # for its byte code
    rows = [list(TITLES)]
    for run in asked.runs.split(","):
        subscriptions, suspects, output = f"{run}:json".split(":")[:3]
        rows.append(measure(int(subscriptions), int(suspects), output, asked.window, holding))
    print(table(rows))


if __name__ == "__main__":
    main()
