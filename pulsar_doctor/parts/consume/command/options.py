"""The options of `consume`, grouped by subject."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from pulsar_doctor.cli import _completing
from pulsar_doctor.cli._options import (
    accept_unknown_option,
    argument,
    option,
    output_option,
    set_option,
    trace_option,
)
from pulsar_doctor.cli._types import DURATION, SHARE
from pulsar_doctor.parts.consume.engines import PULSAR_CLIENT, WIRE

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


def _choice(name: str, help: str, *choices: str, **more: Any) -> Any:
    return option(
        name, type=click.Choice(choices), default=choices[0], show_default=True, help=help, **more
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumeRequest:
    """One call, as it was typed: the consumers, what they do (see Behaviour), and the run."""

    # fmt: off
    topic: str | None = argument(required=False, shell_complete=_completing.topics)
    subscription: str | None = option(
        "-s", "--subscription", metavar="SUB",
        help="Use this subscription; it is created if missing, and stays. Default: a temporary "
            "one.",
    )
    take_messages: bool = option(
        "--take-messages", is_flag=True,
        help="Attach to SUB although it is in use, and consume its messages.",
    )
    create: bool = option("--create", is_flag=True, help="Create TOPIC if it does not exist.")
    type: Literal["exclusive", "shared", "failover", "key_shared"] = option(
        "--type", type=click.Choice(["exclusive", "shared", "failover", "key_shared"]),
        default="shared", show_default=True, help="Subscription type.",
    )
    consumers: int = option(
        "--consumers", metavar="K", type=click.IntRange(1, 1000), default=1, show_default=True,
        help="How many consumers to attach.",
    )
    zero_queue: bool = option(
        "--zero-queue", is_flag=True,
        help="A receiver queue of 0: request a message at each receive.",
    )
    queue_size: int | None = option(  # None: not given
        "--receiver-queue-size", metavar="N", type=click.IntRange(0, QUEUE_MOST),
        help="Default 1000.",
    )
    engine: Literal["pulsar-client", "wire"] = _choice(
        "--engine", "The library, or our own consumer on the wire, which has a zero queue on "
        "partitioned topics and with batches too.", PULSAR_CLIENT, WIRE,
    )
    permits: Literal["auto", "manual"] = _choice(
        "--permits", "Who grants permits; manual: numbers that you type, each a FLOW (--engine "
        "wire).", "auto", "manual",
    )
    process_seconds: float | None = option(
        "--process-time", type=DURATION, help="How long each message is worked on, such as 2s."
    )
    ack: Literal["individual", "cumulative", "none"] = _choice(
        "--ack", "How messages are acknowledged.", "individual", "cumulative", "none"
    )
    ack_every: int = option(
        "--ack-every", metavar="K", type=click.IntRange(min=1), default=1, show_default=True,
        help="Acknowledge every K-th message of a consumer: with individual the others stay "
        "unacknowledged, which makes holes; with cumulative they are covered.",
    )
    batch_index_acks: bool = option(
        "--batch-index-acks", is_flag=True, help="Acknowledge single messages of a batch."
    )
    nack_share: float = option(
        "--nack-rate", type=SHARE, default=0.0,
        help="This share is negatively acknowledged: 5% is every 20th message of a consumer.",
    )
    nack_delay_seconds: float = option(
        "--nack-delay", type=DURATION, default="1s", show_default=True, needs=("nack_share",),
        help="Redeliver them after this time; on exclusive and failover subscriptions everything "
            "unacknowledged is redelivered with them.",
    )
    receiver_delay_seconds: tuple[float, ...] = option(
        "--receiver-delay", type=DURATION, multiple=True,
        help="Deliver a message when it is this old; several values take turns by entry.",
    )
    delay_from: Literal["publish", "receipt"] = _choice(
        "--delay-from", "From when on its age is counted.", "publish", "receipt",
        needs=("receiver_delay_seconds",),
    )
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
