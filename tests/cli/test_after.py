"""stall-check --after: whether a remedy has worked, by a file that was kept before it."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.stats.observed import Observed
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.checkup.after import compared
from pulsar_doctor.diagnosis.verdict import Diagnosis
from tests.broker.recorded import recording
from tests.broker.replayed import HEALTHY, MOVING, STUCK, cluster, states, stuck
from tests.cli.checked import Check, check
from tests.made.states import judged, recorded

__all__ = ["check"]  # a fixture

JSON = ("-o", "json")
LAST = recording(STUCK)["samples"][-1]
LATER = str(LAST["date_ms"] + 7_200_000)
HELD = LAST["stats"]["subscriptions"]["billing"]["consumers"][0]["unackedMessages"]  # each of two

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def kept(check: Check, tmp_path: Path) -> str:
    """What --save kept of a consumer that stands still."""
    saved = str(tmp_path / "before.gz")
    with cluster({"orders": stuck()}) as broker:
        assert check(broker, "orders", "--save", saved, *JSON).code == 1
    return saved


@pytest.fixture
def later(tmp_path: Path) -> Callable[[Change], str]:
    """The same topic in a file of its own, after something has changed."""

    def changed(change: Change) -> str:
        stats = copy.deepcopy(LAST["stats"])
        change(stats)
        path = tmp_path / "now.json"
        path.write_text(json.dumps(stats))
        return str(path)

    return changed


def after(check: Check, kept: str, now: str) -> dict[str, Any]:
    told = check(None, "orders", "--stats", now, "--at", LATER, "--after", kept, *JSON)
    assert told.code in (0, 1, 3), told.err
    [entry] = told.document["subscriptions"]
    found: dict[str, Any] = entry["after"]
    return found


def billing(stats: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = stats["subscriptions"]["billing"]
    return found


def drain(stats: dict[str, Any]) -> None:
    """The same consumers have acknowledged all that there was, and were sent the rest."""
    of, at = billing(stats), int(LATER)
    of |= {"msgBacklog": 0, "msgBacklogNoDelayed": 0, "backlogSize": 0}
    of |= {"unackedMessages": 0, "lastAckedTimestamp": at}
    for consumer in of["consumers"]:
        consumer |= {"unackedMessages": 0, "availablePermits": 500, "lastAckedTimestamp": at}
        consumer |= {"msgOutCounter": 30}


def restart(stats: dict[str, Any]) -> None:
    drain(stats)
    for consumer in billing(stats)["consumers"]:
        consumer |= {"connectedSince": "2026-11-21T13:30:00Z", "msgOutCounter": 7}


def move(stats: dict[str, Any]) -> None:
    restart(stats)
    for producer in stats["publishers"]:
        producer["connectedSince"] = "2026-11-21T13:30:00Z"


def leave(stats: dict[str, Any]) -> None:
    billing(stats)["consumers"] = []


def test_it_has_worked(check: Check, kept: str, later: Callable[[Change], str]) -> None:
    told = after(check, kept, later(drain))
    assert (told["outcome"], told["before"]) == ("worked", "stalled")
    for consumer in told["consumers"]:
        assert (consumer["became"], consumer["acknowledged"]) == ("same", True)
        assert consumer["returned"] == 30
    assert told["text"].startswith("worked: stalled permits-exhausted of ")
    assert "-> healthy" in told["text"]
    assert f"unacked messages {HELD} -> 0" in told["text"]


def test_a_file_without_a_name_may_be_of_another_topic(
    check: Check, kept: str, later: Callable[[Change], str]
) -> None:
    request = ("--at", LATER, "--after", kept, *JSON)
    same = check(None, "--stats", later(drain), *request)
    assert same.document["subscriptions"][0]["after"]["outcome"] == "worked"  # same connections
    stayed = check(None, "--stats", later(restart), *request)
    assert stayed.document["subscriptions"][0]["after"]["outcome"] == "worked"  # same producer
    other = check(None, "--stats", later(move), *request)
    assert other.code == 2
    assert f"only one of {kept} and what is judged names its topic" in other.err
    assert after(check, kept, later(move))["outcome"] == "worked"


def test_two_files_without_a_name_may_be_of_two_topics(
    check: Check, later: Callable[[Change], str], tmp_path: Path
) -> None:
    before = str(Path(later(lambda stats: None)).rename(tmp_path / "before.json"))
    request = ("--at", LATER, "--after", before, *JSON)
    same = check(None, "--stats", later(restart), *request)
    assert same.document["subscriptions"][0]["after"]["outcome"] == "worked"
    other = check(None, "--stats", later(move), *request)
    assert other.code == 2
    assert f"neither {before} nor what is judged names its topic" in other.err
    assert after(check, before, later(move))["outcome"] == "worked"


def test_one_that_connected_anew_began_again(
    check: Check, tmp_path: Path, later: Callable[[Change], str]
) -> None:
    def half_way(stats: dict[str, Any]) -> None:
        for consumer in billing(stats)["consumers"]:
            consumer["msgOutCounter"] = 100

    before = str(Path(later(half_way)).rename(tmp_path / "before.json"))
    told = after(check, before, later(restart))
    consumer = told["consumers"][0]
    assert (consumer["became"], consumer["returned"]) == ("reconnected", 7)
    assert "has connected anew" in told["text"]
    assert "7 acknowledged or given back since it connected" in told["text"]


def test_one_that_is_new_is_told_by_what_it_has(
    check: Check, kept: str, later: Callable[[Change], str]
) -> None:
    def another(stats: dict[str, Any]) -> None:
        restart(stats)
        billing(stats)["consumers"][0]["consumerName"] = "ok-app"

    text = after(check, kept, later(another))["text"]
    assert re.search(
        r"ok-app at 127.0.0.1:\d+ is new: \d+ permits, holds 0, 7 acknowledged or given back;", text
    )


def test_not_yet_and_who_has_gone(check: Check, kept: str, later: Callable[[Change], str]) -> None:
    still = after(check, kept, later(lambda stats: stats.update(msgInCounter=10**6)))
    assert still["outcome"] == "not yet"
    assert still["text"].startswith("not yet: still stalled permits-exhausted of ")
    at = billing(LAST["stats"])["consumers"][0]["address"].lstrip("/")
    same = f"worker-1 at {at} is the same one: available permits still 0, unacked messages still 10"
    assert same in still["text"]
    assert {each["address"] for each in still["consumers"]} == {f"/{at}"}
    assert "nothing acknowledged since" in still["text"]
    alone = after(check, kept, later(leave))
    assert alone["outcome"] == "not yet"
    assert [each["became"] for each in alone["consumers"]] == ["gone", "gone"]
    assert "-> warning no-consumer" in alone["text"]


def test_what_is_not_yet_well_is_not_a_success(
    check: Check, kept: str, later: Callable[[Change], str]
) -> None:
    def code(change: Change) -> int:
        given = ("--stats", later(change), "--at", LATER, "--after", kept)
        return check(None, "orders", *given, *JSON).code

    assert code(lambda stats: stats.update(msgInCounter=10**6)) == 1  # still stalled
    assert code(leave) == 3  # a warning now, which alone would be 0
    assert code(drain) == 0


def test_worse(check: Check, kept: str, tmp_path: Path) -> None:
    lately = str(tmp_path / "lately.gz")
    options = ("--set", "healthy.problem_at_most=100%", *JSON)
    with cluster({"orders": states(STUCK)}) as broker:
        assert check(broker, "orders", "--save", lately, *options).code == 0
    told = check(None, "--stats", kept, "--after", lately, *options)
    [entry] = told.document["subscriptions"]
    assert (told.code, entry["after"]["outcome"]) == (1, "worse")


def test_what_was_well_is_no_success(check: Check, tmp_path: Path) -> None:
    well = str(tmp_path / "well.gz")
    with cluster({"orders": states(HEALTHY)}) as broker:
        assert check(broker, "orders", "--save", well, *JSON).code == 0
    with cluster({"orders": states(HEALTHY, later_seconds=60)}) as broker:
        told = check(broker, "orders", "--after", well, *JSON)
    [entry] = told.document["subscriptions"]
    assert entry["after"]["outcome"] == "was well"


def test_what_cannot_be_compared_says_why(
    check: Check, kept: str, later: Callable[[Change], str]
) -> None:
    def undone(stats: dict[str, Any]) -> None:
        billing(stats)["consumers"][0]["msgOutCounter"] = 1

    told = after(check, kept, later(undone))
    assert told["outcome"] == "cannot be compared"
    assert "was taken later than what is judged" in told["text"]

    def renamed(stats: dict[str, Any]) -> None:
        stats["subscriptions"] = {"other": billing(stats)}

    told = after(check, kept, later(renamed))
    assert told["outcome"] == "cannot be compared"
    assert "has no subscription other of this topic" in told["text"]


def test_live_against_what_was_kept(check: Check, kept: str) -> None:
    with cluster({"orders": states(MOVING, later_seconds=9000)}) as broker:
        told = check(broker, "orders", "--after", kept)
    lines = [line for line in told.out.splitlines() if line.startswith("after: ")]
    assert len(lines) == 1
    assert "billing on public/default/orders: " in lines[0]


def test_a_subscription_that_has_gone_is_noted(check: Check, kept: str) -> None:
    with cluster({"orders": states(HEALTHY, later_seconds=9000)}) as broker:
        told = check(broker, "orders", "--after", kept, *JSON)
    notes = [each["note"] for each in told.document["notes"]]
    assert any("billing on public/default/orders was in " in note for note in notes)
    assert any(note.endswith("is not there any more") for note in notes)


def test_a_topic_that_the_file_lacks_is_said_and_the_others_are_compared(
    check: Check, tmp_path: Path
) -> None:
    kept = str(tmp_path / "before.gz")
    with cluster({"orders": states(HEALTHY)}) as broker:
        assert check(broker, "orders", "--save", kept, *JSON).code == 0
    there = {name: states(HEALTHY, later_seconds=9000) for name in ("orders", "refunds")}
    with cluster(there) as broker:
        told = check(broker, "orders", "refunds", "--after", kept, *JSON)
        shown = check(broker, "orders", "refunds", "--after", kept)
    subs = told.document["subscriptions"]
    found = {each["topic"].rpartition("/")[2]: each["after"]["before"] for each in subs}
    assert found == {"orders": "healthy", "refunds": None}
    [lacks] = [each["reason"] for each in told.document["unreachable"]]
    assert lacks.startswith(f"not compared: {kept} has no topic 'refunds'; it has ")
    assert (told.code, shown.code) == (3, 3)
    assert "has no topic 'refunds'" in " ".join(shown.out.split())


def test_a_file_of_other_topics_is_wrong_input(check: Check, kept: str) -> None:
    with cluster({"refunds": stuck()}) as broker:
        told = check(broker, "refunds", "--after", kept)
        assert broker.asked == []
    assert (told.code, told.out) == (2, "")
    assert "has no topic 'refunds'; it has persistent://public/default/orders" in told.sentence()


def test_two_files_of_other_topics_are_wrong_input(check: Check, kept: str, tmp_path: Path) -> None:
    other = str(tmp_path / "other.gz")
    with cluster({"refunds": stuck()}) as broker:
        check(broker, "refunds", "--save", other, *JSON)
    told = check(None, "--stats", other, "--after", kept)
    assert (told.code, told.out) == (2, "")
    assert "is of other topics (persistent://public/default/orders)" in told.sentence()


def test_a_file_without_a_subscription_is_no_file_of_other_topics(
    check: Check, later: Callable[[Change], str], tmp_path: Path
) -> None:
    empty = str(Path(later(lambda stats: stats["subscriptions"].clear())).rename(tmp_path / "e"))
    told = check(None, "orders", "--stats", later(drain), "--after", empty)
    assert (told.code, told.out) == (2, "")
    assert f"{empty} holds no subscription; --after takes" in told.err


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("orders", "--after", "x", "--watch"), "--after compares once"),
        (("orders", "--after", "-"), "not standard input"),
        (("--stats", "x", "--after", "x"), "is given twice"),
        (("--trace", "x", "--after", "y"), "name a TOPIC too"),
        (("orders", "--after", "x", "-o", "junit"), "has no place for --after"),
        (("orders", "--after", "/nowhere"), "cannot read /nowhere"),
    ],
)
def test_what_cannot_be_meant(check: Check, given: tuple[str, ...], says: str) -> None:
    told = check(None, *given)
    assert (told.code, told.out) == (2, "")
    assert says in told.sentence()


def test_what_was_undecided_and_is_gone_is_cured(tmp_path: Path) -> None:
    """The first check may not have known what was the matter: nothing is left of it."""
    observed = recorded("4.0.8", "negative-permits")
    before = judged("negative-permits", observed)
    unknown = replace(before, status="unknown", findings=(), unknowns=("no window was watched",))
    well = replace(before, status="healthy", backlog=0, findings=(), suspects=(), account=None)
    found = compared(observed, unknown, a_minute_later(observed), well, file="before.gz")
    assert found.outcome == "worked"
    assert str(found).startswith("worked: healthy now; the first check was undecided (no window")
    assert f"backlog {before.backlog} -> 0" in str(found)
    less = replace(well, backlog=1)
    assert compared(observed, unknown, a_minute_later(observed), less, file="b").outcome == (
        "cannot be compared"
    )


def test_what_stays_undecided_says_why_and_is_not_called_healthy() -> None:
    observed = recorded("4.0.8", "negative-permits")
    reason = "healthy: w holds 67 messages, and nothing shows that it works"
    unknown = replace(judged("negative-permits", observed), status="unknown", unknowns=(reason,))
    found = compared(observed, unknown, a_minute_later(observed), unknown, file="before.gz")
    assert (found.outcome, found.why) == (
        "not yet",
        "nothing is acknowledged since; undecided at both checks: w holds 67 messages, and nothing "
        "shows that it works",
    )


def test_an_undecided_check_is_compared_by_what_waited_then() -> None:
    observed = recorded("4.0.8", "negative-permits")
    before = replace(judged("negative-permits", observed), status="unknown", unknowns=("why",))
    assert before.backlog
    well = replace(before, status="healthy", backlog=7, findings=(), suspects=())

    def outcome(later: Observed, now: Diagnosis) -> tuple[str, str]:
        found = compared(observed, before, later, now, file="before.gz")
        return found.outcome, found.why

    came, at = a_minute_later(observed), observed.internal
    assert at is not None
    assert at.last_confirmed_entry is not None
    ledger, entry = at.last_confirmed_entry
    passed = acknowledged_to(came, (ledger, entry))
    assert outcome(passed, well)[0] == "worked"  # others wait since
    assert outcome(acknowledged_to(came, (ledger, entry - 1)), well)[0] == "cannot be compared"
    assert outcome(passed, before) == (
        "cannot be compared",
        "nothing is left of what waited then; undecided at both checks: why",
    )
    assert outcome(came, replace(before, backlog=before.backlog - 1))[0] == "cannot be compared"
    certain = replace(judged("negative-permits", observed), status="stalled")
    assert outcome(came, certain) == (
        "not yet",
        "nothing is acknowledged since; unknown -> stalled negative-permits of "
        f"{certain.findings[0].consumer}; the first check was undecided (why)",
    )


def test_whether_the_blamed_consumer_was_restarted_is_the_second_line(
    check: Check, kept: str, later: Callable[[Change], str]
) -> None:
    shown = billing(LAST["stats"])["consumers"]
    at = shown[0]["address"].lstrip("/")

    def blamed(change: Change) -> str:
        found: str = after(check, kept, later(change))["blamed"]
        return found

    both = f"the blamed consumers worker-1 at {at} and worker-2 at {at}"
    assert blamed(drain) == f"{both} were not restarted: they are still connected"
    assert blamed(restart) == f"{both} were not restarted: they are still on the same connection"
    assert blamed(leave) == f"{both} have gone"

    def elsewhere(stats: dict[str, Any]) -> None:
        restart(stats)
        billing(stats)["consumers"] = billing(stats)["consumers"][:1]
        billing(stats)["consumers"][0]["address"] = "/127.0.0.1:1"

    assert blamed(elsewhere) == (
        f"the blamed consumer worker-1 at {at} was restarted: worker-1 at 127.0.0.1:1 is new; "
        f"the blamed consumer worker-2 at {at} has gone"
    )
    told = check(None, "orders", "--stats", later(elsewhere), "--at", LATER, "--after", kept)
    lines = told.out[told.out.index("after: ") :].splitlines()
    assert lines[0].startswith("after: billing on orders: worked: ")
    assert next(line for line in lines if line.startswith("  ")).startswith("  the blamed consumer")


def test_what_was_healthy_at_both_says_what_it_held() -> None:
    observed = recorded("4.0.8", "healthy-busy")
    before = judged("healthy-busy", observed)
    found = compared(observed, before, a_minute_later(observed), before, file="before.gz")
    assert (found.outcome, found.why) == (
        "was well", "healthy at both checks (it held 84 messages at the first)"
    )  # fmt: skip


def acknowledged_to(observed: Observed, position: tuple[int, int]) -> Observed:
    """The same one with mark-delete there in its last sample."""
    *rest, last = observed.window.given
    assert last.internal is not None
    assert last.internal.cursors is not None
    cursors = last.internal.cursors
    moved = {
        name: replace(each, mark_delete_position=position, individually_deleted_messages=None)
        for name, each in cursors.items()
    }
    internal = replace(last.internal, cursors=moved)
    return replace(observed, window=Window((*rest, replace(last, internal=internal))))


def a_minute_later(observed: Observed) -> Observed:
    """The same one, read a minute later."""
    *rest, last = observed.window.given
    assert last.taken_ms is not None
    moved = replace(last, taken_ms=last.taken_ms + 60_000)
    return replace(observed, window=Window((*rest, moved)))
