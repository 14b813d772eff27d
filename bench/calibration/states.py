"""The states there are: of incidents, of large subscriptions, as posted, and of real brokers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import read
from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.evidence import by_stats
from tests.incidents.asking import Samples, untellable, view
from tests.incidents.causes import FACTS, causes, roots
from tests.incidents.large import large
from tests.incidents.making import made
from tests.incidents.moments import Incident, Moment, played
from tests.incidents.more import made_more
from tests.incidents.posted import posted
from tests.incidents.questions import ALL, BOTH_STATS, INTERNAL, STATS, WIRE
from tests.scenarios import SCENARIOS
from tests.states.known import truth_of_recorded

from .state import State, True_, state

RECORDED = Path(__file__).parents[2] / "tests" / "states"
QUESTIONS = {
    "one document": (STATS, Samples((0,), clock=False)),
    "one document, --at": (STATS, Samples((0,))),
    "one document, internal": (BOTH_STATS, Samples((0,), clock=False)),
    "one document, internal, --at": (BOTH_STATS, Samples((0,))),
    "two documents": (STATS, Samples((60, 0), clock=False)),
    "two documents, --interval": (STATS, Samples((10, 0), clock=False, interval=10)),
    "window 10 s": (BOTH_STATS, Samples((10, 5, 0))),
    "window 60 s": (BOTH_STATS, Samples((60, 30, 10, 5, 0))),
    "window, stats alone": (STATS, Samples((10, 5, 0))),
    "3.3.5": (STATS, Samples((0,), clock=False, version="3.3.5")),
    "2.11.0": (STATS, Samples((0,), clock=False, version="2.11.0")),
    "internal alone": (INTERNAL, Samples((0,))),
    "trace": (WIRE, Samples(())),
    "trace and window": (ALL, Samples()),
}  # fmt: skip
CHUNK = 25
SOONEST = 20  # seconds after something went wrong; sooner nobody asks
POSTED = 3  # ways of posting it


def collected(seeds: int, more: int, processes: int) -> list[State]:
    """All states there are."""
    chunks = [
        (asks, range(at, min(at + CHUNK, count)))
        for asks, count in (
            (generated, seeds),
            (generated_more, more),
            (generated_large, more),
        )
        for at in range(0, count, CHUNK)
    ]
    with get_context("spawn").Pool(processes) as pool:
        found = [each for chunk in pool.imap(_chunk, chunks) for each in chunk]
    return found + list(recorded())


def _chunk(chunk: tuple[Callable[[Sequence[int]], list[State]], Sequence[int]]) -> list[State]:
    asks, seeds = chunk
    return asks(seeds)


def generated(seeds: Sequence[int]) -> list[State]:
    """The states of these incidents; odd seeds judge."""
    return [
        each
        for seed in seeds
        for each in states_of(played(made(seed, SOONEST)), seed % 2, "generated")
    ]


def generated_more(seeds: Sequence[int]) -> list[State]:
    """Likewise of the further ones."""
    return [
        each
        for seed in seeds
        for each in states_of(played(made_more(seed, SOONEST)), seed % 2, "more")
    ]


def states_of(incident: Incident, half: int, kind: str) -> Iterator[State]:
    """Each of its moments, asked in each way."""
    older = incident.script.type != "key_shared"
    for moment in incident.moments:
        true = causes(moment), roots(moment)
        codes = {code for code, _ in true[1]}
        there = {(moment.at_ns - taken.at_ns) // 10**9 for taken in moment.taken}
        for asked, (sources, samples) in QUESTIONS.items():
            if samples.version != "4.0.8" and not older:
                continue
            if (codes - FACTS or codes) <= untellable(sources):
                continue  # nothing that is wrong can be seen there
            cut = replace(samples, offsets=tuple(o for o in samples.offsets if o in there))
            seen = view(sources, moment, cut)
            if seen is not None:
                yield state(half, kind, asked, seen, true)
        yield from posted_states(moment, half, kind, true)


def posted_states(moment: Moment, half: int, kind: str, true: True_) -> Iterator[State]:
    """The last reading of it, as somebody might post it."""
    drawn = random.Random(f"{moment.at_ns} {moment.incident.script.seed}")
    for _ in range(POSTED):
        seen = by_stats.subscription_view(posted(moment.taken[-1], drawn))
        yield state(half, kind, "posted", seen, true)


def generated_large(seeds: Sequence[int]) -> list[State]:
    """The states of subscriptions as in production."""
    found: list[State] = []
    for seed in seeds:
        each, half = large(seed), seed % 2
        true = each.causes, each.roots
        for asked, (sources, samples) in QUESTIONS.items():
            if "wire" not in sources:
                seen = view(sources, each.moment, samples)
                assert seen is not None
                found.append(state(half, "large", asked, seen, true))
        found += posted_states(each.moment, half, "large", true)
    return found


def recorded() -> Iterator[State]:
    """The states of real brokers, by scenario; every other scenario judges."""
    names = sorted(SCENARIOS)
    for path in sorted(RECORDED.glob("*/*.jsonl.gz")):
        version, name = path.parent.name, path.name.partition(".")[0]
        half = names.index(name) % 2
        [window] = read(SampleFiles([str(path)])).windows
        for observed in window.subscriptions():
            true = (truth_of_recorded(version, name),) * 2
            for asked, cut in cuts(observed):
                yield state(half, "recorded", asked, by_stats.subscription_view(cut), true)


def cuts(observed: Observed) -> Iterator[tuple[str, Observed]]:
    """The window as it was kept, and what is left of it where somebody has less in hand."""
    samples = observed.window.samples
    last = samples[-1]
    for asked, kept, clock in (
        ("window 10 s", samples, True),
        ("window, stats alone", [replace(s, internal=None) for s in samples], True),
        ("two documents", [replace(s, internal=None) for s in (samples[0], last)], False),
        ("one document, --at", [replace(last, internal=None)], True),
        ("one document, internal, --at", [last], True),
        ("one document", [replace(last, internal=None)], False),
        ("one document, internal", [last], False),
    ):
        yield asked, _of(observed, [s if clock else replace(s, taken_ms=None) for s in kept])


def _of(observed: Observed, samples: Sequence[Sample]) -> Observed:
    window = Window(tuple(samples))
    return Observed(observed.topic, observed.partition, observed.subscription, window)
