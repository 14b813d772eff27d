"""What a broker reports of transactions: the slow ones, and how many are open.

Only the slow ones name topics. How many are open in a subscription is taken to be of the one that
the command in front of the answer names, or of the only one that the statistics have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from pulsar_doctor.broker.samples.files import called, located
from pulsar_doctor.broker.samples.plain import UNKNOWN
from pulsar_doctor.broker.stats.fields import Fields
from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.transactions import OpenTransactions, slow_of
from pulsar_doctor.checkup.kinds import Brought, TextKind
from pulsar_doctor.errors import InputError
from pulsar_doctor.evidence.dumps.answers import documents_in
from pulsar_doctor.wording.printable import many

FIELDS = frozenset({"ongoingTxnSize", "txnId", "pendingAckLogStats", "transactionLogStats"})
FIELD = re.compile(f'"(?:{"|".join(sorted(FIELDS))})"\\s{{0,20}}:')
BEGINS = re.compile(r"\{(?=\s{0,200}\")")
NAMED = re.compile(r"pending-ack-stats\b[^\n]{0,500}?\s(?:-s|--sub-name)[ =](\S{1,200})")


def _read(text: str, name: str) -> Brought:
    """The answers in it. Raises InputError where none can be read."""
    documents, cut = documents_in(text, BEGINS)
    with located(called(name)):
        found = [each for one in documents for each in _answers(Fields(one))]
        for each in found:  # what has a wrong type is an error of this file
            _ = [[*each.pending(topic, None)] for topic in each.topics]
    if not found:
        raise InputError(f"{called(name)} has no whole answer about transactions")
    counts = [each for each in found if each.acknowledging is not None]
    if len(names := NAMED.findall(text)) == len(counts):
        slow = [each for each in found if each.acknowledging is None]
        found = [*slow, *map(_named, counts, names)]
    what = f"answers about transactions: {many(sum(len(e.slow) for e in found), 'slow one')}"
    what += "".join(f", {e.acknowledging} open in a subscription" for e in counts)
    why = (f"{called(name)} is cut off within an answer about transactions",) if cut else ()
    return Brought(name, what, transactions=tuple(found), incomplete=why)


def _named(count: OpenTransactions, subscription: str) -> OpenTransactions:
    return replace(count, subscription=subscription)


def _answers(document: Fields) -> Iterator[OpenTransactions]:
    """What one document reports: of a list of transactions, of one, or of a subscription."""
    places = [
        document,
        *(document.inner(e) for e, one in document.document.items() if one and type(one) is dict),
    ]
    known = [each for each in places if each is not None and FIELDS & each.document.keys()]
    if known:
        yield OpenTransactions(tuple(each for each in known if "txnId" in each.document))
    if document in known and "maxReadPosition" not in document.document:
        yield OpenTransactions((), document.at_least_0("ongoingTxnSize"))


def joined(
    windows: Sequence[TopicWindow], answers: Sequence[OpenTransactions]
) -> Iterator[TopicWindow]:
    """The windows with what the answers report of their topics."""
    places = [each.subscription for window in windows for each in window.subscriptions()]
    only = places[0] if len(places) == 1 else None
    topics = set[str]().union(*(each.topics for each in answers))
    for window in windows:
        topic = window.full_topic
        if window.topic == UNKNOWN and len(topics) == 1:
            (topic,) = topics
        slow = {each for one in answers for e in one.slow for each in slow_of(topic, e)}
        acks = {each.subscription: each for one in answers for each in one.pending(topic, only)}
        opened = tuple(sorted(slow, key=lambda each: each.opened_ms))
        more = replace(window.transactions, slow=opened, pending_acks=tuple(acks.values()))
        yield replace(window, transactions=more) if slow or acks else window


KINDS = (
    TextKind(
        "transactions (`pulsar-admin transactions slow-transactions`, `pending-ack-stats`)",
        FIELD.search,
        _read,
    ),
)
