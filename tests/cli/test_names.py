"""Names that are mistyped, and topics of which there is nothing to judge: what is said of them."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from pulsar_doctor.cli import run
from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from pulsar_doctor.wording.spelling import COMPARED_MOST, near
from tests.broker.http_broker import HttpBroker, Reply
from tests.broker.replayed import HEALTHY, HOME, cluster, states, stuck
from tests.cli.checked import Check, check
from tests.report.checkups import checkup, verdict, written
from tests.support.command_line import answered

__all__ = ["check"]  # a fixture

NP = "non-persistent://public/default/"
NAMESPACE = "public/default"
NO_RIGHT = Reply(403, {"reason": "not a superuser"})


def listed(**lists: list[str]) -> dict[str, Reply]:
    """The lists of topics of a namespace: persistent, partitioned, fleeting (non-persistent)."""
    paths = {
        "persistent": f"persistent/{NAMESPACE}",
        "partitioned": f"persistent/{NAMESPACE}/partitioned",
        "fleeting": f"non-persistent/{NAMESPACE}",
    }
    return {paths[name]: Reply(document=names) for name, names in lists.items()}


def loading(broker: HttpBroker) -> set[str]:
    """The topics that were asked for stats, which loads them."""
    asked = (one.path.partition("?")[0].rpartition("/") for one in broker.asked)
    return {path.rpartition("/")[2] for path, _, kind in asked if "tats" in kind}


def holes(
    capsys: pytest.CaptureFixture[str], broker: HttpBroker, *arguments: str
) -> tuple[Any, ...]:
    code = run(["holes", "--admin-url", broker.url, *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_near_names() -> None:
    known = ["stall-check", "analyze", "holes"]
    assert near("stall-chek", known) == "did you mean stall-check?"
    assert near("holez", [*known, "hole", "whole"]) == "did you mean hole, whole or holes?"
    assert near("holez", ["holes", "whole"]) == "did you mean whole or holes?"
    assert near("xyz", known) == "there are analyze, holes, stall-check"
    assert near("xyz", known, most=2) == "there are analyze, holes and 1 more"
    assert near("xyz", ["holes"]) == "there is holes"
    assert near("xyz", []) == ""
    assert near("holez", ["holes"], shown={"holes": "a/b/holes"}) == "did you mean a/b/holes?"


def test_of_very_many_names_those_are_compared_that_begin_alike() -> None:
    many = [f"{begin}-{number}" for begin in "abc" for number in range(COMPARED_MOST)]
    assert "c-4990" in near("c-4990x", many)


def test_a_mistyped_topic_names_those_that_are_written_alike(
    check: Check, capsys: pytest.CaptureFixture[str]
) -> None:
    with cluster({"orders": stuck(), "payments": states(HEALTHY)}) as broker:
        missing = f"there is no topic {HOME}oders at {broker.url}; did you mean orders?"
        assert check(broker, "oders").sentence() == missing
        told = check(broker, "oders", "-o", "json")
        assert (told.code, told.unreachable) == (3, {"oders": missing})
        assert holes(capsys, broker, "oders") == (3, "", f"pulsar-doctor: {missing}\n")
        assert loading(broker) == {"oders"}
        everything = check(broker, "zzz").sentence()
    assert everything.endswith("; there are orders, payments")


@pytest.mark.parametrize(
    ("lists", "asked", "says"),
    [
        ({"fleeting": [f"{NP}clicks"]}, "clicks", f"did you mean {NP}clicks?"),
        ({"partitioned": [f"{HOME}clicks"]}, "click", "did you mean clicks?"),
        ({"persistent": [f"{HOME}clicks-partition-3"]}, "click", "did you mean clicks?"),
        ({"persistent": []}, "clicks", "public/default has none at all"),
        ({"partitioned": [f"{HOME}c"]}, "c-partition-7", f"last partition is {HOME}c-partition-1"),
    ],
)
def test_topics_of_every_kind_are_known(
    check: Check, lists: dict[str, list[str]], asked: str, says: str
) -> None:
    replies = listed(**lists) | {f"persistent/{NAMESPACE}/c-partition-7/partitions": Reply(404)}
    replies[f"persistent/{NAMESPACE}/c/partitions"] = Reply(document={"partitions": 2})
    with cluster({}, replies=replies) as broker:
        assert says in check(broker, asked).sentence()


def test_a_mistyped_namespace_and_tenant_are_known_too(check: Check) -> None:
    with cluster({}) as broker:
        assert (
            check(broker, "public/defalt/orders")
            .sentence()
            .endswith("as there is no namespace public/defalt; did you mean public/default?")
        )
        assert (
            check(broker, "pubic/default/orders")
            .sentence()
            .endswith("as there is no tenant pubic; did you mean public?")
        )


@pytest.mark.parametrize("reply", [NO_RIGHT, Reply(500), Reply(body=b"<html>")])
def test_where_topics_cannot_be_listed_the_plain_sentence_stays(check: Check, reply: Reply) -> None:
    with cluster({"orders": stuck()}, replies={f"persistent/{NAMESPACE}": reply}) as broker:
        told = check(broker, "oders")
    assert told.sentence().startswith(f"{broker.url} does not have the stats of {HOME}oders (")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["stall-chek"], "there is no subcommand stall-chek; did you mean stall-check?"),
        (["trace", "shw"], "there is no subcommand shw; did you mean show?"),
        (["sandbox", "strat"], "there is no subcommand strat; did you mean start"),
        (["xyzzy"], "there is no subcommand xyzzy; there are analyze, "),
    ],
)
def test_a_mistyped_subcommand(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    assert run(arguments) == 2
    assert says in capsys.readouterr().err


def without_consumers(broker: Sandbox, local: str) -> None:
    """A subscription of a non-persistent topic, which the broker removes once a minute."""
    name = f"{broker.admin_url}/admin/v2/non-persistent/{NAMESPACE}/{local}"
    httpx2.put(f"{name}/subscription/live", json={}, trust_env=False)


def test_each_kind_of_topic_says_which_it_is(broker: Sandbox, topic: str) -> None:
    local = topic.rpartition("/")[2]
    fleeting = f"{NP}{local}"
    with httpx2.Client(base_url=f"{broker.admin_url}/admin/v2", trust_env=False) as admin:
        admin.put(f"/persistent/{NAMESPACE}/{local}").raise_for_status()
        for parts, name in ((3, f"{local}-parts"), (1, f"{local}-one")):
            admin.put(f"/persistent/{NAMESPACE}/{name}/partitions", json=parts).raise_for_status()
        admin.put(f"/non-persistent/{NAMESPACE}/{local}").raise_for_status()
    without_consumers(broker, local)
    topics = [topic, f"{topic}-parts", f"{topic}-one", fleeting]
    ran = answered("stall-check", *topics, "--window", "0s", "-o", "json", broker=broker)
    assert (ran.returncode, ran.stderr) == (3, "")  # nothing was judged
    document = json.loads(ran.stdout)
    notes = {each["topic"]: each["note"] for each in document["notes"]}
    assert notes[topic].startswith(
        f"{topic} exists and has no subscription: no message has come in"
    )
    assert f"{topic}-parts has 3 partitions, none of which " in notes[f"{topic}-parts"]
    assert f"{topic}-one has 1 partition, which " in notes[f"{topic}-one"]
    assert "is non-persistent and keeps nothing: there is no backlog" in notes[fleeting]
    for code, *subcommand in ((3, "stall-check", "--window", "0s"), (0, "holes")):
        without_consumers(broker, local)
        ran = answered(*subcommand, *topics, broker=broker)
        assert ran.returncode == code, ran.stderr
        said = " ".join(ran.stdout.split())
        assert all(note in said for note in notes.values()), ran.stdout
        assert "0 subscriptions" not in said


def test_of_a_non_persistent_topic_no_backlog_is_told() -> None:
    run = checkup([verdict("stalled", topic=f"{NP}clicks", backlog=0)])
    assert "backlog  none: a non-persistent topic keeps nothing" in written(
        "table", run, verbose=True
    )
