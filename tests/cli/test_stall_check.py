"""The verdict on a trace, and `explain`, from the command line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.cli import run
from pulsar_doctor.diagnosis.answers import LIKELY, POSSIBLE
from pulsar_doctor.diagnosis.cause import SYMPTOMS
from pulsar_doctor.diagnosis.causes import load, no_consumer
from pulsar_doctor.diagnosis.fitted import sure
from pulsar_doctor.diagnosis.known.issue import of_cause
from pulsar_doctor.wire.columns import TO_BROKER
from pulsar_doctor.wording.printable import listed
from tests.made.traces import write_trace
from tests.made.wire import TOPIC, Wire, record
from tests.support.command_line import environment, pulsar_doctor
from tests.support.documented import MOMENT, NOT_TOLD, Like

CONSUMER_BUSY = 5
ROOT = Path(__file__).parents[2]
NOBODY = ("--admin-url", "http://127.0.0.1:1")
SLOW = {"slow": {"receiver_queue_size": 1000, "process_seconds": 600}}


def hoarded() -> Wire:
    """A slow consumer took all of a thousand messages, a fast one has nothing to do."""
    said = Wire().open().attached(name="slow").flow(1000).pushed(range(1000))
    return said.open(1).attached(name="fast", conn_id=1).flow(1000, conn_id=1)


def idle(said: Wire | None = None, **subscribe: Any) -> Wire:
    said = said or Wire().open()
    return said.attached(**subscribe).flow(10, subscribe.get("consumer_id", 1))


def holds_ten(said: Wire, seconds: float) -> Wire:
    return said.flow(10).pushed(range(10)).wait(seconds)


def slow() -> Wire:
    """A message a second from a queue of 100: it asks again after most of a minute."""
    said = Wire().open().attached().flow(100).pushed(range(100))
    for number in range(20):
        said.wait(1).acked([number])
    return said


@pytest.fixture
def stalled(tmp_path: Path) -> str:
    said = idle(hoarded(), consumer_id=2, name="auditor", subscription="audit").wait(60)
    clocks = {"wall_us": 0, "mono_ns": 0}
    return str(write_trace(tmp_path / "incident.ptrace", said.blocks, told=SLOW, clocks=clocks))


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = run(["stall-check", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def document(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    _, out, err = checked(capsys, *arguments, "-o", "json")
    assert err == ""
    found = json.loads(out)
    assert isinstance(found, dict)
    return found


CHECK = "pulsar-doctor stall-check persistent://public/default/orders -s billing  # "
AGAIN = "its unacknowledged messages are delivered again, including those that it has finished"
ACTIONS = [
    {
        "when": "now",
        "text": "Restart the process at 10.0.0.7:5000, with a receiver queue of 1; otherwise it "
        "takes as many again: the other consumers are in that process too, so all messages "
        "wait until it is "
        "back.",
        "command": None,
        "side_effect": AGAIN,
        "undo": None,
        "check": f"{CHECK}this finding is gone",
    },
    {
        "when": "now",
        "text": "If that process cannot be reached, unload the topic: all its consumers and "
        "producers are disconnected, and reconnect.",
        "command": "pulsar-admin topics unload persistent://public/default/orders",
        "side_effect": "the unacknowledged messages of all its consumers are delivered again, and "
        "a client that reconnects unchanged takes its share of them again",
        "undo": None,
        "check": f"{CHECK}this finding is gone, or it has reconnected and holds only its share",
    },
    {
        "when": "today",
        "text": Like("Give this consumer a receiver queue of 1, .*: .*"),
        "command": None,
        "side_effect": Like("costs a round trip for each message: .*"),
        "undo": "set it back, and restart the consumer",
        "check": f"{CHECK}it holds few messages, and no other consumer is idle",
    },
    {
        "when": "later",
        "text": "Make the work on one message faster; 4 consumers bring nothing: what waits is in "
        "queues already (1 consumer idle).",
        "command": None,
        "side_effect": None,
        "undo": None,
        "check": f"{CHECK}the backlog falls",
    },
]
SURE = sure("prefetch-hogging", 0.9)  # the rule's grade, as it was measured
HOGGING = {
    "code": "prefetch-hogging", "severity": "stalled", "confidence": SURE, "consumer": "slow",
    "summary": (
        "slow holds 1000 of the 1000 unacknowledged messages, at least 501 of them in its queue, "
        "and needs at least 164 h for them, while fast had nothing to do for 60 s: it works, "
        "but slowly; 0 permits here, 1000 there, next FLOW after at most 500 more messages, in "
        "about 83 h at 10 min each, as given"
    ),
    "evidence": [
        {"name": "available_permits", "value": 0, "unit": "permits"},
        {"name": "unacked_messages", "value": 1000, "unit": "messages"},
        {"name": "unacked_entries", "value": 1000, "unit": "entries"},
        {"name": "queued", "value": 501, "unit": "messages", "bound": "at least"},
        {"name": "receiver_queue_size", "value": 1000, "unit": "messages"},
        {"name": "flows", "value": 1, "unit": "commands"},
        {"name": "msg_out_counter", "value": 1000, "unit": "messages"},
        {"name": "next_flow_after", "value": 500, "unit": "messages", "bound": "at most"},
        {"name": "next_flow_in", "value": 300_000, "unit": "seconds"},
        {"name": "sending_after", "value": 500, "unit": "messages", "bound": "at most"},
        {"name": "pace", "value": 600, "unit": "seconds/message"},
        {"name": "pace_source", "value": "as told", "unit": ""},
        {"name": "quiet_for", "value": 60.005, "unit": "seconds"},
        {"name": "since_last_flow", "value": 60.01, "unit": "seconds"},
        {"name": "subscription_unacked", "value": 1000, "unit": "messages"},
        {"name": "acknowledged", "value": None, "unit": "messages"},
        {"name": "time_to_drain", "value": 590_400, "unit": "seconds"},
        {"name": "idle_consumers", "value": 1, "unit": "consumers"},
        {"name": "idle_permits", "value": 1000, "unit": "permits"},
        {"name": "idle_for", "value": 60.005, "unit": "seconds"},
    ],
    "since": None,
    "where": {
        "address": "10.0.0.7:5000", "client_version": "Pulsar-CPP-v3.7.0",
        "connected_since": "2026-09-21T14:13:20.002Z",
    },
    "impact": None,
    "remedy": Like(
        "Restart the process at 10.0.0.7:5000 to free what it holds now. Give it a receiver queue "
        "of 1 .*, so that nothing waits behind slow work; .*"
    ),
    "actions": ACTIONS,
    "explain": "pulsar-doctor explain prefetch-hogging",
    "page": "docs/causes/prefetch-hogging.md",
}  # fmt: skip
EVERYBODY = [["slow", "fast"], ["auditor"]]
WHOLE = {
    "schema": "pulsar-doctor/stall-check/3",
    "checked_at": MOMENT,
    "source": "trace",
    "sources": ["trace"],
    "causes": [
        {
            "code": "prefetch-hogging", "severity": "stalled", "subscriptions": 1, "backlog": None,
            "growth": None, "largest": [
                {"topic": TOPIC, "partition": None, "subscription": "billing", "backlog": None},
            ],
        }
    ],
    "window_seconds": 60.014,
    "suppressed": 0,
    "cluster": None,
    "samples": 0,
    "subscriptions": [
        {
            "topic": TOPIC, "partition": None, "subscription": "billing", "type": "Shared",
            "status": "stalled", "backlog": None, "account": Like(dict), "balance": Like(dict),
            "pace": Like(dict),
            "findings": [HOGGING], "not_told": NOT_TOLD,
            "suspects": Like(list), "ruled_out": Like(list), "known_issues": [],
        },
        {
            "topic": TOPIC, "partition": None, "subscription": "audit", "type": "Shared",
            "status": "healthy", "backlog": None, "account": Like(dict), "balance": Like(dict),
            "pace": None,
            "findings": [], "not_told": NOT_TOLD,
            "suspects": Like(list), "ruled_out": Like(list), "known_issues": [],
        },
    ],
    "not_loaded": [],
    "unreachable": [],
    "notes": [],
}  # fmt: skip


def test_the_json_is_the_contract(stalled: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "--trace", stalled)
    everybody = [[c["label"] for c in each.pop("consumers")] for each in found["subscriptions"]]
    assert everybody == EVERYBODY
    excluded, none = [each["ruled_out"] for each in found["subscriptions"]]
    assert {"code": "no-consumer", "because": "2 consumers are attached"} in excluded
    assert none == [], "of what is well nothing needs to be excluded"
    assert found == WHOLE
    billing, audit = found["subscriptions"]
    assert "no-consumer: needs the broker's stats" in billing["not_told"]
    assert not [reason for reason in billing["not_told"] if reason.startswith("permit")]
    [alone] = document(capsys, "--trace", stalled, "-s", "audit")["subscriptions"]
    assert alone.items() >= audit.items()


def test_the_table_says_the_verdict_first_then_the_culprit(
    stalled: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    code, out, err = checked(capsys, "--trace", stalled)
    assert (code, err) == (1, "")
    lines = [line.strip() for line in out.splitlines()]
    assert lines[0].startswith(f"{stalled}; ")
    assert lines[0].endswith(" UTC; watched 60 s")
    assert lines[1] == f"✖ STALLED  billing on orders; cause: prefetch-hogging of slow ({SURE:.0%})"
    assert lines[2].startswith("slow holds 1000 of the 1000 ")
    assert f"✔ HEALTHY  audit (Shared) on {TOPIC}: 1 consumer with 10 permits" in lines
    assert lines[-1] == "2 subscriptions: 1 stalled, 1 healthy"
    assert "\x1b" not in out


def test_the_table_fits_a_narrow_terminal(
    stalled: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    _, out, _ = checked(capsys, "--trace", stalled, "-v")
    whole = ("  run ", "  check ", stalled)  # lines to paste, and a name that is as long
    folded = [line for line in out.splitlines() if not line.startswith(whole)]
    assert max(map(len, folded)) <= 60
    assert "next FLOW after at most 500" in " ".join(out.split())
    assert "pulsar-doctor explain prefetch-hogging" in out


def test_the_table_needs_no_utf8_and_no_colour(stalled: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pulsar_doctor", "stall-check", "-q", "--trace", stalled],
        env={**environment(), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (1, b"")
    assert ran.stdout.startswith(b"X STALLED  billing")


def test_no_control_character_of_a_name_reaches_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = holds_ten(Wire().open().attached(name="\x1b[2Jw[red]"), 600)
    _, out, _ = checked(capsys, "--trace", str(write_trace(tmp_path / "t", said.blocks)))
    assert "\x1b" not in out
    assert "\N{REPLACEMENT CHARACTER}[2Jw[red] (9" in out


def test_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    healthy = str(write_trace(tmp_path / "healthy", idle().wait(60).blocks))
    warning = str(write_trace(tmp_path / "warning", slow().blocks))
    hangs = holds_ten(Wire().open().attached(), 60)
    unknown = str(write_trace(tmp_path / "unknown", hangs.blocks))
    for trace, by_default, on_warning, never in [
        (healthy, 0, 0, 0),
        (warning, 0, 1, 0),
        (unknown, 3, 3, 3),
    ]:
        assert checked(capsys, "--trace", trace)[0] == by_default
        assert checked(capsys, "--trace", trace, "--fail-on", "warning")[0] == on_warning
        assert checked(capsys, "--trace", trace, "--fail-on", "never")[0] == never


def test_with_a_stall_and_an_unknown_verdict_the_exit_code_is_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Wire().open().attached().flow(10).pushed(range(10))
    said.attached(2, "one", subscription="audit").flow(1, 2).pushed([0], 2).wait(600)
    trace = str(write_trace(tmp_path / "t", said.blocks))
    code, out, _ = checked(capsys, "--trace", trace)
    assert code == 1
    assert re.search(r"\? SUSPECTED  audit on orders: [a-z]+ [a-z-]+ of one \(\d+%\)", out)
    assert "no data" in checked(capsys, "--trace", trace, "-v")[1]
    assert checked(capsys, "-s", "audit", "--trace", trace)[0] == 3
    assert checked(capsys, "--trace", trace, "--fail-on", "never")[0] == 3


def test_set_and_skip_change_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = str(write_trace(tmp_path / "t", holds_ten(Wire().open().attached(), 60).blocks))
    assert checked(capsys, "--trace", trace)[0] == 3
    patience = "permits-exhausted.refill_wait=5s"
    assert checked(capsys, "--trace", trace, "--set", patience)[0] == 1
    skipped = document(capsys, "--trace", trace, "--set", patience, "--skip", "permits-exhausted")
    assert skipped["subscriptions"][0]["status"] == "unknown"


def test_what_is_skipped_earns_no_green_and_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    trace = str(write_trace(tmp_path / "t", holds_ten(Wire().open().attached(), 90).blocks))
    skipping = ("--trace", trace, "--skip", "permits-exhausted", "--skip", "slow-but-progressing")
    code, out, _ = checked(capsys, *skipping)
    assert code == 3
    assert out.splitlines()[0].endswith("skipped: permits-exhausted, slow-but-progressing")
    assert "? UNKNOWN  billing on orders: " in out
    assert "pulsar-doctor explain not-acknowledging" in out
    code, _, err = checked(capsys, *skipping, "--accept-unknown", "all")
    assert code == 0
    assert "1 verdict unknown: accepted (--accept-unknown all)" in err


@pytest.mark.usefixtures("outside")  # a TOPIC asks its broker too, and here there is none
def test_topics_and_subscriptions_can_be_chosen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Wire().open()
    for number, topic in enumerate([TOPIC, f"{TOPIC}-partition-0", f"{TOPIC}-partition-1"], 1):
        said.attached(number, f"c{number}", topic=topic).flow(10, number)
    said.attached(9, "other", topic="persistent://public/default/reorders", subscription="audit")
    trace = str(write_trace(tmp_path / "t", said.wait(5).blocks))

    def judged(*arguments: str) -> list[tuple[str, int | None]]:
        _, out, err = checked(capsys, *NOBODY, *arguments, "--trace", trace, "-o", "json")
        assert all("from the trace alone" in line for line in err.splitlines())
        found = json.loads(out)["subscriptions"]
        return [(one["topic"].rpartition("/")[2], one["partition"]) for one in found]

    assert len(judged()) == 4
    assert judged("orders") == [("orders", None), ("orders", 0), ("orders", 1)]
    assert judged(TOPIC) == judged("default/orders") == judged("orders")
    assert judged("orders-partition-1") == [("orders", 1)]
    assert judged("reorders", "orders-partition-0") == [("orders", 0), ("reorders", None)]
    assert judged("-s", "audit") == [("reorders", None)]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["payments"], "no topic 'payments'; it has billing on persistent://"),
        (["orders", "payments"], "no topic 'payments'"),
        (["-s", "refunds"], "no subscription 'refunds'; it has billing on"),
        (["orders", "-s", "refunds"], "no subscription 'refunds' of this topic"),
    ],
)
@pytest.mark.usefixtures("outside")
def test_a_name_that_is_not_in_the_trace_could_not_be_examined(
    stalled: str, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    code, out, err = checked(capsys, *NOBODY, *arguments, "--trace", stalled, "-o", "json")
    assert (code, out) == (3, "")
    *notes, said = err.splitlines()
    assert says in said
    assert len(notes) == (arguments[0] != "-s")
    assert all("from the trace alone" in note for note in notes)


def test_a_trace_without_consumers_could_not_be_examined(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = write_trace(tmp_path / "t", Wire().open().wait(5).blocks)
    code, out, err = checked(capsys, "--trace", str(trace))
    assert (code, out) == (3, "")
    assert "has no consumer" in err


def test_a_consumer_that_the_broker_refused_is_unknown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = Wire().open()
    said.say(
        TO_BROKER,
        record("SUBSCRIBE", topic=TOPIC, subscription="s", sub_type=0, consumer_id=1, request_id=1),
    )
    error = record("ERROR", request_id=1, error=CONSUMER_BUSY, message="already connected")
    said.say("to_client", error)
    code, out, _ = checked(capsys, "--trace", str(write_trace(tmp_path / "t", said.blocks)))
    assert code == 3
    assert "accepted no consumer" in " ".join(out.split())


def test_no_source_is_wrong_usage_and_says_what_can_be_given(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = checked(capsys)
    assert (code, out) == (2, "")
    for source in ("TOPIC", "--namespace NS", "--all", "--stats FILE", "--trace DIR"):
        assert source in err
    code, out, err = checked(capsys, "--trace", str(tmp_path / "nowhere"))
    assert (code, out) == (2, "")
    assert "there is no folder" in err
    (tmp_path / "_meta.json").write_text("{")
    assert checked(capsys, "--trace", str(tmp_path))[0] == 2


@pytest.mark.parametrize(
    "arguments",
    [
        ["--set", "permits-exhausted.refill_wait=soon"],
        ["--set", "nothing"],
        ["--skip", "permit-exhausted"],
        ["--fail-on", "sometimes"],
        ["-o", "xml"],
    ],
)
def test_wrong_usage(
    stalled: str, capsys: pytest.CaptureFixture[str], arguments: list[str]
) -> None:
    code, out, err = checked(capsys, "--trace", stalled, *arguments)
    assert (code, out) == (2, "")
    assert "Traceback" not in err


def test_explain_lists_each_cause_in_one_line_below_what_people_see(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    listed = [line.split()[0] for line in lines if line.startswith("  ")]
    assert sorted(listed) == sorted([*(rule.code for rule in load()), "healthy"])
    heads = [line for line in lines if line in SYMPTOMS.values()]
    assert heads == [*SYMPTOMS.values()]
    for rule in load():
        [at] = [number for number, line in enumerate(lines) if f"  {rule.code} " in line]
        above = [line for line in lines[:at] if line in heads]
        assert above[-1] == SYMPTOMS[rule.symptom]
        assert rule.title in lines[at]


def test_explain_with_v_lists_thresholds_and_says_what_a_percentage_means(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["explain", "-v"]) == 0
    out = capsys.readouterr().out
    for rule in load():
        assert all(f"{rule.code}.{threshold.name}=" in out for threshold in rule.thresholds)
    text = " ".join(out.split())
    assert "bench/calibration measures it on states with a known cause" in text
    for raising in ("--window", "--at", "--internal-stats", "--trace"):
        assert raising in text.partition("What makes a verdict more certain")[2]
    assert f"called likely from {LIKELY:.0%} on, possible from {POSSIBLE:.0%} on" in text


@pytest.mark.parametrize("code", ["permits-exhausted", "paused", "healthy"])
def test_explain_of_a_cause_ends_with_what_is_its_own(
    code: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain", code]) == 0
    *rest, issues, page = capsys.readouterr().out.splitlines()
    ids = [issue.id for issue in of_cause(code)]
    assert issues == f"Known issues: {listed(ids, 5) or 'none'}"
    assert page == f"Page: docs/causes/{code}.md"
    assert (ROOT / page.removeprefix("Page: ")).is_file()
    assert not any("What a percentage means" in line for line in rest)


@pytest.mark.parametrize("code", [rule.code for rule in load()])
def test_explain_prints_the_whole_of_a_rule(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    [rule] = [rule for rule in load() if rule.code == code]
    assert run(["explain", code]) == 0
    out = capsys.readouterr().out
    assert rule.text.strip() in out
    assert f"Needs: {' or '.join(sorted(rule.needs))}" in out
    assert rule.needs <= {"a trace of the wire", "the broker's stats", "a look into its process"}
    for threshold in rule.thresholds:
        assert threshold.meaning in out
    for other in rule.explains:
        assert other in out


NO_CONSUMER = {
    "code": "no-consumer",
    "symptom": "nothing comes",
    "title": "A durable subscription has a backlog, and no consumer is attached to it.",
    "text": (no_consumer.__doc__ or "").strip(),
    "thresholds": [
        {
            "name": "reconnect_wait", "default": 5.0, "unit": "seconds",
            "meaning": "consumers that come back have come by then",
        },
        {
            "name": "restart_wait", "default": 60.0, "unit": "seconds",
            "meaning": "an application that is restarted is back by then",
        },
    ],
    "needs": ["the broker's stats"],
    "explains": [],
    "known_issues": [issue.id for issue in of_cause("no-consumer")],
    "page": "docs/causes/no-consumer.md",
}  # fmt: skip


def test_explain_in_json_is_the_whole_of_a_rule(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "no-consumer", "-o", "json"]) == 0
    one = json.loads(capsys.readouterr().out)
    assert one == {"schema": "pulsar-doctor/explain/1", "rules": [NO_CONSUMER]}
    assert run(["explain", "-o", "json"]) == 0
    everything = json.loads(capsys.readouterr().out)
    assert everything.keys() == one.keys()
    rules = {rule["code"]: rule for rule in everything["rules"]}
    assert list(rules) == [*(rule.code for rule in load()), "healthy"]
    assert rules["no-consumer"] == NO_CONSUMER
    permits = rules["slow-but-progressing"]
    assert permits["needs"] == ["a trace of the wire", "the broker's stats"]
    assert [(each["name"], each["default"], each["unit"]) for each in permits["thresholds"]] == [
        ("slow_wait", 30.0, "seconds"), ("receiver_queue_size", -1, "messages"),
    ]  # fmt: skip
    assert rules["prefetch-hogging"]["explains"] == [
        "ack-hole", "not-acknowledging", "permits-exhausted", "slow-but-progressing",
    ]  # fmt: skip
    for rule in rules.values():
        assert rule.keys() == NO_CONSUMER.keys()
        assert rule["text"].startswith(f"{rule['title']}\n")


def test_explain_of_an_unknown_code_names_the_near_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["explain", "permits-exhaustd"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "did you mean permits-exhausted" in said.err


def test_the_thresholds_that_explain_shows_can_be_set(
    stalled: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["explain"]) == 0
    shown = [line.split()[0] for line in capsys.readouterr().out.splitlines() if "=" in line][:-1]
    sets = [part for name in shown for part in ("--set", name)]
    assert checked(capsys, "--trace", stalled, *sets)[0] == 1


@pytest.mark.parametrize(
    ("backlogs", "code"), [((600,), 3), ((600, 700, 800), 3), ((600, 0, 800), 0), ((0,), 0)]
)
def test_sums_over_partitions_are_healthy_only_where_all_were_at_their_end(
    backlogs: tuple[int, ...], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for number, backlog in enumerate(backlogs):
        sent = 5000 * (number + 1)
        consumer = {"consumerName": "w", "availablePermits": 7000, "msgOutCounter": sent}
        rates = {"msgRateOut": 500.0, "messageAckRate": 500.0}
        subscription = {"type": "Exclusive", "msgBacklog": backlog, "msgOutCounter": sent, **rates,
                        "consumers": [consumer | rates]}  # fmt: skip
        sums = {"metadata": {"partitions": 8}, "partitions": {}, "msgRateIn": 500.0}
        file = tmp_path / f"{number}.json"
        file.write_text(json.dumps(sums | {"subscriptions": {"billing": subscription}}))
        files += ["--stats", str(file)]
    assert run(["stall-check", *files, "--interval", "5s", "-q"]) == code
    out = " ".join(capsys.readouterr().out.split())
    sums_are_named = "sums over all partitions, and one of them may be stuck" in out
    assert sums_are_named == (code == 3)


def test_as_a_user_runs_it(stalled: str) -> None:
    ran = pulsar_doctor("stall-check", "--trace", stalled, "-o", "json")
    assert ran.returncode == 1
    assert ran.stderr == ""
    assert json.loads(ran.stdout)["subscriptions"][0]["status"] == "stalled"
