"""Root looks into a process of somebody else, which does what it can to have root do harm."""

from __future__ import annotations

import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.process.child import CannotAttach
from pulsar_doctor.process.jvm import agent
from pulsar_doctor.process.jvm.attach import Jvm
from tests.process.hostile import hostile
from tests.support.command_line import pulsar_doctor
from tests.support.wanting import wanting

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or os.geteuid() != 0, reason=wanting("root")
)
NO_BROKER = ("--window", "0", "--admin-url", "http://127.0.0.1:1")
TRICKS = ["folder", "back", "mode", "within", "beside", "attach", "socket", "counters"]
PLACES: dict[str, dict[str, Any]] = {
    "a user": {},
    "a user in a chroot": {"chroot": True, "tricks": [*TRICKS, "tmp"]},
    "root in a chroot": {"chroot": True, "uid": 0, "tricks": [*TRICKS, "tmp"]},
    "a user namespace": {"namespaces": True},
}
ANSWERS = [None, "link", "link_to_file", "device", "loop", "fifo", "folder", "huge"]
STEP_SECONDS = 5.5  # five, and what a busy machine adds


def place(named: str) -> dict[str, Any]:
    """How a process gets there; skips where this kernel does not let it."""
    users = Path("/proc/sys/user/max_user_namespaces")
    if "namespaces" in PLACES[named] and users.exists() and users.read_text() == "0\n":
        pytest.skip(wanting("user namespaces"))
    return PLACES[named]


def sentence(error: CannotAttach) -> str:
    assert len(str(error).splitlines()) == 1
    return str(error)


def outcome(what: Any, *arguments: Any) -> Any:
    """What a step gives, or the one sentence why it gives nothing; in time."""
    began = time.monotonic()
    try:
        given = what(*arguments)
    except CannotAttach as error:
        given = sentence(error)
    took = time.monotonic() - began
    assert took < STEP_SECONDS, f"{what} took {took} s"
    return given


@pytest.mark.parametrize("where", PLACES)
def test_a_folder_that_is_replaced_while_the_agent_loads_leads_nowhere(where):
    with hostile(**{**place(where), "tricks": ["at load"]}) as it:
        jvm = Jvm(it.there)
        assert "Full thread dump" in jvm.ask("threaddump")
        why = (
            f"JVM {it.pid} has run the agent, which could not write its answer into the JVM's /tmp"
        )
        assert outcome(agent.consumers, jvm) == why
        assert it.untouched


@pytest.mark.parametrize("where", PLACES)
def test_who_plays_no_tricks_is_looked_into(where):
    with hostile(**{**place(where), "tricks": []}) as it:
        jvm = Jvm(it.there)
        assert agent.consumers(jvm).runtime == "Java 17"
        assert os.geteuid() == 0
        tmp = it.there.root / "tmp"
        ours = (".attach_pid", ".pulsar-doctor-")
        assert not [each for each in tmp.iterdir() if each.name.startswith(ours)]


def schedule(seed: int) -> None:
    """One run of tricks at random moments; nothing outside may change."""
    chance = random.Random(seed)
    where = chance.choice(list(PLACES))
    options = {"tricks": TRICKS, **place(where), "answer": chance.choice(ANSWERS)}
    options["tricks"] = chance.sample(options["tricks"], chance.randint(2, 6))
    if chance.random() < 0.5:
        options["tricks"].append("at load")
    with hostile(**options, seed=seed) as it:
        there, jvm = it.there, None
        for _ in range(4):
            if not isinstance(jvm, Jvm):
                jvm = outcome(Jvm, there)
            if isinstance(jvm, Jvm):
                outcome(jvm.ask, "threaddump")
                outcome(agent.consumers, jvm)
        assert there.is_there
        assert it.untouched, f"seed {seed}, {options}"
        assert (os.geteuid(), os.getegid()) == (0, 0)


@pytest.mark.parametrize("seed", range(24))
def test_tricks_at_random_moments_touch_nothing_outside(seed):
    schedule(seed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1000, 1240))
def test_many_more_tricks_at_random_moments_touch_nothing_outside(seed):
    schedule(seed)


@pytest.mark.parametrize("where", PLACES)
def test_the_whole_command_says_one_sentence_of_it(where):
    with hostile(**{**place(where), "tricks": ["at load"]}) as it:
        done = pulsar_doctor("examine", str(it.pid), "--attach", *NO_BROKER)
        assert it.untouched
    assert "mistake" not in done.stderr, done.stderr
    assert done.returncode == 3
    assert done.stdout.count(f"JVM {it.pid} ") == 1
