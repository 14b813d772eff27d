"""The table of stall-check: details of a few, rows of many, partitions as one, at any width."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import pytest
from rich.cells import cell_len

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.checkup.result import STATUSES, Cluster, Taken
from pulsar_doctor.cli.stall_check.options import VERDICTS
from pulsar_doctor.diagnosis.answers import Rests, Unknown
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.balance import Balance
from pulsar_doctor.evidence.deadlines import Deadline
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.evidence.numbers import ReportedConsumer
from pulsar_doctor.evidence.values import Count
from pulsar_doctor.report.words import client
from pulsar_doctor.wording.sentences import say
from tests.report.checkups import (
    FALLING,
    actions_on,
    caused,
    checkup,
    finding,
    located,
    suspected,
    verdict,
    written,
)

MANY = """
verdict          backlog   subscription   topic                       culprit    cause
✖ STALLED              3   s3             a/b/c                       worker-3   permits-exhausted
✖ STALLED              2   s2             a/b/c                       worker-3   permits-exhausted
✖ STALLED              1   s1             a/b/c                       worker-3   permits-exhausted
✖ STALLED              0   s0             a/b/c                       worker-3   permits-exhausted
✖ STALLED   not reported   hogged         a/b/c                       slow       prefetch-hogging
? UNKNOWN            498   audit          a/b/c                       -          ack-hole: one sample
▲ WARNING           1000   billing        a/b/c, partition 3 of 100   worker-3   permits-exhausted

permits-exhausted: Give this consumer a smaller receiver queue.
  pulsar-doctor explain permits-exhausted
prefetch-hogging: Give this consumer a smaller receiver queue.
  pulsar-doctor explain prefetch-hogging

