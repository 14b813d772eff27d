"""Runs one read-only SQL query on the tables of an analysis."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.analyze.failures import cause, failures_in_one_sentence
from pulsar_doctor.parts.analyze.reading_only import AS_WRITTEN, require_reading_only
from pulsar_doctor.parts.analyze.session import having

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ROWS_MOST = 10_000
AS_JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSX"}
# SQLSTATE, and how it begins: of values, of the query itself.
MISTAKES = ("22", "42")
NO_QUERY = "42601"


@dataclass(frozen=True, slots=True)
class SqlAnswer:
    """The rows that a query found."""

    columns: Mapping[str, str]  # name -> type, as Spark writes it
    rows: Sequence[dict[str, Any]]  # values as JSON has them
    more: bool  # there are more rows than these


def answer(tables: Mapping[str, DataFrame], query: str) -> SqlAnswer:
    """What a query says of these tables, which it names as views; 10,000 rows at most.

    Raises InputError, in one sentence, for what is no query or has a mistake in it.
    """
    spark = next(iter(tables.values())).sparkSession
    for name, table in tables.items():
        table.createOrReplaceTempView(name)
    try:
        with failures_in_one_sentence("--sql"), having(spark, AS_WRITTEN):
            require_reading_only(spark, query, tables)
            return rows_of(spark.sql(query))
    except DoctorError as error:
        raise _mistake(error) from error.__cause__
    finally:
        for name in tables:
            spark.catalog.dropTempView(name)


def _mistake(error: DoctorError) -> DoctorError:
    """The sentence for whoever wrote the query, where the query is at fault."""
    raised = error.__cause__
    state = (raised.getSqlState() if isinstance(raised, PySparkException) else None) or ""
    if raised is None or not state.startswith(MISTAKES):
        return error
    why = cause(raised)
    if state == NO_QUERY:
        return InputError(f"--sql takes one query, which reads (SELECT …): {why}")
    return InputError(f"--sql: {why}")


def rows_of(found: DataFrame) -> SqlAnswer:
    """The rows of a table, 10,000 at most, as JSON has them."""
    twice = [name for name, count in Counter(map(str.lower, found.columns)).items() if count > 1]
    if twice:
        raise InputError(f"--sql: two columns are named {twice[0]}; name one of them AS another")
    line = F.to_json(F.struct(*(F.col(_quoted(name)) for name in found.columns)), AS_JSON)
    lines = [row["line"] for row in found.limit(ROWS_MOST + 1).select(line.alias("line")).collect()]
    rows = [json.loads(line) for line in lines[:ROWS_MOST]]
    return SqlAnswer(dict(found.dtypes), rows, len(lines) > ROWS_MOST)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
