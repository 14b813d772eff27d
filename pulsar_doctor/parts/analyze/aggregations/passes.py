"""Results that several tables share, computed once and cached by Spark.

Spark can keep rows in two ways. Persisted, they stay a query that happens to be answered already:
each plan that reads them holds theirs, which holds those before it, and Spark plans all of
it again and again. Where there are few rows that is most of the work. At a checkpoint the plan is
cut off: what follows reads rows, and their plan is one line. But such rows cannot be made again, so
that they are lost with the executor that has them: only where Spark runs in this process, which
loses nothing but itself, is what is shared cut off.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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

    def forget(self) -> None:
        """Lets Spark forget the rows."""
        if self.rows is self.made:
            self.rows.unpersist()
        else:
            _kept_by_java(self.rows).unpersist(False)


@dataclass(frozen=True, slots=True)
class Keeping:
    """How rows that tables share are kept."""

    few: bool = False  # so few rows that one partition is best: nothing is moved any more
    cut: bool = False  # without their plan; only where Spark is this process
    once: bool = False  # keep the trace's rows too, so that they are read once; only if few

    def kept(self, made: DataFrame, name: str) -> SharedRows:
        """These rows. name: for Spark's web pages."""
        made = made.coalesce(1) if self.few else made
        return cut_off(made, name) if self.cut else persisted(made)


PERSISTED = Keeping()


def persisted(made: DataFrame) -> SharedRows:
    """Kept with its plan, from which a part that is lost is made again."""
    return SharedRows(made, made.persist())


def cut_off(made: DataFrame, name: str) -> SharedRows:
    """Kept without its plan, in memory or else on this machine's disk. name: for Spark's web pages.

    Where a plan is made in one go (PLANNED_ONLY) nothing runs yet but what a plan broadcasts.
    """
    rows = made.localCheckpoint(eager=False)
    _kept_by_java(rows).setName(name)
    return SharedRows(made, rows)


def _kept_by_java(rows: DataFrame) -> Any:
    """The RDD of a checkpoint: DataFrame.unpersist knows only what was persisted."""
    return rows._jdf.queryExecution().logical().rdd()
