"""The options of `analyze`: where Spark runs, and what is kept."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

import click

from pulsar_doctor.cli._options import together

if TYPE_CHECKING:
    from pulsar_doctor.diagnosis.status import FailOn


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalyzeRequest:
    """One call, as it was typed; its times in seconds. since, until: likewise, before the end."""

    traces: tuple[str, ...]
    topic: str | None
    subscription: str | None
    since: datetime | float | None
    until: datetime | float | None
    proven_only: bool
    bucket: float | None
    top: int
    save_dir: str | None
    save_mode: Literal["append", "replace"]
    save_format: Literal["parquet", "iceberg", "delta"]
    sql: str | None
    master: str | None
    remote: str | None
    conf: tuple[str, ...]
    strict: bool
    stall_floor: float
    fail_on: FailOn
    accept_unknown: bool
    output: Literal["table", "json", "jsonl"]


spark_options = together(
    click.option(
        "--master", metavar="MASTER",
        help="Where Spark runs, as Spark takes it; default: what Spark's own settings say, "
        "otherwise local[*].",
    ),
    click.option("--remote", metavar="sc://HOST:PORT", help="A Spark Connect server."),
    click.option(
        "--conf", "conf", metavar="KEY=VALUE", multiple=True,
        help="A setting of Spark, e.g. spark.driver.memory=4g; may be repeated.",
    ),
)  # fmt: skip
save_options = together(
    click.option(
        "--save", "save_dir", metavar="DIR",
        help="Keep all rows of all tables as Parquet, all to be seen at one moment by who follows "
        "DIR/manifests (docs/saved.md). A trace that is there already is replaced.",
    ),
    click.option(
        "--save-mode", type=click.Choice(["append", "replace"]), default="append",
        show_default=True, help="Whether other traces that are there stay.",
    ),
    click.option(
        "--format", "save_format", type=click.Choice(["parquet", "iceberg", "delta"]),
        default="parquet", show_default=True,
        help="--save: as tables of Iceberg (DIR is CATALOG.NAMESPACE) or Delta Lake, if Spark has "
        "it; see docs/saved.md.",
    ),
    click.option(
        "--sql", metavar="QUERY",
        help="Ask the tables instead of showing them, by one query (SELECT …) of Spark's SQL.",
    ),
)  # fmt: skip


def _explain_removal(ctx: click.Context, param: click.Parameter, given: bool) -> None:
    if given:
        ctx.fail(
            "--follow was removed in 0.2.0: `analyze --save`, run again, reads only traces that "
            "have changed; `tap` and `stall-check --watch` show what happens now"
        )


removed_options = click.option(
    "--follow", "--every", "--late", "--checkpoint", "--save-every", is_flag=True, hidden=True,
    expose_value=False, is_eager=True, callback=_explain_removal,
)  # fmt: skip
