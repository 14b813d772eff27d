"""`pulsar-doctor fleet`: answers questions on what watches recorded, with Apache Spark."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

import click

from pulsar_doctor.cli._calls import is_given, say
from pulsar_doctor.cli._commands import sectioned
from pulsar_doctor.cli._moments import When
from pulsar_doctor.cli._options import argument, option, output_option, taking, talk_options
from pulsar_doctor.errors import needing
from pulsar_doctor.parts.analyze.command import where_of
from pulsar_doctor.parts.analyze.command.options import AnsweredBySpark
from pulsar_doctor.wording.gate import stdout, tell_json

GROUP = "analyse"
SECTIONS = {
    "The answers": ("top", "remedy", "save_dir", "output"),
    "Spark": ("master", "remote", "conf", "warm"),
}
EPILOG = """\b
Examples:
  pulsar-doctor fleet records
  pulsar-doctor fleet records --save tables -o json | jq '.stalled[0]'
  pulsar-doctor fleet records -o html > fleet.html
  pulsar-doctor fleet records --remedy 2026-11-24T14:00:00Z
  pulsar-doctor fleet --master spark://s:7077 s3a://records --save s3a://tables

Exit codes: 0 answered; 2 wrong usage, or no records; 3 no Spark, no Java, an unreachable master, a
full disk.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRequest(AnsweredBySpark):
    """One call, as it was typed."""

    # fmt: off
    folders: tuple[str, ...] = argument(metavar="DIR...", nargs=-1, required=True)
    remedy: datetime | float | None = option(  # a moment, or seconds before now
        "--remedy", type=When(),
        help="Also compare stalls before and after a remedy at this time; 2d: two days ago.",
    )
    save_dir: str | None = option(
        "--save", metavar="DIR",
        help="Keep all tables as Parquet in this folder. The next run reads only the days of which "
            "there are new records.",
    )
    output: Literal["table", "json", "html"] = output_option("table", "json", "html")
    # fmt: on


def _values_of(request: FleetRequest) -> dict[str, float]:
    """What queries name."""
    if request.remedy is None:
        return {}
    ago = request.remedy
    return {"remedy": ago.timestamp() if isinstance(ago, datetime) else time.time() - ago}


@click.command(cls=sectioned(SECTIONS), epilog=EPILOG)
@taking(FleetRequest)
@talk_options
def command(request: FleetRequest) -> int:
    """Answers what stalled, since when, after which change.

    Reads what watches recorded: DIR is a folder of `stall-check --all --watch --keep`, or a path
    that Spark reads (s3a://, hdfs://). The executors do not need pulsar-doctor.

    \b
    episodes  each time that a subscription was not well: since when, until when,
              the cause, who it names, the largest backlog, and what ended it: a
              new version, a restart, an unload, a reconnect, nothing that was
              seen; or that it goes on, or nobody watched any more
    stalled   of each subscription and cause: how often, how long, at which hour
              (UTC) most
    changes   stalls that began after a client version, a deployment or a broker
              version: those in the 3 days after it, beside the 14 days before it
    versions  of each client version: consumers that leak permits (the room of
              their queue shrank by a fifth or more), and for how long messages
              are held
    forecast  which limit is reached when, by a straight line through the last
              three days
    together  topics with the same cause at the same moment
    queues    queue sizes that do not fit the pace of their consumers
    remedies  with --remedy: stalls before and after it, and whether it worked

    In changes and together "by chance" is how many such rows chance alone brings, at most, among
    all that were tested; they are shown up to 0.1, which is about one false row in ten runs.

    With -o json: {"schema": "pulsar-doctor/fleet/1", and each table as a list of at most 10,000
    rows}; null means not reported. -o html: one page with at most 200 rows of each, to be sent
    on; it needs no network. With --save each table is below DIR as Parquet; tables of days
    (spans) are partitioned by cluster and day, and are made again only where records are new.
    """
    where = where_of(request, "answering questions on a fleet")
    with ExitStack() as stack:
        with needing("spark", "answering questions on a fleet"):
            from pulsar_doctor.parts.analyze.asking import SqlAnswer, rows_of
            from pulsar_doctor.parts.analyze.progress import phase
            from pulsar_doctor.parts.analyze.progress import progress as shown
            from pulsar_doctor.parts.analyze.session import session, will_be_here
            from pulsar_doctor.parts.fleet.answering import ONLY_SAVED, answers
            from pulsar_doctor.parts.fleet.journal import require_records
        from pulsar_doctor.parts.analyze.paths import is_remote, path_of
        from pulsar_doctor.parts.fleet.report.page import page
        from pulsar_doctor.parts.fleet.report.tables import SCHEMA, print_answer

        quiet = is_given("quiet")
        for folder in request.folders if will_be_here(where) else ():
            if not is_remote(folder):
                require_records(Path(path_of(folder)), folder)
        with nullcontext() if quiet else phase("starting Spark"):
            spark = stack.enter_context(session(where))

        def progress(what: str) -> AbstractContextManager[None]:
            return nullcontext() if quiet else shown(spark, what)

        values = _values_of(request)
        found: dict[str, SqlAnswer] = {}
        for name, table in answers(spark, request.folders, request.save_dir, progress, values):
            if name in ONLY_SAVED:
                continue
            with progress(name):
                found[name] = rows_of(table)
            if request.output == "table":
                print_answer(stdout(), name, found[name], request.top)
    if request.save_dir:
        say(f"saved in {request.save_dir}")
    if request.output == "json":
        tell_json({"schema": SCHEMA} | {name: each.rows for name, each in found.items()}, indent=1)
    elif request.output == "html":
        stdout().write(page(found))
    return 0
