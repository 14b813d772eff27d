"""The table of stall-check: details of a few, rows of many, partitions as one, at any width."""

from __future__ import annotations

import os

import pytest
from rich.cells import cell_len

from pulsar_doctor.diagnosis.weighing import Diagnosis
from pulsar_doctor.evidence.answers import Unknown
from tests.report.checkups import actions_on, checkup, finding, verdict, written

MANY = """
verdict     subscription   topic                       culprit    cause                   backlog
─────────────────────────────────────────────────────────────────────────────────────────────────
✖ STALLED   s3             a/b/c                       worker-3   permits-exhausted             3
✖ STALLED   s2             a/b/c                       worker-3   permits-exhausted             2
✖ STALLED   s1             a/b/c                       worker-3   permits-exhausted             1
✖ STALLED   s0             a/b/c                       worker-3   permits-exhausted             0
✖ STALLED   hogged         a/b/c                       slow       prefetch-hogging       not told
? UNKNOWN   audit          a/b/c                       -          ack-hole: one sample        498
▲ WARNING   billing        a/b/c, partition 3 of 100   worker-3   permits-exhausted          1000

permits-exhausted: Give this consumer a smaller receiver queue.
  pulsar-doctor explain permits-exhausted
prefetch-hogging: Give this consumer a smaller receiver queue.
  pulsar-doctor explain prefetch-hogging

✔ HEALTHY  search (Shared) on persistent://a/b/c
8 subscriptions (107 with each partition apart): 5 stalled, 1 unknown, 1 warning, 1 healthy
"""


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def read(text: str) -> str:
    """Lines that fit the width of the terminal, but those that are pasted, which nothing breaks."""
    width = int(os.environ.get("COLUMNS", "20000"))
    folded = [line for line in text.split("\n") if not line.startswith(("  run ", "  check "))]
    assert all(cell_len(line) <= width for line in folded)
    return text


def table(diagnoses: list[Diagnosis], **more: object) -> list[str]:
    """The lines without the spaces at their ends."""
    verbose = bool(more.pop("verbose", False))
    text = written("table", checkup(diagnoses, **more), verbose=verbose)
    return [line.rstrip() for line in text.splitlines()]


def folded(statuses: dict[int, str], of: int, **more: object) -> list[Diagnosis]:
    """A topic of so many partitions, of which some are not healthy."""
    return [
        verdict(statuses.get(number, "healthy"), partition=number, backlog=10, **more)  # type: ignore[arg-type]
        for number in range(of)
    ]


@pytest.mark.usefixtures("wide")
def test_a_few_in_detail_the_worst_first() -> None:
    lines = table(
        [
            verdict("healthy", "search"),
            verdict("unknown", "audit", backlog=None),
            verdict("stalled"),
        ],
        not_loaded=["persistent://a/b/quiet"],
        unreachable=[("persistent://a/b/gone", "404: no such topic")],
    )
    assert lines == [
        "✖ STALLED  billing (Shared) on persistent://public/default/orders",
        "  cause    permits-exhausted of worker-3 (stalled, 90% sure)",
        "  seen     worker-3 holds 500 messages and has 0 permits",
        "  remedy   Give this consumer a smaller receiver queue.",
        "  numbers  available permits 0, last ack 12 min",
        "  more     pulsar-doctor explain permits-exhausted",
        "  backlog  498 entries",
        "",
        "? UNKNOWN  audit (Shared) on persistent://public/default/orders",
        "  backlog   not told",
        "  not told  broker-read-stuck: one sample does not show whether it moves",
        "",
        "✔ HEALTHY  search (Shared) on persistent://public/default/orders",
        "3 subscriptions: 1 stalled, 1 unknown, 1 healthy",
        "1 topic not loaded by any broker, so not read (--load-topics reads them):"
        " persistent://a/b/quiet",
        "1 topic could not be read:",
        "  persistent://a/b/gone: 404: no such topic",
    ]


