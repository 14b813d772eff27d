"""What is a query and what is none. What tables say when asked: tests/cli/test_analyze.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pulsar_doctor.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("DROP VIEW stalls", "--sql takes one query, which reads (SELECT …)"),
        ("INSERT INTO stalls SELECT * FROM stalls", "--sql takes one query, which reads"),
        ("CREATE TABLE t AS SELECT 1", "--sql takes one query, which reads"),
        ("SET spark.sql.ansi.enabled=false", "--sql takes one query, which reads"),
        ("SELECT 1) t; DROP VIEW stalls --", "--sql takes one query, which reads"),
        ("SELECT TRANSFORM(topic) USING 'cat' FROM stalls", "TRANSFORM runs a program"),
        ("SELECT * FROM stall", "the tables are stalls, gaps"),
        ("SELECT nam FROM stalls", "`nam` cannot be resolved"),
        ("SELECT cast(topic AS int) FROM stalls", 'cannot be cast to "INT"'),
        ("SELECT topic, topic FROM stalls", "two columns are named topic"),
    ],
)
def test_what_is_no_query_or_has_a_mistake_is_told_in_one_sentence(
    spark: SparkSession, query: str, said: str
) -> None:
    from pulsar_doctor.spark.asking import answer

    table = spark.createDataFrame([("a", 1)], "topic string, number int")
    with pytest.raises(InputError) as told:
        answer({"stalls": table, "gaps": table}, query)
    assert said in str(told.value)
    assert len(str(told.value).splitlines()) == 1
    assert "pyspark" not in str(told.value)
    assert {view.name for view in spark.catalog.listTables()}.isdisjoint({"stalls", "gaps"})
