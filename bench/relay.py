"""Measures the relay against Apache Pulsar's own proxy, without a broker: a replay and PINGs.

    python bench/relay.py [--runs 7] [--messages 1000000] [--pings 20000]

Replay: MESSAGE frames of 60 to 140 bytes of payload, with properties and broker entry metadata, of
four consumers, from a process that sends to one that reads; nothing else is there to be slow. The
relay writes its whole masked journal. Alternating, so that all meet the same machine. `CPU s` is
that of the relay (or proxy) alone for a million messages. `with observer`: another process seals.
PING: one in flight; the round trip, and what it is more than without anything in between.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import peers
from measured import table
from pulsar_proxy import proxy

from pulsar_doctor.parts.tap.relaying import relaying

LEVEL_2_SHARE = 20  # it gets so many times fewer messages
WARM_UP = 3  # runs that do not count: Java compiles as it goes


@dataclass(slots=True)
class Way:
    """What stands in between, and what was measured of it."""

    name: str
    port: int
    pid: int | None  # None: nothing is in between
    broker: str | None = None  # what to name in CONNECT
    messages: int = 0
    fresh: Callable[[], None] = lambda: None
    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    pings: list[peers.RoundTrips] = field(default_factory=list)

    def replay(self) -> None:
        """One drain."""
        frames, size = peers.pieces_of(self.messages)
        before = peers.cpu_seconds(self.pid) if self.pid else 0.0
        seconds = peers.drain(self.port, self.broker, self.messages, size)
        self.rates.append(frames / seconds)
        if self.pid:
            self.cpu.append((peers.cpu_seconds(self.pid) - before) / frames * 1e6)


@contextmanager
def relay_way(name: str, port: int, messages: int, *, observed: bool) -> Iterator[Way]:
    """Our relay in front of the flooding broker, and its observer where wanted."""
    folder = Path(tempfile.mkdtemp(prefix="pulsar-doctor-bench-"))
    try:
        with ExitStack() as stack:
            url = f"pulsar://127.0.0.1:{port}"
            relay = stack.enter_context(relaying(url, folder / "trace"))
            if observed:
                command = [
                    sys.executable,
                    "-m",
                    "pulsar_doctor.parts.tap.observer",
                    str(folder / "trace"),
                ]
                observer = subprocess.Popen(command, stdout=subprocess.DEVNULL)
                stack.callback(observer.wait)
                stack.callback(observer.terminate)
            listening = int(relay.service_url.rpartition(":")[2])
            yield Way(name, listening, relay.pid, messages=messages)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def ways(messages: int) -> Iterator[list[Way]]:
    """All of them, side by side."""
    with ExitStack() as stack:
        port = stack.enter_context(peers.broker())
        target = f"127.0.0.1:{port}"
        found = [Way("direct", port, None, messages=messages)]
        for name, observed in (("relay", False), ("relay with observer", True)):
            found.append(stack.enter_context(relay_way(name, port, messages, observed=observed)))
        for level in (0, 2):
            there = stack.enter_context(proxy(level, f"pulsar://{target}"))
            few = messages // LEVEL_2_SHARE if level else messages
            found.append(Way(f"proxy, level {level}", there.port, there.pid, target, few))
        yield found


def main() -> None:
    """Measures and prints."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--pings", type=int, default=20_000)
    options = parser.parse_args()
    with ways(options.messages) as all_ways:
        for run in range(-WARM_UP, options.runs):
            for way in all_ways:
                way.replay()
                way.pings.append(peers.ping(way.port, way.broker, options.pings))
            if run < 0:
                for way in all_ways:
                    way.rates.clear()
                    way.cpu.clear()
                    way.pings.clear()
            print(f"run {run + 1} of {options.runs} is done", file=sys.stderr, flush=True)
    print(replayed(all_ways))
    print()
    print(pinged(all_ways))


def replayed(all_ways: list[Way]) -> str:
    """Rates, and how they compare."""
    medians = {way.name: statistics.median(way.rates) for way in all_ways}
    rows = [("replay", "messages/s", "min", "max", "CPU s / million", "x level 2", "x level 0")]
    for way in all_ways:
        rate = medians[way.name]
        cpu = f"{statistics.median(way.cpu):.2f}" if way.cpu else "-"
        rows.append(
            (
                *(way.name, f"{rate:,.0f}", f"{min(way.rates):,.0f}", f"{max(way.rates):,.0f}"),
                *(cpu, f"{rate / medians['proxy, level 2']:.1f}"),
                f"{rate / medians['proxy, level 0']:.3f}",
            )
        )
    return table(rows)


def pinged(all_ways: list[Way]) -> str:
    """Round trips, medians of the runs' percentiles."""
    p50 = {way.name: statistics.median(p.p50 for p in way.pings) for way in all_ways}
    added0 = p50["proxy, level 0"] - p50["direct"]
    rows = [("PING", "p50 us", "p99 us", "added p50", "x level 0 added")]
    for way in all_ways:
        p99 = statistics.median(p.p99 for p in way.pings)
        added = p50[way.name] - p50["direct"]
        rows.append(
            (
                way.name,
                f"{p50[way.name]:.0f}",
                f"{p99:.0f}",
                f"{added:.0f}",
                f"{added / added0:.2f}",
            )
        )
    return table(rows)


if __name__ == "__main__":
    main()
