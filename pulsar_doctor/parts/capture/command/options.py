"""The options of `capture`: the source of packets, the source of names, and the output."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.cli._options import (
    argument,
    fail_on_option,
    max_bytes_option,
    option,
    output_option,
    part,
    proven_only_option,
    ring_option,
    set_option,
)
from pulsar_doctor.cli._types import DURATION, SIZE
from pulsar_doctor.errors import InputError
from pulsar_doctor.wording.addresses import shown

if TYPE_CHECKING:
    from pulsar_doctor.diagnosis.status import FailOn

PIPE = Path("-")


SECTIONS = {
    "Packets": (
        "interface", "seconds", "ports", "client", "max_message_bytes", "proven_only"
    ),
    "Names of consumers": ("topics", "stats_files", "internal_files"),
    "The trace": ("trace_dir", "ring_seconds", "max_bytes"),
    "Verdict and output": ("changes", "fail_on", "output"),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptureRequest:
    """One call, as it was typed."""

    # fmt: off
    interface: str | None = option(
        "-i", "--interface", metavar="IFACE",
        help="Capture on this network interface, or on `any` of them (Linux; needs CAP_NET_RAW).",
    )
    seconds: float | None = option(  # None: to the end
        "--for", metavar="DURATION", type=DURATION, help="Stop after this time.",
    )
    ports: tuple[int, ...] = option(
        "--port", metavar="N", type=click.IntRange(1, 65535), multiple=True,
        default=(6650,), show_default=True, help="Port of the brokers; may be repeated.",
    )
    client: str | None = option(
        "--client", metavar="ADDRESS",
        help="Only the connections of this client: an IP address, or ip:port.",
    )
    max_message_bytes: int = option(
        "--max-message-size", metavar="SIZE", type=SIZE, default="5MiB",
        show_default=True, help="The broker's maxMessageSize, for connections that began before "
            "the capture; the others report it.",
    )
    proven_only: bool = proven_only_option()
    topics: tuple[str, ...] = option(
        "--topic", metavar="TOPIC", multiple=True,
        help="Read the consumers of this topic from the broker, also silent ones; may be "
            "repeated. With --admin-url alone, those of all topics that have a consumer in the "
            "capture; one that connected within the last minute may be missing.",
    )
    named_by: SampleFiles = part(
        SampleFiles,
        click.option(
            "--stats", "stats_files", metavar="FILE", multiple=True,
            help="Read the consumers from saved stats, as in `stall-check --stats`; may be "
                "repeated.",
        ),
        click.option(
            "--internal-stats", "internal_files", metavar="FILE", multiple=True,
            help="The output of `pulsar-admin topics stats-internal` for the same topic: its "
                "ledgers distinguish consumers of several topics on one connection.",
        ),
    )
    trace_dir: Path = option(
        "--trace", metavar="DIR", type=click.Path(path_type=Path), required=True,
        help="Write the trace to this folder, which must be new or empty.",
    )
    ring_seconds: float | None = ring_option()
    max_bytes: int | None = max_bytes_option()
    changes: tuple[str, ...] = set_option()
    fail_on: FailOn = fail_on_option(default="never")
    output: Literal["table", "json"] = output_option("table", "json")
    files: tuple[Path, ...] = argument(  # PIPE is stdin
        nargs=-1, metavar="[FILE...]", type=click.Path(path_type=Path)
    )
    # fmt: on

    @property
    def is_live(self) -> bool:
        """Whether packets come as they pass."""
        return self.interface is not None or PIPE in self.files

    @property
    def clients(self) -> tuple[str, ...]:
        """The client as addresses are written here; none for all. InputError for what is none."""
        if self.client is None:
            return ()
        host, _, port = self.client.rpartition(":")
        try:
            return (str(ip_address(self.client.strip("[]"))),)
        except ValueError:
            pass
        try:
            address = ip_address(host.strip("[]"))
            number = int(port)
        except ValueError:
            raise InputError(f"--client {self.client} is not an IP address or ip:port") from None
        return (shown((str(address), number)),)
