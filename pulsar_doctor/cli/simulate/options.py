"""The options of `simulate`: what arrives, how it is worked on, and by whom."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from pulsar_doctor.cli._options import DURATION, RATE, together

CLIENTS = ["java", "pulsar-client", "pulsar-client-listener", "go", "wire"]
RATE_SECONDS = 60.0  # of arrivals, where nobody says how long
MESSAGES_MOST = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulateRequest:
    """One call, as it was typed; times in seconds, rate per second. None: not told."""

    rate: float | None
    backlog: int | None
    messages: int | None
    duration: float | None
    process_times: tuple[float, ...]
    spread: float | Literal["exponential"] | None
    slow_every: int | None
    slow_time: float | None
    queues: tuple[int, ...]
    consumers: int | None
    attach_every: float
    delays: tuple[float, ...]
    delay_from: Literal["publish", "receipt"]
    batch_size: int | None
    type_: Literal["exclusive", "shared", "failover", "key_shared"] | None
    keys: int | None
    client: str | None
    round_trip: float
    seed: int
    trace_dir: Path | None
    topic: str | None
    subscription: str | None
    output: Literal["table", "json"]

    @property
    def messages_in_all(self) -> int:
        """As many as asked for, or as arrive in the time."""
        backlog = self.backlog or 0
        if self.messages is not None:
            return max(self.messages, backlog)
        seconds = self.duration or (RATE_SECONDS if self.rate else 0)
        return backlog + max(int((self.rate or 0) * seconds), 0 if backlog else 1)


class Spread(click.ParamType):  # type: ignore[type-arg]
    """How much the time for a message varies: 20% around its mean, or exponential."""

    name = "spread"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float | str:
        """A share of the mean, or that word."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)%", str(value))
        if match and float(match[1]) <= 100:
            return float(match[1]) / 100
        if value != "exponential":
            self.fail(f"{value!r} is no spread; write 20% or exponential", param, ctx)
        return "exponential"


simulate_options = together(
    click.option("--rate", type=RATE, help="Messages that arrive, such as 100/s."),
    click.option("--backlog", metavar="N", type=click.IntRange(1), help="Messages at the start."),
    click.option(
        "-n", "--messages", metavar="N", type=click.IntRange(1, MESSAGES_MOST),
        help="How many in all; ends when they are done.",
    ),
    click.option("--duration", type=DURATION, help="Stop after this time; with --rate after 1m."),
    click.option(
        "--process-time", "process_times", type=DURATION, multiple=True,
        help="Work for each message, default 10ms; repeated, of each consumer, the last of the "
        "rest.",
    ),
    click.option("--spread", type=Spread(), help="How much that varies: 20% or exponential."),
    click.option(
        "--slow-every", metavar="K", type=click.IntRange(1),
        help="Every K-th message takes --slow-time.",
    ),
    click.option("--slow-time", type=DURATION, help="How long such a message takes."),
    click.option(
        "--receiver-queue-size", "queues", metavar="N", type=click.IntRange(0, 100_000),
        multiple=True,
        help="Default 1000, or that of the trace, beside others; repeated, only these are "
        "compared.",
    ),
    click.option("--consumers", metavar="K", type=click.IntRange(1, 1000), help="Default 1."),
    click.option("--attach-every", type=DURATION, default="0", help="They subscribe so far apart."),
    click.option(
        "--receiver-delay", "delays", type=DURATION, multiple=True,
        help="Hand a message out when it is so old; several take turns by entry.",
    ),
    click.option(
        "--delay-from", type=click.Choice(["publish", "receipt"]), default="publish",
        show_default=True, help="From when on its age counts.",
    ),
    click.option(
        "--batch-size", metavar="N", type=click.IntRange(1, 10_000),
        help="Messages of an entry, default 1.",
    ),
    click.option(
        "--type", "type_", type=click.Choice(["exclusive", "shared", "failover", "key_shared"]),
        help="Subscription type, default shared.",
    ),
    click.option(
        "--keys", metavar="N", type=click.IntRange(1), help="For key_shared, default 1000."
    ),
    click.option(
        "--client", type=click.Choice(CLIENTS),
        help="Whose way to count permits, default pulsar-client, or that of the trace.",
    ),
    click.option(
        "--round-trip", type=DURATION, default="1ms", show_default=True,
        help="From a FLOW to the message that it brings.",
    ),
    click.option(
        "--seed", type=int, default=1, show_default=True, help="Of what is left to chance."
    ),
    click.option(
        "--from-trace", "trace_dir", metavar="DIR", type=click.Path(path_type=Path),
        help="Arrivals and times of a trace instead.",
    ),
    click.option("--topic", help="With --from-trace: only this topic; its last part is enough."),
    click.option("-s", "--subscription", metavar="SUB", help="With --from-trace: only this one."),
)  # fmt: skip


def refuse_contradictions(asked: SimulateRequest) -> None:
    """Raises UsageError where the options do not go together."""
    if (asked.slow_every is None) != (asked.slow_time is None):
        raise click.UsageError("--slow-every and --slow-time go together")
    if asked.trace_dir is not None:
        _refuse_numbers(asked)
        return
    for option, name in (("--topic", asked.topic), ("--subscription", asked.subscription)):
        if name is not None:
            raise click.UsageError(f"{option} goes with --from-trace")
    if asked.rate is None and asked.backlog is None:
        raise click.UsageError("say what arrives: --rate 100/s, --backlog 1000 or --from-trace DIR")
    if asked.type_ == "exclusive" and (asked.consumers or 1) > 1:
        raise click.UsageError("an exclusive subscription takes one consumer; see --type")
    if asked.rate is None and (asked.messages or 0) > (asked.backlog or 0):
        raise click.UsageError("messages that are not in the --backlog need a --rate")
    if asked.messages_in_all > MESSAGES_MOST:
        raise click.UsageError(
            f"{asked.messages_in_all:,} messages are more than {MESSAGES_MOST:,}: give a smaller "
            "--messages, --duration or --rate"
        )


def _refuse_numbers(asked: SimulateRequest) -> None:
    numbers = {
        "--rate": asked.rate,
        "--backlog": asked.backlog,
        "--messages": asked.messages,
        "--slow-every": asked.slow_every,
        "--spread": asked.spread,
        "--consumers": asked.consumers,
        "--type": asked.type_,
        "--batch-size": asked.batch_size,
    }
    for option, value in numbers.items():
        if value is not None:
            raise click.UsageError(f"{option} and --from-trace exclude each other")