✔ HEALTHY  search (Shared) on persistent://a/b/c: backlog 498
8 subscriptions (107 with each partition and segment apart): 5 stalled, 1 unknown, 1 warning, 1 healthy
"""  # noqa: E501

LABELS_MOST = 25  # characters before a text


@pytest.fixture
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def read(text: str) -> str:
    """Lines that fit the width of the terminal; nothing breaks what is pasted, nor a long word."""
    width = int(os.environ.get("COLUMNS", "20000"))
    folded = [line for line in text.split("\n") if not line.startswith(("  run ", "  check "))]
    least = width - LABELS_MOST
    assert all(cell_len(line) <= width or max(map(cell_len, line.split())) > least
               for line in folded)  # fmt: skip
    return text


def table(diagnoses: list[Diagnosis], **more: object) -> list[str]:
    """The lines without the spaces at their ends."""
    verbose = bool(more.pop("verbose", False))
    text = written("table", checkup(diagnoses, **more), verbose=verbose)
    return [line.rstrip() for line in text.splitlines()]


def details(diagnoses: list[Diagnosis], **more: object) -> list[str]:
    """The same with -v."""
    return table(diagnoses, verbose=True, **more)


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
        "✖ STALLED  billing on orders; cause: permits-exhausted of worker-3 (90%)",
        "  worker-3 holds 500 messages and has 0 permits",
        "  waits   the backlog: 498 entries",
        "  fix     Give this consumer a smaller receiver queue.",
        "  more    pulsar-doctor explain permits-exhausted; -v for details",
        "",
        "? UNKNOWN  audit on orders: broker-read-stuck: one sample does not show whether it moves",
        "",
        "✔ HEALTHY  search (Shared) on persistent://public/default/orders: backlog 498",
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
    lines = details([stalled])
    start = next(number for number, line in enumerate(lines) if line.startswith("  now"))
    pasted = [line for line in lines if line.startswith(("  run", "  check"))]
    assert [line.split()[0] for line in lines[start:] if line[2:5].strip()][:8] == [
        "now", "but", "now", "run", "but", "check", "today", "undo",
    ]  # fmt: skip
    assert pasted == [
        f"  run      pulsar-admin topics unload '{topic}'",
        f"  check    pulsar-doctor stall-check '{topic}'",
    ]
    assert "           # healthy" in lines
    assert not any("remedy" in line for line in lines), "in its place"


@pytest.mark.usefixtures("wide")
def test_partitions_with_the_same_causes_share_one_block() -> None:
    stalled = dict.fromkeys((3, 7, 8), "stalled")
    lines = details([*folded(stalled, 100), verdict("stalled", partition=100, backlog=500)])
    assert lines[:2] == [
        "✖ STALLED  billing (Shared) on persistent://public/default/orders, partitions 3, 7, 8 and"
        " 100 of 101",
        "  shown    partition 100, the largest backlog of them",
    ]
    assert "  backlog  1500 entries in all partitions" in lines
    assert sum("STALLED" in line for line in lines) == 1


@pytest.mark.usefixtures("wide")
def test_partitions_with_other_causes_have_a_block_of_their_own() -> None:
    lines = details(folded({1: "warning", 2: "stalled"}, 4))
    assert [line for line in lines if line.startswith(("✖", "▲", "✔"))] == [
        "✖ STALLED  billing (Shared) on persistent://public/default/orders, partition 2 of 4",
        "▲ WARNING  billing (Shared) on persistent://public/default/orders, partition 1 of 4",
    ]


@pytest.mark.usefixtures("wide")
def test_partitions_stalled_for_different_causes_have_a_block_each() -> None:
    hogged = verdict("stalled", partition=2, findings=(finding("prefetch-hogging"),))
    lines = details([*folded({1: "stalled"}, 2), hogged])
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
    first = details(folded(dict.fromkeys(unwell, "stalled"), of))[0]
    assert first.endswith(f"persistent://public/default/orders{says}")


@pytest.mark.usefixtures("wide")
def test_a_backlog_that_one_partition_does_not_tell_is_not_told() -> None:
    untold = verdict(partition=4, backlog=None)
    lines = details([*folded({1: "stalled"}, 4), untold, verdict(partition=5, backlog=7)])
    assert "  backlog  not reported in all partitions" in lines


@pytest.mark.usefixtures("wide")
def test_many_are_a_row_each_with_the_remedies_below() -> None:
    topic = "persistent://a/b/c"
    hog = finding("prefetch-hogging", consumer="slow")
    lines = table(
        [
            *(verdict("stalled", f"s{number}", topic, backlog=number) for number in range(4)),
            verdict("stalled", "hogged", topic, backlog=None, findings=(hog,)),
            verdict("unknown", "audit", topic, unknowns=("ack-hole: one sample",)),
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
    others = [caused(number, backlog=number) for number in range(5)]
    rows = table([*folded({3: "stalled", **milder}, 9), *others])
    assert rows[1].startswith("✖ STALLED ")
    assert " billing " in rows[1]
    assert "public/default/orders, partition 3 of 9; 2 more with other causes " in rows[1]


def test_a_long_name_or_cause_is_whole_and_makes_only_its_own_row_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    topic, why = f"persistent://a/b/{'long-' * 30}", f"{'why ' * 40}not"
    few = [caused(number, backlog=number) for number in range(5)]
    long = verdict("stalled", topic=topic, findings=(finding("ack-hole"),))
    unknown = verdict("unknown", unknown=(Rests(why),), unknowns=(why,))
    rows = [line for line in table([*few, long, unknown]) if line[:1] in "✖?"]
    assert sum(topic.removeprefix("persistent://") in row for row in rows) == 1
    assert sum(row.endswith(why) for row in rows) == 1
    assert sorted(map(len, rows))[-3] < 100


@pytest.mark.parametrize("width", [60, 80])
def test_many_are_two_lines_each_on_a_narrow_terminal(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    lines = table([caused(number, backlog=None) for number in range(6)])
    assert lines[:2] == [
        "✖ STALLED  s0 on public/default/orders",
        "  cause-0 of worker-3, backlog not reported",
    ]
    assert " ".join(lines[12:]).startswith(
        " cause-0: Give this consumer a smaller receiver queue.   pulsar-doctor explain cause-0 "
    )
    assert lines[-1] == "6 subscriptions: 6 stalled"


@pytest.mark.parametrize("width", [60, 80, 20_000])
def test_why_many_are_unknown_is_whole(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    quiet = "has 0 permits, quiet for 16 s: working and hanging look the same for it"
    reasons = [f"zero-{number} {quiet}" for number in range(6)]
    those = [verdict("unknown", why, unknown=(Rests(why),), unknowns=(why,)) for why in reasons]
    lines = " ".join(" ".join(table(those)).split())
    assert all(f"{why}, backlog" in lines or f"498 {why}" in lines for why in reasons)


@pytest.mark.usefixtures("wide")
def test_rows_are_cut_at_a_hundred_the_largest_backlogs_first() -> None:
    lines = table([caused(number, backlog=number) for number in range(130)])
    rows = [line.split()[3] for line in lines if "✖ STALLED" in line]
    assert rows == [f"s{number}" for number in range(129, 29, -1)]
    assert "and 30 more: -o json lists them all" in lines
    assert lines[-1] == "130 subscriptions: 130 stalled"
    every = table([caused(number) for number in range(130)], verbose=True)
    assert sum("✖ STALLED" in line for line in every) == 130


@pytest.mark.usefixtures("wide")
def test_the_healthy_are_named_up_to_ten_and_counted_beyond() -> None:
    ten = [verdict("healthy", f"s{number}") for number in range(10)]
    assert sum("HEALTHY" in line for line in table(ten)) == 10
    assert table([*ten, verdict("healthy", "s10")]) == ["11 subscriptions: 11 healthy"]
    assert table([*ten[:9], *folded({}, 3), verdict("healthy", "s10")]) == [
        "11 subscriptions (13 with each partition and segment apart): 11 healthy"
    ]


@pytest.mark.usefixtures("wide")
def test_a_healthy_one_says_what_is_worth_knowing_and_not_what_was_not_told() -> None:
    summary = say("{} of {} are not due yet", 498, 498)
    delayed = finding("delayed-messages", "info", None, summary)
    lines = table([verdict(findings=(delayed,), unknowns=("permit-leak: needs a trace",))])
    assert lines == [
        "✔ HEALTHY  billing (Shared) on persistent://public/default/orders",
        "  info     delayed-messages: 498 of 498 are not due yet",
    ]
    folds = table(folded({}, 3))
    assert folds[0].endswith("on persistent://public/default/orders, 3 partitions: backlog 30")


@pytest.mark.usefixtures("wide")
def test_an_unknown_verdict_gives_its_first_reason_or_all_with_v() -> None:
    reasons = tuple(f"rule-{number}: not in this document" for number in range(5))
    assert table([verdict("unknown", unknowns=reasons)])[:2] == [
        "? UNKNOWN  billing on orders: rule-0: not in this document",
        "  more    -v (4 more reasons)",
    ]
    why = tuple(map(Unknown, reasons))
    told = details([verdict("unknown", unknowns=reasons, unknown=why)])
    assert told[2] == (
        "  undecided  rule-0, rule-1, rule-2, rule-3 and rule-4: not in this document"
    )
    others = (*reasons, "rule-5: not at all", "a sentence: with a colon", "a sentence")
    told = details([verdict("unknown", unknowns=others, unknown=(*why, Unknown("rule-5")))])
    assert told[3:6] == [
        "  undecided  rule-5: not at all",
        "  no data    a sentence: with a colon",
        "  no data    a sentence",
    ]


@pytest.mark.usefixtures("wide")
def test_what_was_not_read_is_counted_and_five_are_named() -> None:
    topics = [f"persistent://a/b/{number}" for number in range(7)]
    lines = table([], not_loaded=topics, unreachable=[(topic, "403") for topic in topics])
    assert lines[0] == "0 subscriptions: nothing was judged"
    assert "".join(lines[1:3]).endswith("persistent://a/b/3, persistent://a/b/4 and 2 more")
    assert lines[-7:] == [
        "7 topics could not be read:",
        *(f"  {topic}: 403" for topic in topics[:5]),
        "  and 2 more: -o json lists them all",
    ]


@pytest.mark.usefixtures("wide")
def test_where_a_consumer_is_and_who_suffers_stand_below_what_was_seen() -> None:
    lines = details([verdict("stalled", findings=(located(),))])
    assert lines[2:6] == [
        "  seen     worker-3 holds 500 messages and has 0 permits",
        "  where    10.0.3.7:51494, Java 4.0.8, connected 2 h",
        "  since    2026-05-01 11:48:00 UTC or before",
        "  impact   40 entries wait to be sent",
    ]
    assert "  backlog  498 entries" in lines


@pytest.mark.usefixtures("wide")
def test_a_number_is_not_told_twice() -> None:
    waits = say("{} of the {:entries} in the backlog wait to be sent", 40, 498)
    waiting = replace(located(), impact=waits)
    assert not any(
        "backlog  " in line for line in details([verdict("stalled", findings=(waiting,))])
    )
    said = replace(located(), summary="a suspicion: worker-3 at /10.0.3.7:51494 is silent")
    lines = details([verdict("stalled", findings=(said,))])
    assert "  where    Java 4.0.8, connected 2 h" in lines


def numbers_of(summary: str, *evidence: Measure, impact: str | None = None) -> str:
    """What the row of numbers still says."""
    found = replace(finding(summary=summary), evidence=evidence, impact=impact)
    lines = details([verdict("stalled", findings=(found,))])
    return next((line[11:] for line in lines if line.startswith("  numbers")), "")


@pytest.mark.parametrize(
    ("summary", "evidence", "says"),
    [
        (say("it holds {:messages}", 500), Measure("unacked_messages", 500, "messages"), ""),
        (
            say("it holds {:messages}", 1500),
            Measure("unacked_messages", 500, "messages"),
            "unacked messages 500",
        ),
        (say("{} holds {:messages}", "worker-3", 5), Measure("flows", 3, "commands"), "flows 3"),
        (say("{:messages} came", 3), Measure("flows", 3, "commands"), "flows 3"),
        (say("{:permits} are left", 0), Measure("permits", 0, "permits"), ""),
        (say("it is silent for {}", "12 min"), Measure("silent_for", 720.4, "seconds"), ""),
        (say("it is silent for {}", "12 min"), Measure("quiet_for", 0.001, "seconds"), ""),
        ("it is slow", Measure("pace", 0.25, "seconds/message"), "pace 250 ms a message"),
        ("nothing", Measure("msg_out_counter", 18567, "messages"), ""),
        ("nothing", Measure("blocked_consumer_on_unacked_msgs", "true", ""), ""),
        (say("it is at {}", "51:-1"), Measure("mark_delete_position", "51:-1", ""), ""),
        (
            say("it is at {}", "151:-1"),
            Measure("mark_delete_position", "51:-1", ""),
            "position 51:-1",
        ),
        ("nothing", Measure("left", 7, "entries", "at least"), "left at least 7"),
        ("nothing", Measure("left", None, "entries"), ""),
    ],
)
def test_a_number_that_a_sentence_has_told_does_not_stand_below_it_again(
    summary: str, evidence: Measure, says: str
) -> None:
    assert numbers_of(summary, evidence).endswith(says)
    assert bool(numbers_of(summary, evidence)) == bool(says)


def test_a_number_stands_once_also_where_two_are_called_otherwise() -> None:
    held = Measure("unacked_messages", 900, "messages")
    all_of_it = Measure("subscription_unacked", 900, "messages")
    assert numbers_of("it is slow", held, all_of_it) == "unacked messages 900"
    assert numbers_of("it is slow", held, impact=say("{:messages} wait", 900)) == ""


def test_of_several_in_one_value_each_is_said_or_all_are_told() -> None:
    threads = Measure("thread", "main; billing", "")
    assert numbers_of(say("{} hangs, or {}", "billing", "main"), threads) == ""
    assert numbers_of(say("{} hangs", "billing"), threads) == "thread main; billing"


def test_how_the_backlog_moves_is_told_beside_it() -> None:
    assert "  backlog  498 entries, growing by 12 a minute" in details(
        [verdict("stalled", growth=12)]
    )
    told = replace(finding(), summary=say("it has taken {} of the {:entries}", 40, 498))
    lines = details([verdict("stalled", findings=(told,), growth=-3)])
    assert "  backlog  falling by 3 a minute" in lines
    assert not any("backlog  " in line for line in details([verdict("stalled", findings=(told,))]))


def test_where_more_is_told_of_a_cause_is_said_once() -> None:
    three = tuple(finding(consumer=name) for name in "abc")
    lines = details([verdict("stalled", findings=three), verdict("stalled", "audit"), suspected()])
    assert [line for line in lines if "explain" in line] == [
        "  more     pulsar-doctor explain permits-exhausted",
        "  more       pulsar-doctor explain key-shared-blocked",
    ]
    text = written("nagios", checkup([verdict("stalled", findings=three[:2])]))
    assert text.count("pulsar-doctor explain permits-exhausted") == 1


@pytest.mark.parametrize(
    ("version", "says"),
    [
        ("Pulsar-Java-v4.0.8", "Java 4.0.8"),
        ("Pulsar-CPP-v3.7.0", "CPP 3.7.0"),
        ("Pulsar Go 0.12.0", "Go 0.12.0"),
        ("2.8.1", "2.8.1"),
        ("mine\n", "mine\N{REPLACEMENT CHARACTER}"),
    ],
)
def test_a_client_is_named_by_its_language_and_version(version: str, says: str) -> None:
    assert client(version) == says


CONSUMERS = (
    ReportedConsumer(label="a", available_permits=Count(10, 10), since_last_ack=Age(2000, True)),
    ReportedConsumer(label="b", available_permits=Count(5, 5), since_last_ack=Age(9000, True)),
)
LATER = (
    ReportedConsumer(label="d", available_permits=Count(2, 2), since_last_ack=Age(4000, False)),
)

FULL = ReportedConsumer(
    label="e", available_permits=Count(1, 1), unacked_messages=Count(200, 200), never_acked=None
)


@pytest.fixture
def very_wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")


@pytest.mark.usefixtures("very_wide")
@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"consumers": CONSUMERS, "growth": -12},
         ": backlog 498, falling by 12 a minute; 2 consumers with 15 permits, last ack 2 s ago"),
        ({"consumers": CONSUMERS[:1], "growth": 0},
         ": backlog 498, steady; 1 consumer with 10 permits, last ack 2 s ago"),
        ({"growth": 3}, ": backlog 498, growing by 3 a minute"),
        ({"consumers": (), "backlog": 0, "growth": 0}, ": backlog 0; nobody attached"),
        ({"backlog": 0, "growth": 0}, ": backlog 0; its consumers are not reported"),
        ({"consumers": (*CONSUMERS, ReportedConsumer(label="c"))},
         ": backlog 498; 3 consumers, last ack 2 s ago"),
        ({"consumers": (*CONSUMERS[1:], *LATER)},
         ": backlog 498; 2 consumers with 7 permits, last ack at least 4 s ago"),
        ({"consumers": (*LATER, *CONSUMERS[1:])},
         ": backlog 498; 2 consumers with 7 permits, last ack at least 4 s ago"),
        ({"consumers": (*LATER, *CONSUMERS[:1])},
         ": backlog 498; 2 consumers with 12 permits, last ack 2 s ago"),
        ({"consumers": (*CONSUMERS[:1], *LATER)},
         ": backlog 498; 2 consumers with 12 permits, last ack 2 s ago"),
        ({"backlog": None}, ""),
        ({"consumers": (replace(FULL, never_acked=True),)},
         ": backlog 498; 1 consumer with 1 permit and 200 unacknowledged messages, no ack yet"),
        ({"consumers": (FULL, *LATER)},
         ": backlog 498; 2 consumers with 3 permits, last ack at least 4 s ago"),
        ({"consumers": (replace(LATER[0], since_last_ack=Age(0, False)),)},
         ": backlog 498; 1 consumer with 2 permits"),
        ({"consumers": (FULL,)},
         ": backlog 498; 1 consumer with 1 permit and 200 unacknowledged messages"),
    ],
)  # fmt: skip
def test_a_healthy_line_carries_its_numbers(told: dict[str, Any], says: str) -> None:
    where = "✔ HEALTHY  billing (Shared) on persistent://public/default/orders"
    assert table([verdict(**told)]) == [f"{where}{says}"]


@pytest.mark.usefixtures("very_wide")
@pytest.mark.parametrize(
    ("balance", "says"),
    [
        (Balance("catches-up", seconds=2400.0), ": backlog 498, catches up in about 40 min"),
        (Balance("catches-up", seconds=20.0), ": backlog 498"),
        (Balance("keeps-up"), ": backlog 498"),
        (replace(FALLING, pace="not-known", seconds=300.0),
         ": backlog 498, growing by 4800 a minute (a burst, or falling behind; 5 min more would "
         "show it)"),
    ],
)  # fmt: skip
def test_a_healthy_line_says_when_it_catches_up(balance: Balance, says: str) -> None:
    [line] = table([verdict(balance=balance)])
    assert line == f"✔ HEALTHY  billing (Shared) on persistent://public/default/orders{says}"


def test_what_reaches_a_limit_soonest_is_the_first() -> None:
    def falling(name: str, hours: float, **more: Any) -> Diagnosis:
        deadline = Deadline("message-ttl", hours * 3600, "messages expire unread")
        return verdict("warning", name, balance=FALLING, deadlines=(deadline,), **more)

    told = [falling("late", 9, backlog=9000), falling("soon", 1), verdict("warning", "no")]
    heads = [line for line in table(told) if "WARNING" in line]
    assert [line.split()[2] for line in heads] == ["soon", "late", "no"]


@pytest.mark.usefixtures("very_wide")
def test_the_numbers_of_healthy_partitions_are_added_up() -> None:
    each = {"consumers": CONSUMERS, "growth": -2, "backlog": 4}
    [line] = table([verdict(partition=number, **each) for number in range(3)])[:1]
    assert line.endswith(
        ", 3 partitions: backlog 12, falling by 6 a minute; 6 consumers with 45 permits, "
        "last ack 2 s ago"
    )


def headed(**more: Any) -> str:
    return written("table", checkup([verdict()], **more), header=True).splitlines()[0]


@pytest.mark.usefixtures("wide")
def test_a_header_tells_the_cluster_the_moment_and_how_long_it_was_watched() -> None:
    cluster = Cluster("eu-1", "http://broker:8080", "4.0.8")
    assert headed(cluster=cluster) == (
        "eu-1 at http://broker:8080, Pulsar 4.0.8; 2026-05-01 12:00:00 UTC; "
        "watched 10 s, 11 samples"
    )
    nothing = Cluster(None, "http://broker:8080", None)
    assert headed(cluster=nothing, window_seconds=0.0, samples=1) == (
        "http://broker:8080; 2026-05-01 12:00:00 UTC; 1 sample"
    )


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        (100, "; 2026-05-01 12:00:00 UTC; watched 10 s"),
        (80, "; 12:00:00 UTC; watched 10 s"),
        (60, "; 2026-05-01 12:00:00 UTC; watched 10 s, 11 samples"),  # of two lines none is less
    ],
)
def test_a_header_is_one_line_where_it_can_be(
    monkeypatch: pytest.MonkeyPatch, columns: int, says: str
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    cluster = Cluster("standalone", "http://127.0.0.1:18080", "4.0.8")
    text = written("table", checkup([], cluster=cluster), header=True).splitlines()
    shown = " ".join(text[:1] if columns > 60 else text[:2])
    assert shown == f"standalone at http://127.0.0.1:18080, Pulsar 4.0.8{says}"


@pytest.mark.usefixtures("wide")
def test_the_header_of_files_tells_their_names_and_their_moments() -> None:
    first = 1_777_636_800_000
    names = ("a.json", "b.json")
    assert headed(files=names, taken=Taken(first, first + 10_000, exact=True)) == (
        "a.json and b.json; 2026-05-01 12:00:00 to 12:00:10 UTC; watched 10 s, 11 samples"
    )
    one = {"files": names[:1], "window_seconds": 0.0, "samples": 1}
    later = headed(**one, taken=Taken(first, first, exact=False))
    newest = "a.json; 2026-05-01 12:00:00 UTC or later (its newest event)"
    assert later == f"{newest}; 1 sample"
    saved = headed(**one, taken=Taken(first, first, exact=False), guess_ms=first + 60_000)
    assert saved.startswith(f"{newest}; saved at 2026-05-01 12:01:00 UTC; --at TIME makes")
    assert headed(**one, taken=Taken(10**18, 10**18, exact=True)) == "a.json; 1 sample"


def test_every_consumer_is_a_row_below_the_verdicts_where_they_are_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    slow = ReportedConsumer(
        label="slow", address="/10.0.3.7:51494", client_version="Pulsar-Java-v4.0.8",
        connected_for=Age(7_200_000, True), receiver_queue_size=Count(1000, 1000),
        available_permits=Count(0, 0), unacked_messages=Count(7, None), never_acked=True,
        since_last_flow=Age(12_000, False), msg_rate_out=0.5,
    )  # fmt: skip
    run = checkup([verdict(consumers=(slow,)), verdict(subscription="audit", consumers=None)])
    lines = [" ".join(line.split()) for line in written("table", run, consumers=True).splitlines()]
    at = lines.index("consumers of billing on persistent://public/default/orders")
    assert lines[at + 1] == (
        "consumer address client connected queue size permits unacked last ack last FLOW msg/s"
    )
    assert lines[at + 3] == (
        "slow 10.0.3.7:51494 Java 4.0.8 2 h 1000 0 at least 7 never at least 12 s ago 0.5"
    )
    assert lines[-2:] == [
        "consumers of audit on persistent://public/default/orders",
        "not reported",
    ]


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_a_narrow_list_of_consumers_leaves_columns_out_and_breaks_nothing(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    slow = ReportedConsumer(
        label="worker-slow-7f9c", address="/127.0.0.1:43012", client_version="Pulsar-Java-v4.0.8",
        connected_for=Age(7_200_000, True), receiver_queue_size=Count(1000, 1000),
        available_permits=Count(0, 0), unacked_messages=Count(7, None), never_acked=True,
    )  # fmt: skip
    run = checkup([verdict(consumers=(slow, replace(slow, label="b")))])
    lines = written("table", run, consumers=True).splitlines()
    rows = lines[lines.index("consumers of billing on persistent://public/default/orders") + 1 :]
    assert max(map(cell_len, rows)) <= width
    assert [row.split()[0] for row in rows[2:]] == ["worker-slow-7f9c", "b"]
    assert ("address" in rows[0]) == ("127.0.0.1:43012" in rows[2])
    assert {"consumer", "permits", "unacked"} <= set(rows[0].split())
    assert ("address" in rows[0]) == (width >= 80)


def test_only_some_verdicts_are_shown_and_all_are_counted() -> None:
    some = checkup([verdict("stalled"), verdict("warning", "mail"), verdict("healthy", "search")])
    some.only = frozenset({"stalled", "unknown"})
    text = written("table", some)
    assert "billing" in text
    assert "mail" not in text
    assert "search" not in text
    assert "2 subscriptions left out: not stalled or unknown (--only)" in text
    assert some.tally.counts == {"stalled": 1, "unknown": 0, "warning": 1, "healthy": 1}


def test_the_worst_few_are_shown() -> None:
    three = [verdict("stalled", name, backlog=at) for at, name in enumerate(("a", "b", "c"))]
    text = written("table", checkup(three), worst=1)
    [shown] = [line for line in text.splitlines() if "STALLED" in line]
    assert "STALLED  c on " in shown
    assert "3 subscriptions: 3 stalled" in text


def test_the_verdicts_that_only_takes_are_those_that_there_are() -> None:
    assert VERDICTS == STATUSES
