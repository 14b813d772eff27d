"""`pulsar-doctor bundle`: collects what a colleague needs to judge a topic, in one file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from pulsar_doctor.cli._calls import checks, connected, live_request, settings, write_whole
from pulsar_doctor.cli._commands import Sections
from pulsar_doctor.cli._options import (
    connection_options,
    option,
    redact_option,
    taking,
    topics_argument,
)
from pulsar_doctor.cli._types import DURATION
from pulsar_doctor.errors import InputError

GROUP = "diagnose"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleRequest:
    """One call, as it was typed."""

    # fmt: off
    topics: tuple[str, ...] = topics_argument(required=True)
    subscription: str | None = option(
        "-s", "--subscription", metavar="SUB", help="Verdicts on this subscription only."
    )
    output: Path = option(
        "-o", "--output", metavar="FILE", required=True, type=click.Path(path_type=Path),
        help="Write the bundle here (.tar.gz); a file that exists is not replaced.",
    )
    redact: bool = redact_option()
    window_seconds: float = option(
        "--window", type=DURATION, default="10s", show_default=True,
        help="How long the broker is watched.",
    )
    interval_seconds: float = option(
        "--interval", type=DURATION, default="1s", show_default=True,
        help="Time between two samples.",
    )
    # fmt: on


@click.command(cls=Sections)
@taking(BundleRequest)
@connection_options
def command(request: BundleRequest) -> int:
    """Collects what a colleague needs to judge a topic.

    Reads only. A TOPIC is orders, tenant/namespace/orders or a full name; a partitioned topic means
    all its partitions. The bundle contains samples of the statistics and internal statistics over
    the window, the versions of broker and clients, settings of the broker that matter for
    deliveries, and what the verdicts were made of. The first file in it, README.txt, says what it
    contains and what was left out; the same text is printed. Payloads, keys and credentials are
    never in it.

    \b
    pulsar-doctor bundle orders -s billing -o incident.tar.gz
    pulsar-doctor bundle orders -o incident.tar.gz --redact
    pulsar-doctor stall-check --case incident.tar.gz
    pulsar-doctor stall-check --stats incident.tar.gz

    Exit codes: 0 the bundle is written, whatever the verdicts; 2 wrong usage, or FILE exists; 3
    the topic could not be read, or FILE could not be written.
    """
    from pulsar_doctor.broker.sampling import SamplingPlan
    from pulsar_doctor.checkup.bundle import of_live
    from pulsar_doctor.checkup.judge import Judge
    from pulsar_doctor.checkup.redacting import Pseudonyms
    from pulsar_doctor.report.paper import print_page

    _check_free(request.output)
    judge = Judge(*checks(), subscription=request.subscription, keep_views=True)
    plan = SamplingPlan(request.window_seconds, request.interval_seconds)
    names = Pseudonyms() if request.redact else None
    with connected(settings(headed=True)) as where:
        bundle = of_live(live_request(where, plan), request.topics, judge, names)
    write_whole(request.output, bundle.content)
    print_page(*bundle.readme.splitlines())
    return 0


def _check_free(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise InputError(f"{path} exists already; name another file")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is not a folder")
