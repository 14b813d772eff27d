"""What is pure is read from what a test is made of, and a pure test cannot go outside unseen."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import pytest

from pulsar_doctor.wire.columns import COLUMNS
from tests import lanes
from tests.broker.http_broker import Reply, serving
from tests.support.command_line import environment

TESTS = """
import socket, subprocess, threading, time, urllib.request
import pytest

def goes_outside():  # without a program, which a full machine may refuse to start
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind(("127.0.0.1", 0))

def goes_outside_all_the_time():
    while True:
        goes_outside()

threading.Thread(target=goes_outside_all_the_time, daemon=True).start()

def test_that_stays(): time.sleep(0.2)

def test_that_looks_up(): urllib.request.urlopen("http://127.0.0.1:1/")

def test_that_starts_a_process_and_swallows_it():
    try:
        subprocess.run(["true"])
    except BaseException:
        pass

def test_that_starts_one_in_a_thread():
    thread = threading.Thread(target=test_that_starts_a_process_and_swallows_it)
    thread.start()
    thread.join()

@pytest.fixture
def server(): subprocess.run(["true"])

def test_that_is_set_up_by_one(server): pass

@pytest.mark.usefixtures("outside")
def test_that_says_so(): goes_outside()

def test_that_comes_after(): pass
"""


@pytest.mark.parametrize("chosen", [(), ("-m", "pure")], ids=["all", "pure"])
def test_a_pure_test_that_goes_outside_fails_whatever_it_does_with_the_error(
    tmp_path: Path, chosen: tuple[str, ...]
) -> None:
    (tmp_path / "test_it.py").write_text(TESTS)
    here = Path(__file__).parent
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "conftest",
        "-c",
        here.parent / "pyproject.toml",
    ]
    ran = subprocess.run(
        [*command, "-p", "no:cacheprovider", "-v", *chosen, tmp_path],
        env=environment() | {"PYTHONPATH": f"{here}:{here.parent}", "PATH": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    outcomes = dict(re.findall(r"::test_that_(\w+) (PASSED|FAILED|ERROR) ", ran.stdout))
    assert outcomes == {
        "stays": "PASSED",
        "looks_up": "FAILED",
        "starts_a_process_and_swallows_it": "FAILED",
        "starts_one_in_a_thread": "FAILED",
        "is_set_up_by_one": "ERROR",
        "comes_after": "PASSED",
        **({} if chosen else {"says_so": "PASSED"}),
    }, ran.stdout + ran.stderr
    assert len(re.findall(r"^E +Failed: this test is pure, and it goes", ran.stdout, re.M)) == 4


def runs() -> None:
    subprocess.run(["true"], check=True)


def serves() -> None:
    serving(answer=lambda asked: Reply())


class Running:
    @cached_property
    def it(self) -> None:
        return runs()


TABLE: dict[str, list[Callable[[], None]]] = {"serve": [serves]}


def by_a_table() -> None:
    TABLE["serve"][0]()


def in_turns(times: int) -> None:
    if times:
        turned(times - 1)
    Running()


def turned(times: int) -> None:
    in_turns(times)


def stays() -> int:
    return len([column for column in COLUMNS if column.name in TESTS])


@pytest.mark.parametrize("function", [runs, serves, by_a_table, in_turns, turned, Running])
def test_what_reaches_something_that_goes_outside_goes_there(function: object) -> None:
    assert lanes.goes_outside(function)


def test_what_reaches_nothing_of_it_stays() -> None:
    assert not lanes.goes_outside(stays)


GROUPS = """
import pytest
from tests.test_lanes import runs, serves

def test_one(client): pass

def test_default(default_client): pass

def test_both(client, default_client): pass

def test_either(either_client): pass

@pytest.mark.broker
def test_own(): pass

def test_nothing(): pass

@pytest.mark.parametrize("what", [serves], ids=["it"])
def test_sockets(what): what()

@pytest.mark.parametrize("what", [runs], ids=["it"])
def test_process(what): what()

@pytest.mark.slow
def test_slow(): pass
"""
TELLS = """
import pytest

@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    for item in items:
        broker = item.get_closest_marker("broker") is not None
        lane = [name for name in ("pure", "nightly") if item.get_closest_marker(name)]
        group = item.get_closest_marker("xdist_group").args[0]
        print("told", item.name, broker, group, lane[0] if lane else "-")
"""


def test_a_test_runs_beside_those_that_share_its_broker_and_in_the_lane_of_what_it_uses(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_it.py").write_text(GROUPS)
    (tmp_path / "tells.py").write_text(TELLS)
    here = Path(__file__).parent
    plugins = ("-p", "conftest", "-p", "tells", "-p", "no:cacheprovider")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *plugins, "-c", here.parent / "pyproject.toml",
         "-q", "--collect-only", "-m", "", tmp_path],
        env=environment() | {"PYTHONPATH": f"{here}:{here.parent}:{tmp_path}"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = [line.split()[1:] for line in ran.stdout.splitlines() if line.startswith("told ")]
    groups = {name: (broker, group.rpartition("/")[2], lane) for name, broker, group, lane in told}
    assert groups == {
        "test_one": ("True", "broker", "nightly"),
        "test_default": ("True", "default_broker", "nightly"),
        "test_both": ("True", "default_broker", "nightly"),
        "test_either[broker]": ("True", "broker", "nightly"),
        "test_either[default_broker]": ("True", "default_broker", "nightly"),
        "test_own": ("True", "test_it.py", "pure"),
        "test_nothing": ("False", "test_it.py", "pure"),
        "test_sockets[it]": ("False", "test_it.py", "-"),
        "test_process[it]": ("False", "test_it.py", "nightly"),
        "test_slow": ("False", "test_it.py", "-"),
    }, ran.stdout + ran.stderr


def test_each_name_in_the_rules_leads_to_tests() -> None:
    root = Path(__file__).parents[1]
    for name in (*lanes.DAILY, *lanes.HEAVY):
        path, _, test = name.partition("::")
        assert (root / path).exists(), name
        assert f"def {test.partition('[')[0]}" in ((root / path).read_text() if test else "def "), (
            name
        )


TWO_GROUPS = """
import os
import pytest

@pytest.mark.parametrize("number", range(20))
@pytest.mark.xdist_group("one")
def test_of_one(number): assert False, f"one ran in {os.getpid()}"

@pytest.mark.parametrize("number", range(20))
@pytest.mark.xdist_group("two")
def test_of_two(number): assert False, f"two ran in {os.getpid()}"
"""


def test_tests_of_a_group_stay_in_one_process(tmp_path: Path) -> None:
    """Versions of pytest and pytest-xdist that do not go together break that without a word."""
    (tmp_path / "test_groups.py").write_text(TWO_GROUPS)
    command = [sys.executable, "-m", "pytest", "-n", "2", "--dist", "loadgroup", "-q"]
    told = subprocess.run(
        [*command, "--rootdir", tmp_path, tmp_path], cwd=tmp_path, env=environment(),
        capture_output=True, text=True, check=False,
    ).stdout  # fmt: skip
    assert "40 failed" in told
    ran = set(re.findall(r"AssertionError: (one|two) ran in ([0-9]+)", told))
    assert sorted(group for group, _ in ran) == ["one", "two"]
