"""Metrics of clients that expose any: Java's by OpenTelemetry, Go's by Prometheus.

They report what the client has handed on and what waits in its queue, not the subscription's
backlog. So they decide nothing: what they show is a note. Java's name the subscription and no
topic, Go's the topic and no subscription, unless somebody configured that.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from pulsar_doctor.broker.samples.files import called
from pulsar_doctor.broker.stats.metrics import LINE, labels_in, value_of
from pulsar_doctor.checkup.kinds import Brought, TextKind
from pulsar_doctor.checkup.result import REST
from pulsar_doctor.errors import InputError
from pulsar_doctor.wording.printable import many

MARK = re.compile(r"^[> \t]{0,8}pulsar_client_(?:consumer|messages)\w*\{", re.MULTILINE)
SHOWN = {
    "messages_received": "received by the client",  # Go
    "consumer_message_received_count_total": "received by the application",  # Java
    "consumer_message_ack_total": "acknowledged",
    "consumer_acks": "acknowledged",
    "consumer_message_nack_total": "negatively acknowledged",
    "consumer_nacks": "negatively acknowledged",
    "consumer_message_ack_timeout_total": "given back after the ack timeout",
    "consumer_receive_queue_count": "in the client's queue",
    "consumer_prefetched_messages": "in the client's queue",
}
SHOWN_MOST = 50
PLACE = "topic", "pulsar_topic", "pulsar_namespace"  # the first that is there
# By topic or namespace, and by subscription; what is counted; one number of each scrape.
ByPlace = dict[tuple[str, str], dict[str, list[float]]]


def _read(text: str, name: str) -> Brought:
    """A sentence for the consumers of each place. Raises InputError where no line can be read."""
    found: ByPlace = defaultdict(lambda: defaultdict(list))
    for metric, written, value in LINE.findall(text.encode("utf-8", "surrogateescape")):
        what = SHOWN.get(metric.decode().removeprefix("client_"))
        labels, counted = labels_in(written.decode("utf-8", "replace")), value_of(value)
        if what is not None and labels is not None and counted is not None:
            place = next((labels[each] for each in PLACE if each in labels), "")
            found[place, labels.get("pulsar_subscription", "")][what].append(counted)
    if not found:
        raise InputError(f"{called(name)} has metrics of a client, and no whole line of a consumer")
    sentences = [*_sentences(found)]
    notes = tuple((REST, f"{called(name)}: {each}") for each in sentences[:SHOWN_MOST])
    cut = text.rpartition("\n")[2].startswith("pulsar_") or len(sentences) > SHOWN_MOST
    why = (f"{called(name)} is cut off, or has more than {SHOWN_MOST} consumers",) if cut else ()
    what = f"metrics of a client with {many(len(sentences), 'consumer')}"
    return Brought(name, what, notes=notes, incomplete=why)


def _sentences(found: ByPlace) -> Iterator[str]:
    for (place, subscription), numbers in found.items():
        who = f"the consumers of {subscription}" if subscription else "the consumers"
        where = f" on {place}" if place else ""
        rows = ", ".join(f"{_grown(each)} {what}" for what, each in numbers.items())
        still = all(len(each) > 1 and each[0] == each[-1] for each in numbers.values())
        yield f"{who}{where}: {rows}{'; none of it has moved between the scrapes' * still}"


def _grown(numbers: Sequence[float]) -> str:
    first, last = numbers[0], numbers[-1]
    return f"{last:,.0f}" + (f" ({last - first:+,.0f})" if last != first else "")


KINDS = (TextKind("metrics of a client (`pulsar_client_*`)", MARK.search, _read),)
