"""The verdict on one moment of an incident, by any sources: all that knows how rules are asked.

Whoever rewrites evidence and rules changes the inside of `view` and `judged`, and nothing else of
incidents.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce

from pulsar_doctor.broker.stats.internal import InternalStats
from pulsar_doctor.broker.stats.observed import ClusterLimits, Observed
from pulsar_doctor.broker.stats.reading import internal_stats, topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import SubscriptionStats, TopicStats
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.diagnosis.weighing import diagnose, hypotheses_of
from pulsar_doctor.evidence import by_stats, by_wire
from pulsar_doctor.evidence.measures import STATS, WIRE
from pulsar_doctor.evidence.merge import merged
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.model.made_rows import SUBSCRIPTION, TOPIC
from tests.incidents.documents import of_version
from tests.incidents.moments import Moment, Taken, taken_ms
from tests.incidents.script import SECOND

Sources = frozenset[str]  # of "wire", "stats" and "internal"
RULES = load()
LIMITS = limits_of(RULES)
HYPOTHESES = hypotheses_of(RULES)
CODES = frozenset(rule.code for rule in RULES)
NEEDS = {rule.code: rule.needs for rule in RULES}
PART = {"wire": WIRE, "stats": STATS, "internal": STATS}
CURSORS_ALONE = TopicStats(subscriptions={SUBSCRIPTION: SubscriptionStats()})


@dataclass(frozen=True, slots=True)
class Samples:
    """Which readings of the broker are in hand, and how they were kept.

    offsets: seconds before the moment, 0 the last. clock: whether a Date was kept; otherwise
    interval tells how far apart they are, where it is told. internal_last: the internal stats of
    the last reading only. told: the wire's reader knows queues, limits and delays, and the broker's
    reader knows its limits.
    """

    offsets: tuple[int, ...] = (10, 5, 0)
    clock: bool = True
    interval: int | None = None
    version: str = "4.0.8"
    internal_last: bool = False
    told: bool = False

    def __str__(self) -> str:
        kept = ",".join(str(offset) for offset in self.offsets)
        more = [
            "" if self.clock else " no clock",
            f" every {self.interval} s" if self.interval else "",
            "" if self.version == "4.0.8" else f" {self.version}",
            " last internal" if self.internal_last else "",
            " told" if self.told else "",
        ]
        return f"[{kept}{''.join(more)}]"


def judged(seen: SubscriptionView) -> Diagnosis:
    """Messages of what is seen."""
    return diagnose(seen, RULES, LIMITS)


def view(sources: Sources, moment: Moment, samples: Samples) -> SubscriptionView | None:
    """What these sources tell of this moment, joined; None where they cannot be asked (yet).

    None too where a source has nothing to show: a wire on which nobody subscribed.
    """
    wire = moment.wire(told=samples.told) if "wire" in sources else None
    stats = _observed(moment, samples, sources) if sources & {"stats", "internal"} else None
    views = [] if wire is None else [by_wire.subscription_view(wire)]
    views += [] if stats is None else [by_stats.subscription_view(stats)]
    return reduce(merged, views) if views else None


def untellable(sources: Sources) -> frozenset[str]:
    """Rules that these sources can never answer."""
    parts = {PART[source] for source in sources if source in PART}
    return frozenset(code for code, needs in NEEDS.items() if not needs & parts)


def _observed(moment: Moment, samples: Samples, sources: Sources) -> Observed:
    with_internal, limits = "internal" in sources, ClusterLimits()
    if samples.told:
        script = moment.incident.script
        limits = ClusterLimits(script.consumer_limit, script.subscription_limit)
    read = _chosen(moment, samples)
    last = read[-1]
    window = Window(
        tuple(
            Sample(
                taken_ms(taken.at_ns) if samples.clock else None,
                _topic(taken, samples.version) if "stats" in sources else CURSORS_ALONE,
                _internal(taken)
                if with_internal and (taken is last or not samples.internal_last)
                else None,
            )
            for taken in read
        ),
        interval_ms=None if samples.interval is None else samples.interval * 1000,
    )
    return Observed(TOPIC, None, SUBSCRIPTION, window, limits)


def _chosen(moment: Moment, samples: Samples) -> list[Taken]:
    wanted = {moment.at_ns - offset * SECOND for offset in samples.offsets}
    return [taken for taken in moment.taken if taken.at_ns in wanted]


def _topic(taken: Taken, version: str) -> TopicStats:
    parsed = taken.parsed
    if version not in parsed:
        parsed[version] = topic_stats(of_version(taken.stats, version))
    found = parsed[version]
    assert isinstance(found, TopicStats)
    return found


def _internal(taken: Taken) -> InternalStats:
    if "internal" not in taken.parsed:
        taken.parsed["internal"] = internal_stats(taken.internal)
    found = taken.parsed["internal"]
    assert isinstance(found, InternalStats)
    return found
