"""Makes weeks of records with planted events, and checks what `fleet` finds in them.

    python bench/fleet_memory.py make FOLDER [--subscriptions 1000] [--days 30]
    python bench/fleet_memory.py ask FOLDER TABLES        # pulsar-doctor fleet; what it costs
    python bench/fleet_memory.py check FOLDER TABLES      # what was planted and what was found
    python bench/fleet_memory.py duckdb FOLDER TABLES       # the same tables by DuckDB
    python bench/fleet_memory.py kill FOLDER [--kills 50] [--seed 3]   # kills the analysis

`check` needs the same --subscriptions and --days as `make`. TABLES is the folder of --save.
"""

from __future__ import annotations

import argparse
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
from measured import run

sys.path[:0] = [str(Path(__file__).parents[1])]

from pulsar_doctor.parts.fleet.answering import ANSWERS, BETWEEN  # noqa: E402
from tests.parts.fleet import twin  # noqa: E402
from tests.parts.fleet.made import (  # noqa: E402
    BAD,
    BEGIN,
    DAY,
    EVERY,
    NEVER,
    MadeFleet,
    Planted,
)

Tables = dict[str, list[dict[str, Any]]]
REMEDY = BEGIN.timestamp() + 12 * DAY
WITHIN = 0.1  # of the time that is left, a forecast is right
COMMAND = (sys.executable, "-m", "pulsar_doctor", "-q", "fleet", "--remedy", f"{BEGIN:%Y-%m}-13")


def make(folder: Path, fleet: MadeFleet) -> None:
    began = time.process_time()
    rounds = fleet.write(folder)
    size = sum(file.stat().st_size for file in folder.rglob("*.parquet"))
    print(f"{size / 1e6:.1f} MB, {size / rounds:.2f} bytes a subscription and round of {EVERY} s")
    print(f"{time.process_time() - began:.0f} CPU s")


def ask(folder: Path, tables: Path) -> None:
    for what in ("all days", "nothing new"):
        made = run([*COMMAND, str(folder), "--save", str(tables), "-o", "json"])
        print(
            f"{what}: {made.seconds:.0f} s, {made.cpu_seconds:.0f} CPU s, {made.peak_mib:.0f} MiB, "
            f"exit {made.code} {made.err[-300:]}"
        )


def saved(tables: Path) -> Tables:
    """What --save wrote, as Python values."""
    found: Tables = {}
    for name in (*BETWEEN, *ANSWERS):
        files = [str(file) for file in (tables / name).glob("*.parquet")]
        found[name] = twin.rows_of(duckdb.connect(), f"FROM read_parquet({files!r})")
    return found


def seconds(moment: Any) -> float:
    """Since the begin of the fleet; of a moment, or of seconds since the epoch."""
    epoch = moment.timestamp() if hasattr(moment, "timestamp") else float(moment)
    return epoch - BEGIN.timestamp()


def check(tables: Tables, fleet: MadeFleet) -> None:
    """Prints for each kind how many are found, and what was found that nobody planted."""
    found, errors = Counter[str](), list[float]()
    for each in fleet.planted:
        topic = fleet.all[each.number].topic
        found[each.kind] += FOUND[each.kind](tables, each, topic)
        errors += list(misses(tables, each, topic))
    planted = Counter(each.kind for each in fleet.planted)
    for kind, number in planted.items():
        print(f"{kind:<14} {found[kind]:>4} of {number}")
    share = found.total() / planted.total()
    print(f"all            {found.total()} of {planted.total()}: {share:.1%}")
    worst = max(errors, default=0.0)
    right = sum(error <= WITHIN for error in errors)
    print(f"foretold a day ahead within {WITHIN:.0%}: {right} of {len(errors)}, worst {worst:.1%}")
    for name, rows in false_alarms(tables, fleet).items():
        print(f"nobody planted, in {name}: {len(rows)} {rows[:3]}")


def has_episode(tables: Tables, each: Planted, topic: str) -> bool:
    """With its begin, its end, its cause and what ended it."""
    stall = each.stall
    assert stall is not None
    return any(
        row["topic"] == topic and row["cause"] == stall.cause
        and 0 <= seconds(row["began"]) - stall.begin <= EVERY
        and row["ended"] is not None and 0 <= seconds(row["ended"]) - stall.end <= EVERY
        and row["ended_by"] == stall.ended_by
        for row in tables["episodes"]
    )  # fmt: skip


def is_together(tables: Tables, each: Planted, topic: str) -> bool:
    moments = (seconds(row["began"]) - each.begin for row in tables["together"])
    return has_episode(tables, each, topic) and any(0 <= late <= EVERY for late in moments)


def is_leak(tables: Tables, each: Planted, topic: str) -> bool:
    leaky = (row["version"] for row in tables["versions"] if row["is_leaky"])
    return has_episode(tables, each, topic) and BAD in leaky


def misses(tables: Tables, each: Planted, topic: str) -> Iterator[float]:
    """How wrong the forecast a day before the crossing is, as a share of the time that is left."""
    if each.crosses == NEVER:
        return
    ahead = [
        row for row in tables["forecasts"]
        if row["topic"] == topic and DAY <= each.crosses - seconds(row["last_seen"]) < 2 * DAY
    ]  # fmt: skip
    for row in ahead:
        left = each.crosses - seconds(row["last_seen"])
        yield abs(seconds(row["reached"]) - each.crosses) / left


