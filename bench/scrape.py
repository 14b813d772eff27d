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
from tempfile import TemporaryDirectory

from fleet import asked_of, cluster
from measured import table

LOOPBACK = "127.0.0.1"
TITLES = (
    "scraped", "seconds", "rounds", "requests a round", "peak MiB", "scrapes", "p50 ms", "p99 ms",
    "series", "KB",
)  # fmt: skip


@dataclass(slots=True)
class Scraped:
    """What scrapes have shown."""

    seconds: list[float] = field(default_factory=list)
    page: bytes = b""

    def add(self, url: str) -> None:
        """One more."""
        began = time.perf_counter()
        with urllib.request.urlopen(url, timeout=30) as answer:
            self.page = answer.read()
        self.seconds.append(time.perf_counter() - began)


@contextmanager
def watching(
    admin_url: str, out: Path, *more: str
) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """The watch, which writes its rounds to a file; where it is scraped."""
    command = (
        sys.executable, "-m", "pulsar_doctor", "stall-check", "--all", "--watch", "--admin-url",
        admin_url, "--listen", f"{LOOPBACK}:0", *more,
    )  # fmt: skip
    here = Path(__file__).parents[1]
    with (
        out.open("wb") as written,
        subprocess.Popen(command, stdout=written, stderr=subprocess.PIPE, cwd=here) as process,
    ):
        assert process.stderr
        try:
            yield process, process.stderr.readline().decode().split()[2].rstrip(",")
        finally:
            process.send_signal(signal.SIGINT)
            process.stderr.read()


def rounds_in(out: Path) -> int:
    """How many rounds have ended: the last line of each counts the subscriptions."""
    return len(re.findall(rb"Z  \d+ subscriptions?:", out.read_bytes()))


def measure(subscriptions: int, seconds: float, pause: float, more: Sequence[str]) -> list[str]:
    """One row. pause: between two scrapes, in seconds; more than `seconds`: one at the end."""
    with cluster(subscriptions, subscriptions // 100) as there, TemporaryDirectory() as folder:
        admin_url, out = f"http://{LOOPBACK}:{there['ports'][0]}", Path(folder) / "rounds"
        with watching(admin_url, out, *more) as (process, url):
            scraped, until = Scraped(), time.monotonic() + seconds
            while time.monotonic() < until:
                time.sleep(min(pause, max(0.0, until - time.monotonic())))
                scraped.add(url)
            ended = rounds_in(out)
            while rounds_in(out) == ended:  # no request of a round that has just begun
                time.sleep(0.05)
            os.kill(process.pid, signal.SIGSTOP)
            rounds = ended + 1
            asked = sum(asked_of(there)["asked"].values())
            peak = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{process.pid}/status").read_text())
            os.kill(process.pid, signal.SIGCONT)
    times = quantiles([*scraped.seconds, *scraped.seconds], n=100)
    lines = scraped.page.decode().splitlines()
    return [
        "yes" if pause < seconds else "no", f"{seconds:.0f}", str(rounds), f"{asked / rounds:.0f}",
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
