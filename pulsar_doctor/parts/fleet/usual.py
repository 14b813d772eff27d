"""`stall-check --usual DIR`: what is normal for each subscription at this hour, from the records.

One hour of the day is one file of each day, which Arrow reads for all subscriptions at once, in
less time than a Spark needs to start. No Java is needed, and no tables of `fleet --save`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pulsar_doctor.diagnosis.usual import Usual, UsualHour
from pulsar_doctor.errors import InputError, needing
from pulsar_doctor.wording.printable import listed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pulsar_doctor.diagnosis.verdict import Diagnosis, VerdictKey

    Hours = Mapping[VerdictKey, UsualHour]

DAYS = 30  # before today
MARKS = {"resting": "all", "quiet": "all", "not_well": "any", "comes_in": "mean"}  # of a day
SUMS = {"day": "count", "rested": "sum", "quiet_all": "sum", "not_well_any": "sum"}


def read(options: Mapping[str, Any]) -> Callable[[Diagnosis], Usual]:
    """Returns what says of a verdict what is normal. Raises InputError for what is no record.

    options: of the call.
    """
    with needing("trace", "reading what is usual"):
        from pulsar_doctor.parts.fleet.journal import require_folder, require_records
    folder, root = options["usual"], Path(options["usual"])
    require_folder(root, folder)
    clusters = [*root.glob("cluster=*/")]
    if not clusters and any(file.name != ".key" for file in root.iterdir()):
        require_records(root, folder)
    if len(clusters) > 1:
        names = listed(sorted(each.name for each in clusters), 3)
        raise InputError(f"{folder} has records of several clusters; copy one to read: {names}")
    habits = Habits(clusters[0] if clusters else root)
    if not clusters or next(clusters[0].glob("day=*/*.parquet"), None) is None:
        return lambda diagnosis: replace(habits.of(diagnosis), recorded=False)
    return habits.of


class Habits:
    """What is normal in one cluster. An hour is read once it is needed."""

    def __init__(self, cluster: Path) -> None:
        self._cluster = cluster
        self._hours = lru_cache(maxsize=48)(self._read)

    def of(self, diagnosis: Diagnosis, seconds: float | None = None) -> Usual:
        """What is normal for its subscription. seconds: since the epoch; None: now."""
        now = datetime.fromtimestamp(time.time() if seconds is None else seconds, UTC)
        today, key = now.replace(hour=0, minute=0, second=0, microsecond=0), diagnosis.key
        of, rests = self._hours(today, now.hour).get(key, UsualHour()), rests_now(diagnosis)
        if not rests or of.says != "usual":
            return Usual(now.hour, of, rests)
        before, after = (self._same(today, now.hour, key, step) for step in (-1, 1))
        return Usual(now.hour, of, rests, (now.hour - before) % 24, (now.hour + after + 1) % 24)

    def _same(self, today: datetime, hour: int, key: VerdictKey, step: int) -> int:
        """For how many hours before it, or after it, resting is usual as well."""
        for far in range(1, 24):
            hours = self._hours(today, (hour + far * step) % 24)
            if hours.get(key, UsualHour()).says != "usual":
                return far - 1
        return 11 if step < 0 else 12  # all day

    def _read(self, today: datetime, hour: int) -> Hours:
        """That hour of the days before this one, of each subscription."""
        import pyarrow as pa
        import pyarrow.compute as pc
        import pyarrow.dataset as ds

        from pulsar_doctor.parts.fleet.journal import SCHEMA
        from pulsar_doctor.parts.fleet.record import SCHEMA_VERSION, SEEN

        of = pc.field
        moves = (of("sent_out") > 0) | (of("acknowledged") > 0)
        columns = {
            **{name: of(name) for name in ("topic", "subscription", "comes_in")},
            "day": pc.floor_temporal(of("seen_at"), unit="day"),
            "resting": (of("backlog") > 0) & ~moves,
            "quiet": of("comes_in") == 0,
            "not_well": of("status").isin(["stalled", "warning"]),
        }
        files = [str(each) for each in self._files(today, hour)]
        known = (of("kind") == SEEN) & (of("schema_version") <= SCHEMA_VERSION)
        known &= of("backlog").is_valid() & moves.is_valid() & of("comes_in").is_valid()
        try:
            seen = ds.dataset(files, SCHEMA).to_table(columns, known)
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{self._cluster} is not read: {str(error).splitlines()[0]}") from None
        days = seen.group_by(["topic", "subscription", "day"]).aggregate([*MARKS.items()])
        rested = pc.and_(days["resting_all"], pc.invert(days["not_well_any"]))
        whole = days.append_column("rested", rested).group_by(["topic", "subscription"])
        found = whole.aggregate([*SUMS.items(), ("comes_in_mean", "approximate_median")])
        return {
            (row["topic"], row["subscription"]): UsualHour(
                row["day_count"],
                row["rested_sum"],
                row["quiet_all_sum"],
                row["not_well_any_sum"] or 0,
                row["comes_in_mean_approximate_median"],
            )
            for row in found.to_pylist()
        }

    def _files(self, today: datetime, hour: int) -> Iterator[Path]:
        for back in range(1, DAYS + 1):
            day = today - timedelta(days=back)
            yield from self._cluster.glob(f"day={day:%Y-%m-%d}/{day:%Y%m%d}T{hour:02d}*.parquet")


def rests_now(diagnosis: Diagnosis) -> bool:
    """Whether messages wait, and neither sending nor an acknowledgement was seen."""
    balance = diagnosis.balance
    rates = (balance.sent_out, balance.acknowledged) if balance else ()
    return (diagnosis.backlog or 0) > 0 and not any(rate and rate.about > 0 for rate in rates)
