"""stall-check from the command line: a live broker, files, options, --watch, and how it ends."""

from __future__ import annotations

import copy
import gzip
import io
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from pulsar_doctor.checkup.namespaces import AT_ONCE
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.cli.stall_check.watching import WrittenRounds, watch
from pulsar_doctor.report.stall_check.formats import FORMATS
from tests.broker.http_broker import HttpBroker, Reply
from tests.broker.recorded import recording, stats_of
from tests.broker.replayed import BLOCKED, HEALTHY, HOME, MOVING, STUCK, cluster, states, stuck
from tests.cli.checked import Check, Checked, check
from tests.report.checkups import caused
from tests.support import eventually
from tests.support.command_line import environment
from tests.support.terminals import terminal

__all__ = ["check"]  # a fixture

NO_RIGHT = Reply(403, {"reason": "not a superuser"})
CUT = Reply(body=b"{}", cut=True)
FULL = "persistent://public/default/orders"


def verdicts(told: Checked) -> list[tuple[Any, ...]]:
    """Of each subscription: which, its status, and the causes."""
    return sorted(
        (one["topic"], str(one["partition"]), one["subscription"], one["status"],
         [found["code"] for found in one["findings"]])
        for one in told.document["subscriptions"]
    )  # fmt: skip


# What is asked for and is not there


def test_a_subscription_that_is_not_there_names_those_that_are(check: Check) -> None:
    with cluster({"orders": stuck()}) as broker:
        told = check(broker, "orders", "-s", "refunds", "-o", "json")
        assert (told.code, told.out) == (3, "")
        assert told.sentence() == (
            f"nothing that was read has a subscription 'refunds'; there is billing on {FULL}"
        )
        assert check(broker, "orders", "-s", "billing").code == 1


def test_where_a_topic_could_not_be_read_the_subscription_may_be_there(check: Check) -> None:
    with cluster({"orders": stuck()}) as broker:
        told = check(broker, "orders", "gone", "-s", "refunds", "-o", "json")
    assert (told.code, told.statuses, list(told.unreachable)) == (3, {}, ["gone"])
    assert "has a subscription 'refunds'" in told.err.splitlines()[0]
    assert f"there is no topic {HOME}gone at {broker.url}" in told.err.splitlines()[1]


def test_a_subscription_that_is_nowhere_in_a_fleet(check: Check) -> None:
    with cluster({"orders": stuck(), "quiet": states(HEALTHY)}, stored=["asleep"]) as broker:
        told = check(broker, "--all", "-s", "refunds", "-o", "json")
        assert (told.code, told.out) == (3, "")
        assert told.sentence() == (
            "no topic that was read has a subscription 'refunds'; "
            "1 that no broker has loaded were not read (see --load-topics)"
        )
        told = check(broker, "--all", "-s", "never", "-o", "json")
        assert (told.code, told.statuses) == (0, {"quiet": "healthy"})


@pytest.mark.parametrize("name", ["tenant/orders", "http://a/b/c", "persistent://a/b", "a//c", ""])
def test_what_is_no_topic_is_wrong_usage_and_nothing_is_asked(check: Check, name: str) -> None:
    with cluster({}) as broker:
        told = check(broker, "orders", name)
        assert broker.asked == []
    assert (told.code, told.out) == (2, "")
    assert "is not a topic" in told.sentence()


@pytest.mark.parametrize("name", ["public", "a/b/c/d", "public/"])
def test_what_is_no_namespace_is_wrong_usage_and_nothing_is_asked(check: Check, name: str) -> None:
    with cluster({}) as broker:
        told = check(broker, "--namespace", "public/default", "--namespace", name)
        assert broker.asked == []
    assert (told.code, told.out) == (2, "")
    assert "is not a namespace" in told.sentence()


def test_a_namespace_that_is_not_there(check: Check) -> None:
    with cluster({"orders": stuck()}) as broker:
        told = check(broker, "--namespace", "public/nowhere")
        assert (told.code, told.out) == (3, "")
        assert "does not have the persistent topics of public/nowhere" in told.sentence()
        told = check(
            broker, "--namespace", "public/nowhere", "--namespace", "public/default", "-o", "json"
        )
        assert (told.code, told.statuses) == (1, {"orders": "stalled"})
        assert list(told.unreachable) == ["nowhere"]


