"""Reads samples from the output of pulsar-admin, usually one topic at one moment in each file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pulsar_doctor.broker.samples.files import (
    BROKER,
    INTERNAL,
    PARTITIONED_INTERNAL,
    PARTITIONS,
    TOPIC,
    TOTALS,
    by_topic,
    called,
    cursors_of,
    kind_of,
    located,
    of_broker,
    part_of_broker,
    stranger,
    subscriptions_of,
)
from pulsar_doctor.broker.samples.listed import listed, of_totals, unlisted
from pulsar_doctor.broker.samples.parts import (
    CURSORS,
    SUBSCRIPTIONS,
    answers_of,
    internal_around,
    stats_around,
)
from pulsar_doctor.broker.stats.cursors import owner_of
from pulsar_doctor.broker.stats.followed import completed
from pulsar_doctor.broker.stats.internal import InternalStats
from pulsar_doctor.broker.stats.reading import (
    internal_stats,
    partitioned_internal_stats,
    partitioned_stats,
    topic_stats,
)
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.topic import SubscriptionStats, TopicStats
from pulsar_doctor.broker.stats.window import connections
from pulsar_doctor.errors import InputError
from pulsar_doctor.ledger.topics import UNNAMED_TOPIC

UNNAMED = ""  # the one topic of a file that does not name it
UNKNOWN = UNNAMED_TOPIC
NUMBERED = "nothing shows that its answers are of one topic, so each is read as a topic of its own"
STATS_KINDS = (TOPIC, TOTALS, PARTITIONS)


@dataclass(frozen=True, slots=True)
class Plain:
    """One file."""

    name: str
    kind: str
    samples: Mapping[str, Sample]  # by full name of the topic or partition, or under `UNNAMED`
    # when the file was changed, perhaps by a copy; None: not known, or it was taken right then
    guess_ms: int | None = None
    notes: tuple[str, ...] = ()  # how its text was read, where it is not plain JSON
    incomplete: tuple[str, ...] = ()  # why subscriptions may be missing, in sentences
    another: bool = False  # its text has another answer, which is not read

    def cut_off(self, name: str, document: Any) -> Plain:
        """The same of a document without its end: the subscriptions need not be all of them.

        They are where something follows them that is no list of partitions.
        """
        listing = CURSORS if self.kind in (INTERNAL, PARTITIONED_INTERNAL) else SUBSCRIPTIONS
        last = [*document][-1] if isinstance(document, Mapping) else None
        if last == "partitions":
            within = f"{called(name)} is cut off within its partitions"
            return replace(self, incomplete=(within, *self.incomplete))
        whole = last not in (None, listing) and listing in document
        if self.incomplete or whole:
            return self
        return replace(self, incomplete=(f"{called(name)} is cut off within its {listing}",))

    def with_internal(
        self, internal: Mapping[str, InternalStats], name: str, notes: tuple[str, ...] = ()
    ) -> Plain:
        """The same with internal stats. Raises InputError on other topics."""
        if self.kind == TOTALS:
            raise InputError(
                f"{called(name)} cannot go with {called(self.name)}, the totals of a partitioned "
                f"topic; take {PARTITIONS} and {PARTITIONED_INTERNAL}"
            )
        if len(internal) == len(self.samples) == 1 and UNNAMED in (*internal, *self.samples):
            internal = dict(zip(self.samples, internal.values(), strict=True))
        if not internal.keys() & self.samples.keys():
            raise InputError(
                f"{called(name)} and {called(self.name)} have no topic in common; "
                f"{called(self.name)} is the output of {self.kind}"
            )
        samples = {
            topic: replace(sample, internal=internal.get(topic))
            for topic, sample in self.samples.items()
        }
        return replace(self, samples=samples, notes=(*self.notes, *notes))

    def named(self, topic: str) -> Plain:
        """The same; topic: what one is called that it does not name."""
        return replace(self, samples={name or topic: e for name, e in self.samples.items()})

    def of_users(self, is_users: Callable[[str], bool]) -> Plain:
        """The same without Pulsar's own topics, which a broker lists beside those of users."""
        if self.kind != BROKER:
            return self
        return replace(self, samples={t: e for t, e in self.samples.items() if is_users(t)})

    def at(self, taken_ms: int | None) -> Plain:
        """The same, taken then; None: not known."""
        samples = {t: replace(sample, taken_ms=taken_ms) for t, sample in self.samples.items()}
        return replace(self, samples=samples)


def of_document(document: Any, name: str) -> list[Plain]:
    """The samples of a file of `--stats`: one, with its internal stats if it has both, or a list.

    Those of a list are of one topic only if a connection shows that; otherwise each is a topic.
    Raises InputError.
    """
    with located(called(name)):
        stats, internal = answers_of(document)
    if not stats:
        return [plain_stats(document, name)]  # which says what to do with it
    plain = [plain_stats(each, name) for each in stats]
    of_one = all(_of_one_topic(before, after) for before, after in pairwise(plain))
    if internal is not None:
        if not of_one:
            raise InputError(f"{called(name)} has stats of several topics, and internal stats")
        plain[-1] = plain[-1].with_internal(plain_internal(internal, name), name)
    return plain if of_one else [_apart(plain)]


