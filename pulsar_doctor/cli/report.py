"""`pulsar-doctor report`: writes the page of an incident, to be sent to a colleague."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from pulsar_doctor.cli._calls import (
    checks,
    connected,
    ended,
    live_request,
    say,
    say_more,
    settings,
    write_whole,
)
from pulsar_doctor.cli._commands import Sections, first_typed
from pulsar_doctor.cli._options import (
    argument,
    broker_version_option,
    connection_options,
    only_subscription_option,
    option,
    proven_only_option,
    redact_option,
    set_option,
    taking,
)
from pulsar_doctor.cli._types import DURATION
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.wording.gate import tell
from pulsar_doctor.wording.sizes import in_words

if TYPE_CHECKING:
    from pulsar_doctor.checkup.incident import Incident, Recordings
    from pulsar_doctor.checkup.judge import Judge

GROUP = "diagnose"
BEGIN = b"<!DOCTYPE html>"
RECORDED = re.compile(r"^-$|\.(ptrace|gz|jsonl?|html?)/?$|^[./~]")
OF_RECORDINGS = ("topics", "proven_only", "broker_version")  # fields that are of no live topic
PAGE_BYTES = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportRequest:
    """One call, as it was typed."""

    # fmt: off
    sources: tuple[str, ...] = argument(metavar="SOURCE...", nargs=-1, required=True)
    output: Path = option(
        "-o", "--output", metavar="FILE", type=click.Path(path_type=Path, dir_okay=False),
        default="incident.html", show_default=True, help="The page; one that is there is replaced.",
    )
    subscription: str | None = only_subscription_option()
    for_seconds: float = option(
        "--for", type=DURATION, default="2m", show_default=True,
        help="How long a live topic is watched.",
    )
    topics: tuple[str, ...] = option(
        "--topic", metavar="TOPIC", multiple=True, help="Only this topic; may be repeated."
    )
    redact: bool = redact_option()
    proven_only: bool = proven_only_option()
    broker_version: str | None = broker_version_option()
    changes: tuple[str, ...] = set_option()
    # fmt: on


@click.command(cls=Sections)
@taking(ReportRequest)
@connection_options
def command(request: ReportRequest) -> int:
    """Writes a page with the verdict and its timelines.

    The page is for a colleague or a ticket. A SOURCE is a trace (the folder that `tap`, `capture`
    or `consume` recorded), a file of `stall-check --save` or `examine --save`, a bundle, or a
    topic, which is watched first. A trace and a file of the same incident give one verdict
    together. The page is one HTML file of at most 2 MB that needs no network; `stall-check --case`
    gives its verdicts again.

    \b
    pulsar-doctor report incident.ptrace -o incident.html
    pulsar-doctor report incident.gz -s billing
    pulsar-doctor report incident.ptrace incident.gz --topic orders
    pulsar-doctor report incident.tar.gz --redact
    pulsar-doctor report orders -s billing --for 2m

    It shows the verdict of each subscription, what is missing and why, and over time: permits,
    messages held, deliveries, acknowledgements and FLOWs of each consumer, with every time without
    permits. Holes are drawn as `holes` draws them. It holds names of topics, subscriptions and
    consumers, and addresses; no payloads, keys or credentials.

    The extra [report] draws the charts; without it the page has all but these. Exit codes: 0 the
    page is written, whatever the verdict; 2 wrong usage or input that cannot be read; 3 where
    something could not be read or written; 130 Ctrl-C ended the window: the page shows what was
    read until then.
    """
    from pulsar_doctor.checkup.incident import redacted
    from pulsar_doctor.checkup.judge import Judge

    _check_replaceable(request.output)
    judge = Judge(*checks(request.changes), request.subscription, keep_views=True)
    incident = _incident(request, judge)
    incident.checkup.broker_version = request.broker_version or incident.checkup.broker_version
    if request.redact:
        incident = redacted(incident, judge, request.changes)
    content = _content(incident, request.changes)
    write_whole(request.output, content)
    tell(f"{request.output}: {in_words(len(content))}")
    return ended(incident.checkup, DoctorError.exit_code if incident.checkup.unreachable else 0)


def _incident(request: ReportRequest, judge: Judge) -> Incident:
    """Reads the incident from recordings, or from topics that are watched now."""
    from pulsar_doctor.broker.sampling import SamplingPlan
    from pulsar_doctor.checkup.incident import of_live, of_recordings

    topics = [source for source in request.sources if _is_topic(source)]
    if which := first_typed(*(OF_RECORDINGS if topics else ("for_seconds",))):
        what = "a live topic" if topics else "a recording"
        raise InputError(f"{which} has no effect on {what}; leave it out")
    if not topics:
        with TemporaryDirectory() as room:
            return of_recordings(_recordings(request, Path(room)), judge, say, say_more)
    if len(topics) < len(request.sources):
        raise InputError(f"{topics[0]} is no file; a live topic and recordings make two pages")
    with connected(settings(headed=True)) as where:
        return of_live(live_request(where, SamplingPlan(request.for_seconds)), topics, judge)


def _is_topic(source: str) -> bool:
    """Whether it is not a file, and is not written as one either."""
    return "://" in source or not (Path(source).exists() or RECORDED.search(source))


def _content(incident: Incident, changes: Sequence[str]) -> bytes:
    """The page with its case; without it, and a message, where there is no room for it."""
    from pulsar_doctor.checkup.case import case_of, for_page
    from pulsar_doctor.report.incident.page import page

    whole = page(incident, for_page(case_of(incident.checkup, changes))).encode()
    if len(whole) <= PAGE_BYTES:
        return whole
    say("the page does not carry its case, which is too large; choose one --topic or -s SUB")
    return page(incident).encode()


def _recordings(request: ReportRequest, room: Path) -> Recordings:
    """room: a folder for what is unpacked."""
    from pulsar_doctor.broker.sample_files import SampleFiles
    from pulsar_doctor.broker.samples.bundled import CASE, trace_unpacked
    from pulsar_doctor.broker.samples.files import files_of_bundle
    from pulsar_doctor.checkup.case import read_case
    from pulsar_doctor.checkup.incident import Recordings

    folders = [source for source in request.sources if Path(source).is_dir()]
    if len(folders) > 1:
        raise InputError(f"a page is of one trace, and {len(folders)} are given")
    files = [source for source in request.sources if source not in folders]
    samples = SampleFiles(files, named=request.topics)
    bundle = files_of_bundle(files[0]) if len(files) == 1 and not folders else {}
    case = read_case(files[0]) if CASE in bundle else None
    folder = Path(folders[0]) if folders else trace_unpacked(bundle, room)
    return Recordings(folder, samples, case, request.proven_only)


def _check_replaceable(path: Path) -> None:
    """Raises InputError where something is there that is not a page."""
    if path.is_file() and path.stat().st_size:
        with path.open("rb") as file:
            if file.read(len(BEGIN)) != BEGIN:
                raise InputError(f"{path} is there and is not a page; name another file with -o")
