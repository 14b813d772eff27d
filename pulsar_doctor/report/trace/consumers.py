"""The consumers of a trace: what they were granted, and their verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from pulsar_doctor.ledger.balance import Ledger, Starvation
from pulsar_doctor.ledger.consumers import Consumer
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.report.documents import each_as, fields
from pulsar_doctor.report.tables import percent
from pulsar_doctor.report.trace.rows import iso, seconds
from pulsar_doctor.wording.printable import many, printable

SCHEMA = "pulsar-doctor/trace-summary/1"
SIZES_SHOWN_MOST = 8
UNKNOWN = "-"


def _source(ledger: Ledger) -> str | None:
    if ledger.given_receiver_queue_size is not None:
        return "told"
    return None if ledger.receiver_queue_size is None else "inferred"


REFUSAL = fields("reason count first client_addr client_version", **each_as(iso, "first=first_us"))
LEDGER = fields(  # a balance only where no commands are missing from it
    "receiver_queue_size receiver_queue_size_source refill_threshold flow_count flows messages"
    " redelivered taken acknowledged acknowledged_in_transactions=in_transactions ack_commands"
    " ack_ids ack_ids_most cumulative_acks cumulative_highest cumulative_forward_only"
    " permits_granted=granted permits_spent=spent available_permits parked_permits"
    " unsent_permits_min unacked_messages",
    receiver_queue_size_source=_source,
    cumulative_highest=lambda of: (
        "{}:{}".format(*of.cumulative_highest) if of.cumulative_acks else None
    ),
    cumulative_forward_only=lambda of: of.cumulative_back == 0 if of.cumulative_acks else None,
    available_permits=lambda of: None if of.uncertain else of.available_permits,
    unacked_messages=lambda of: None if of.uncertain else of.unacked,
)
CONSUMER = fields(
    "incarnation consumer_name topic subscription subscription_type client_version client_addr"
    " opened closed",
    **each_as(iso, "opened=opened_us closed=closed_us"),
)
WITHOUT_PERMITS = fields(
    "starved_us longest_starved_us without_permits_share=share",
    starved_us=lambda of: of.total_ns // 1000,
    longest_starved_us=lambda of: of.longest_ns // 1000,
)
BESIDE = fields(  # these times
    "starved_since ack_delay_max_us since_subscribe=is_whole certain",
    **each_as(iso, "starved_since=starved_since_us"),
    ack_delay_max_us=lambda of: of.ack_delay_most_ns // 1000 if of.acknowledged else None,
    certain=lambda of: not (of.uncertain or of.likely),
)


def summary_json(
    trace_id: str,
    timeline: Timeline,
    verdicts: Mapping[int, str],
    *,
    live: bool,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Every incarnation of all consumers. verdicts: incarnation -> verdict, null where none is.

    notes: of the trace, above all what is missing from it.
    """
    now_ns = timeline.now_ns
    return {
        "schema": SCHEMA,
        "trace_id": trace_id,
        "live": live,
        "rows": timeline.next_seq,
        "until": iso(timeline.now_us) if timeline.now_us else None,
        "consumers": [_consumer(c, now_ns, verdicts) for c in timeline.consumers],
        "refusals": [REFUSAL(one) for one in timeline.refusals.by_reason.values()],
        "notes": list(notes),
    }


def refusal_lines(timeline: Timeline) -> Iterator[str]:
    """Why clients did not get through, a line for each reason."""
    for one in timeline.refusals.by_reason.values():
        version = f" ({printable(one.client_version)})" if one.client_version else ""
        times = "once" if one.count == 1 else f"{one.count} times"
        who = f"first {one.client_addr or 'a client'}{version}"
        yield f"refused {times}, {who}: {printable(one.reason)}"


def _consumer(consumer: Consumer, now_ns: int, verdicts: Mapping[int, str]) -> dict[str, Any]:
    """The consumer, its ledger, its times without permits, and its verdict."""
    ledger, starvation = consumer.ledger, WITHOUT_PERMITS(_starvation(consumer, now_ns))
    verdict = {"verdict": verdicts.get(consumer.incarnation)}
    return CONSUMER(consumer) | LEDGER(ledger) | starvation | BESIDE(ledger) | verdict


