"""A small table of values that the driver knows, for Spark to join with."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def small_table(spark: SparkSession, rows: Sequence[dict[str, Any]], columns: str) -> DataFrame:
    """These rows; columns: as `name: type, …`.

    Not by createDataFrame, for which classic Spark starts Python on an executor.
    """
    values = F.from_json(F.lit(json.dumps(rows)), f"array<struct<{columns}>>")
    return spark.range(0, 1, 1, 1).select(F.inline(values))
