"""Hangs real Java clients in known ways and checks each line that `examine --attach` prints.

    python bench/hanging.py [--looks 20] [--starts 4] [PROGRAM ...]

Each program is a consumer on a real broker whose listener does not return, or whose messages wait
for the threads of a pool (tests/parts/examine/clients). One process of it is examined
`--looks` times, and `--starts` more once each. A look is right if every line is there: where the
thread is, what it waits for, who holds that and where that thread is, to the end; since when, which
is never longer than it hangs, nor shorter than a second of it; and the verdict, which blames that
consumer. What is printed: how many were right, and what the others say. The exit code is the
number of wrong looks.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from measured import run, table

from pulsar_doctor.parts.sandbox.lifetime import BATCH_INDEX_ACKS, Sandbox, running
from tests.parts.examine import java_client
from tests.parts.examine.java_client import JavaApplication, spring_boot_jar
from tests.support import eventually

LISTENS = r"pulsar-external-listener-\S+ \(listens\): "
LINE = r" \(\w+\.java:\d+\)"
FOR = r", for (?P<s{}>[\d.]+ (?:ms|s|min)(?: [\d.]+ s)?) or longer"
FIRST = "; longer was not measured"
SLEEP = r"java\.lang\.Thread\.sleep under com\.acme\.Waits\.rest" + LINE
LOCK = r"java\.util\.concurrent\.locks\.ReentrantLock"
NO_OWNER = "which has no owner: who is to {} is not known"
UNITS = {"ms": 0.001, "s": 1.0, "min": 60.0}
WINDOW = ("--window", "1500ms", "--interval", "500ms", "--no-capture")
SOON = ("--set", "pool-stuck.stuck_for=1s", "--set", "listener-stuck.stuck_for=1s")


@dataclass(frozen=True, slots=True)
class Program:
    """One way to hang. code: the finding; lines: as patterns, one below the other."""

    code: str
    lines: tuple[str, ...]
    # What its listener does; none: a pool of threads has its messages.
    wait: str | None = None
    spring: bool = False
    # Whether its first line is of a wait for a monitor, which up to Java 23 is known from then on.
    of_monitor: bool = False


def listener(wait: str, *lines: str, spring: bool = False, of_monitor: bool = False) -> Program:
    """A program whose listener waits so; the first line is where it is."""
    first = LISTENS + lines[0] + FOR.format(0) + (FIRST if of_monitor else "") + "$"
    return Program("listener-stuck", (first, *lines[1:]), wait, spring, of_monitor)


CHAIN = (
    r"com\.acme\.Waits\.charge" + LINE,
    r"waits for the monitor of a java\.lang\.Object, which writer holds$",
    rf"writer: {LOCK}\.lock under com\.acme\.Waits\.writeIntoBooks{LINE}{FOR.format(1)}$",
    rf"waits for a {LOCK}, which clerk holds$",
    rf"clerk: {SLEEP}{FOR.format(2)}$",
)
PROGRAMS = {
    "chain": listener("chain", *CHAIN, of_monitor=True),
    "lock": listener("monitor", *CHAIN[:2], rf"writer: {SLEEP}{FOR.format(1)}$", of_monitor=True),
    "pool": Program(
        "pool-stuck",
        (
            r"pool-\S+, pool-\S+ and 2 more: 4 threads, 3,000 tasks wait, each of the first 200 "
            r"with a message of its clients; the oldest is \d+:4 of \S+, published \S.* ago$",
            r"pool-\S+ and 3 more \(application\): java\.lang\.Thread\.sleep under "
            rf"com\.acme\.Client\$Billing\.charge{LINE}{FOR.format(0)}$",
        ),
    ),
    "future": listener(
        "future",
        r"java\.util\.concurrent\.CompletableFuture\.join under com\.acme\.Waits\.lambda\$\d+"
        + LINE,
        "waits for a java.util.concurrent.CompletableFuture, " + NO_OWNER.format("complete it"),
    ),
    "limiter": listener(
        "limiter",
        r"java\.lang\.Thread\.sleep in com\.google\.common\.util\.concurrent\.RateLimiter\.acquire "
        r"under com\.acme\.Waits\.acquire" + LINE,
    ),
    "spring": listener("chain", *CHAIN, spring=True, of_monitor=True),
}


@contextlib.contextmanager
def hanging(program: Program, broker: Sandbox) -> Iterator[tuple[JavaApplication, str, float]]:
    """A process of it that hangs, its topic, and a moment before that."""
    topic = f"persistent://public/default/hanging-{secrets.token_hex(4)}"
    with contextlib.ExitStack() as stack:
        boot = None
        if program.spring:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            boot = spring_boot_jar(Path(folder, "app.jar"))
        it = stack.enter_context(java_client.running(broker.service_url, jar=boot))
        it.order("produce", topic, 3100 if program.wait is None else 60)
        began = time.monotonic()
        if program.wait is None:
            it.order("subscribe", "w", 1000, "plain+keep", topic)
            it.order("handoff", "w", 3004, 4, "fixed")
        else:
            it.order("wait", program.wait)
            it.order("subscribe", "w", 20, "listener+waits", topic)
            eventually(lambda: it.order("taken", "w") == "4")
        time.sleep(2)
        yield it, topic, began


def wrong(program: Program, it: JavaApplication, topic: str, began: float) -> str | None:
    """What is wrong with one look; None where all is right."""
    asked = ("examine", str(it.pid), topic, "--attach", *WINDOW, *SOON)
    done = run([sys.executable, "-m", "pulsar_doctor", *asked])
    hangs, text = time.monotonic() - began, done.out.decode()
    found = _lines(program, [each.strip() for each in text.splitlines()])
    if isinstance(found, str):
        return f"no line like: {found}\n{text}{done.err}"
    for number, told in found.items():
        least = 1.0 if number == "s0" and program.of_monitor else 2.0
        if not least <= _seconds(told) <= hangs + 0.5:  # as printed, with three digits
            return f"for {told}, and it hangs for {hangs:.1f} s at most\n{text}"
    if program.code not in text or done.code not in (0, 1) or "healthy" in text:
        return f"no finding {program.code}, or the code is {done.code}\n{text}{done.err}"
    return None


def _lines(program: Program, lines: list[str]) -> dict[str, str] | str:
    """Durations by their names in the patterns; the pattern that none has where one is missing."""
    at = 0
    found: dict[str, str] = {}
    for number, pattern in enumerate(program.lines):
        first = number == 0 or program.wait is None
        where = range(at, len(lines)) if first else range(at, min(at + 1, len(lines)))
        met = next(((one, m) for one in where if (m := re.match(pattern, lines[one]))), None)
        if met is None:
            return pattern
        at = met[0] + 1
        found |= met[1].groupdict()
    return found


def _seconds(told: str) -> float:
    """`1 min 3 s` -> 63."""
    words = told.split()
    return sum(
        float(number) * UNITS[unit] for number, unit in zip(words[::2], words[1::2], strict=True)
    )


def looked(name: str, broker: Sandbox, looks: int, starts: int) -> list[str | None]:
    """What is wrong with each look."""
    told: list[str | None] = []
    for number in range(starts + 1):
        with hanging(PROGRAMS[name], broker) as (it, topic, began):
            for _ in range(1 if number else looks):
                told.append(wrong(PROGRAMS[name], it, topic, began))
    return told


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS), metavar="PROGRAM")
    parser.add_argument("--looks", type=int, default=20)
    parser.add_argument("--starts", type=int, default=4)
    options = parser.parse_args()
    rows, failed = [("program", "right", "of")], 0
    with running(conf=BATCH_INDEX_ACKS, reuse=False) as broker:
        os.environ["PULSAR_DOCTOR_SERVICE_URL"] = broker.service_url
        os.environ["PULSAR_DOCTOR_ADMIN_URL"] = broker.admin_url
        os.environ["COLUMNS"] = "300"
        for name in options.programs:
            told = looked(name, broker, options.looks, options.starts)
            bad = [each for each in told if each is not None]
            failed += len(bad)
            rows.append((name, str(len(told) - len(bad)), str(len(told))))
            print(*rows[-1], *bad[:3], sep="\n" if bad else " ", flush=True)
    print(table(rows))
    return failed


if __name__ == "__main__":
    sys.exit(main())
