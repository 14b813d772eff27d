"""What is asked of a moment: which sources, which readings of the broker, and the answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.subscription import SubscriptionView
from tests.incidents.asking import Samples, Sources, judged, view
from tests.incidents.moments import OFFSETS, Moment
from tests.incidents.script import SECOND

WIRE, STATS, INTERNAL = frozenset({"wire"}), frozenset({"stats"}), frozenset({"internal"})
BOTH_STATS = STATS | INTERNAL
ALL = WIRE | BOTH_STATS


@dataclass(frozen=True, slots=True)
class Asked:
    """One question, what these sources show of it, and the answer."""

    sources: Sources
    samples: Samples
    seen: SubscriptionView
    said: Diagnosis

    @property
    def who(self) -> str:
        """Which sources, for a table; how many readings stands in the text."""
        named = "+".join(name for name in ("wire", "stats", "internal") if name in self.sources)
        return f"{named}{'' if self.samples.clock else ' (no clock)'}"

    @property
    def status(self) -> str:
        return self.said.status


def _always() -> Iterator[tuple[Sources, Samples]]:
    for sources in (STATS, BOTH_STATS):
        for offsets in ((0,), (10, 5, 0), OFFSETS):
            yield sources, Samples(offsets)
        yield sources, Samples((0,), clock=False)
    yield INTERNAL, Samples((0,))
    yield WIRE, Samples(())
    yield WIRE, Samples((), told=True)
    yield ALL, Samples()


def _at_times() -> Iterator[tuple[Sources, Samples]]:
    for sources in (STATS, BOTH_STATS):
        yield sources, Samples((5, 0))
        yield sources, Samples(clock=False)
        yield sources, Samples(OFFSETS, clock=False)
        yield sources, Samples((60, 0), clock=False)
        yield sources, Samples((10, 0), clock=False, interval=10)
        for kept in ((600, 0), (3600, 0), (3600, 600, 60, 0)):
            yield sources, Samples(kept)
        for version in ("2.11.0", "3.3.5"):
            yield sources, Samples(version=version)
            yield sources, Samples((0,), version=version)
    yield BOTH_STATS, Samples(internal_last=True)
    yield BOTH_STATS, Samples(told=True)
    yield INTERNAL, Samples((0,), clock=False)
    yield INTERNAL, Samples()
    yield WIRE | STATS, Samples((0,))
    yield WIRE | INTERNAL, Samples((0,))
    yield ALL, Samples((0,))
    yield ALL, Samples(told=True)


ALWAYS, AT_TIMES = tuple(_always()), tuple(_at_times())
SHARE = 0.3  # of what is asked at times only


def questions(random: Random) -> Iterator[tuple[Sources, Samples]]:
    """What is asked of a moment."""
    yield from ALWAYS
    for question in AT_TIMES:
        if random.random() < SHARE:
            yield question
    any_few = tuple(offset for offset in OFFSETS if not offset or random.random() < 0.5)
    yield random.choice((STATS, BOTH_STATS)), Samples(any_few, clock=random.random() < 0.5)


def answers(moment: Moment) -> list[Asked]:
    """Everything that is said of this moment."""
    there = {(moment.at_ns - taken.at_ns) // SECOND for taken in moment.taken}
    found: dict[tuple[Sources, Samples], Asked] = {}
    older = moment.incident.script.type != "key_shared"  # theirs hand keys over in another way
    for sources, samples in questions(Random(moment.at_ns)):
        if samples.version != "4.0.8" and not older:
            continue
        cut = replace(samples, offsets=tuple(o for o in samples.offsets if o in there))
        if (sources, cut) in found:
            continue
        asked = answer(sources, moment, cut)
        if asked is not None:
            found[sources, cut] = asked
    return list(found.values())


def answer(sources: Sources, moment: Moment, samples: Samples) -> Asked | None:
    """Messages of this moment by these sources; None where they show nothing of it."""
    seen = view(sources, moment, samples)
    return None if seen is None else Asked(sources, samples, seen, judged(seen))