def test_of_a_namespace_without_topics_nothing_is_known(check: Check) -> None:
    with cluster({}) as broker:
        told = check(broker, "--namespace", "public/default", "-o", "json")
        assert (told.code, told.err) == (3, "")
        assert told.document["subscriptions"] == told.document["unreachable"] == []
        asking = ("--namespace", "public/default", "-q")
        assert check(broker, *asking, "--accept-unknown", "all").code == 0
        told = check(broker, *asking)
    assert (told.code, told.err) == (3, "")
    assert told.out == "0 subscriptions: nothing was judged\n"


VERSION = "brokers/version"
SETTINGS = Reply(document={"clusterName": "eu-1"})
TELLING = {VERSION: Reply(body=b"4.0.8"), "brokers/configuration/runtime": SETTINGS}


def test_each_line_names_the_cluster_while_a_fleet_is_looked_through(check: Check) -> None:
    quiet = {f"quiet-{number}": states(HEALTHY) for number in range(AT_ONCE + 10)}
    with cluster(quiet, replies=TELLING) as broker:
        lines = check(broker, "--namespace", "public/default", "-o", "jsonl").out.splitlines()
    assert len(lines) > AT_ONCE
    for told in (json.loads(line)["cluster"] for line in lines):
        assert (told["admin_url"], told["broker_version"]) == (broker.url, "4.0.8")


@pytest.mark.parametrize("asked", [("held", "quiet"), ("--namespace", "public/default")])
def test_the_cluster_is_told_and_its_version_asked_for_once(
    check: Check, asked: tuple[str, ...]
) -> None:
    with cluster({"held": stuck(), "quiet": states(HEALTHY)}, replies=TELLING) as broker:
        told = check(broker, *asked, "-o", "json")
        assert told.document["cluster"] == {
            "name": "eu-1", "admin_url": broker.url, "broker_version": "4.0.8", "context": None,
        }  # fmt: skip
        assert sum(each.path.endswith(VERSION) for each in broker.asked) == 1
        head = check(broker, *asked).out.splitlines()[0]
        assert head.startswith(f"eu-1 at {broker.url}, Pulsar 4.0.8; 20")
        assert "eu-1" not in check(broker, *asked, "-q").out


def test_a_version_that_is_refused_is_not_told_and_nothing_else(check: Check) -> None:
    with cluster({"quiet": states(HEALTHY)}, replies={VERSION: NO_RIGHT}) as broker:
        told = check(broker, "quiet", "-o", "json")
    assert told.document["cluster"] == {
        "name": None, "admin_url": broker.url, "broker_version": None, "context": None,
    }  # fmt: skip
    assert (told.code, told.err) == (0, "")


def test_every_consumer_is_listed_where_that_is_asked_for(check: Check) -> None:
    with cluster({"held": stuck(), "quiet": states(HEALTHY)}) as broker:
        lines = check(broker, "held", "quiet", "--consumers").out.splitlines()
        found = check(broker, "held", "quiet", "-o", "json").document["subscriptions"]
    assert sum(line.startswith("consumers of ") for line in lines) == 2
    for each in found:
        for consumer in each["consumers"]:
            address = consumer["address"].lstrip("/")
            assert any(consumer["label"] in line and address in line for line in lines)
        for finding in each["findings"]:
            named = [one for one in each["consumers"] if one["label"] == finding["consumer"]]
            assert finding["where"].items() <= named[0].items()


@pytest.mark.parametrize("more", [("-o", "json"), ("-o", "junit"), ("--watch",)])
def test_a_table_of_consumers_is_refused_where_it_has_no_place(
    check: Check, more: tuple[str, ...]
) -> None:
    told = check(None, "orders", "--consumers", *more)
    assert (told.code, told.out) == (2, "")
    assert told.sentence().startswith("--consumers prints a table after one check, which ")


