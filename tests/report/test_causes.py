"""Many subscriptions with one cause are one diagnosis: a line with what it costs, and in JSON."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from pulsar_doctor.diagnosis.answers import Rests
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.report.stall_check.formats import write
from tests.report.checkups import checkup, finding, suspected, verdict, written

NOBODY = (finding("no-consumer", "warning", None, "no consumer is attached"),)


def dead(count: int, **more: Any) -> list[Diagnosis]:
    """Test subscriptions that nobody needs; the last one has the largest backlog."""
    return [
        verdict("warning", f"dead-{at}", f"persistent://public/test/t{at % 31}", **of(at), **more)
        for at in range(count)
    ]


def of(at: int) -> dict[str, Any]:
    return {"backlog": at * 10, "growth": at % 3, "findings": NOBODY}


def table(*diagnoses: Diagnosis, **wanted: Any) -> list[str]:
    text = written("table", checkup(diagnoses), **wanted)
    return [" ".join(line.split()) for line in text.splitlines()]


def test_forty_eight_dead_subscriptions_are_one_line_and_the_stall_stands_out() -> None:
    lines = table(*dead(48), verdict("stalled"))
    assert lines[0] == "✖ STALLED billing on orders; cause: permits-exhausted of worker-3 (90%)"
    at = lines.index(
        "▲ WARNING 48 subscriptions: no-consumer, backlog 11280 in all, growing by 48 a minute"
    )
    assert lines[at + 1 : at + 7] == [
        "largest dead-47 on public/test/t16, backlog 470",
        "dead-46 on public/test/t15, backlog 460",
        "dead-45 on public/test/t14, backlog 450",
        "and 45 more with -v or -o json",
        "",
        "no-consumer: Give this consumer a smaller receiver queue.",
    ]
    assert sum("dead-" in line for line in lines) == 3
    every = table(*dead(48), verbose=True)
    assert sum("dead-" in line for line in every) == 48


def test_up_to_five_of_one_cause_stand_apart() -> None:
    assert sum("▲ WARNING dead-" in line for line in table(*dead(5))) == 5
    assert sum("▲ WARNING dead-" in line for line in table(*dead(6))) == 0


def test_a_group_is_a_row_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    others = [verdict("stalled", f"s{at}", findings=(finding(f"cause-{at}"),)) for at in range(6)]
    lines = table(*dead(40), *others)
    assert (
        "▲ WARNING 7800 40 subscriptions: dead-39, dead-38, dead-37 and 37 more "
        "31 topics: public/test/t8, public/test/t7, public/test/t6 and 28 more "
        "- no-consumer"
    ) in lines
    monkeypatch.setenv("COLUMNS", "80")
    narrow = table(*dead(40), *others)
    at = narrow.index("▲ WARNING 40 subscriptions: dead-39, dead-38, dead-37 and 37 more")
    assert narrow[at + 1] == "no-consumer, backlog 7800 in all, growing by 39 a minute"


def test_a_sentence_among_many_names_no_consumer_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "70")
    rests = suspected("rests", 0.01, unknown=(Rests("w0 has taken nothing for 4 min"),))
    others = [verdict("stalled", f"s{at}", findings=(finding(f"cause-{at}"),)) for at in range(6)]
    lines = table(rests, suspected("stuck"), *others)
    assert "w0 has taken nothing for 4 min, backlog 498" in lines
    assert "likely key-shared-blocked of ks-stuck (70%), backlog 498" in lines
    assert "cause-0 of worker-3, backlog 498" in lines


def test_a_line_below_many_asks_the_cluster_of_this_call() -> None:
    others = [verdict("stalled", f"s{at}", findings=(finding(f"cause-{at}"),)) for at in range(6)]
    lines = table(suspected("stuck"), *others, reach="--admin-url http://b:1")
    [line] = [line for line in lines if line.startswith("pulsar-doctor stall-check")]
    assert line.endswith(" -s billing --window 60s --admin-url http://b:1")


def test_one_name_on_many_topics_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    same = [verdict("stalled", topic=f"persistent://a/b/{at}") for at in range(500)]
    others = [verdict("warning", f"s{at}", findings=(finding(f"c{at}"),)) for at in range(5)]
    lines = table(*same, *others)
    [row] = [line for line in lines if "500 subscriptions" in line and "STALLED" in line]
    start = "✖ STALLED 249000 500 subscriptions: billing 500 topics: a/b/0, a/b/1, a/b/2 "
    assert row.startswith(start)


def test_the_worst_come_first_then_what_costs_most_then_what_grows() -> None:
    found = [
        verdict("warning", "w", backlog=10**9),
        verdict("stalled", "small", backlog=1),
        verdict("stalled", "grows", backlog=5, growth=3),
        verdict("stalled", "stands", backlog=5, growth=0),
        verdict("stalled", "untold", backlog=None),
    ]
    random.Random(1).shuffle(found)
    heads = [line.split()[2] for line in table(*found) if line.startswith(("✖", "▲"))]
    assert heads == ["grows", "stands", "small", "untold", "w"]


def test_a_backlog_that_some_do_not_tell_is_at_least_what_the_others_have() -> None:
    some = [verdict("stalled", f"s{at}", backlog=None if at else 7) for at in range(6)]
    assert "backlog at least 7 in all" in table(*some)[0]
    none = [verdict("stalled", f"s{at}", backlog=None) for at in range(6)]
    assert table(*none)[0].endswith("permits-exhausted, backlog not reported")


def causes(*diagnoses: Diagnosis) -> list[dict[str, Any]]:
    found = json.loads(written("json", checkup(diagnoses)))["causes"]
    assert isinstance(found, list)
    return found


def test_json_has_every_cause_with_its_cost_and_the_largest_ten() -> None:
    healthy = verdict(findings=(finding("delayed-messages", "info"),))
    found = causes(healthy, *dead(500), suspected(), verdict("unknown"), verdict("stalled"))
    assert [(each["severity"], each["code"], each["subscriptions"]) for each in found] == [
        ("stalled", "permits-exhausted", 1),
        (None, "key-shared-blocked", 1),
        ("warning", "no-consumer", 500),
    ]
    nobody = found[2]
    assert (nobody["backlog"], nobody["growth"]) == (10 * 499 * 250, 499)
    assert [each["backlog"] for each in nobody["largest"]] == list(range(4990, 4890, -10))
    assert nobody["largest"][0] == {
        "topic": "persistent://public/test/t3", "partition": None, "subscription": "dead-499",
        "backlog": 4990,
    }  # fmt: skip


def test_one_cause_of_two_severities_is_two_and_partitions_count_apart() -> None:
    parts = [verdict("stalled", partition=at, backlog=at) for at in range(3)]
    found = causes(*parts, verdict("warning", backlog=None))
    assert [(each["severity"], each["subscriptions"], each["backlog"]) for each in found] == [
        ("stalled", 3, 3), ("warning", 1, None),
    ]  # fmt: skip


class Nowhere:
    """A stream that keeps nothing."""

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        """There is nothing."""


def test_ten_thousand_of_one_cause_take_no_more_memory_than_a_hundred() -> None:
    def most(count: int) -> int:
        def coming() -> Iterator[Diagnosis]:
            for at in range(count):
                yield verdict("stalled", f"s{at}", backlog=at)

        tracemalloc.start()
        write("json", checkup(coming()), Nowhere())  # type: ignore[arg-type]
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return peak

    most(100)
    assert most(10_000) < most(100) + 100_000