def test_what_to_do_stands_in_order_and_lines_to_paste_are_whole_at_any_width(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    topic = f"persistent://public/default/{'a long name ' * 9}"
    stalled = verdict("stalled", findings=(finding(actions=actions_on(topic)),))
    lines = table([stalled])
    start = next(number for number, line in enumerate(lines) if line.startswith("  now"))
    pasted = [line for line in lines if line.startswith(("  run", "  check"))]
    assert [line.split()[0] for line in lines[start:] if line[2:5].strip()][:8] == [
        "now", "but", "now", "run", "but", "check", "today", "undo",
    ]  # fmt: skip
    assert pasted == [
        f"  run      pulsar-admin topics unload '{topic}'",
        f"  check    pulsar-doctor stall-check '{topic}'  # healthy",
    ]
    assert not any("remedy" in line for line in lines), "in its place"


@pytest.mark.usefixtures("wide")
def test_partitions_with_the_same_causes_share_one_block() -> None:
    stalled = dict.fromkeys((3, 7, 8), "stalled")
    lines = table([*folded(stalled, 100), verdict("stalled", partition=100, backlog=500)])
    assert lines[:2] == [
        "✖ STALLED  billing (Shared) on persistent://public/default/orders, partitions 3, 7, 8 and"
        " 100 of 101",
        "  shown    partition 100, the largest backlog of them",
    ]
    assert "  backlog  1500 entries in all partitions" in lines
    assert sum("STALLED" in line for line in lines) == 1


@pytest.mark.usefixtures("wide")
def test_partitions_with_other_causes_have_a_block_of_their_own() -> None:
    lines = table(folded({1: "warning", 2: "stalled"}, 4))
    assert [line for line in lines if line.startswith(("✖", "▲", "✔"))] == [
        "✖ STALLED  billing (Shared) on persistent://public/default/orders, partition 2 of 4",
        "▲ WARNING  billing (Shared) on persistent://public/default/orders, partition 1 of 4",
    ]


@pytest.mark.usefixtures("wide")
def test_partitions_stalled_for_different_causes_have_a_block_each() -> None:
    hogged = verdict("stalled", partition=2, findings=(finding("prefetch-hogging"),))
    lines = table([*folded({1: "stalled"}, 2), hogged])
    assert sum(line.endswith("of 3") for line in lines) == 2


@pytest.mark.parametrize(
    ("unwell", "of", "says"),
    [
        ([4], 9, ", partition 4 of 9"),
        ([4, 5], 9, ", partitions 4 and 5 of 9"),
        (range(7), 9, ", partitions 0, 1, 2, 3, 4 and 2 more of 9"),
        (range(9), 9, ", all 9 partitions"),
        ([0], 1, ", partition 0"),
    ],
)
@pytest.mark.usefixtures("wide")
def test_which_partitions(unwell: list[int], of: int, says: str) -> None:
    first = table(folded(dict.fromkeys(unwell, "stalled"), of))[0]
    assert first.endswith(f"persistent://public/default/orders{says}")


@pytest.mark.usefixtures("wide")
def test_a_backlog_that_one_partition_does_not_tell_is_not_told() -> None:
    untold = verdict(partition=4, backlog=None)
    lines = table([*folded({1: "stalled"}, 4), untold, verdict(partition=5, backlog=7)])
    assert "  backlog  not told in all partitions" in lines


@pytest.mark.usefixtures("wide")
def test_many_are_a_row_each_with_the_remedies_below() -> None:
    topic = "persistent://a/b/c"
    hog = finding("prefetch-hogging", consumer="slow")
    lines = table(
        [
            *(verdict("stalled", f"s{number}", topic, backlog=number) for number in range(4)),
            verdict("stalled", "hogged", topic, backlog=None, findings=(hog,)),
            verdict("unknown", "audit", topic, not_told=("ack-hole: one sample",)),
            *folded({3: "warning"}, 100, topic=topic),
            verdict("healthy", "search", topic),
        ]
    )
    assert lines == MANY.split("\n")[1:-1]


def test_a_row_names_the_partitions_of_the_worst_cause_and_counts_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    milder = dict.fromkeys((4, 5), "warning")
    others = [verdict("stalled", f"s{number}", backlog=number) for number in range(5)]
    rows = table([*folded({3: "stalled", **milder}, 9), *others])
    assert rows[2].startswith("✖ STALLED   billing ")
    assert "public/default/orders, partition 3 of 9; 2 more with other causes " in rows[2]


@pytest.mark.parametrize("width", [60, 80])
def test_many_are_two_lines_each_on_a_narrow_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = table([verdict("stalled", f"s{number}", backlog=None) for number in range(6)])
    assert lines[:2] == [
        "✖ STALLED  s0 on public/default/orders",
        "  permits-exhausted of worker-3, backlog not told",
    ]
    assert " ".join(lines[12:]) == (
        " permits-exhausted: Give this consumer a smaller receiver queue."
        "   pulsar-doctor explain permits-exhausted  6 subscriptions: 6 stalled"
    )


@pytest.mark.usefixtures("wide")
def test_rows_are_cut_at_a_hundred_the_largest_backlogs_first() -> None:
    lines = table([verdict("stalled", f"s{number}", backlog=number) for number in range(130)])
    rows = [line.split()[2] for line in lines if "✖ STALLED" in line]
    assert rows == [f"s{number}" for number in range(129, 29, -1)]
    assert "and 30 more: -o json lists them all" in lines
    assert lines[-1] == "130 subscriptions: 130 stalled"


@pytest.mark.usefixtures("wide")
def test_the_healthy_are_named_up_to_ten_and_counted_beyond() -> None:
    ten = [verdict("healthy", f"s{number}") for number in range(10)]
    assert sum("HEALTHY" in line for line in table(ten)) == 10
    assert table([*ten, verdict("healthy", "s10")]) == ["11 subscriptions: 11 healthy"]
    assert table([*ten[:9], *folded({}, 3), verdict("healthy", "s10")]) == [
        "11 subscriptions (13 with each partition apart): 11 healthy"
    ]


@pytest.mark.usefixtures("wide")
def test_a_healthy_one_says_what_is_worth_knowing_and_not_what_was_not_told() -> None:
    delayed = finding("delayed-messages", "info", None, "498 of 498 are not due yet")
    lines = table([verdict(findings=(delayed,), not_told=("permit-leak: needs a trace",))])
    assert lines == [
        "✔ HEALTHY  billing (Shared) on persistent://public/default/orders",
        "  info     delayed-messages: 498 of 498 are not due yet",
    ]
    folds = table(folded({}, 3))
    assert folds[0].endswith("on persistent://public/default/orders, 3 partitions")


@pytest.mark.usefixtures("wide")
def test_an_unknown_verdict_gives_three_reasons_or_all_with_v() -> None:
    reasons = tuple(f"rule-{number}: not in this document" for number in range(5))
    told = [line for line in table([verdict("unknown", not_told=reasons)]) if line]
    assert told[2:] == [
        "  not told  rule-0: not in this document",
        "  not told  rule-1: not in this document",
        "  not told  rule-2: not in this document",
        "            and 2 more with -v or -o json",
    ]
    told = table([verdict("unknown", not_told=reasons)], verbose=True)
    assert sum("not told  rule-" in line for line in told) == 5


@pytest.mark.usefixtures("wide")
def test_beside_a_finding_only_what_was_not_decided_is_counted() -> None:
    never = table([verdict("stalled", not_told=("permit-leak: needs a trace",))])
    assert not any("not " in line for line in never)
    more = {"not_told": ("a: why", "permit-leak: needs a trace"), "unknown": (Unknown("why"),)}
    assert "  not told  1 not decided: see them with -v or -o json" in table(
        [verdict("stalled", **more)]
    )


@pytest.mark.usefixtures("wide")
def test_what_was_not_read_is_counted_and_five_are_named() -> None:
    topics = [f"persistent://a/b/{number}" for number in range(7)]
    lines = table([], not_loaded=topics, unreachable=[(topic, "403") for topic in topics])
    assert lines[0] == "0 subscriptions"
    assert "".join(lines[1:3]).endswith("persistent://a/b/3, persistent://a/b/4 and 2 more")
    assert lines[-7:] == [
        "7 topics could not be read:",
        *(f"  {topic}: 403" for topic in topics[:5]),
        "  and 2 more: -o json lists them all",
    ]