@pytest.mark.parametrize("path", ["brokers", "broker-stats/topics"])
def test_without_a_superuser_it_says_what_the_alternative_costs(check: Check, path: str) -> None:
    with cluster({"orders": stuck()}, replies={path: NO_RIGHT}, stored=["asleep"]) as broker:
        told = check(broker, "--namespace", "public/default", "-o", "json")
        assert (told.code, told.out) == (3, "")
        assert "needs a superuser" in told.sentence()
        assert "with --load-topics each of the 2 topics is read by itself" in told.sentence()
        told = check(broker, "--namespace", "public/default", "--load-topics", "-o", "json")
        assert (told.code, told.statuses) == (1, {"orders": "stalled"})
        assert list(told.unreachable) == ["asleep"]


def test_topics_that_no_broker_has_loaded_are_listed_and_not_read(check: Check) -> None:
    with cluster({"quiet": states(HEALTHY)}, stored=["asleep"]) as broker:
        told = check(broker, "--all", "-o", "json")
        assert (told.code, told.err) == (0, "")
        assert told.document["not_loaded"] == [f"{HOME}asleep"]
        assert not any("asleep/" in asked.path for asked in broker.asked)


# The window


def test_the_partitions_of_a_topic_are_judged_apart_and_shown_as_one(check: Check) -> None:
    [idle] = recording(HEALTHY)["samples"]
    [nobody] = idle["stats"]["subscriptions"].values()
    idle["stats"]["subscriptions"] = {"billing": nobody}
    parts = {"orders-partition-0": stuck(), "orders-partition-2": stuck()}
    idle["date_ms"] = stuck()[-1]["date_ms"]  # one answer for all partitions has one time
    with cluster({**parts, "orders-partition-1": [idle]}) as broker:
        told = check(broker, "orders", "-o", "json")
        assert told.code == 1
        assert [(one["partition"], one["status"]) for one in told.document["subscriptions"]] == [
            (0, "stalled"), (1, "healthy"), (2, "stalled"),
        ]  # fmt: skip
        assert "partitions 0 and 2 of 3" in check(broker, "orders").out.splitlines()[1]


def test_a_window_of_0_is_one_sample_and_less_sure(check: Check) -> None:
    with cluster({"orders": stuck()}) as broker:
        long = check(broker, "orders", "-o", "json")
        short = check(broker, "orders", "-o", "json", "--window", "0s")
    assert (short.code, short.document["samples"], short.document["window_seconds"]) == (1, 1, 0.0)
    sure = [
        told.document["subscriptions"][0]["findings"][0]["confidence"] for told in (long, short)
    ]
    assert long.document["samples"] > 1
    assert sure[1] < sure[0]


def test_a_window_of_0_needs_no_unit(check: Check) -> None:
    with cluster({"orders": stuck()}) as broker:
        assert check(broker, "orders", "-o", "json", "--window", "0").document["samples"] == 1


def test_a_subscription_that_the_broker_says_is_blocked_ends_the_window_early(check: Check) -> None:
    blocked = states(BLOCKED, later_seconds=3600)
    with cluster({"orders": blocked, "more": blocked}) as broker:
        told = check(broker, "orders", "more", "-o", "json", "--window", "20s")
        assert (told.code, told.statuses) == (1, {"orders": "stalled", "more": "stalled"})
        assert 3 <= told.document["samples"] < 10


def test_a_flag_that_has_just_been_set_does_not_end_the_window(check: Check) -> None:
    # After three samples the verdict would be unknown: its last ack came a moment ago.
    with cluster({"orders": states(BLOCKED)}) as broker:
        soon = "--set=blocked-on-unacked-consumer.refill_wait=5s"
        told = check(broker, "orders", "-o", "json", "--window", "2s", soon)
    assert told.document["samples"] > 3
    assert told.statuses == {"orders": "stalled"}


# Files


