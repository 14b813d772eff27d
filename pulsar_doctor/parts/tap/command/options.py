"""The options of `tap`: the relay, the trace, and expectations."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from pulsar_doctor.checkup.expected import AckedWanted, Expected
from pulsar_doctor.cli._commands import DependentOption
from pulsar_doctor.cli._options import (
    accept_unknown_option,
    argument,
    fail_on_option,
    max_bytes_option,
    option,
    output_option,
    part,
    ring_option,
    set_option,
    trace_option,
)
from pulsar_doctor.cli._types import DURATION
from pulsar_doctor.parts.tap.options import CONNECTIONS_MOST, RelayOptions

if TYPE_CHECKING:
    from pulsar_doctor.diagnosis.status import AcceptUnknown, FailOn

    # fmt: on


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


SECTIONS = {
    "The relay": (
        "listen", "allow_remote", "listen_tls_cert", "listen_tls_key", "allow_brokers",
        "max_connections", "for_seconds",
    ),
    "As a check in CI": ("consumers", "acked", "within_seconds"),
    "The trace": ("trace_dir", "seal_every", "ring_seconds", "max_bytes"),
    "Verdict and output": (
        "compare_broker", "changes", "fail_on", "accept_unknown", "output"
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TapRequest:
    """One call, as it was typed."""

    # fmt: off
    relay: RelayOptions = part(
        RelayOptions,
        click.option(
            "--listen", metavar="HOST:PORT", default="127.0.0.1:6651", show_default=True,
            help="Where clients connect; they are given the host exactly as written here. Port 0 "
                "takes a "
            "free one.",
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
            help="Also allow connections to this broker, which the cluster has not named; may be "
                "repeated.",
        ),
        click.option(
            "--max-connections", metavar="N", type=click.IntRange(min=1),
            default=CONNECTIONS_MOST,
            show_default=True, help="Refuse more clients than this at once.",
        ),
    )
    for_seconds: float | None = option(
        "--for", metavar="DURATION", type=DURATION,
        help="End after this time. CMD gets SIGTERM, and its end by that signal is a success.",
    )
    expected: Expected = part(
        Expected,
        click.option(
            "--expect-consumers", "consumers", metavar="N", type=click.IntRange(min=0),
            help="Fail unless N consumers were attached at one time; 0: none is needed, for "
                "producers.",
        ),
        click.option(
            "--expect-acked", "acked", metavar="N|all", type=Messages(),
            help="Fail unless N messages were acknowledged; all: everything that was delivered, "
            "and something was.",
        ),
        click.option(
            "--expect-within", "within_seconds", metavar="DURATION", type=DURATION,
            cls=DependentOption, needs=("consumers", "acked"),
            help="Fail unless the consumers and the N acknowledgements arrive within this time; "
                "with all: each within this time after its delivery.",
        ),
    )
    trace_dir: Path | None = trace_option()  # None: in a temporary folder
    seal_every: float = option(
        "--seal-every", type=DURATION, default="60s", show_default=True,
        help="Write a Parquet segment at least this often.",
    )
    ring_seconds: float | None = ring_option(needs=("trace_dir",))
    max_bytes: int | None = max_bytes_option()
    compare_broker: bool = option(
        "--compare-broker", is_flag=True,
        help="Also read the broker's statistics of the topics on the tap. Verdicts then use both; "
            "permits-differ reports where they disagree.",
    )
    changes: tuple[str, ...] = set_option()
    fail_on: FailOn = fail_on_option()
    accept_unknown: AcceptUnknown | None = accept_unknown_option()
    output: Literal["table", "json", "jsonl", "junit", "github"] = output_option(
        "table", "json", "jsonl", "junit", "github"
    )
    cmd: tuple[str, ...] = argument(nargs=-1, type=click.UNPROCESSED)  # empty: none is started
