"""What is drawn of a consumer is small, and hides no time without permits."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.checkup.incident import Recordings, of_recordings
from pulsar_doctor.checkup.judge import Judge
from pulsar_doctor.checkup.timelines.of_rows import RowTimelines
from pulsar_doctor.checkup.timelines.timeline import (
    DRAWN_MOST,
    SHOWN_MOST,
    ConsumerTimeline,
    Moved,
    Slots,
    Starved,
    StepPoints,
    Timelines,
    points_of,
    together,
)
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.diagnosis.limits import limits_of
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import GAP, Row
from tests.made.traces import write_trace
from tests.made.wire import TOPIC, Wire, slow_consumer

GAPS = st.lists(st.integers(1, 10**7), min_size=2, max_size=400)
STATES = Path(__file__).parents[1] / "states" / "4.0.8"


def recorded(*sources: Path, subscription: str | None = None) -> Timelines:
    folders = [each for each in sources if each.is_dir()]
    files = SampleFiles([str(each) for each in sources if not each.is_dir()])
    judge = Judge(load(), limits_of(load(), ()), subscription)
    those = Recordings(folders[0] if folders else None, files)
    return of_recordings(those, judge, lambda _: None, lambda _: None).timelines


def alone(timelines: Timelines) -> ConsumerTimeline:
    (only,) = timelines.consumers
    return only


def known(numbers: Iterable[int | None]) -> list[int]:
    return [number for number in numbers if number is not None]


@given(GAPS, st.integers(1, 40))
def test_every_time_without_permits_is_covered_by_what_is_drawn(gaps: list[int], most: int) -> None:
    starved: Slots[Starved] = Slots()
    moments = [sum(gaps[:at]) for at in range(len(gaps))]
    times = list(zip(moments[::2], moments[1::2], strict=False))
    for since, until in times:
        starved.add(Starved.once(since, until))
    drawn = starved.values(most)
    assert len(drawn) <= most
    for since, until in times:
        assert any(each.since_us <= since and until <= each.until_us for each in drawn)
    assert sum(each.times for each in drawn) == len(times)
    assert sum(each.total_us for each in drawn) == sum(until - since for since, until in times)
    assert max((e.longest_us for e in drawn), default=0) == max(
        (until - since for since, until in times), default=0
    )


@given(
    st.lists(st.tuples(st.integers(1, 10**6), st.integers(-50, 50) | st.none()), min_size=1),
    st.integers(1, 30),
)
def test_a_thinned_line_keeps_ends_extremes_and_each_fall_to_zero(
    steps: list[tuple[int, int | None]], most: int
) -> None:
    line: Slots[StepPoints] = Slots()
    moments = [sum(gap for gap, _ in steps[: at + 1]) for at in range(len(steps))]
    values = [value for _, value in steps]
    for us, value in zip(moments, values, strict=True):
        line.add(StepPoints(((us, value),)))
    points = points_of(line, most)
    assert len(points) <= 5 * most
    assert set(points) <= set(zip(moments, values, strict=True))
    assert list(points) == sorted(points, key=lambda point: point[0])
    assert (points[0], points[-1]) == ((moments[0], values[0]), (moments[-1], values[-1]))
    slots = line.values(most)
    begins = [each.since_us for each in slots]
    for us, value in zip(moments, values, strict=True):
        shown = [number for _, number in slots[bisect_right(begins, us) - 1].points]
        assert value in shown or (
            min(n for n in shown if n is not None)
            <= value
            <= max(n for n in shown if n is not None)
            if value is not None
            else None in shown
        )


@given(st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 9)), min_size=1), st.integers(1, 9))
def test_no_message_is_lost_where_slots_become_wider(
    steps: list[tuple[int, int]], most: int
) -> None:
    moved: Slots[Moved] = Slots()
    us = 0
    for gap, count in steps:
        us += gap
        moved.add(Moved(us, us, delivered=count))
    assert sum(each.delivered for each in moved.values(most)) == sum(n for _, n in steps)
    assert len(moved.values(most)) <= most


def test_a_trace_of_several_segments_is_drawn_whole(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.ptrace", slow_consumer(400).blocks, parts=3)
    drawn = alone(recorded(trace))
    (consumer,) = open_trace(trace).timeline().consumers
    ledger = consumer.ledger
    assert (drawn.delivered, drawn.acknowledged) == (ledger.messages, ledger.acknowledged)
    assert sum(each.permits for each in drawn.moved) == ledger.granted
    assert drawn.permits[-1][1] == ledger.available_permits
    assert drawn.held[-1][1] == ledger.unacked


def test_times_without_permits_are_those_of_the_ledger(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.ptrace", slow_consumer(40).blocks)
    timeline = open_trace(trace).timeline()
    starvation = timeline.consumers[0].ledger.starvation(timeline.now_ns)
    shown = alone(recorded(trace)).starved_in_all
    assert (shown.total_us, shown.longest_us) == (
        starvation.total_ns // 1000, starvation.longest_ns // 1000,
    )  # fmt: skip
    assert shown.longest_us == 2_001_000


def test_a_lost_connection_ends_the_time_without_permits_of_each_of_its_consumers(
    tmp_path: Path,
) -> None:
    said = Wire().open()
    for number in (1, 2):
        said.attached(number, f"c-{number}").flow(5, number)
        said.pushed(range(number * 10, number * 10 + 5), number)
    trace = write_trace(tmp_path / "t.ptrace", said.wait(3).close().wait(60).blocks)
    both = recorded(trace).consumers
    assert {each.name for each in both} == {"c-1", "c-2"}
    assert all(3_000_000 <= each.starved_in_all.longest_us < 3_100_000 for each in both)
    assert all(each.until_us - each.since_us < 4_000_000 for each in both)


def row(ts: int, command: str, incarnation: int | None = 1, **fields: object) -> Row:
    made = Row()
    made.ts, made.command, made.incarnation = ts, command, incarnation
    made.conn_id, made.topic, made.subscription, made.consumer_name = (
        0,
        TOPIC,
        "s",
        f"{incarnation}",
    )
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def drawn_of(rows: list[Row], ends_us: dict[int, int], end_us: int) -> Timelines:
    made = RowTimelines(ends_us)
    for each in rows:
        made.add(each)
    return made.finished(end_us)


def test_where_commands_are_missing_nothing_is_claimed() -> None:
    rows = [
        row(0, "FLOW", available_permits=0, starved_since=0, permits=0),
        row(5, "ACK", available_permits=0, starved_since=0),
        row(9, GAP, None),
        row(20, "FLOW", permits=10),
    ]
    drawn = alone(drawn_of(rows, {1: 100}, 100))
    assert drawn.permits == ((0, 0), (9, None), (100, None))
    assert [(each.since_us, each.until_us) for each in drawn.starved] == [(0, 5)]
    assert drawn.acknowledged is None


def test_a_clock_that_is_set_back_is_said_and_draws_no_line_backwards() -> None:
    back = 7_000_000
    rows = [row(ts, "FLOW", available_permits=1, permits=1) for ts in (0, back, 1000, 2000)]
    found = drawn_of(rows, {1: 2000}, 2000)
    times = [us for us, _ in alone(found).permits]
    assert times == sorted(times)
    assert alone(found).until_us == back + 1000
    assert found.notes == (
        "the clock was set back in this time; moments after that are drawn up to 7 s later",
    )


def test_of_many_consumers_the_worst_are_drawn_whole_and_none_without_permits_is_hidden(
    tmp_path: Path,
) -> None:
    many = SHOWN_MOST + 9
    said = Wire().open()
    for number in range(1, many + 1):
        said.attached(number, f"c-{number}").flow(5, number)
    for number in range(7, many + 1, 7):  # five messages use up its permits
        said.pushed(range(number * 10, number * 10 + 5), number)
    found = recorded(write_trace(tmp_path / "t.ptrace", said.wait(9).blocks))
    starved = {f"c-{number}" for number in range(7, many + 1, 7)}
    assert {each.name for each in found.consumers[: len(starved)]} == starved
    assert all(
        each.starved_in_all.longest_us > 9_000_000 for each in found.consumers[: len(starved)]
    )
    assert [each.has_lines for each in found.consumers].index(False) == DRAWN_MOST
    assert (len(found.consumers), found.left_out) == (SHOWN_MOST, 9)


def test_statistics_show_permits_backlog_and_what_they_do_not_tell() -> None:
    found = recorded(STATES / "permits-exhausted-shared-hung.jsonl.gz")
    (subscription,) = found.subscriptions
    assert subscription.backlog[-1][1] is not None
    worst = found.consumers[0]
    assert worst.sampled
    assert worst.acknowledged is None
    assert worst.starved_in_all.longest_us == worst.until_us - worst.since_us > 0
    assert not worst.unsent


def test_a_trace_shows_more_of_a_consumer_than_statistics_do() -> None:
    found = recorded(STATES / "prefetch-hogging.jsonl.gz")
    seen = replace(found.consumers[0], sampled=False)
    both = together(Timelines((seen,), notes=("a",)), replace(found, notes=("b",)))
    names = [(each.name, each.sampled) for each in both.consumers]
    assert names[0] == (seen.name, False)
    assert (seen.name, True) not in names
    assert len(names) == len(found.consumers) > 1
    assert (both.subscriptions, both.notes) == (found.subscriptions, ("a", "b"))
