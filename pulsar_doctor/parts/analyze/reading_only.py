"""Refuses a SQL query that does more than read, before Spark runs it.

Spark's own parser says what a query consists of, and the parsed plan is checked against lists of
what is allowed: parts of a plan, tables, functions. Names are looked up only later, when Spark
analyses the plan, and that may already open a file. What is on no list is refused, and so is what a
newer Spark adds until somebody has looked at it.

Functions are allowed by the group in which Spark's documentation lists them. Not on the list:

- misc_funcs has java_method, reflect and try_reflect, which call any static Java method; some
  others of this group are allowed by name
- xml_funcs: from_xml and schema_of_xml open the file that rowValidationXSDPath names, and xpath
  fetches the DTD that a document names, also over the network
- avro_funcs and protobuf_funcs open files with schemas and load classes
- table_funcs has python_worker_logs

The parser also replaces `${env:NAME}` and `${spark.KEY}` in a query, before anything could be
checked. `AS_WRITTEN` turns that off; the query has to run with it, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.analyze.masters import is_connect

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

AS_WRITTEN = {"spark.sql.variable.substitute": "false"}

GROUPS = frozenset(
    f"{group}_funcs"
    for group in (
        "agg", "array", "bitwise", "collection", "conditional", "conversion", "csv", "datetime",
        "generator", "hash", "json", "lambda", "map", "math", "predicate", "sketch", "st",
        "string", "struct", "url", "variant", "vector", "window",
    )
)  # fmt: skip
FUNCTIONS = frozenset(
    {"assert_true", "monotonically_increasing_id", "raise_error", "range", "typeof", "uuid"}
)
BUILTIN = ((), ("builtin",), ("system", "builtin"))  # what may stand in front of a function's name

CATALYST = "org.apache.spark.sql.catalyst."
# Operators, literals, subqueries, windows: they name nothing that Spark would look up later.
EXPRESSIONS = f"{CATALYST}expressions."
RELATION, WITH = f"{CATALYST}analysis.UnresolvedRelation", f"{CATALYST}plans.logical.UnresolvedWith"
# Where a function is named, by the class -> the method that gives the name
CALLS = {
    f"{CATALYST}analysis.UnresolvedFunction": lambda call: call.nameParts(),
    f"{CATALYST}analysis.UnresolvedGenerator": lambda call: call.name().nameParts(),
    f"{CATALYST}analysis.UnresolvedTableValuedFunction": lambda call: call.name(),
}
PARTS = frozenset(
    CATALYST + name
    for name in (
        "AliasIdentifier", "FunctionIdentifier", "analysis.MultiAlias", "analysis.UnresolvedAlias",
        "analysis.UnresolvedAttribute", "analysis.UnresolvedExtractValue",
        "analysis.UnresolvedHaving", "analysis.UnresolvedInlineTable",
        "analysis.UnresolvedOrdinal", "analysis.UnresolvedQualify", "analysis.UnresolvedRegex",
        "analysis.UnresolvedStar", "analysis.UnresolvedStarExceptOrReplace",
        "analysis.UnresolvedSubqueryColumnAliases", "analysis.UnresolvedTVFAliases",
        "plans.Cross$", "plans.FullOuter$", "plans.Inner$", "plans.LeftAnti$", "plans.LeftOuter$",
        "plans.LeftSemi$", "plans.NaturalJoin", "plans.RightOuter$", "plans.UsingJoin",
        "plans.logical.Aggregate", "plans.logical.Distinct", "plans.logical.Except",
        "plans.logical.Filter", "plans.logical.Generate", "plans.logical.GlobalLimit",
        "plans.logical.Intersect", "plans.logical.Join", "plans.logical.JoinHint",
        "plans.logical.LateralJoin", "plans.logical.LimitAll", "plans.logical.LocalLimit",
        "plans.logical.Offset", "plans.logical.OneRowRelation", "plans.logical.Pivot",
        "plans.logical.Project", "plans.logical.RepartitionByExpression", "plans.logical.Sample",
        "plans.logical.SampleMethod$Bernoulli$", "plans.logical.Sort",
        "plans.logical.SubqueryAlias", "plans.logical.Union", "plans.logical.Unpivot",
        "plans.logical.UnresolvedHint", "plans.logical.WithWindowDefinition",
    )
)  # fmt: skip
COLLECTIONS = "scala.collection."
PRODUCTS = ("scala.Some", "scala.None$", "scala.Tuple")
# Values, in which there is no other part of a plan.
VALUES = (
    f"{EXPRESSIONS}Literal", f"{CATALYST}plans.logical.LocalRelation",
    "org.apache.spark.sql.types.", "org.apache.spark.sql.util.CaseInsensitiveStringMap",
    "org.apache.spark.unsafe.types.", "java.lang.", "java.math.", "java.util.UUID",
    "scala.Enumeration$Val",
)  # fmt: skip
IN_WORDS = {
    "ScriptTransformation": "TRANSFORM runs a program",
    "ExpressionWithUnresolvedIdentifier": "IDENTIFIER hides a name",
    "PlanWithUnresolvedIdentifier": "IDENTIFIER hides a name",
}

# A part of a plan, and the tables that it may name: those of the analysis, and of its WITH.
Visible = tuple[Any, frozenset[str]]


def require_parser(spark: SparkSession) -> None:
    """Raises InputError for a session of Spark Connect, as its client has no parser.

    A parser on this machine would not do: the server's settings change how it reads a text.
    """
    if is_connect(spark):
        raise InputError(
            "--sql needs Spark's parser, to check that a query only reads, and a client of Spark "
            "Connect has none; use --save, and query the saved tables there"
        )


def require_reading_only(spark: SparkSession, query: str, tables: Collection[str]) -> None:
    """Raises InputError where a query does more than read these tables; Spark's errors of syntax.

    The session must have the settings AS_WRITTEN, here and when the query runs.
    """
    require_parser(spark)
    session: Any = spark
    parser = session._jsparkSession.sessionState().sqlParser()
    calls: set[tuple[str, ...]] = set()
    left: list[Visible] = [(parser.parsePlan(query), frozenset(map(str.lower, tables)))]
    while left:
        part, visible = left.pop()
        if not hasattr(part, "getClass"):  # text, a number, true, null
            continue
        name = part.getClass().getName()
        if name == RELATION:
            _require_table(part, visible, tables)
        elif name == WITH:
            left += _in_with(part, visible)
        elif name in CALLS:
            calls.add(tuple(map(str.lower, _each(CALLS[name](part)))))
            left += ((inner, visible) for inner in _fields(part))
        else:
            left += ((inner, visible) for inner in _inside(part, name))
    if calls:
        _require_functions(calls, session._jvm)


def _require_table(relation: Any, visible: frozenset[str], tables: Iterable[str]) -> None:
    """A table by its name alone: two names may be a format and a path, as in text.`/etc/passwd`."""
    names = list(_each(relation.multipartIdentifier()))
    if len(names) != 1 or names[0].lower() not in visible:
        raise InputError(
            f"--sql: there is no table {'.'.join(names)}; the tables are {', '.join(tables)}"
        )
    if relation.isStreaming():
        raise InputError("--sql: the tables are no streams; leave out STREAM")


def _in_with(part: Any, visible: frozenset[str]) -> Iterator[Visible]:
    """The queries that a WITH names, each of which sees those before it, and what follows them."""
    recursive = any(field is True for field in _fields(part))
    for named in _each(part.cteRelations()):
        name = frozenset({named._1().lower()})
        yield named._2(), visible | name if recursive else visible
        visible |= name
    yield part.child(), visible


def _inside(part: Any, name: str) -> Iterator[Any]:
    """What a part of a plan is made of. Raises InputError where it is not allowed."""
    if name.startswith(VALUES):
        return iter(())
    if name.startswith(COLLECTIONS):
        return _each(part)
    if name in PARTS or name.startswith((EXPRESSIONS, *PRODUCTS)):
        return _fields(part)
    short = name.rpartition(".")[2].partition("$")[0]
    why = IN_WORDS.get(short, f"{short} is not allowed in it")
    raise InputError(f"--sql takes one query, which reads (SELECT …): {why}")


def _require_functions(calls: Iterable[tuple[str, ...]], jvm: Any) -> None:
    """Functions are looked up in what comes with Spark: others may run anything."""
    groups = _groups(jvm)
    for *before, name in sorted(calls):
        harmless = name in FUNCTIONS or groups.get(name) in GROUPS
        if tuple(before) not in BUILTIN or not harmless:
            raise InputError(
                f"--sql: {'.'.join((*before, name))} is not allowed, only functions of Spark's own "
                "that run no other code and open no files"
            )


@lru_cache(maxsize=1)
def _groups(jvm: Any) -> dict[str, str]:
    """The functions that come with this Spark, and the group of each."""
    known = jvm.org.apache.spark.sql.api.python.PythonSQLUtils.listBuiltinFunctionInfos()
    return {each.getName(): each.getGroup() for each in known}


def _fields(part: Any) -> Iterator[Any]:
    return _rest(part.productIterator())


def _each(collection: Any) -> Iterator[Any]:
    return _rest(collection.iterator())


def _rest(iterator: Any) -> Iterator[Any]:
    """Scala's iterator as Python's."""
    while iterator.hasNext():
        yield iterator.next()
