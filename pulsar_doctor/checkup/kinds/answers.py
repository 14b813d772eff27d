"""Answers of a broker in JSON, as pulsar-admin and the REST API print statistics."""

from __future__ import annotations

import re

from pulsar_doctor.broker.samples import answers_in
from pulsar_doctor.checkup.kinds import Brought
from pulsar_doctor.wording.printable import many

WHAT = "statistics of a broker (`pulsar-admin topics stats`)"
FIELD = re.compile(  # in JSON, perhaps quoted; as Java or YAML write it; in a table of a browser
    r"\b(?:msgRate(?:In|Out)|msgBacklog|availablePermits|unackedMessages)"
    r"(?:\\?[\"'’”]|&(?:quot|#34|#x22);)?\s{0,20}[:=\t]"
    r"|\"(?:subscriptions|cursors|markDeletePosition)\"\s{0,20}:"
)


def is_mine(text: str) -> bool:
    """Whether it has a field of such statistics."""
    return FIELD.search(text) is not None


def read(text: str, name: str) -> Brought:
    """The samples of a broker's answer."""
    samples = answers_in(text.encode("utf-8", "surrogateescape"), name)
    topics = many(len({topic for each in samples for topic in each.samples}), "topic")
    return Brought(name, f"statistics of {topics}", tuple(samples))