@pytest.mark.parametrize("which", [("held", "quiet", "moving"), ("--all",)])
def test_what_was_saved_gives_the_same_verdicts(
    check: Check, tmp_path: Path, which: tuple[str, ...]
) -> None:
    saved = str(tmp_path / "incident.gz")
    topics = {"held": stuck(), "quiet": states(HEALTHY), "moving": states(MOVING)}
    with cluster(topics) as broker:
        live = check(broker, *which, "-o", "json", "--save", saved)
    again = check(None, "--stats", saved, "-o", "json")
    assert live.code == again.code == 1
    assert again.document["source"] == "files"
    assert verdicts(live) == verdicts(again)
    assert len(verdicts(live)) == 3
    chosen = check(None, "held", "-s", "billing", "--stats", saved, "-o", "json")
    assert chosen.statuses == {"held": "stalled"}


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str, Any], str]:
    def putting(name: str, document: Any) -> str:
        (tmp_path / name).write_text(json.dumps(document, indent=2))
        return str(tmp_path / name)

    return putting


Put = Callable[[str, Any], str]


def test_what_pulsar_admin_printed_is_judged_with_and_without_a_time(
    check: Check, put: Put
) -> None:
    sample = recording(STUCK)["samples"][-1]
    stats, internal = put("stats.json", sample["stats"]), put("internal.json", sample["internal"])
    told = check(None, "orders", "--stats", stats, "-o", "json")
    assert told.document["subscriptions"][0]["topic"] == "orders"
    assert "give the time with --at" in told.err
    assert told.document["sources"] == ["stats"]
    later = str(sample["date_ms"] + 3_600_000)
    files = ("--stats", stats, "--internal-stats", internal, "--at", later)
    told = check(None, *files, "-o", "json")
    assert (told.code, told.err) == (1, "")
    assert told.document["subscriptions"][0]["topic"] == "unknown"
    assert told.document["sources"] == ["stats", "internal-stats"]
    alone = check(None, "--internal-stats", internal, "-o", "json")
    assert alone.document["sources"] == ["internal-stats"]


def test_several_files_are_samples_an_interval_apart(check: Check, put: Put) -> None:
    samples = recording(STUCK)["samples"]
    files = [put(f"{at}.json", each["stats"]) for at, each in enumerate(samples)]
    given = [part for file in files for part in ("--stats", file)]
    told = check(None, *given, "--interval", "30s", "--at", "2026-11-22T00:00:00Z", "-o", "json")
    assert (told.code, told.document["samples"], told.document["window_seconds"]) == (1, 2, 30.0)


def test_standard_input_is_a_file(check: Check, monkeypatch: pytest.MonkeyPatch, put: Put) -> None:
    text = json.dumps(stats_of(STUCK)).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
    told = check(None, "orders", "--stats", "-", "--at", "2026-11-22T00:00:00Z", "-o", "json")
    assert (told.code, told.statuses) == (1, {"orders": "stalled"})
    named = check(None, "orders", "--stats", put("s.json", stats_of(STUCK)),
                  "--at", "2026-11-22T00:00:00Z", "-o", "json")  # fmt: skip
    assert verdicts(named) == verdicts(told)


def test_partitioned_stats_are_judged_by_partition_or_by_their_totals(
    check: Check, put: Put
) -> None:
    each = put("each.json", stats_of("4.0.8-partitioned-per-partition"))
    told = check(None, "--stats", each, "--at", "2026-11-22T00:00:00Z", "-o", "json")
    assert [one["partition"] for one in told.document["subscriptions"]] == [0, 1, 2]
    totals = put("totals.json", stats_of("4.0.8-partitioned-folded"))
    told = check(None, "orders", "--stats", totals, "-o", "json")
    assert [one["partition"] for one in told.document["subscriptions"]] == [None]
    assert told.code in (1, 3)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "is empty"),
        ("{", "is not readable JSON"),
        ("<html>", "is not readable JSON"),
        ('{"subscriptions": {"s": {"msgBacklog": "many"}}}', "subscriptions.s.msgBacklog"),
        ('{"reason": "not found"}', "is a broker's refusal: not found"),
    ],
)
def test_a_file_that_cannot_be_judged_is_wrong_input(
    check: Check, tmp_path: Path, content: str, says: str
) -> None:
    file = tmp_path / "stats.json"
    file.write_text(content)
    told = check(None, "--stats", str(file), "-o", "json")
    assert (told.code, told.out) == (2, "")
    assert says in told.sentence()
    assert str(file) in told.sentence()


