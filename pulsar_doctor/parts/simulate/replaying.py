"""Takes arrivals and processing times of a trace as a scenario.

An entry arrives when it was published, or when its deliver_at came; never later than it was
delivered. A trace has what was delivered: a backlog that never was is not known. Each message takes
the time that it took, whoever gets it; what nobody has worked on takes what is usual for its
consumer. Consumers attach when they did and stay to the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any, NamedTuple

from pulsar_doctor.ledger.clients import SIMULATED, ClientLibrary, clients_of
from pulsar_doctor.model.scenario import Given, ProducedEntry, Scenario, Work
from pulsar_doctor.parts.simulate.timing import Position, TimedConsumer, Times, times_of, usual_ns
from pulsar_doctor.wire.columns import TAKEN, TO_BROKER, Row, ids_of
from pulsar_doctor.wording.printable import listed

DEFAULT_QUEUE = 1000
NAMED_MOST = 5  # subscriptions, in an error
COLUMNS = (
    "topic", "subscription", "subscription_type", "incarnation", "consumer_name", "client_version",
    "command", "direction", "ts", "mono_ns", "ledger_id", "entry_id", "messages", "permits",
    "publish_time", "deliver_at", "ack_type", "ack_set", "message_ids",
)  # fmt: skip
DEFAULT_CLIENT = "pulsar-client"

SubscriptionKey = tuple[str, str]  # topic with its partition, subscription


class FirstDelivery(NamedTuple):
    """The first delivery of an entry."""

    at_ns: int
    messages: int
    published_us: int | None  # wall clock; None: not known
    earliest_us: int | None  # wall clock; None: not known


@dataclass(slots=True)
class Seen:
    """One subscription of a trace."""

    topic: str
    subscription: str
    type: str = "shared"
    began_us: int = 0
    began_ns: int = 0
    end_ns: int = 0
    redelivered: int = 0
    sent: dict[Position, FirstDelivery] = field(default_factory=dict)
    workers: dict[str, TimedConsumer] = field(default_factory=dict)  # by name, else incarnation

    @property
    def messages(self) -> int:
        """How many were delivered."""
        return sum(sent.messages for sent in self.sent.values())


def seen(
    rows: Iterable[Row], given: Mapping[str, Mapping[str, Any]]
) -> dict[SubscriptionKey, Seen]:
    """The subscriptions of a trace. given: as in the trace's meta, by consumer name."""
    found: dict[SubscriptionKey, Seen] = {}
    for row in rows:
        if row.topic and row.subscription and row.incarnation is not None:
            key = (row.topic, row.subscription)
            of = found.get(key)
            if of is None:
                of = found[key] = Seen(*key, began_us=row.ts, began_ns=row.mono_ns)
            of.end_ns = row.mono_ns
            name = row.consumer_name or f"#{row.incarnation}"
            worker = of.workers.get(name)
            if worker is None:
                worker = of.workers[name] = _worker(name, row, given.get(name, {}))
                of.type = (row.subscription_type or of.type).lower()
            step = STEPS.get(row.command)
            if step is not None:
                step(of, worker, row)
    return found


def chosen(
    found: Mapping[SubscriptionKey, Seen], topic: str | None, subscription: str | None
) -> Seen:
    """The one of these names that was sent messages. topic: its last part is enough.

    Raises ValueError where there is none, or more than one.
    """
    fits = [
        each
        for each in found.values()
        if each.sent
        and subscription in (None, each.subscription)
        and (topic in (None, each.topic) or each.topic.endswith(f"/{topic}"))
    ]
    if len(fits) == 1:
        return fits[0]
    if not fits:
        raise ValueError("has no such subscription that was sent a message")
    names = listed([f"{each.subscription} on {each.topic}" for each in fits], NAMED_MOST, ", ")
    raise ValueError(f"has {names}: choose with -s and --topic")


def replay(of: Seen, process_seconds: float | None = None) -> Given:
    """The scenario of the trace. process_seconds: of messages of which nothing is known, instead of
    the usual.

    Raises ValueError where no processing time is known at all.
    """
    workers = list(of.workers.values())
    times = [times_of(worker, of.end_ns) for worker in workers]
    entries = list(_entries(of))
    first_of = {entry_id: entry.first for entry_id, entry in entries}
    usual, assumed = _usual(workers, times, process_seconds)
    known = _known(first_of, times, usual)
    scenario = Scenario(
        entries=[entry for _, entry in entries],
        work=Work(tuple(usual), known),
        client=_client(workers),
        type=of.type,
        attach_ns=tuple(worker.attached_ns - of.began_ns for worker in workers),
        names=tuple(of.workers),
    )
    return Given(scenario, _queue(workers), tuple(_notes(of, times, known, assumed)))


def _worker(name: str, row: Row, given: Mapping[str, Any]) -> TimedConsumer:
    return TimedConsumer(
        name,
        row.mono_ns,
        given.get("receiver_queue_size"),
        given.get("process_seconds"),
        row.client_version,
    )