def is_foretold(tables: Tables, each: Planted, topic: str) -> bool:
    return any(miss <= WITHIN for miss in misses(tables, each, topic))


def is_usual(tables: Tables, each: Planted, topic: str) -> bool:
    hours = {
        row["hour"] for row in tables["usual"]
        if row["topic"] == topic and row["quiet_days"] == row["days"]
    }  # fmt: skip
    return hours == {*range(6), 22, 23}


def is_no_alarm(tables: Tables, each: Planted, topic: str) -> bool:
    return not any(row["topic"] == topic for row in tables["changes"])


def is_blamed(tables: Tables, each: Planted, topic: str) -> bool:
    return any(
        row["topic"] == topic and row["version"] == BAD
        and abs(seconds(row["began"]) - each.begin) <= EVERY
        for row in tables["changes"]
    )  # fmt: skip


FOUND: dict[str, Callable[[Tables, Planted, str], bool]] = {
    "stall": has_episode, "shared": is_together, "leak": is_leak, "ranges": is_foretold,
    "behind": is_foretold, "quiet nights": is_usual, "redeployment": is_no_alarm,
    "bad version": is_blamed,
}  # fmt: skip


def false_alarms(tables: Tables, fleet: MadeFleet) -> Tables:
    """Rows that stand for nothing that was planted."""
    topics = {kind: {fleet.all[each.number].topic for each in fleet.planted if each.kind == kind}
              for kind in FOUND}  # fmt: skip
    stalled = {each.topic for each in fleet.all if each.stalls}
    growing = topics["ranges"] | topics["behind"]
    moments = {each.begin for each in fleet.planted if each.kind == "shared"}
    return {
        "episodes": [row for row in tables["episodes"] if row["topic"] not in stalled],
        "changes": [
            row for row in tables["changes"]
            if row["version"] != BAD and row["topic"] not in topics["bad version"]
        ],
        "versions": [
            row for row in tables["versions"]
            if (row["is_leaky"] and row["version"] != BAD) or row["is_hoarding"]
        ],
        "forecasts": [row for row in tables["forecasts"] if row["topic"] not in growing],
        "together": [
            row for row in tables["together"]
            if not any(0 <= seconds(row["began"]) - at <= EVERY for at in moments)
        ],
    }  # fmt: skip


def same_by_duckdb(folder: Path, tables: Path) -> None:
    began, ours = time.monotonic(), saved(tables)
    theirs = twin.tables(folder, {"remedy": REMEDY})
    print(f"DuckDB: {time.monotonic() - began:.0f} s")
    for name, rows in ours.items():
        same = twin.alike(rows) == twin.alike(theirs[name])
        print(f"{name:<10} {len(rows):>6} rows, {'the same' if same else 'NOT THE SAME'}")


def kill(folder: Path, kills: int, seed: int, options: str) -> None:
    """Kills `fleet --save` at random moments; in the end the tables are those of one whole run.

    By turns its Java is killed with it, and left to notice that by itself, as in a shell.
    options: of every run, such as --remote.
    """
    ask = [*COMMAND, str(folder), *shlex.split(options), "--save"]
    chance, left = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as room:
        whole, often = Path(room, "whole"), Path(room, "often")
        length = run([*ask, str(whole)]).seconds
        for _ in range(kills):
            with subprocess.Popen(
                [*ask, str(often)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            ) as running:
                time.sleep(chance.uniform(0.2, 1) * length)
                ended = running.poll() is not None
                if not ended and chance.random() < 0.5:
                    running.kill()
                elif not ended:
                    os.killpg(running.pid, signal.SIGKILL)
            left["ended before" if ended else str(reached(often))] += 1
        last = run([*ask, str(often)])
        one, other = saved(whole), saved(often)
        same = {name: twin.alike(rows) == twin.alike(other[name]) for name, rows in one.items()}
        print(f"{kills} kills, one run {length:.0f} s; tables there at each: {left}")
        print(f"then exit {last.code}: {same}, {sum(map(len, one.values()))} rows")


def reached(tables: Path) -> int:
    """How many tables have files by now."""
    return len({file.relative_to(tables).parts[0] for file in tables.rglob("part-*")})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("make", "ask", "check", "duckdb", "kill"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("tables", type=Path, nargs="?")
    parser.add_argument("--subscriptions", type=int, default=1000)
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--events", type=int, default=200)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=3)
    parser.add_argument("--options", default="", help="of fleet, such as --options=--cold")
    given = parser.parse_args()
    fleet = MadeFleet(given.subscriptions, given.days, events=given.events)
    if given.what == "make":
        make(given.folder, fleet)
    elif given.what == "ask":
        ask(given.folder, given.tables)
    elif given.what == "check":
        check(saved(given.tables), fleet)
    elif given.what == "duckdb":
        same_by_duckdb(given.folder, given.tables)
    else:
        kill(given.folder, given.kills, given.seed, given.options)


if __name__ == "__main__":
    main()