# Options


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "name a TOPIC, or give --namespace"),
        (["orders", "--all"], "name topics, or give --namespace or --all"),
        (["orders", "--namespace", "a/b"], "name topics, or give --namespace or --all"),
        (["--all", "--namespace", "a/b"], "--all is every namespace"),
        (["--trace", "x", "--all"], "--all needs a broker, and --trace without a TOPIC uses none"),
        (["orders", "--trace", "x", "--watch"], "a trace does not change"),
        (["--stats", "x", "--save", "y"], "--save needs a broker, and --stats uses none"),
        (["--stats", "x", "--watch"], "--watch needs a broker"),
        (["--stats", "x", "--load-topics"], "--load-topics needs --namespace or --all"),
        (["orders", "--at", "2026-11-22T00:00:00Z"], "--at needs --stats or --internal-stats"),
        (["--internal-stats", "x", "--all"], "--all needs a broker, and --stats uses none"),
        (["orders", "--watch", "--every", "1s"], "--every is at least 5s"),
        (["orders", "--interval", "0s"], "samples cannot lie 0s apart"),
        (["--stats", "x", "--interval", "0s"], "samples cannot lie 0s apart"),
        (["orders", "--set", "permits-exhausted.refil_wait=1s"], "did you mean"),
        (["orders", "--set", "permits-exhausted.refill_wait=soon"], "not a duration"),
        (["orders", "--skip", "permit-exhausted"], "did you mean permits-exhausted"),
        (["--stats", "x", "--at", "yesterday"], "is not a time"),
        (
            ["orders", "--admin-url", "ftp://x"],
            "the admin URL is not an http:// or https:// address",
        ),
        (["orders", "--client-conf", "/nowhere"], "cannot read client.conf"),
    ],
)
def test_options_that_cannot_be_meant_are_wrong_usage(
    check: Check, arguments: list[str], says: str
) -> None:
    told = check(None, *arguments, "-o", "json")
    assert (told.code, told.out) == (2, "")
    assert says in told.sentence()
    told = check(None, *arguments, "-o", "nagios")
    assert told.code == 3
    assert told.out.startswith("PULSAR STALL-CHECK UNKNOWN - ")
    assert says in told.out


@pytest.mark.parametrize("given", [["-o", "nagios"], ["-onagios"], ["--output=nagios"]])
def test_what_click_refuses_is_unknown_to_a_monitor_and_not_critical(
    check: Check, given: list[str]
) -> None:
    told = check(None, "orders", *given, "--window", "soon")
    assert (told.code, told.err) == (3, "")
    assert told.out.startswith("PULSAR STALL-CHECK UNKNOWN - ")
    assert "'soon' is not a duration" in told.out
    assert check(None, "orders", "nagios", "-o", "json", "--window", "soon").code == 2


def test_fail_on_and_skip_and_set_turn_the_code(check: Check) -> None:
    with cluster({"held": stuck(), "recent": states(STUCK, later_seconds=60)}) as broker:
        assert check(broker, "held").code == 1
        assert check(broker, "held", "--fail-on", "never").code == 0
        assert check(broker, "held", "--skip", "permits-exhausted", "-o", "json").statuses != {
            "held": "stalled"
        }
        told = check(broker, "recent", "-o", "json")
        assert (told.code, told.statuses) == (3, {"recent": "unknown"})
        assert check(broker, "recent", "--fail-on", "suspect").code == 1
        patience = ("--set", "permits-exhausted.refill_wait=1s")
        assert check(broker, "recent", *patience, "-o", "json").statuses == {"recent": "stalled"}


def left(step: Any) -> Any:
    """The same without a consumer."""
    stats = copy.deepcopy(step["stats"])
    for subscription in stats["subscriptions"].values():
        subscription["consumers"] = []
    return {**step, "stats": stats}


@pytest.mark.parametrize(
    ("topic", "code", "line"),
    [
        ("quiet", 0, "PULSAR STALL-CHECK OK - "),
        ("warned", 1, "PULSAR STALL-CHECK WARNING - "),
        ("held", 2, "PULSAR STALL-CHECK CRITICAL - "),
        ("nowhere", 3, "PULSAR STALL-CHECK UNKNOWN - "),
    ],
)
def test_a_monitor_reads_its_own_codes(check: Check, topic: str, code: int, line: str) -> None:
    warned = [left(step) for step in stuck()]
    with cluster({"held": stuck(), "quiet": states(HEALTHY), "warned": warned}) as broker:
        told = check(broker, topic, "-o", "nagios")
    assert (told.code, told.out.startswith(line)) == (code, True)
    assert "|stalled=" in told.out.splitlines()[0]


