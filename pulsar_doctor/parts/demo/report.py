"""The text of the demo, for somebody who has never heard of permits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.ledger.consumers import Consumer
from pulsar_doctor.parts.consume.report.live import LiveLines
from pulsar_doctor.report.paper import console_on
from pulsar_doctor.report.stall_check.verdict import print_diagnoses
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.gate import stdout

INDENT = "  "
LINES_MOST = 6  # of the wire, in one scene; what is left out is named

_lines = 0


def _print(*what: Any, **how: Any) -> None:
    console_on(stdout()).print(*what, **how)


def _scene(text: str) -> None:
    global _lines  # noqa: PLW0603
    _lines = 0
    _print()
    _print(text)


def opening() -> None:
    """What is going to happen."""
    _print(
        "[bold]Two workers, one queue of work, and a thousand messages that do not move.[/bold]\n"
        "Pulsar pushes messages to a consumer, as many as the consumer has asked for: its "
        "[bold]permits[/bold]. The client asks with a FLOW command, and asks again only when the "
        "application has taken half of what fits into its receiver queue. Usual size of that "
        "queue: 1000."
    )


def attaches_slow(plan: Any) -> None:
    """The slow worker comes first."""
    size = plan.receiver_queue_size
    _scene(
        f"[bold]A slow worker[/bold] attaches with a receiver queue of {size}. It needs "
        f"{duration(plan.process_seconds)} for a message (the demo does not wait for it). 1,000 "
        "messages arrive."
    )


def attaches_fast(plan: Any) -> None:
    """The fast worker comes second."""
    _scene(
        f"[bold]A fast worker[/bold] joins, with a receiver queue of {plan.receiver_queue_size}. "
        "It needs no time at all."
    )


def wire() -> LiveLines:
    """What is on the wire, in lines that fit."""
    return LiveLines(_line, console_on(stdout()).width - len(INDENT))


def _line(line: str) -> None:
    global _lines  # noqa: PLW0603
    _lines += 1
    if _lines <= LINES_MOST:
        _print(f"{INDENT}[dim]{line}[/dim]", soft_wrap=True)
    elif _lines == LINES_MOST + 1:
        _print(f"{INDENT}[dim]... and so on[/dim]")


def verdict(diagnosis: Diagnosis) -> None:
    """What stall-check says."""
    _scene("[bold]The verdict:[/bold]")
    print_diagnoses([diagnosis])


def remedy() -> None:
    """The change that helps."""
    _scene(
        "[bold]Once more, with one thing changed: a zero queue.[/bold] The client now asks for a "
        "message only when its worker is ready for one, and nothing waits behind the slow one."
    )


def side_by_side(
    stalled: tuple[Consumer, Consumer], healed: tuple[Consumer, Consumer], messages: int
) -> None:
    """Both plays in one table."""
    _scene("[bold]Side by side[/bold]")
    table = Table()
    table.add_column("")
    table.add_column("receiver queue 1000", justify="right")
    table.add_column("zero queue", justify="right")
    for consumer, other in zip(stalled, healed, strict=True):
        name = consumer.label
        table.add_row(f"{name}: FLOWs", _flows(consumer), _flows(other))
        table.add_row(f"{name}: given", f"{consumer.ledger.messages}", f"{other.ledger.messages}")
        table.add_row(
            f"{name}: finished", f"{consumer.ledger.acknowledged}", f"{other.ledger.acknowledged}"
        )
    table.add_row("waiting in the slow worker's queue", _waiting(stalled[0]), _waiting(healed[0]))
    table.add_row("taken by nobody", _left(stalled, messages), _left(healed, messages))
    _print(table)
    held = duration(stalled[0].ledger.unacked * (stalled[0].ledger.given_process_seconds or 0))
    _print(
        f"With a queue of 1000 all messages wait for the slow worker: {held} of work, while its "
        "neighbour has nothing to do and nothing is logged. With a zero queue one message waits."
    )


def _flows(consumer: Consumer) -> str:
    sizes = consumer.ledger.flows
    if sizes and all(size == sizes[0] for size in sizes):
        return f"{consumer.ledger.flow_count} of {sizes[0]}"
    return ", ".join(str(size) for size in sizes)


def _waiting(consumer: Consumer) -> str:
    return str(consumer.ledger.queued_min)


def _left(consumers: Sequence[Consumer], messages: int) -> str:
    return str(messages - sum(consumer.ledger.taken or 0 for consumer in consumers))


def closing(wrong: Sequence[str]) -> None:
    """Whether the story held."""
    _print()
    for point in wrong:
        _print(f"[red]This run did not show that[/red] {point}.")
    if not wrong:
        _print(
            "Ask about your own topic:  pulsar-doctor stall-check TOPIC\n"
            "Tap any client's wire:     pulsar-doctor tap --help"
        )
