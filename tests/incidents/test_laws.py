"""The laws of a verdict over generated incidents: never opposite, never less sure, never untrue.

A few hundred incidents in every run; with -m slow the 10,000 of `python -m incidents`.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from pulsar_doctor.ledger.balance import Ledger
from pulsar_doctor.model.scenario import ProducedEntry
from tests.incidents.counting import Count, count, count_rhythms, gates, plain
from tests.incidents.documents import LACKS, Document, of_version
from tests.incidents.known import KNOWN
from tests.incidents.many import all_of
from tests.incidents.moments import OfConsumer, incident, played
from tests.incidents.script import SECOND, Script, Worker

STATES = Path(__file__).parents[1] / "states"


def not_known(total: Count) -> list[str]:
    return [
        f"{law}: {code}: {pair}: seeds {total.seeds[law, code, pair]}"
        for law, code, pair in total.broken
        if pair and gates(law) and plain(pair) not in KNOWN.get(law, {}).get(code, ())
    ]


@pytest.mark.parametrize(
    "seeds",
    [
        range(0, 40),
        range(40, 80),
        *(pytest.param(range(at, at + 40), marks=pytest.mark.slow) for at in range(80, 240, 40)),
    ],
    ids=str,
)
def test_no_law_is_broken_that_is_not_known_to_be(seeds: range) -> None:
    assert not_known(count(seeds)) == []


def test_a_rhythm_is_judged_the_same_at_every_phase() -> None:
    assert not_known(count_rhythms(range(4))) == []


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_the_laws_on_ten_thousand_incidents() -> None:
    total = all_of(range(10_000), range(250), 2)
    assert not_known(total) == []
    broken = {(law, code, plain(pair)) for law, code, pair in total.broken}
    mended = [
        (law, code, pair)
        for law, codes in KNOWN.items()
        for code, pairs in codes.items()
        for pair in pairs
        if (law, code, pair) not in broken
    ]
    assert mended == [], "take these out of known.py"


@pytest.mark.parametrize("version", LACKS)
def test_each_version_lacks_what_its_broker_lacks(version: str) -> None:
    """By the states that were recorded: what the model writes, a broker of that version writes."""
    told = [document for seed in range(40) for document in documents(seed)]
    made, newest = fields([of_version(each, version) for each in told]), fields(told)
    for of_model, all_of_model, real in zip(made, newest, fields(recorded(version)), strict=True):
        assert of_model == all_of_model & real


def documents(seed: int) -> list[Document]:
    return [moment.taken[-1].stats for moment in incident(seed).moments]


def recorded(version: str) -> list[Document]:
    lines = [
        line
        for path in sorted(STATES.glob(f"{version}/*.jsonl.gz"))
        for line in gzip.decompress(path.read_bytes()).splitlines()[1:4]
    ]
    return [told["stats"] for told in map(json.loads, lines) if told.get("stats")]


def fields(told: list[Document]) -> tuple[set[str], set[str], set[str]]:
    """The names that topics, subscriptions and consumers have in these stats."""
    subscriptions = [one for each in told for one in each["subscriptions"].values()]
    consumers = [one for each in subscriptions for one in each["consumers"]]
    of_topic, of_subscription, of_consumer = (
        {name for each in some for name in each} for some in (told, subscriptions, consumers)
    )
    return of_topic, of_subscription, of_consumer


@pytest.mark.parametrize(("entries", "turned_away"), [(4, False), (9, True)])
def test_a_key_that_drains_turns_away_what_comes_for_it(entries: int, turned_away: bool) -> None:
    """As in the recorded key-shared-third-joins, where hashes drain and nothing waits for them."""
    first = Worker("first", "java", 4, 600 * SECOND)
    script = Script(
        0,
        "key_shared",
        (first, replace(first, name="second", attach_ns=SECOND)),
        tuple(ProducedEntry(n, 0, n // 4 * 2 * SECOND, n, 1, n % 2) for n in range(entries)),
        (10 * SECOND,),
    )
    [moment] = played(script, (0,)).moments
    [subscription] = moment.taken[-1].stats["subscriptions"].values()
    [draining] = subscription["consumers"][0]["drainingHashes"]
    assert draining["unackMsgs"] == 2
    assert (draining["blockedAttempts"] > 0) == turned_away


@pytest.mark.parametrize("seeds", [range(at, at + 40) for at in range(0, 200, 40)], ids=str)
def test_permits_are_conserved(seeds: range) -> None:
    """The broker's number is the wire's, and with the client's side it makes up the queue."""
    for seed in seeds:
        for moment in incident(seed).moments:
            wire = moment.wire(told=True)
            ledgers = {c.label: c.ledger for c in wire.consumers} if wire else {}
            for name, truth in moment.truth.consumers.items():
                check_conservation(ledgers[name], truth)


def check_conservation(ledger: Ledger, truth: OfConsumer) -> None:
    worker = truth.app.worker
    assert ledger.granted - ledger.spent == truth.permits + truth.parked
    assert ledger.unacked == truth.unacked
    assert ledger.unsent_permits_min <= truth.unsent
    assert ledger.queued_min <= truth.queued + truth.in_hand
    if worker.queue:
        uncredited = truth.queued - truth.credited
        if worker.client == "pulsar-client-listener":
            uncredited += truth.in_hand
        assert truth.permits + truth.parked + uncredited + truth.unsent == worker.queue