def test_every_format_can_be_read_by_its_readers(check: Check) -> None:
    with cluster({"held": stuck(), "quiet": states(HEALTHY)}) as broker:
        for which in (("held", "quiet"), ("--all",)):
            out = {form: check(broker, *which, "-o", form) for form in FORMATS}
            for form, told in out.items():
                assert (told.code, told.err) == (2 if form == "nagios" else 1, "")
                assert "billing" in told.out
            assert len(out["json"].document["subscriptions"]) == 2
            suite = ElementTree.fromstring(out["junit"].out).find("testsuite")
            assert suite is not None
            assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
            assert out["github"].out.startswith("::error")
            assert out["prometheus"].out.endswith("\n")
            assert "✖ STALLED  billing" in out["table"].out


# As a process: how it ends


@contextmanager
def running(
    broker: HttpBroker, *arguments: str, command: str = "stall-check", **more: Any
) -> Iterator[subprocess.Popen[str]]:
    often = () if command == "report" else ("--interval", "100ms")
    started = subprocess.Popen(
        [sys.executable, "-m", "pulsar_doctor", command, "--admin-url", broker.url,
         *often, *arguments],
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True,
           "env": environment()} | more,
    )  # fmt: skip
    try:
        yield started
    finally:
        started.kill()
        started.communicate()


def reads(broker: HttpBroker, topic: str) -> int:
    return sum(f"/{topic}/stats" in asked.path for asked in list(broker.asked))


def ended(process: subprocess.Popen[str], by: signal.Signals) -> Checked:
    process.send_signal(by)
    out, err = process.communicate(timeout=30)
    assert "Traceback" not in err
    assert "mistake in pulsar-doctor" not in err
    return Checked(process.returncode, out, err)


@pytest.mark.parametrize("which", [["held"], ["--all"]])
def test_ctrl_c_in_a_window_ends_at_once_and_what_was_saved_can_be_read(
    check: Check, tmp_path: Path, which: list[str]
) -> None:
    saved = str(tmp_path / "incident.gz")
    with cluster({"held": stuck(), "quiet": states(HEALTHY)}) as broker:
        long = ("--window", "10m", "--save", saved, "-o", "json")
        with running(broker, *which, *long) as process:
            eventually(lambda: reads(broker, "held") > 6, 30)
            told = ended(process, signal.SIGINT)
    assert (told.code, told.err.strip()) == (130, "")
    assert told.statuses["held"] == "stalled"
    assert told.document["partial"] is True
    with gzip.open(saved) as whole:
        assert whole.read().count(b"\n") > 3
    again = check(None, "held", "--stats", saved, "-o", "json")
    assert (again.code, again.statuses) == (1, {"held": "stalled"})


def test_what_ctrl_c_left_is_called_partial_on_paper_too() -> None:
    with (
        cluster({"held": stuck()}) as broker,
        running(broker, "held", "--window", "10m") as process,
    ):
        eventually(lambda: reads(broker, "held") > 3, 30)
        told = ended(process, signal.SIGINT)
    assert told.code == 130
    assert "stopped by Ctrl-C: partial" in told.out
    assert "STALLED" in told.out


@pytest.mark.parametrize(("command", "window"), [("bundle", "--window"), ("report", "--for")])
def test_ctrl_c_leaves_a_file_that_says_it_is_partial_and_no_exit_code_of_success(
    check: Check, tmp_path: Path, command: str, window: str
) -> None:
    path = tmp_path / "incident"
    long = ("held", window, "10m", "-o", str(path))
    with cluster({"held": stuck()}) as broker, running(broker, *long, command=command) as process:
        eventually(lambda: reads(broker, "held") > 3, 30)
        told = ended(process, signal.SIGINT)
    assert told.code == 130
    assert "stopped by Ctrl-C" in told.err + told.out
    again = check(None, "--case", str(path), "-o", "json")
    assert (again.code, again.statuses) == (1, {"held": "stalled"})
    assert "stopped by Ctrl-C" in again.err
    with gzip.open(path) if command == "bundle" else path.open("rb") as whole:
        assert b"stopped by Ctrl-C: partial" in whole.read()