def _apart(answers: Sequence[Plain]) -> Plain:
    """Answers of several topics as one sample of each; those without a name are numbered."""
    named = [
        (topic or f"answer-{number}", sample)
        for number, each in enumerate(answers, 1)
        for topic, sample in each.samples.items()
    ]
    if len({topic for topic, _ in named}) < len(named):
        named = [(f"answer-{number}", sample) for number, (_, sample) in enumerate(named, 1)]
    why = tuple(dict.fromkeys(why for each in answers for why in each.incomplete))
    return Plain(answers[0].name, PARTITIONS, dict(named), notes=(NUMBERED,), incomplete=why)


def _of_one_topic(before: Plain, after: Plain) -> bool:
    if before.samples.keys() != after.samples.keys():
        return False
    pairs = ((before.samples[name].topic, after.samples[name].topic) for name in before.samples)
    return any(set(connections(one)) & set(connections(other)) for one, other in pairs)


def plain_stats(document: Any, name: str) -> Plain:
    """One answer of a file of `--stats`, from decoded JSON. Raises InputError that names it."""
    with located(called(name)):
        of_cluster = of_broker(document)
    document = subscriptions_of(stats_around(document)) if of_cluster is None else of_cluster
    if of_cluster is not None or by_topic(document):
        with located(called(name)):
            named = {topic: completed(topic_stats(document[topic])) for topic in document}
        kind, part = (PARTITIONS, part_of_broker(document)) if of_cluster is None else (BROKER, ())
        samples = {topic: Sample(None, reported) for topic, reported in named.items()}
        return Plain(name, kind, samples, incomplete=tuple(f"{called(name)} {e}" for e in part))
    strange, kind = stranger(document), kind_of(document)
    if strange:
        raise InputError(f"{called(name)} {strange}; --stats takes the output of {TOPIC}")
    if kind in (INTERNAL, PARTITIONED_INTERNAL):
        raise InputError(
            f"{called(name)} is the output of {kind}: give it with --internal-stats, "
            f"beside the output of {TOPIC} with --stats"
        )
    with located(called(name)):
        stats, missing = _stats(document, kind)
    samples = {topic: Sample(None, reported) for topic, reported in stats.items()}
    none = any(reported.subscriptions is None for reported in stats.values()) or not stats
    why = (*(("holds no subscriptions",) if none else ()), *missing, *part_of_broker(document))
    return Plain(name, kind, samples, incomplete=tuple(f"{called(name)} {each}" for each in why))


def plain_internal(document: Any, name: str) -> Mapping[str, InternalStats]:
    """A file of `--internal-stats`, by the names of partitions or `UNNAMED`. Raises InputError."""
    with located(called(name)):
        _, internal = answers_of(document)
    document = cursors_of(internal_around(document if internal is None else internal))
    if by_topic(document):
        with located(called(name)):
            return {topic: internal_stats(document[topic]) for topic in document}
    strange, kind = stranger(document), kind_of(document)
    if strange:
        raise InputError(f"{called(name)} {strange}; --internal-stats takes that of {INTERNAL}")
    if kind == PARTITIONS or (kind in STATS_KINDS and "subscriptions" in document):
        raise InputError(f"{called(name)} is the output of {kind}: give it with --stats")
    with located(called(name)):
        if kind == PARTITIONED_INTERNAL:
            return partitioned_internal_stats(document) or {}
        return {UNNAMED: internal_stats(document)}


def cursors_alone(
    internal: Mapping[str, InternalStats], name: str, notes: tuple[str, ...] = ()
) -> Plain:
    """A file of `--internal-stats` without its stats: cursors, and nothing of who is there.

    A cursor of the broker's own is no subscription.
    """
    kind = INTERNAL if UNNAMED in internal else PARTITIONED_INTERNAL
    samples = {
        topic: Sample(None, TopicStats(subscriptions=_without_consumers(stats)), stats)
        for topic, stats in internal.items()
    }
    unlisted = any(stats.cursors is None for stats in internal.values())
    why = (f"{called(name)} holds no cursors",) if unlisted or not internal else ()
    return Plain(name, kind, samples, notes=notes, incomplete=why)


def _without_consumers(internal: InternalStats) -> Mapping[str, SubscriptionStats]:
    names = (name for name in internal.cursors or {} if not owner_of(name).is_broker)
    return {name: SubscriptionStats() for name in names}


def _stats(document: Any, kind: str) -> tuple[Mapping[str, TopicStats], tuple[str, ...]]:
    """The stats by names, and why subscriptions may be missing in them."""
    if kind == TOPIC:
        return {UNNAMED: completed(topic_stats(document))}, ()
    stats = partitioned_stats(document)
    if kind == TOTALS:
        return {UNNAMED: of_totals(stats)}, ()
    return {name: completed(each) for name, each in listed(stats).items()}, (*unlisted(stats),)
