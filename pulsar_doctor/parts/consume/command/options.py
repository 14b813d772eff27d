"""The options of `consume`, grouped by subject."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from pulsar_doctor.cli._commands import DependentOption
from pulsar_doctor.cli._options import (
    accept_unknown_option,
    option,
    output_option,
    set_option,
    together,
    trace_option,
)
from pulsar_doctor.cli._types import DURATION, SHARE
from pulsar_doctor.parts.consume.planning import RunRequest

if TYPE_CHECKING:
    from pulsar_doctor.diagnosis.status import AcceptUnknown

ConsumeOutput = Literal["table", "json", "jsonl"]
OWN_MESSAGES = 20
# A broker takes permits up to 2**31 - 1 and closes the connection at more; pulsar-client reserves
# memory for all of its queue at once, and ends the process where there is none.
QUEUE_MOST = 10_000_000
SECTIONS = {
    "Consumers": (
        "subscription", "take_messages", "create", "type", "consumers", "zero_queue", "queue_size",
        "engine", "permits",
    ),
    "Behaviour and acknowledgements": (
        "process_seconds", "ack", "ack_every", "batch_index_acks", "nack_share",
        "nack_delay_seconds",
    ),
    "Deferred messages": ("receiver_delay_seconds", "delay_from"),
    "The run": (
        "count", "timeout", "trace_dir", "changes", "accept_unknown", "output"
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeRequest(RunRequest):
    """One call, as it was typed: the settings of the consumers, and of the run."""

    # fmt: off
    count: int | None = option(
        "-n", "--count", metavar="COUNT", type=click.IntRange(min=1),
        help=f"End after so many messages; without TOPIC {OWN_MESSAGES}.",
    )
    timeout: float | None = option(
        "--timeout", type=DURATION, help="End after this time at the latest."
    )
    trace_dir: Path | None = trace_option()
    changes: tuple[str, ...] = set_option()
    accept_unknown: AcceptUnknown | None = accept_unknown_option()
    output: ConsumeOutput = output_option("table", "json", "jsonl")
    # fmt: on


def _choice(name: str, help: str, *choices: str, **more: Any) -> Any:
    return click.option(
        name, type=click.Choice(choices), default=choices[0], show_default=True, help=help, **more
    )


consumer_options = together(
    click.option(
        "-s", "--subscription", metavar="SUB",
        help="Use this subscription; it is created if missing, and stays. Default: a temporary "
            "one.",
    ),
    click.option(
        "--take-messages", is_flag=True,
        help="Attach to SUB although it is in use, and consume its messages.",
    ),
    click.option("--create", is_flag=True, help="Create TOPIC if it does not exist."),
    click.option(
        "--type", type=click.Choice(["exclusive", "shared", "failover", "key_shared"]),
        default="shared", show_default=True, help="Subscription type.",
    ),
    click.option(
        "--consumers", metavar="K", type=click.IntRange(1, 1000), default=1, show_default=True,
        help="How many consumers to attach.",
    ),
    click.option("--zero-queue", is_flag=True, help="A receiver queue of 0: request a message at "
        "each receive."),
    click.option(
        "--receiver-queue-size", "queue_size", metavar="N", type=click.IntRange(0, QUEUE_MOST),
        help="Default 1000.",
    ),
    _choice(
        "--engine", "The library, or our own consumer on the wire, which has a zero queue on "
        "partitioned topics and with batches too.", "pulsar-client", "wire",
    ),
    _choice(
        "--permits", "Who grants permits; manual: numbers that you type, each a FLOW (--engine "
        "wire).", "auto", "manual",
    ),
)  # fmt: skip
work_options = together(
    click.option(
        "--process-time", "process_seconds", type=DURATION,
        help="How long each message is worked on, such as 2s.",
    ),
    _choice("--ack", "How messages are acknowledged.", "individual", "cumulative", "none"),
    click.option(
        "--ack-every", metavar="K", type=click.IntRange(min=1), default=1, show_default=True,
        help="Acknowledge every K-th message of a consumer: with individual the others stay "
        "unacknowledged, which makes holes; with cumulative they are covered.",
    ),
    click.option(
        "--batch-index-acks", is_flag=True, help="Acknowledge single messages of a batch."
    ),
    click.option(
        "--nack-rate", "nack_share", type=SHARE, default=0.0,
        help="This share is negatively acknowledged: 5% is every 20th message of a consumer.",
    ),
    click.option(
        "--nack-delay", "nack_delay_seconds", type=DURATION, default="1s", show_default=True,
        cls=DependentOption, needs=("nack_share",),
        help="Redeliver them after this time; on exclusive and failover subscriptions everything "
            "unacknowledged is redelivered with them.",
    ),
)  # fmt: skip
delay_options = together(
    click.option(
        "--receiver-delay", "receiver_delay_seconds", type=DURATION, multiple=True,
        help="Deliver a message when it is this old; several values take turns by entry.",
    ),
    _choice(
        "--delay-from", "From when on its age is counted.", "publish", "receipt",
        cls=DependentOption, needs=("receiver_delay_seconds",),
    ),
)  # fmt: skip
