"""The partitions of a partitioned topic's stats against its metadata and its totals."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples.asking import ReadSamples, read
from tests.broker.recorded import stats_of

BASE = "persistent://public/default/stats-partitioned-e722"


@pytest.fixture
def changed(tmp_path: Path) -> Callable[..., ReadSamples]:
    """What is read of the recorded stats with all read and acknowledged, after a change."""

    def changed(change: Callable[[Any], Any], cut_at: str | None = None) -> ReadSamples:
        stats = stats_of("4.0.8-partitioned-per-partition")
        for each in (stats, *stats["partitions"].values()):
            each["subscriptions"]["s"] |= {
                "msgBacklog": 0, "msgBacklogNoDelayed": 0, "unackedMessages": 0,
            }  # fmt: skip
        change(stats)
        text = json.dumps(stats)
        file = tmp_path / "s.json"
        file.write_text(text if cut_at is None else text[: text.rindex(cut_at)])
        return read(SampleFiles([str(file)]))

    return changed


def without(*numbers: int) -> Callable[[Any], None]:
    def change(stats: Any) -> None:
        for number in numbers:
            del stats["partitions"][f"{BASE}-partition-{number}"]

    return change


def impossible(found: ReadSamples) -> list[tuple[str, ...]]:
    return [each.cannot_be for window in found.windows for each in window.subscriptions()]


def reasons(found: ReadSamples) -> list[str]:
    return [why.partition(" ")[2] for why in found.incomplete]


def test_a_whole_answer_is_complete(changed: Any) -> None:
    found = changed(lambda stats: None)
    assert (reasons(found), impossible(found)) == ([], [(), (), ()])


def test_a_partition_that_is_not_listed_is_named(changed: Any) -> None:
    found = changed(without(1))
    assert reasons(found) == [f"lists 2 of 3 partitions, not {BASE}-partition-1"]


def test_of_many_partitions_that_are_not_listed_the_first_are_named(changed: Any) -> None:
    found = changed(lambda stats: stats["metadata"].update(partitions=2**40))
    names = ", ".join(f"{BASE}-partition-{at}" for at in (3, 4, 5))
    listed = f"lists 3 of {2**40} partitions"
    assert reasons(found) == [f"{listed}, not {names} and {2**40 - 6} more"]


def test_a_text_that_ends_within_a_partition_is_cut_off_there(changed: Any) -> None:
    found = changed(lambda stats: None, cut_at='"publishers"')
    assert reasons(found)[0] == "is cut off within its partitions"


@pytest.mark.parametrize(
    ("count", "why"),
    [
        (-1, "metadata.partitions is -1, which is impossible: nothing is judged by it"),
        (2, "metadata.partitions is 2, but 3 are listed: nothing is judged by it"),
    ],
)
def test_a_number_of_partitions_that_cannot_be(changed: Any, count: int, why: str) -> None:
    found = changed(lambda stats: stats["metadata"].update(partitions=count))
    assert impossible(found) == [(why,)] * 3


def test_a_number_of_partitions_that_cannot_be_beside_totals_alone(changed: Any) -> None:
    found = changed(lambda stats: stats.update(metadata={"partitions": -1}, partitions={}))
    why = "metadata.partitions is -1, which is impossible: nothing is judged by it"
    assert impossible(found) == [(why,)]


@pytest.mark.parametrize(("waiting", "contradicts"), [(1000, True), (0, False)])
def test_totals_that_no_partition_accounts_for(
    changed: Any, waiting: int, contradicts: bool
) -> None:
    found = changed(lambda stats: stats["subscriptions"]["s"].update(msgBacklog=waiting))
    why = f'the backlog of "s" is {waiting} in the totals and 0 in all partitions: one is wrong'
    assert impossible(found) == [(why,) if contradicts else ()] * 3


def test_totals_of_another_moment_are_no_contradiction(changed: Any) -> None:
    def moves(stats: Any) -> None:
        stats["subscriptions"]["s"]["msgBacklog"] = 1000
        stats["partitions"][f"{BASE}-partition-1"]["subscriptions"]["s"]["msgBacklog"] = 100

    assert impossible(changed(moves)) == [(), (), ()]


def test_a_subscription_that_only_the_totals_have(changed: Any) -> None:
    found = changed(lambda stats: stats["subscriptions"].update(t={"msgBacklog": 7}))
    assert reasons(found) == ['has "t", with a backlog of 7, in its totals and in no partition']


def test_partitions_need_no_totals(changed: Any) -> None:
    def alone(stats: Any) -> None:
        for name in stats.keys() - {"metadata", "partitions"}:
            del stats[name]

    found = changed(alone)
    assert (len(found.windows), reasons(found)) == (3, [])
