"""What a broker reports: answers in JSON, as pulsar-admin and the REST API print statistics, and
metrics, as Prometheus or curl reads them at `/metrics/`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from pulsar_doctor.broker.samples import answers_in
from pulsar_doctor.broker.samples.files import called, located
from pulsar_doctor.broker.samples.plain import Plain
from pulsar_doctor.broker.scrapes import is_users, scrapes_in
from pulsar_doctor.checkup.kinds import Brought, TextKind
from pulsar_doctor.wording.printable import many

FIELD = re.compile(  # in JSON, perhaps quoted; as Java or YAML write it; in a table of a browser
    r"\b(?:msgRate(?:In|Out)|msgBacklog|availablePermits|unackedMessages)"
    r"(?:\\?[\"'’”]|&(?:quot|#34|#x22);)?\s{0,20}[:=\t]"
    r"|\"(?:subscriptions|cursors|markDeletePosition)\"\s{0,20}:"
)
LINE = re.compile(r"^[> \t]{0,8}pulsar_(?:subscription|topics?|consumers?|rate|storage)\w*\{", re.M)


def _answers(text: str, name: str) -> Brought:
    answers = answers_in(text.encode("utf-8", "surrogateescape"), name)
    with located(called(name)):
        samples = [each.of_users(is_users) for each in answers]
    return Brought(name, f"statistics of {_topics(samples)}", tuple(samples))


def _metrics(text: str, name: str) -> Brought:
    """One sample of each scrape."""
    samples = scrapes_in(text, name)
    what = f"metrics of {_topics(samples)}, {many(len(samples), 'scrape')}"
    return Brought(name, what, tuple(samples))


def _topics(samples: Sequence[Plain]) -> str:
    return many(len({topic for each in samples for topic in each.samples}), "topic")


KINDS = (  # the first is what a text of no kind is taken to be
    TextKind("statistics of a broker (`pulsar-admin topics stats`)", FIELD.search, _answers),
    TextKind("metrics of a broker (`curl http://BROKER:8080/metrics/`)", LINE.search, _metrics),
)
