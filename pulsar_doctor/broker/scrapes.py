"""Reads samples from a broker's metrics, as Prometheus or curl has saved them.

A text may hold several scrapes, one after the other. A topic without subscriptions has nothing to
judge, and Pulsar's own topics are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from pulsar_doctor.broker.samples.asking import by_its_change
from pulsar_doctor.broker.samples.files import METRICS, called, changed_ms, located
from pulsar_doctor.broker.samples.pasted import DATE, moment_in
from pulsar_doctor.broker.samples.plain import Plain
from pulsar_doctor.broker.stats.followed import completed
from pulsar_doctor.broker.stats.metrics import MetricsReader, Places, document, missing
from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.errors import InputError
from pulsar_doctor.wording.printable import many

BEFORE_LINES = re.compile(r"^[> \t]{1,8}(?=pulsar_)", re.MULTILINE)  # quoted, or indented


def scrapes_in(text: str, name: str) -> list[Plain]:
    """The samples of a text, the oldest first. Raises InputError where no topic is in it."""
    whole, _, rest = BEFORE_LINES.sub("", text).rpartition("\n")
    reader = MetricsReader()
    with located(called(name)):
        reader.feed(whole.encode("utf-8", "surrogateescape"))
    samples = samples_of(reader, name, cut=rest.startswith("pulsar_"))
    dates = DATE.findall(text)
    if len(dates) == len(samples):
        moments = [moment_in(f"Date: {date}") for date in dates]
        return [each.at(ms) if ms else each for each, ms in zip(samples, moments, strict=True)]
    last = replace(samples[-1], guess_ms=changed_ms(name))
    taken_ms = by_its_change(last)
    return [*samples[:-1], last if taken_ms is None else last.at(taken_ms)]


def samples_of(reader: MetricsReader, name: str, *, cut: bool = False) -> list[Plain]:
    """One sample of each scrape. cut: whether the text ends within a line. Raises InputError."""
    found = [
        Plain(name, METRICS, topics, incomplete=tuple(_gaps(reader, scrape, name, cut=cut)))
        for scrape in reader.scrapes
        if (topics := dict(_topics(scrape, name)))
    ]
    if not found:
        raise InputError(
            f"{called(name)} has metrics, and none of a topic with a subscription: "
            "exposeTopicLevelMetricsInPrometheus may be false, or they are not of a broker"
        )
    return found


def _gaps(
    reader: MetricsReader, scrape: Mapping[str, Places], name: str, *, cut: bool
) -> Iterator[str]:
    """Why subscriptions may be missing, in sentences."""
    if cut:
        yield f"{called(name)} is cut off within its last line"
    if reader.unread:
        yield f"{called(name)} has {many(reader.unread, 'line')} that cannot be read"
    if lacking := sum(map(missing, scrape.values())):
        yield f"{called(name)} counts {many(lacking, 'subscription')} more than it has lines of"


def _topics(scrape: Mapping[str, Places], name: str) -> Iterator[tuple[str, Sample]]:
    """Each topic that somebody subscribed to."""
    for topic, places in scrape.items():
        with located(called(name)):
            stats = completed(topic_stats(document(topic, places))) if is_users(topic) else None
        if stats is not None and stats.subscriptions:
            yield topic, Sample(None, stats)


def is_users(topic: str) -> bool:
    """Whether it is none of Pulsar's own. Raises InputError where it is no name of a topic."""
    # Here, as they import what sends requests.
    from pulsar_doctor.broker.admin.topics import topic_name
    from pulsar_doctor.broker.fleet.listing import is_system

    return not is_system(topic_name(topic))