def summary_table(timeline: Timeline, verdicts: Mapping[int, str]) -> Table:
    """The same for a terminal, a row for each incarnation."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, title_justify="left")
    for title in ("consumer", "topic, subscription", "queue", "FLOWs of"):
        table.add_column(title)
    table.add_column("messages, acked", justify="right", min_width=len("cumulative"))
    for title in ("granted, spent", "available", "unacked"):
        table.add_column(title, justify="right")
    table.add_column("without permits, longest", justify="right")
    table.add_column("ack delay, most", justify="right")
    table.add_column("verdict")
    for consumer in timeline.consumers:
        table.add_row(*map(Text, _cells(consumer, timeline.now_ns, verdicts)))
    return table


def summary_lines(timeline: Timeline, verdicts: Mapping[int, str]) -> Iterator[str]:
    """The same in a few short lines for each incarnation, for a narrow terminal."""
    for consumer in timeline.consumers:
        cells = [cell.split("\n") for cell in _cells(consumer, timeline.now_ns, verdicts)]
        (
            name,
            topic,
            queue,
            flows,
            messages,
            permits,
            available,
            unacked,
            starved,
            delay,
            verdict,
        ) = cells
        yield f"{' '.join(name)}  {', '.join(topic)}  {verdict[0]}"
        count = consumer.ledger.flow_count
        none = "no FLOW" if consumer.ledger.is_whole else "no FLOW seen"
        each = f"{many(count, 'FLOW')} of {flows[0]}" if count else none
        yield f"  queue {queue[0]}, {each}"
        yield f"  permits {permits[0]} granted, {permits[1]} spent, {available[0]} available"
        yield f"  messages {messages[0]}, {unacked[0]} unacked, ack delay at most {delay[0]}"
        yield f"  acknowledged {', '.join(messages[1:])}"
        yield f"  without permits {', longest '.join(starved)}"


def _cells(consumer: Consumer, now_ns: int, verdicts: Mapping[int, str]) -> tuple[str, ...]:
    ledger = consumer.ledger
    kind = printable(consumer.subscription_type or "?")
    topic = printable(consumer.topic.removeprefix("persistent://"))
    state = "closed" if consumer.closed_us else "attached"
    return (
        f"{printable(consumer.label)}\n#{consumer.incarnation} {state}",
        f"{topic}\n{printable(consumer.subscription)} ({kind})",
        _queue(consumer),
        sizes(ledger.flows, ledger.flow_count),
        "\n".join(
            (_seen(ledger, ledger.messages), _seen(ledger, ledger.acknowledged), *_acks(ledger))
        ),
        f"{_seen(ledger, ledger.granted)}\n{_seen(ledger, ledger.spent)}",
        _available(ledger),
        UNKNOWN if ledger.uncertain else str(ledger.unacked),
        _without_permits(_starvation(consumer, now_ns)),
        seconds(ledger.ack_delay_most_ns // 1000) if ledger.acknowledged else "-",
        verdicts.get(consumer.incarnation, "-"),
    )


def _seen(ledger: Ledger, count: int) -> str:
    """A number of all its life; of one without its beginning or a part, a lower bound."""
    if ledger.is_whole:
        return str(count)
    return f"≥{count}" if count else UNKNOWN


def _available(ledger: Ledger) -> str:
    if ledger.uncertain:
        return UNKNOWN
    return f"{'' if ledger.parked_permits is not None else '≤'}{ledger.available_permits}"


def sizes(flows: Iterable[int], flow_count: int) -> str:
    """Sizes of FLOWs, runs of the same size as one: `10, 5×6`."""
    runs = [(size, sum(1 for _ in run)) for size, run in groupby(flows)]
    shown = [str(size) if times == 1 else f"{size}×{times}" for size, times in runs]
    counted = sum(times for _, times in runs[:SIZES_SHOWN_MOST])
    if counted < flow_count:
        shown = [*shown[:SIZES_SHOWN_MOST], f"… {flow_count - counted} more"]
    return ", ".join(shown) or "none"


def _acks(ledger: Ledger) -> Iterator[str]:
    """How its client has put acks together; nothing where it sent none."""
    if ledger.ack_commands:
        yield f"in {many(ledger.ack_commands, 'ACK')}"
    if ledger.cumulative_acks:
        some = "" if ledger.cumulative_acks == ledger.ack_commands else f"{ledger.cumulative_acks} "
        yield f"{some}cumulative"
    if ledger.ack_ids_most > 1:
        yield f"≤{ledger.ack_ids_most} each"
    if ledger.cumulative_back:
        yield f"{ledger.cumulative_back} back"
    if ledger.in_transactions:
        yield f"{ledger.in_transactions} more if committed"


def _queue(consumer: Consumer) -> str:
    size = consumer.ledger.receiver_queue_size
    if size is None:
        return "0 or 1" if consumer.ledger.one_by_one else "?"
    inferred = consumer.ledger.given_receiver_queue_size is None
    return f"{size} inferred" if inferred else str(size)


def _starvation(consumer: Consumer, now_ns: int) -> Starvation:
    """The consumer's times without permits, the one that lasts included."""
    until_ns = now_ns if consumer.closed_ns is None else consumer.closed_ns
    return consumer.ledger.starvation(until_ns)


def _without_permits(starvation: Starvation) -> str:
    if not starvation.total_ns:
        return "-"
    total, longest = starvation.total_ns // 1000, starvation.longest_ns // 1000
    return f"{seconds(total)} ({percent(starvation.share)})\n{seconds(longest)}"