def _flow(of: Seen, worker: TimedConsumer, row: Row) -> None:
    if worker.receiver_queue_size is None:
        worker.receiver_queue_size = row.permits


def _message(of: Seen, worker: TimedConsumer, row: Row) -> None:
    position = (row.ledger_id or 0, row.entry_id or 0)
    if position in of.sent:
        of.redelivered += 1
        return
    messages = row.messages or 1
    of.sent[position] = FirstDelivery(row.mono_ns, messages, row.publish_time, row.deliver_at)
    worker.delivered[position] = row.mono_ns, messages


def _taken(of: Seen, worker: TimedConsumer, row: Row) -> None:
    worker.taken.append(((row.ledger_id or 0, row.entry_id or 0), row.mono_ns))


def _ack(of: Seen, worker: TimedConsumer, row: Row) -> None:
    if row.direction != TO_BROKER:
        return
    ids = ids_of(row)
    if row.ack_type == "cumulative" and ids:
        until = (ids[-1].ledger_id, ids[-1].entry_id)
        for position in worker.delivered:
            if position <= until:
                worker.acked.setdefault(position, row.mono_ns)
    for ledger_id, entry_id, open_bits in ids:
        if open_bits is None or not any(open_bits):
            worker.acked.setdefault((ledger_id, entry_id), row.mono_ns)


STEPS = {"FLOW": _flow, "MESSAGE": _message, TAKEN: _taken, "ACK": _ack}


def _entries(of: Seen) -> Iterator[tuple[Position, ProducedEntry]]:
    """In the order of arrival, numbered."""
    arrived: list[tuple[int, Position, int, int]] = []
    for position, sent in of.sent.items():
        latest = sent.at_ns - of.began_ns
        published = _since(of, sent.published_us, latest)
        arrives = max(published, _since(of, sent.earliest_us, published))
        at_ns = min(max(0, arrives), latest)
        arrived.append((at_ns, position, min(published, latest), sent.messages))
    first = 0
    for number, (at_ns, position, published_ns, messages) in enumerate(sorted(arrived)):
        yield position, ProducedEntry(number, published_ns, at_ns, first, messages, number)
        first += messages


def _since(of: Seen, us: int | None, otherwise: int) -> int:
    return otherwise if us is None else (us - of.began_us) * 1000


def _usual(
    workers: list[TimedConsumer], times: list[Times], process_seconds: float | None
) -> tuple[list[int], list[str]]:
    """What each consumer needs for a message without a time of its own; and who is unknown."""
    if process_seconds is not None:
        return [round(process_seconds * 1e9)] * len(workers), []
    own = [usual_ns(worker, each) for worker, each in zip(workers, times, strict=True)]
    known = [ns for ns in own if ns is not None]
    if not known:
        raise ValueError("does not tell how long any message takes: give --process-time")
    other = round(median(known))
    assumed = [worker.name for worker, ns in zip(workers, own, strict=True) if ns is None]
    return [other if ns is None else ns for ns in own], assumed


def _known(
    first_of: Mapping[Position, int], times: list[Times], usual: list[int]
) -> dict[int, int]:
    """By the message's number. What was in hand at the end takes what is usual, or longer."""
    known: dict[int, int] = {}
    for each, usual_of in zip(times, usual, strict=True):
        for (position, index), ns in each.known.items():
            if position in first_of:
                known[first_of[position] + index] = ns
        for (position, index), ns in each.at_least.items():
            if position in first_of:
                known[first_of[position] + index] = max(ns, usual_of)
    return known


def _client(workers: list[TimedConsumer]) -> ClientLibrary:
    version = next((w.client_version for w in workers if w.client_version), None)
    known = (each for each in clients_of(version) if each.simulated)
    return next(known, SIMULATED[DEFAULT_CLIENT])


def _queue(workers: list[TimedConsumer]) -> int:
    sizes = [w.receiver_queue_size for w in workers if w.receiver_queue_size is not None]
    return max(sizes, key=sizes.count) if sizes else DEFAULT_QUEUE


def _notes(
    of: Seen, times: list[Times], known: Mapping[int, int], assumed: list[str]
) -> Iterator[str]:
    how = "takes" if any(each.by_takes for each in times) else "acknowledgements"
    yield (
        f"the trace shows by {how} how long {len(known):,} of {of.messages:,} delivered messages "
        "took; the others are given the usual time of their consumer"
    )
    grouped = sum(each.grouped for each in times)
    if grouped:
        yield (
            f"{grouped:,} entries were acknowledged several at a time: the time is divided evenly "
            "between them, because the trace does not show it for each"
        )
    if assumed:
        yield (
            f"the trace does not show how long {', '.join(assumed)} needs: the time of the others "
            "is used; --process-time sets it"
        )
    if of.redelivered:
        yield f"redeliveries are left out: {of.redelivered:,}"