def test_a_second_ctrl_c_does_not_wait_for_a_broker_that_hangs() -> None:
    def hanging() -> Iterator[bytes]:
        time.sleep(8)
        yield b"{}"

    steps = [*stuck()[:1] * 3, *(Reply(pieces=hanging()) for _ in range(9))]
    with (
        cluster({"held": steps}) as broker,
        running(broker, "--all", "--window", "10m", "--interval", "50ms") as process,
    ):
        eventually(lambda: reads(broker, "held") > 3, 30)
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        began = time.monotonic()
        told = ended(process, signal.SIGINT)
        assert time.monotonic() - began < 5
    assert (told.code, told.out) == (130, "")


def test_lines_to_paste_ask_the_cluster_that_was_asked(check: Check) -> None:
    with cluster({"held": stuck()}) as broker:
        for more in ((), ("-v",)):
            told = check(broker, "held", *more)
            lines = [
                line.partition("pulsar-doctor stall-check ")[2]
                for line in told.out.splitlines()
                if line.lstrip().startswith("check ")
            ]
            assert lines
            assert all(f" --admin-url {broker.url}" in line for line in lines)
            assert "secret" not in told.out


def test_ctrl_c_before_anything_was_read_prints_nothing() -> None:
    with (
        cluster({"held": [Reply(503, {"reason": "starting"})]}) as broker,
        running(broker, "held", "--window", "10m") as process,
    ):
        eventually(lambda: reads(broker, "held") > 0, 30)
        told = ended(process, signal.SIGINT)
    assert (told.code, told.out, told.err.strip()) == (130, "", "")


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("which", [["held"], ["--all"]])
def test_a_watch_that_ends_before_its_first_verdict_is_interrupted(
    which: list[str], by: signal.Signals
) -> None:
    with (
        cluster({"held": stuck(), "quiet": states(HEALTHY)}) as broker,
        running(broker, *which, "--window", "10m", "--watch") as process,
    ):
        eventually(lambda: reads(broker, "held") > 2, 30)
        assert ended(process, by).code == 130


def documents(process: subprocess.Popen[str], count: int) -> list[Any]:
    """The next documents that it writes."""
    assert process.stdout is not None
    found: list[Any] = []
    while len(found) < count:
        text = ""
        while not text.endswith("}\n") or '"not_loaded"' not in text.splitlines()[-1]:
            line = process.stdout.readline()
            assert line, "it has ended"
            text += line
        found.append(json.loads(text))
    return found


def test_a_watch_goes_on_until_it_is_ended_with_the_code_of_the_last_verdict() -> None:
    topics = {"held": stuck(), "quiet": states(HEALTHY)}
    every = ("--watch", "--every", "5s", "--window", "200ms", "-o", "json")
    with (
        cluster(topics) as broker,
        running(broker, "held", *every) as stalled,
        running(broker, "quiet", *every) as healthy,
        running(broker, "nowhere", *every) as unread,
    ):
        for process in (stalled, healthy, unread):
            assert len({each["checked_at"] for each in documents(process, 2)}) == 2
        assert ended(stalled, signal.SIGTERM).code == 1
        assert ended(healthy, signal.SIGINT).code == 0
        assert ended(unread, signal.SIGTERM).code == 3


def until_a_verdict(process: subprocess.Popen[str]) -> None:
    """Until the end of a round with one subscription."""
    assert process.stdout is not None
    while line := process.stdout.readline():
        if "1 subscription: " in line:
            time.sleep(0.5)  # until its code is noted too
            return
    raise AssertionError("it has ended")


