"""Measures `stall-check --all --watch --listen` while it is scraped, over a replayed cluster.

Memory, series, bytes and how long a scrape takes; and the requests to the brokers for each round,
beside those of the same watch that nobody scrapes.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

from fleet import asked_of, cluster
from measured import table

LOOPBACK = "127.0.0.1"
TITLES = (
    "scraped", "seconds", "rounds", "requests a round", "peak MiB", "scrapes", "p50 ms", "p99 ms",
    "series", "KB",
)  # fmt: skip


@dataclass(slots=True)
class Scraped:
    """What scrapes have shown. rounds: the times at which they began, as the page has them."""

    seconds: list[float] = field(default_factory=list)
    rounds: set[str] = field(default_factory=set)
    page: bytes = b""

    def add(self, url: str) -> None:
        """One more."""
        began = time.perf_counter()
        with urllib.request.urlopen(url, timeout=30) as answer:
            self.page = answer.read()
        self.seconds.append(time.perf_counter() - began)
        self.rounds |= set(re.findall(r"checked_at_seconds\S+ (\S+)", self.page.decode()))


@contextmanager
def watching(admin_url: str, *more: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The watch; where it is scraped."""
    command = (
        sys.executable, "-m", "pulsar_doctor", "stall-check", "--all", "--watch", "--admin-url",
        admin_url, "--listen", f"{LOOPBACK}:0", *more,
    )  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=Path(__file__).parents[1]
    ) as process:
        assert process.stderr
        line = process.stderr.readline().decode()
        yield process, line.split()[2]
        process.send_signal(signal.SIGINT)
        process.stderr.read()


def measure(subscriptions: int, seconds: float, pause: float, more: Sequence[str]) -> list[str]:
    """One row. pause: between two scrapes, in seconds; more than `seconds`: one at the end."""
    with cluster(subscriptions, subscriptions // 100) as there:
        admin_url = f"http://{LOOPBACK}:{there['ports'][0]}"
        with watching(admin_url, *more) as (process, url):
            scraped, until = Scraped(), time.monotonic() + seconds
            while time.monotonic() < until:
                time.sleep(min(pause, max(0.0, until - time.monotonic())))
                scraped.add(url)
            os.kill(process.pid, signal.SIGSTOP)
            asked = sum(asked_of(there)["asked"].values())
            peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
            os.kill(process.pid, signal.SIGCONT)
    rounds = max(1, len(scraped.rounds)) if pause < seconds else 0
    times = quantiles([*scraped.seconds, *scraped.seconds], n=100)
    lines = scraped.page.decode().splitlines()
    return [
        "yes" if rounds else "no", f"{seconds:.0f}", str(rounds or "-"),
        f"{asked / rounds:.0f}" if rounds else f"{asked} in all",
        f"{int(peak[1]) / 1024:.0f}" if peak else "", str(len(scraped.seconds)),
        f"{times[49] * 1000:.1f}", f"{times[98] * 1000:.1f}",
        str(sum(not line.startswith("#") for line in lines)), f"{len(scraped.page) / 1000:.0f}",
    ]  # fmt: skip


def main() -> None:
    """Scraped, and not."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subscriptions", type=int, default=10_000)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--pause", type=float, default=1.0, help="between two scrapes, in seconds")
    parser.add_argument("--every", default="30s", help="as of stall-check")
    given = parser.parse_args()
    more = ("--every", given.every)
    pauses = (given.pause, given.seconds + 1)
    rows = [measure(given.subscriptions, given.seconds, pause, more) for pause in pauses]
    print(table([list(TITLES), *rows]))


if __name__ == "__main__":
    main()
