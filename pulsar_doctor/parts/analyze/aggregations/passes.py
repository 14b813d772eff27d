"""Results that several tables share, computed once and cached by Spark.

Spark can keep rows in two ways. Persisted, they have a plan from which a part that is lost is made
again; what follows reads them as a leaf, so that nobody plans again what came before. At a
checkpoint there is no such plan, and nothing to put into columns, which few rows do not repay. But
these rows are lost with the executor that has them: only where Spark runs in this process, which
loses nothing but itself, is what is shared cut off.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any

from pyspark import InheritableThread

from pulsar_doctor.parts.analyze.masters import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# A plan is made in one go, and not while it runs. Otherwise what is cut off runs at once, wanted or
# not, as far as its last exchange.
PLANNED_ONLY = {"spark.sql.adaptive.enabled": "false"}


@dataclass(frozen=True, slots=True)
class SharedRows:
    """Rows that are kept from their first use until `forget`."""

    made: DataFrame  # as they are planned
    rows: DataFrame  # the same rows, for later steps
    cut: bool  # without their plan

    def begin(self) -> None:
        """Computes persisted rows in another thread, while more is planned."""
        if not (self.cut or is_connect(self.made.sparkSession)):
            InheritableThread(self._computed, daemon=True).start()

    def _computed(self) -> None:
        with suppress(Exception):  # whoever needs the rows will hear of it
            self.rows.count()

    def forget(self) -> None:
        """Lets Spark forget the rows."""
        if self.cut:
            _kept_by_java(self.rows).unpersist(False)
        else:
            self.made.unpersist()


@dataclass(frozen=True, slots=True)
class Keeping:
    """How rows that tables share are kept."""

    few: bool = False  # so few rows that one partition is best: nothing is moved any more
    cut: bool = False  # without their plan; only where Spark is this process
    once: bool = False  # keep the trace's rows too, so that they are read once; only if few

    def kept(self, made: DataFrame, name: str) -> SharedRows:
        """These rows, in memory or else on disk. name: for Spark's web pages.

        Cut off, and planned in one go (PLANNED_ONLY), nothing runs yet but what a plan broadcasts.
        """
        made = made.coalesce(1) if self.few else made
        if self.cut:
            rows = made.localCheckpoint(eager=False)
            _kept_by_java(rows).setName(name)
        else:
            made.persist()
            rows = made if is_connect(made.sparkSession) else _as_a_leaf(made)
        return SharedRows(made, rows, self.cut)


PERSISTED = Keeping()


def _as_a_leaf(made: DataFrame) -> DataFrame:
    """Persisted rows as Spark reads them: it would look for their plan in each query otherwise."""
    java: Any = made._jdf
    name = java.getClass().getName().split(".")  # not the same in Spark 3.5 and 4
    dataset: Any = reduce(getattr, name, made.sparkSession._jvm)
    leaf = dataset.ofRows(java.sparkSession(), java.queryExecution().withCachedData())
    return type(made)(leaf, made.sparkSession)


def _kept_by_java(rows: DataFrame) -> Any:
    """The RDD of a checkpoint: DataFrame.unpersist knows only what was persisted."""
    return rows._jdf.queryExecution().logical().rdd()
