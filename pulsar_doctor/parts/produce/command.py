"""`pulsar-doctor produce`: sends test messages to a topic, at a chosen rate."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pulsar_doctor.cli import _completing
from pulsar_doctor.cli._calls import end_as_with_ctrl_c, is_given, say, settings
from pulsar_doctor.cli._commands import Sections
from pulsar_doctor.cli._options import argument, connection_options, option, output_option, taking
from pulsar_doctor.cli._types import DURATION, RATE, SIZE
from pulsar_doctor.errors import DoctorError, InputError, needing
from pulsar_doctor.wording.addresses import bare
from pulsar_doctor.wording.durations import duration
from pulsar_doctor.wording.gate import tell_json, warn
from pulsar_doctor.wording.printable import many, printable

if TYPE_CHECKING:
    from pulsar_doctor.broker.settings import Settings
    from pulsar_doctor.parts.consume.producing import Sending, SentSoFar

GROUP = "experiment"
PAYLOAD_MOST = 5 << 20  # what a broker takes
EPILOG = """\b
Examples:
  pulsar-doctor produce orders -n 1000 --rate 100/s
  pulsar-doctor produce orders -n 200 -s billing
  pulsar-doctor produce orders --existing -n 50 --size 10KB
  pulsar-doctor produce orders -n 1000 --keys 20 --batch 50
  pulsar-doctor produce orders -n 10 --delay 30s -o json

Exit codes: 0 the broker has all messages; 2 wrong usage, or the topic exists and --existing is not
given; 3 a message failed, or the broker could not be reached; 130 interrupted.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProduceRequest:
    """One call, as it was typed. None: not given."""

    # fmt: off
    topic: str = argument(shell_complete=_completing.topics)
    count: int = option(
        "-n",
        "--count",
        metavar="COUNT",
        type=click.IntRange(min=1),
        default=1000,
        show_default=True,
        help="How many messages.",
    )
    rate: float | None = option(  # per second
        "--rate", type=RATE, help="Such as 100/s or 30/m; else as fast as possible."
    )
    keys: int = option(
        "--keys",
        metavar="K",
        type=click.IntRange(min=0),
        default=0,
        show_default=True,
        help="How many different keys the messages have, in turn; 0: no key.",
    )
    size: int = option(
        "--size", type=SIZE, default="100", show_default=True, help="Size of each payload, which "
            "is plain filler."
    )
    batch: int = option(
        "--batch",
        metavar="N",
        type=click.IntRange(min=1),
        default=1,
        show_default=True,
        help="Messages in a batch; all of them have the same key.",
    )
    delay: float = option(
        "--delay",
        type=DURATION,
        default="0",
        show_default=True,
        help="Deliver each message after this time; on shared subscriptions only.",
    )
    subscription: str | None = option(
        "-s",
        "--subscription",
        metavar="SUB",
        help="Create this subscription on the new topic first, so that it keeps all messages.",
    )
    existing: bool = option(
        "--existing", is_flag=True, help="TOPIC may exist; its consumers then get the messages."
    )
    output: str = output_option("table", "json")
    # fmt: on


@click.command(cls=Sections, epilog=EPILOG)
@taking(ProduceRequest)
@connection_options
def command(request: ProduceRequest) -> int:
    """Sends test messages to a topic.

    TOPIC is created; a topic that exists is refused without --existing. The REST API (--admin-url)
    shows whether it exists. A new topic stays, and the command that removes it is printed. A broker
    deletes messages that no subscription waits for: create one with -s SUB, or attach the consumer
    first.

    Ctrl-C ends at once, and says how many messages the broker has.
    """  # fmt: skip
    end_as_with_ctrl_c()
    _check(request)
    where = settings()
    with needing("consume", "sending messages"):
        from pulsar_doctor.parts.consume import producing
        from pulsar_doctor.parts.tap.upstream import require_reachable
    if where.sandbox:
        where = _sandbox(where)
    require_reachable(where.service_url, where)
    made = producing.visit(where, request.topic, existing=request.existing)
    if request.subscription is not None:
        producing.subscribe(where, request.topic, request.subscription)
    sending = producing.Sending(
        request.count, request.rate, request.keys, request.size, request.batch, request.delay
    )
    sent, began = producing.SentSoFar(), time.monotonic()
    try:
        _send(where, request, sending, sent)
    finally:
        _show(where, request, sent, time.monotonic() - began)
        if made is not None and (sent.acknowledged or producing.is_there(where, made.topic)):
            warn(made.sentence)
    return 0


def _check(request: ProduceRequest) -> None:
    if request.delay and request.batch > 1:
        raise InputError("clients send delayed messages one by one: leave --batch or --delay out")
    if request.subscription is not None and request.existing:
        raise InputError("-s creates a subscription on a new topic: leave -s or --existing out")
    if request.size > PAYLOAD_MOST:
        raise InputError("--size: a broker takes no message of more than 5 MiB")


def _sandbox(where: Settings) -> Settings:
    """The sandbox that stays: what is sent to another one would go with it."""
    from dataclasses import replace

    from pulsar_doctor.parts.sandbox.lifetime import status

    found = status()
    if found is None:
        raise DoctorError("no sandbox runs: `pulsar-doctor sandbox start` starts one that stays")
    return replace(where, service_url=found.service_url, admin_url=found.admin_url)


def _send(where: Settings, request: ProduceRequest, sending: Sending, sent: SentSoFar) -> None:
    from pulsar_doctor.parts.consume import attach, producing
    from pulsar_doctor.report.progress import ProgressBar

    bar = ProgressBar(quiet=is_given("quiet"))
    try:
        with (
            tempfile.TemporaryDirectory(prefix="pulsar-doctor-") as own,
            attach.connected(where.service_url, where, Path(own) / "log") as client,
        ):
            producing.send(
                client,
                request.topic,
                sending,
                sent,
                lambda done: bar(done, request.count, "messages"),
            )
    except KeyboardInterrupt:
        unknown = f"; the broker has not answered for {sent.in_flight} of them"
        text = f"interrupted after {sent.given} of {many(request.count, 'message')}"
        say(text + (unknown if sent.in_flight else ""))
        raise
    finally:
        bar.stop()


def _show(where: Settings, request: ProduceRequest, sent: SentSoFar, seconds: float) -> None:
    if request.output == "json":
        tell_json(_document(request, sent, seconds), indent=2)
        return
    from pulsar_doctor.report.paper import print_page

    what = [f"{request.size} bytes each"]
    what += [f"with {many(request.keys, 'key')}"] if request.keys else []
    what += [f"in batches of {request.batch}"] if request.batch > 1 else []
    what += [f"to be delivered after {duration(request.delay)}"] if request.delay else []
    pace = f", {sent.acknowledged / seconds:.0f}/s" if seconds else ""
    print_page(
        f"{sent.acknowledged} of {many(request.count, 'message')} acknowledged by the broker: "
        f"{printable(request.topic)}, {', '.join(what)}; {duration(seconds)}{pace}, "
        f"at {bare(where.service_url)}"
    )


def _document(request: ProduceRequest, sent: SentSoFar, seconds: float) -> dict[str, Any]:
    return {
        "schema": "pulsar-doctor/produce/1",
        "topic": request.topic,
        "created": not request.existing,
        "subscription": request.subscription,
        "messages": request.count,
        "sent": sent.given,
        "acknowledged": sent.acknowledged,
        "failed": sent.failed,
        "payload_bytes": request.size,
        "keys": request.keys,
        "batch_size": request.batch,
        "delay_seconds": request.delay,
        "seconds": round(seconds, 3),
    }
