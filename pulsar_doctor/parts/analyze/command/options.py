"""The options of `analyze`: where Spark runs, and what is saved."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import click

from pulsar_doctor.cli._moments import since_option, subscription_option, topic_option, until_option
from pulsar_doctor.cli._options import (
    accept_unknown_option,
    argument,
    fail_on_option,
    option,
    output_option,
    proven_only_option,
)
from pulsar_doctor.cli._types import DURATION

if TYPE_CHECKING:
    from pulsar_doctor.diagnosis.status import AcceptUnknown, FailOn


SECTIONS = {
    "What to read": ("topic", "subscription", "since", "until", "proven_only"),
    "The analysis": ("bucket", "top", "stall_floor", "strict", "sql"),
    "Spark": ("master", "remote", "conf", "warm"),
    "What to keep": ("save_dir", "save_format"),
    "Verdict and output": ("fail_on", "accept_unknown", "output"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AnsweredBySpark:
    """Where Spark runs, and how much is shown."""

    # fmt: off
    top: int = option(
        "--top", type=click.IntRange(min=1), default=10, show_default=True,
        help="Rows of each table that a terminal shows.",
    )
    master: str | None = option(
        "--master", metavar="MASTER",
        help="The Spark master; default: that of Spark's own settings, otherwise local[*].",
    )
    remote: str | None = option(
        "--remote", metavar="sc://HOST:PORT", help="A Spark Connect server."
    )
    conf: tuple[str, ...] = option(
        "--conf", metavar="KEY=VALUE", multiple=True,
        help="A setting of Spark, e.g. spark.driver.memory=4g; may be repeated.",
    )
    warm: bool | None = option(
        "--warm/--cold", default=None,
        help="Keep the classes that Spark has loaded, 200 MB in the cache folder, so that the next "
        "analyses start faster; --cold deletes them.",
    )
    # fmt: on


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeRequest(AnsweredBySpark):
    """One call, as it was typed; times in seconds."""

    # fmt: off
    traces: tuple[str, ...] = argument(metavar="DIR...", nargs=-1, required=True)
    topic: str | None = topic_option()
    subscription: str | None = subscription_option()
    since: datetime | float | None = since_option()  # a moment, or seconds before the end
    until: datetime | float | None = until_option()  # a moment, or seconds before the end
    proven_only: bool = proven_only_option()
    bucket: float | None = option(
        "--bucket", type=DURATION, help="Step of the timeline; default: one that fits."
    )
    stall_floor: float = option(
        "--stall-floor", type=DURATION, default="1s", show_default=True,
        help="Count shorter times without permits, but list them only with a finding.",
    )
    strict: bool = option(
        "--strict", is_flag=True,
        help="Fail if a trace is damaged, instead of leaving it out.",
    )
    save_dir: str | None = option(
        "--save", metavar="DIR",
        help="Save all rows of all tables as Parquet, in DIR/TABLE/trace_id=… (docs/saved.md). A "
            "trace that was saved before is replaced, other traces stay.",
    )
    save_format: Literal["parquet", "iceberg", "delta"] = option(
        "--format", type=click.Choice(["parquet", "iceberg", "delta"]),
        default="parquet", show_default=True, needs=("save_dir",),
        help="--save: as tables of Iceberg (DIR is CATALOG.NAMESPACE) or Delta Lake, if Spark has "
        "it; see docs/saved.md.",
    )
    sql: str | None = option(
        "--sql", metavar="QUERY",
        help="Run one query (SELECT …) of Spark SQL on the tables, instead of showing them.",
    )
    fail_on: FailOn = fail_on_option()
    accept_unknown: AcceptUnknown | None = accept_unknown_option()
    output: Literal["table", "json", "jsonl"] = output_option("table", "json", "jsonl")
    # fmt: on
