"""A tap as a check in CI: it ends by itself, and its exit code says whether the client works."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from pulsar_doctor.parts.consume import attach
from pulsar_doctor.parts.tap.command.expecting import of_the_past
from pulsar_doctor.parts.tap.ending import CommandEnd
from tests.made.states import RECORDED, judged, recorded
from tests.parts.tap.tap_process import running
from tests.parts.tap.tapped import found
from tests.support.command_line import answered, pulsar_doctor

QUIET = "pulsar.FileLogger(pulsar.LoggerLevel.Error, '/dev/null')"
WORKER = f"""
import os, pulsar, sys, time
client = pulsar.Client(os.environ["PULSAR_SERVICE_URL"], logger={QUIET})
consumer = client.subscribe(
    sys.argv[1], "billing", pulsar.ConsumerType.Shared, consumer_name="worker-1"
)
for _ in range(200):
    message = consumer.receive()
    if sys.argv[2] == "hang":
        time.sleep(60)
    if sys.argv[2] != "noack":
        consumer.acknowledge(message)
client.close()
"""


def worked(broker, client, topic, how, *options):
    """A worker behind a tap, with 200 messages that wait for it."""
    client.subscribe(topic, "billing", attach.TYPES["shared"]).close()
    attach.produce(client, topic, 200)
    return pulsar_doctor(
        "tap", "--listen", "127.0.0.1:0", "--expect-consumers", "1", "--expect-acked", "all",
        *options, "--", sys.executable, "-c", WORKER, topic, how, broker=broker,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--expect-within", "5s"], "needs --expect-consumers or --expect-acked"),
        (["--expect-acked", "all", "--trace", "t", "--ring", "10m"], "needs the whole trace"),
        (["--expect-acked", "0"], "neither a number of messages nor all"),
    ],
)
def test_expectations_that_mean_nothing_are_wrong_usage(options, said):
    ran = answered("tap", *options)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert said in ran.stderr


SLEEPS = "import time; time.sleep(60)"
HANDLES = "import signal, sys, time; signal.signal(15, lambda *_: sys.exit(5)); time.sleep(60)"


@pytest.mark.parametrize(
    ("script", "expected", "code", "line"),
    [
        (SLEEPS, "0", 0, ""),
        (SLEEPS, "1", 1, "--expect-consumers 1 is not met: no client connected to the tap"),
        pytest.param(HANDLES, "0", 5, "the command ended with 5", marks=pytest.mark.slow),
        pytest.param(
            "import os; os.abort()", "0", 134, "the command ended with 134 (SIGABRT)",
            marks=pytest.mark.slow,
        ),
    ],
)  # fmt: skip
def test_its_time_is_over_and_what_the_command_says_by_itself_counts(script, expected, code, line):
    command = (sys.executable, "-c", script)
    with found() as url:
        began = time.monotonic()
        options = ("--for", "2s", "--expect-consumers", expected, "--", *command)
        with running(*options, service_url=url) as tap:
            assert tap.wait() == code
            assert bool(tap.taps) is bool(code), "the trace is kept"
            assert not line or any(each.startswith(line) for each in tap.err)
        assert time.monotonic() - began < 30


CRASHES = "import sys; print('one', file=sys.stderr); raise SystemExit('no such setting')"


def test_a_command_that_crashes_is_said_with_its_code_and_its_last_line():
    command = (sys.executable, "-c", CRASHES)
    with found() as url:
        options = ("--for", "20s", "--expect-consumers", "1", "--expect-within", "15s")
        with running(*options, "--", *command, service_url=url) as tap:
            assert tap.wait() == 1
            (line,) = (each for each in tap.err if each.startswith("--expect-consumers"))
    assert line.startswith("--expect-consumers 1 is not met: the command ended with 1 after ")
    assert "; its last line: no such setting; no client connected to the tap" in line
    assert "within" not in line, "nobody waited for so long"
    assert line.endswith("First: run the command without the tap: it ended before any message "
                         "was delivered to it")  # fmt: skip
    assert "one" in tap.err


def test_a_worker_of_another_subscription_is_told_which_one_has_the_messages(broker, client, topic):
    client.subscribe(topic, "orders", attach.TYPES["shared"]).close()
    attach.produce(client, topic, 200)
    ran = pulsar_doctor(
        "tap", "--listen", "127.0.0.1:0", "--for", "5s", "--expect-acked", "all",
        "--", sys.executable, "-c", WORKER, topic, "well", broker=broker,
    )  # fmt: skip
    assert f"it read billing on {topic}, and 200 entries wait in orders" in ran.stderr
    assert "First: subscribe to orders" in ran.stderr


ENDED = CommandEnd(0, 30.0, by_itself=False, last_line="")


def test_that_the_tap_closed_it_is_the_least_of_what_is_as_bad():
    diagnosis = judged("redelivery-storm", recorded("4.0.8", "redelivery-storm"))
    storm = diagnosis.findings[0]
    closed = replace(storm, code="closed-unacknowledged")
    for by_itself, first in ((False, storm.code), (True, closed.code)):
        ended = replace(ENDED, by_itself=by_itself)
        past = of_the_past(replace(diagnosis, findings=(closed, storm)), ended)
        assert past.findings[0].code == first


def test_nothing_is_advised_about_a_process_that_has_ended():
    for version, name in RECORDED:
        past = of_the_past(judged(name, recorded(version, name)), ENDED)
        actions = [action for finding in past.findings for action in finding.actions]
        assert {action.when for action in actions} <= {"today", "later"}
        assert all(finding.remedy for finding in past.findings)
        assert [each.decide for each in past.suspects if each.decide] == []


def test_a_worker_that_acknowledges_everything_passes(broker, client, topic):
    ran = worked(broker, client, topic, "well")
    assert ran.returncode == 0, ran.stderr
    assert "--expect-acked all is met: 200 of 200 delivered messages acknowledged" in ran.stderr


def test_a_worker_that_acknowledges_nothing_fails_and_the_report_says_why(
    broker, client, topic, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    ran = worked(broker, client, topic, "noack", "-o", "junit")
    assert ran.returncode == 1, ran.stderr
    suite = ElementTree.fromstring(ran.stdout)[0]
    assert (suite.get("name"), suite.get("failures")) == ("pulsar-doctor tap", "1")
    (failure,) = suite.iterfind("testcase/failure")
    said = f"0 of 200 delivered messages acknowledged; worker-1 of billing on {topic} holds 200"
    assert failure.get("type") == "expect-acked"
    assert str(failure.get("message")).startswith("the command ended with 0 after ")
    assert f"; {said}: it hangs in one, or acknowledges none" in str(failure.get("message"))
    assert all(float(case.get("time", 0)) > 0 for case in suite.iterfind("testcase"))
    assert "\nRemedy: " in str(failure.text)
    assert f"{said}: it hangs" in ran.stderr
    assert str(tmp_path / "pulsar-doctor" / "taps") in ran.stderr.splitlines()[-1]


@pytest.mark.slow
def test_a_worker_that_hangs_is_ended_as_soon_as_it_is_too_late(
    broker, client, topic, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    began = time.monotonic()
    ran = worked(broker, client, topic, "hang", "--expect-within", "3s", "-o", "jsonl")
    assert time.monotonic() - began < 40
    assert ran.returncode == 1, ran.stderr
    end = json.loads(ran.stdout.splitlines()[-1])
    assert [each["met"] for each in end["expectations"]] == [True, False]
    assert end["expectations"][1]["acknowledged_most"] == 0
