"""Metrics of a broker, as Prometheus or curl reads them at `/metrics/`."""

from __future__ import annotations

import re

from pulsar_doctor.broker.scrapes import scrapes_in
from pulsar_doctor.checkup.kinds import Brought
from pulsar_doctor.wording.printable import many

WHAT = "metrics of a broker (`curl http://BROKER:8080/metrics/`)"
LINE = re.compile(r"^[> \t]{0,8}pulsar_(?:subscription|topics?|consumers?|rate|storage)\w*\{", re.M)


def is_mine(text: str) -> bool:
    """Whether it has a line about a topic, or a namespace."""
    return LINE.search(text) is not None


def read(text: str, name: str) -> Brought:
    """The samples of a page of metrics, one of each scrape."""
    samples = scrapes_in(text, name)
    topics = many(len({topic for each in samples for topic in each.samples}), "topic")
    scrapes = many(len(samples), "scrape")
    return Brought(name, f"metrics of {topics}, {scrapes}", tuple(samples))
