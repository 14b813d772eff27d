"""What is a query and what is none. What tables say when asked: test_analyze.py."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from pulsar_doctor.errors import InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytest.importorskip("pyspark")


def answer(spark: SparkSession, query: str) -> Any:
    """What a query says of two tables of one row."""
    from pulsar_doctor.parts.analyze import asking

    table = spark.sql("SELECT 'a' AS topic, 1 AS number")
    return asking.answer({"stalls": table, "gaps": table}, query)


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
        ("ADD JAR '/tmp/a.jar'", "--sql takes one query, which reads"),
        ("EXECUTE IMMEDIATE 'SELECT 1'", "--sql takes one query, which reads"),
        ("BEGIN SELECT 1; END", "--sql takes one query, which reads"),
        ("DECLARE VARIABLE a INT DEFAULT 1", "--sql takes one query, which reads"),
        ("FROM stalls INSERT INTO gaps SELECT *", "--sql takes one query, which reads"),
        ("SELECT * FROM stalls VERSION AS OF 3", "--sql takes one query, which reads"),
        ("SELECT * FROM STREAM stalls", "--sql takes one query, which reads"),
        ("SELECT * FROM text.`/etc/passwd`", "there is no table text./etc/passwd"),
        ("SELECT * FROM spark_catalog.default.stalls", "there is no table spark_catalog.default"),
        ("SELECT * FROM IDENTIFIER('te' || 'xt.`/etc/passwd`')", "IDENTIFIER hides a name"),
        ("SELECT * FROM python_worker_logs()", "python_worker_logs is not allowed"),
        ("SELECT * FROM read_files('/etc/passwd')", "read_files is not allowed"),
        ("SELECT `Try_Reflect`('java.lang.System', 'gc')", "try_reflect is not allowed"),
        ("SELECT system.builtin.reflect('java.lang.System', 'gc')", "builtin.reflect is not allow"),
        ("SELECT IDENTIFIER('java_' || 'method')('java.lang.System', 'gc')", "IDENTIFIER hides"),
        (
            "SELECT from_xml('<a/>', 'a INT', map('rowValidationXSDPath', '/etc/passwd'))",
            "from_xml",
        ),
        ("SELECT xpath('<!DOCTYPE a SYSTEM \"http://127.0.0.1:1/\"><a/>', 'a')", "xpath is not"),
        ("SELECT from_avro(topic, '\"int\"', map('avroSchemaUrl', 'file:/a')) FROM stalls", "avro"),
        ("SELECT from_protobuf(topic, 'Name', '/etc/passwd') FROM stalls", "from_protobuf is not"),
        ("SELECT default.mine(topic) FROM stalls", "default.mine is not allowed"),
    ],
)
def test_what_is_no_query_or_has_a_mistake_is_told_in_one_sentence(
    spark: SparkSession, query: str, said: str
) -> None:
    with pytest.raises(InputError) as told:
        answer(spark, query)
    assert said in str(told.value)
    assert len(str(told.value).splitlines()) == 1
    assert "pyspark" not in str(told.value)
    assert {view.name for view in spark.catalog.listTables()}.isdisjoint({"stalls", "gaps"})


ANY_CODE = "java_method('java.lang.System', 'setProperty', 'from.a.query', 'ran')"


@pytest.mark.parametrize(
    "query",
    [
        "WITH a AS (SELECT {code} AS b) SELECT * FROM a",
        "WITH a AS (WITH b AS (SELECT (SELECT {code}) AS c) SELECT * FROM b) SELECT * FROM a",
        "SELECT topic FROM stalls ORDER BY {code}",
        "SELECT topic FROM stalls GROUP BY topic HAVING {code} IS NULL",
        "SELECT topic FROM stalls GROUP BY ROLLUP ({code})",
        "SELECT transform(array(1), one -> concat(one, {code})) FROM stalls",
        "SELECT sum(1) OVER (PARTITION BY {code}) FROM stalls",
        "SELECT sum(1) OVER w FROM stalls WINDOW w AS (ORDER BY {code})",
        "SELECT count(*) FILTER (WHERE {code} IS NULL) FROM stalls",
        "SELECT * FROM stalls JOIN gaps ON {code} = gaps.topic",
        "SELECT * FROM stalls, LATERAL (SELECT {code} AS a)",
        "SELECT * FROM stalls LATERAL VIEW explode(array({code})) AS a",
        "SELECT * FROM stalls WHERE topic IN (SELECT {code})",
        "SELECT CASE WHEN EXISTS (VALUES ({code})) THEN 1 END",
        "SELECT * FROM stalls PIVOT (max({code}) FOR number IN (1))",
        "SELECT * FROM explode(array({code}))",
        "SELECT 1 AS a UNION ALL SELECT 2 EXCEPT (SELECT {code})",
        "FROM stalls |> WHERE number > 0 |> EXTEND {code} AS a",
        "SELECT /*+ REPARTITION(2) */ mask(topic, upperChar => {code}) FROM stalls LIMIT 1",
    ],
)
def test_code_is_found_wherever_a_query_hides_it(spark: SparkSession, query: str) -> None:
    with pytest.raises(InputError, match="java_method is not allowed"):
        answer(spark, query.format(code=ANY_CODE))
    java: Any = spark
    assert java._jvm.java.lang.System.getProperty("from.a.query") is None  # and Java lives


@pytest.mark.parametrize(
    "query",
    [
        "WITH a AS (SELECT * FROM text.`/etc/passwd`) SELECT * FROM a",
        "SELECT (SELECT max(value) FROM csv.`/etc/passwd`) FROM stalls",
        "SELECT * FROM stalls JOIN gaps ON EXISTS (SELECT 1 FROM parquet.`/tmp`)",
        "FROM stalls |> JOIN json.`/etc/passwd`",
        # a name of WITH is known only behind it, and in its own query only where it is recursive
        "SELECT * FROM (WITH other AS (SELECT 1) SELECT * FROM other) JOIN other",
        "WITH a AS (SELECT * FROM b), b AS (SELECT 1) SELECT * FROM a",
        "WITH other AS (SELECT * FROM other) SELECT * FROM other",
    ],
)
def test_no_other_table_is_read_wherever_a_query_names_it(spark: SparkSession, query: str) -> None:
    with pytest.raises(InputError, match=r"there is no table .*; the tables are stalls, gaps"):
        answer(spark, query)


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ("SELECT upper(topic) AS a FROM Stalls -- all", [{"a": "A"}]),
        ("TABLE stalls;", [{"topic": "a", "number": 1}]),
        ("WITH a(b) AS (SELECT 1), c AS (SELECT b FROM a) SELECT * FROM c JOIN a USING (b)",
         [{"b": 1}]),
        ("WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < 2) "
         "SELECT max(n) AS n FROM r", [{"n": 2}]),
        ("SELECT g.number, row_number() OVER (PARTITION BY s.topic ORDER BY s.number) AS a, "
         "sum(g.number) OVER w AS b FROM stalls s LEFT JOIN gaps g ON s.topic = g.topic "
         "WINDOW w AS (ORDER BY s.number ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)",
         [{"number": 1, "a": 1, "b": 1}]),
        ("SELECT number FROM stalls WHERE topic IN (SELECT topic FROM gaps) "
         "AND EXISTS (SELECT 1 FROM gaps) AND number = (SELECT max(number) FROM gaps)",
         [{"number": 1}]),
        ("SELECT number FROM stalls UNION ALL SELECT 2 EXCEPT SELECT 1 INTERSECT SELECT 3 "
         "ORDER BY 1 DESC LIMIT 1", [{"number": 2}]),
        ("SELECT a, transform(array(number), n -> n + 1) AS b FROM stalls "
         "LATERAL VIEW OUTER explode(array(7)) t AS a", [{"a": 7, "b": [2]}]),
        ("FROM stalls |> WHERE number > 0 |> AGGREGATE count(*) AS a GROUP BY topic |> SET a = 3",
         [{"topic": "a", "a": 3}]),
        ("SELECT count(DISTINCT topic) FILTER (WHERE number > 0) AS a, system.builtin.max(topic) "
         "AS b FROM stalls GROUP BY CUBE (topic) HAVING count(*) > 0 ORDER BY ALL LIMIT 1",
         [{"a": 1, "b": "a"}]),
        ("SELECT * FROM stalls UNPIVOT (a FOR b IN (number))",
         [{"topic": "a", "b": "number", "a": 1}]),
        ("SELECT DISTINCT CAST(id AS string) || topic AS a FROM range(1) JOIN stalls TABLESAMPLE "
         "(1 ROWS)", [{"a": "0a"}]),
        ("SELECT DATE'2026-01-02' - INTERVAL '1' DAY AS a, percentile_cont(0.5) WITHIN GROUP "
         "(ORDER BY number) AS b FROM stalls", [{"a": "2026-01-01", "b": 1.0}]),
        ("SELECT x FROM VALUES (1, 'a'), (2, upper('b')) AS t(x, y) WHERE y LIKE 'a%'",
         [{"x": 1}]),
    ],
)  # fmt: skip
def test_what_a_query_may_read_it_reads(
    spark: SparkSession, query: str, rows: list[dict[str, Any]]
) -> None:
    assert answer(spark, query).rows == rows


def test_a_query_sees_no_settings_and_no_environment(spark: SparkSession) -> None:
    assert os.environ["PATH"]
    for name in ("env:PATH", "system:java.home", "spark.driver.memory"):
        (row,) = answer(spark, f"SELECT '${{{name}}}' AS a").rows
        assert row == {"a": f"${{{name}}}"}
    assert spark.conf.get("spark.sql.variable.substitute") == "true"  # a notebook's, as it was
