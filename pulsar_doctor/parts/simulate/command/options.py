"""The options of `simulate`: arriving messages, processing times, consumers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from pulsar_doctor.cli._commands import first_typed
from pulsar_doctor.cli._options import only_subscription_option, option, output_option
from pulsar_doctor.cli._types import DURATION, RATE
from pulsar_doctor.ledger.clients import SIMULATED

RATE_SECONDS = 60.0  # of arrivals, where nobody says how long
MESSAGES_MOST = 1_000_000


SECTIONS = {
    "Messages": (
        "rate", "backlog", "messages", "duration", "process_times",
    ),
    "Consumers": (
        "queues", "consumers", "type_", "client", "round_trip",
    ),
    "From a trace": ("trace_dir", "topic", "subscription"),
    "The run": ("output",),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateRequest:
    """One call, as it was typed; times in seconds, rate per second. None: not given."""

    # fmt: off
    rate: float | None = option("--rate", type=RATE, help="Messages that arrive, such as 100/s.")
    backlog: int | None = option(
        "--backlog", metavar="N", type=click.IntRange(1), help="Messages at the start."
    )
    messages: int | None = option(
        "-n", "--messages", metavar="N", type=click.IntRange(1, MESSAGES_MOST),
        help="How many in all; ends when they are done.",
    )
    duration: float | None = option(
        "--duration", type=DURATION, help="Stop after this time; with --rate after 1m."
    )
    process_times: tuple[float, ...] = option(
        "--process-time", type=DURATION, multiple=True,
        help="Work for each message, default 10ms; repeated, of each consumer, the last of the "
        "rest.",
    )
    queues: tuple[int, ...] = option(
        "--receiver-queue-size", metavar="N", type=click.IntRange(0, 100_000),
        multiple=True,
        help="Default 1000, or that of the trace, beside others; repeated, only these are "
        "compared.",
    )
    consumers: int | None = option(
        "--consumers", metavar="K", type=click.IntRange(1, 1000), help="Default 1."
    )
    type_: Literal["exclusive", "shared", "failover", "key_shared"] | None = option(
        "--type", type=click.Choice(["exclusive", "shared", "failover", "key_shared"]),
        help="Subscription type, default shared.",
    )
    client: str | None = option(
        "--client", type=click.Choice([*SIMULATED]),
        help="The client library to simulate; default pulsar-client, or that of the trace.",
    )
    round_trip: float = option(
        "--round-trip", type=DURATION, default="1ms", show_default=True,
        help="Time from a FLOW to its first message.",
    )
    trace_dir: Path | None = option(
        "--from-trace", metavar="DIR", type=click.Path(path_type=Path),
        help="Arrivals and times of a trace instead.",
    )
    topic: str | None = option(
        "--topic", needs=("trace_dir",),
        help="With --from-trace: only this topic; its last part is enough.",
    )
    subscription: str | None = only_subscription_option(
        needs=("trace_dir",), help="With --from-trace: only this one."
    )
    output: Literal["table", "json"] = output_option("table", "json")
    # fmt: on

    @property
    def messages_in_all(self) -> int:
        """The number of messages requested, or as many as arrive in the time."""
        backlog = self.backlog or 0
        if self.messages is not None:
            return max(self.messages, backlog)
        seconds = self.duration or (RATE_SECONDS if self.rate else 0)
        return backlog + max(int((self.rate or 0) * seconds), 0 if backlog else 1)


def refuse_contradictions(request: SimulateRequest) -> None:
    """Raises UsageError where the options do not go together."""
    if request.trace_dir is not None:
        if which := first_typed("rate", "backlog", "messages", "consumers", "type_"):
            raise click.UsageError(f"{which} and --from-trace exclude each other")
        return
    if request.rate is None and request.backlog is None:
        raise click.UsageError(
            "give what arrives: --rate 100/s, --backlog 1000 or --from-trace DIR"
        )
    if request.type_ == "exclusive" and (request.consumers or 1) > 1:
        raise click.UsageError("an exclusive subscription takes one consumer; see --type")
    if request.rate is None and (request.messages or 0) > (request.backlog or 0):
        raise click.UsageError("messages that are not in the --backlog need a --rate")
    if request.messages_in_all > MESSAGES_MOST:
        raise click.UsageError(
            f"{request.messages_in_all:,} messages are more than {MESSAGES_MOST:,}: give a smaller "
            "--messages, --duration or --rate"
        )
