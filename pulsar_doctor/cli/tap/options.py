"""The options of `tap`: what the relay is told, and what becomes of the trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from pulsar_doctor.checkup.expected import AckedWanted, Expected
from pulsar_doctor.cli._options import DURATION, ring_options, together, trace_option
from pulsar_doctor.tap.options import CONNECTIONS_MOST, RelayOptions

if TYPE_CHECKING:
    from pulsar_doctor.diagnosis.status import FailOn


@dataclass(frozen=True, slots=True, kw_only=True)
class TapRequest:
    """One call, as it was typed. trace_dir: None: of our own. cmd: none is started where empty."""

    cmd: tuple[str, ...]
    relay: RelayOptions
    trace_dir: Path | None
    seal_every: float
    ring_seconds: float | None
    max_bytes: int | None
    compare_broker: bool
    changes: tuple[str, ...]
    fail_on: FailOn
    accept_unknown: bool
    for_seconds: float | None
    expected: Expected
    output: Literal["table", "jsonl", "junit", "github", "sarif"]


# What the relay is told: where it listens, whom it may connect to.
relay_options = together(
    click.option(
        "--listen", metavar="HOST:PORT", default="127.0.0.1:6651", show_default=True,
        help="Where clients connect; they are told the host as it is given. Port 0 takes a free "
        "one.",
    ),
    click.option(
        "--allow-remote", is_flag=True,
        help="Let --listen name an address that other machines can reach. Whoever reaches "
        "it reaches the broker.",
    ),
    click.option(
        "--listen-tls-cert", metavar="FILE", type=click.Path(path_type=Path),
        help="Take TLS connections only (pulsar+ssl://), with this certificate.",
    ),
    click.option(
        "--listen-tls-key", metavar="FILE", type=click.Path(path_type=Path),
        help="The key of that certificate.",
    ),
    click.option(
        "--allow-broker", "allow_brokers", metavar="HOST:PORT", multiple=True,
        help="A broker that may be connected to although the cluster has not named it; "
        "may be repeated.",
    ),
    click.option(
        "--max-connections", metavar="N", type=click.IntRange(min=1),
        default=CONNECTIONS_MOST,
        show_default=True, help="More clients at once are refused.",
    ),
)  # fmt: skip


class Messages(click.ParamType):  # type: ignore[type-arg]
    """A number of messages, or all."""

    name = "messages"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> AckedWanted:
        """A number, or `all`; wrong usage where the text is neither."""
        if value == "all":
            return "all"
        if not str(value).isdecimal() or not int(value):
            self.fail(f"{value!r} is neither a number of messages nor all", param, ctx)
        return int(value)


# When it ends, and what makes it fail.
check_options = together(
    click.option(
        "--for", "for_seconds", metavar="DURATION", type=DURATION,
        help="End after this time. CMD gets SIGTERM, and ends well if it ends by that.",
    ),
    click.option(
        "--expect-consumers", "consumers", metavar="N", type=click.IntRange(min=0),
        help="Fail unless N consumers were attached at one time; 0: none needs to come, for "
        "producers.",
    ),
    click.option(
        "--expect-acked", "acked", metavar="N|all", type=Messages(),
        help="Fail unless N messages were acknowledged; all: everything that was delivered, and "
        "something was.",
    ),
    click.option(
        "--expect-within", "within_seconds", metavar="DURATION", type=DURATION,
        help="From the beginning until the consumers are there and N messages are acknowledged, "
        "else the tap ends and fails; with all: from the delivery of each message.",
    ),
)  # fmt: skip


# What becomes of the trace.
trace_options = together(
    trace_option,
    click.option(
        "--seal-every", type=DURATION, default="60s", show_default=True,
        help="A Parquet segment at least so often.",
    ),
    ring_options,
)  # fmt: skip
