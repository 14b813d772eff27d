"""Random lives: `holes`, live and from a trace, says what stats-internal says, or bounds of it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from pulsar_doctor.trace.folder import read_meta
from tests.ledger.acks.lives import SUBSCRIPTION, WILD, Life, lived, tapped
from tests.support.command_line import answered

FEW = 4
MANY = 50
EQUAL, BOUND, NOT_TOLD = "equal", "a bound", "not told"

Position = tuple[int, int]
Told = dict[str, Any]


def truth_of(life: Life) -> Told:
    """What the broker's own document says, counted entry by entry."""
    mark_delete = position_of(life.cursor["markDeletePosition"])
    acked = {(r.ledger_id, at) for r in life.ranges() for at in range(r.first, r.last + 1)}
    holes: list[list[Position]] = []
    before = True
    for each in entries_of(life.internal):
        if mark_delete < each < max(acked, default=mark_delete):
            if each not in acked:
                if before:
                    holes.append([])
                holes[-1].append(each)
            before = each in acked
    return {
        "mark_delete": life.canonical(mark_delete),
        "ranges": len(life.ranges()),
        "acknowledged_entries": len(acked),
        "holes": len(holes),
        "hole_entries": sum(map(len, holes)),
        "oldest_hole": holes[0][0] if holes else None,
    }


def entries_of(internal: Told) -> Iterator[Position]:
    """All that there are; the ledger that is written tells none of its own."""
    last = position_of(internal["lastConfirmedEntry"])
    for ledger in internal["ledgers"]:
        ledger_id = ledger["ledgerId"]
        written = last[1] + 1 if ledger_id == last[0] else ledger["entries"]
        yield from ((ledger_id, entry) for entry in range(written))


def position_of(text: str) -> Position:
    ledger_id, entry = map(int, text.split(":"))
    return ledger_id, entry


def what_is_wrong(life: Life, told: Told) -> tuple[str, list[str]]:
    """How sure the document is of this life, and what of it is not so."""
    truth, wrong, sure = truth_of(life), [], EQUAL
    for name, real in truth.items():
        value, least, most = (_of(life, name, told, which) for which in ("", "_least", "_most"))
        if value == real:
            continue
        sure = NOT_TOLD if sure == NOT_TOLD or least is most is None else BOUND
        beyond = (least is not None and (real is None or real < least)) or (
            most is not None and real is not None and real > most
        )
        if beyond or not told["not_told"]:
            wrong.append(f"{name} is {real}: told {value}, {least} to {most}")
    return sure, wrong


def _of(life: Life, name: str, told: Told, which: str) -> Any:
    if name == "oldest_hole":
        value = told[f"oldest_hole_begin{which}"] if which else (told[name] or [None])[0]
    else:
        value = told[name + which]
    if not isinstance(value, str):
        return value
    return life.canonical(position_of(value)) if name == "mark_delete" else position_of(value)


def documents(*arguments: str, broker: Sandbox | None = None) -> dict[str, Told]:
    done = answered("holes", "-s", SUBSCRIPTION, "-o", "json", *arguments, broker=broker)
    assert done.returncode in (0, 1), done.stderr
    found = json.loads(done.stdout)["subscriptions"]
    assert all(each["partition"] is None for each in found)
    return {each["topic"]: each for each in found}


def held_against_the_broker(broker: Sandbox, folder: Path, seeds: Sequence[int]) -> list[str]:
    """Lives them and reads them live, from the trace, and from one that knows less: what differs.

    Prints how many of each are equal and how many bounds.
    """
    asked = Settings(service_url=broker.service_url, admin_url=broker.admin_url)
    with tapped(broker, folder, asked) as (client, admin):
        lives = lived(client, admin, seeds, WILD)
    meta = read_meta(folder)
    found = {
        "live": documents(*(life.topic for life in lives), broker=broker),
        "trace": documents("--trace", str(folder)),
    }
    replace(meta, broker={}).write(folder)  # as of a tap that was told nothing
    found["trace, setting not told"] = documents("--trace", str(folder))
    holed = sum(1 for life in lives if life.ranges())
    print(f"index acks {meta.storing.batch_index_acks}, seeds {' '.join(map(str, seeds))}")
    print(f"  {len(lives)} lives, {holed} end with ranges")
    return [each for source, told in found.items() for each in compared(source, lives, told)]


def compared(source: str, lives: Sequence[Life], told: dict[str, Told]) -> list[str]:
    how, differ = Counter[str](), []
    for life in lives:
        sure, wrong = what_is_wrong(life, told[life.topic])
        how["OUTSIDE" if wrong else sure] += 1
        if wrong:
            doubts = told[life.topic]["not_told"]
            differ.append(f"{source}, {life}, {life.topic}: {'; '.join(wrong)}; not told {doubts}")
    print(f"  {source}: {', '.join(f'{count} {word}' for word, count in sorted(how.items()))}")
    return differ


@pytest.mark.timeout(300)
def test_a_few_lives(either_broker: Sandbox, tmp_path: Path) -> None:
    wrong = held_against_the_broker(either_broker, tmp_path / "t.ptrace", range(FEW))
    assert not wrong, "\n".join(wrong)


@pytest.mark.slow
@pytest.mark.timeout(2400)
def test_many_lives(either_broker: Sandbox, tmp_path: Path) -> None:
    wrong = held_against_the_broker(either_broker, tmp_path / "t.ptrace", range(MANY))
    assert not wrong, "\n".join(wrong)