@pytest.mark.parametrize(("read", "code"), [(True, 1), (False, 130)])
def test_ctrl_c_while_a_round_is_shown_gives_its_code_if_all_was_read(
    read: bool, code: int
) -> None:
    """Whoever has read the last verdict may end the watch before the program's next step."""

    def show(checkup: Checkup) -> None:
        verdicts = checkup.examined()
        list(verdicts) if read else next(verdicts, None)
        raise KeyboardInterrupt

    handlers = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}
    checkup = Checkup("broker", diagnoses=[caused(1), caused(2)])
    try:
        shown = WrittenRounds(show)
        ended_with = watch(
            lambda *_: checkup,
            shown,
            every_seconds=5,
            code=lambda tally: tally.exit_code("stalled"),
        )
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
    assert ended_with == code


@pytest.mark.slow
def test_a_broker_that_goes_away_between_rounds_is_one_sentence_and_the_watch_goes_on() -> None:
    with cluster({"held": stuck()}) as broker:
        answer = broker.answer
        every = ("--watch", "--every", "5s", "--window", "200ms")
        with running(broker, "held", *every) as named, running(broker, "--all", *every) as fleet:
            assert named.stderr is not None
            assert fleet.stderr is not None
            until_a_verdict(named)
            until_a_verdict(fleet)
            broker.answer = lambda asked: CUT
            for process in (named.stderr, fleet.stderr):
                assert "closed the connection" in process.readline()
            assert ended(fleet, signal.SIGTERM).code == 3
            broker.answer = answer
            until_a_verdict(named)
            told = ended(named, signal.SIGINT)
            assert (told.code, told.err.strip()) == (1, "")


def test_nobody_reads_any_more() -> None:
    topics = {f"quiet-{number}": states(HEALTHY) for number in range(300)}
    with cluster(topics) as broker, running(broker, "--all", "-o", "json") as process:
        assert process.stdout is not None
        process.stdout.close()
        process.wait(timeout=60)
        assert process.stderr is not None
        assert (process.returncode, process.stderr.read()) == (128 + signal.SIGPIPE, "")
        process.stdout = None


# The bar on a terminal


@pytest.mark.parametrize("which", [["held"], ["--all"]])
def test_the_bar_on_stderr_leaves_the_report_on_stdout(which: list[str]) -> None:
    # So many that the report has begun while the bar is still there.
    quiet = {f"quiet-{number}": states(HEALTHY) for number in range(600)}
    topics = {**quiet, "held": stuck()}
    with cluster(topics, stored=["asleep"]) as broker, terminal() as (stderr, seen):
        arguments = (*which, "-o", "json", "--window", "500ms")
        with running(broker, *arguments, stderr=stderr) as process:
            out, _ = process.communicate(timeout=60)
    assert "held" in [each["topic"].rpartition("/")[2] for each in json.loads(out)["subscriptions"]]
    assert process.returncode == 1
    shown = b"".join(seen)
    assert b"samples" in shown
    assert b"subscriptions" not in shown
    assert shown.rfind(b"\x1b[?25h") > shown.rfind(b"\x1b[?25l")


def test_the_bar_gives_the_cursor_back_after_ctrl_c() -> None:
    with (
        cluster({"held": stuck()}) as broker,
        terminal() as (stderr, seen),
        running(broker, "--all", "--window", "10m", stderr=stderr) as process,
    ):
        eventually(lambda: reads(broker, "held") > 2, 30)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    shown = b"".join(seen)
    assert process.returncode == 130
    assert b"\x1b[?25l" in shown
    assert shown.rfind(b"\x1b[?25h") > shown.rfind(b"\x1b[?25l")


def test_a_cause_that_the_first_reading_shows_is_named_on_a_terminal_at_once() -> None:
    sentence = b"seen already: billing on public/default/held: permits-exhausted of worker-1"
    topics = {"held": stuck(), "quiet": states(HEALTHY)}
    with cluster(topics) as broker, terminal() as (out, seen):
        with running(broker, *topics, "--window", "10m", stdout=out, stderr=out) as process:
            eventually(lambda: sentence in b"".join(seen), 30)
            assert process.poll() is None
        assert b"quiet:" not in b"".join(seen)
    with (
        cluster(topics) as broker,
        terminal() as (err, seen),
        running(broker, *topics, "--window", "200ms", stderr=err) as process,
    ):
        process.communicate(timeout=60)
    assert process.returncode == 1
    assert b"seen already" not in b"".join(seen)
