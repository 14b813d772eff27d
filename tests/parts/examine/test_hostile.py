"""Root looks into a process of somebody else, which does what it can to have root do harm."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.parts.examine.child import CannotAttach
from pulsar_doctor.parts.examine.inside import inside
from pulsar_doctor.parts.examine.jvm import agent, leftovers
from pulsar_doctor.parts.examine.jvm.attach import Jvm
from pulsar_doctor.parts.examine.looking import Looking
from tests.parts.examine.hostile import SOMEBODY, hostile
from tests.parts.examine.java_client import left_in_tmp
from tests.support import eventually
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
ANSWERS = [None, "link", "link_to_file", "device", "loop", "fifo", "folder", "huge", "[]", "{"]
NO_TMP = "its /tmp cannot be used: Not a directory"
THREADS = (
    'Full thread dump\n\n"main" #1 prio=5 nid=1 runnable\n\tat com.acme.Main.main(Main.java:1)\n'
)
STEP_SECONDS = 15.0  # five, and what a busy machine adds: by then a hang has no end


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
        there = it.there
        ours = re.compile(rf"\.attach_pid{there.inner_pid}|\.pulsar-doctor-.*-{there.inner_pid}-.*")
        names = [each.name for each in (there.root / "tmp").iterdir()]
        assert not list(filter(ours.fullmatch, names))


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
        for _ in range(3):
            if not isinstance(jvm, Jvm):
                jvm = outcome(Jvm, there)
            if isinstance(jvm, Jvm):
                outcome(jvm.ask, "threaddump")
                outcome(agent.consumers, jvm)
        assert there.is_there
        assert it.untouched, f"seed {seed}, {options}"
        assert (os.geteuid(), os.getegid()) == (0, 0)


MORE = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(1000, 1240)]


@pytest.mark.parametrize("seed", [*range(24), *MORE])
def test_tricks_at_random_moments_touch_nothing_outside(seed):
    schedule(seed)


@pytest.mark.parametrize("reply", ["trickles", pytest.param("silent", marks=pytest.mark.slow)])
def test_who_does_not_answer_is_waited_for_once(reply):
    with hostile(reply=reply) as it:
        began = time.monotonic()
        looking = Looking.at(it.pid, inside=True)
        assert looking.again().unknowns == (f"JVM {it.pid} has not answered within 5 s",)
        assert 5 < time.monotonic() - began < 2 * STEP_SECONDS


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ("endless", "gave an answer to threaddump that cannot be read: it has more than 32 MiB"),
        ("wrong code", "refuses threaddump: no, thank you"),
    ],
)
def test_an_answer_that_is_none_costs_one_sentence(reply, why):
    with hostile(reply=reply) as it:
        jvm = Jvm(it.there)
        assert outcome(jvm.ask, "threaddump") == f"JVM {it.pid} {why}"


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("[]", "gave an answer that cannot be read: a list is where an object should be"),
        ("huge", "has more than 16777216 bytes"),
        ("link_to_file", "has run the agent, but its answer cannot be read: Too many levels"),
        ("fifo", "is not a plain file of user 0"),
        ("of another", "is not a plain file of user 0"),
    ],
)
def test_an_answer_that_cannot_be_read_costs_no_more_than_that(answer, why):
    with hostile(chroot=True, uid=0, answer=answer, dump=THREADS) as it:
        looking = Looking.at(it.pid, inside=True)
        told = looking.report()
        assert [each.thread for each in told.threads] == ["main"]
        (sentence,) = told.unknowns
        assert why in sentence
        assert it.untouched


def test_a_socket_of_another_process_is_not_spoken_to():
    with hostile() as it, hostile() as other:
        Jvm(other.there)
        theirs = Path(f"/tmp/.java_pid{other.pid}")
        Path(f"/tmp/.java_pid{it.pid}").hardlink_to(theirs)
        why = f"the socket of JVM {it.pid} belongs to process {other.pid}"
        assert outcome(Jvm, it.there) == why


def test_a_socket_of_another_user_is_not_spoken_to():
    with hostile() as it:
        Jvm(it.there)
        os.chown(f"/tmp/.java_pid{it.pid}", 1, 1)
        assert outcome(Jvm, it.there) == f"/tmp/.java_pid{it.pid} is not the JVM's own socket"


def test_counters_that_are_a_fifo_or_a_link_are_not_waited_for(tmp_path):
    with hostile() as it:
        folder = Path(f"/tmp/hsperfdata_{it.pid}")
        folder.mkdir()
        try:
            os.mkfifo(folder / str(it.pid))
            began = time.monotonic()
            Jvm(it.there)
            os.chown(folder, SOMEBODY, SOMEBODY)
            Jvm(it.there)
            assert time.monotonic() - began < STEP_SECONDS
        finally:
            shutil.rmtree(folder)


def test_a_tmp_that_is_a_link_leads_nowhere():
    with hostile(chroot=True, uid=0) as it:
        root = it.victim.parent / "root"
        shutil.rmtree(root / "tmp")
        (root / "tmp").symlink_to(it.victim)
        assert outcome(Jvm, it.there) == f"JVM {it.pid} cannot be asked: {NO_TMP}"
        assert it.untouched


@pytest.mark.parametrize(
    ("send", "sent"),
    [(os.kill, signal.SIGKILL), (os.killpg, signal.SIGINT), (os.killpg, signal.SIGTERM)],
)
def test_who_is_killed_while_a_jvm_is_silent_leaves_nothing(send, sent):
    with hostile(reply="silent at load") as it:
        line = [sys.executable, "-m", "pulsar_doctor", "examine", str(it.pid), "--attach"]
        quiet = {"stderr": subprocess.DEVNULL, "start_new_session": True}
        with subprocess.Popen([*line, *NO_BROKER], **quiet) as doctor:
            eventually(lambda: [each for each in left_in_tmp(it.pid) if each.is_dir()])
            send(doctor.pid, sent)
            doctor.wait(2.0)
        eventually(lambda: not left_in_tmp(it.pid))


def test_what_a_killed_look_left_goes_with_the_next_into_any_jvm_of_its_user():
    with hostile() as it:
        file, folder = Path("/tmp/.attach_pid1"), Path("/tmp/.pulsar-doctor-1-1-abc")
        others = Path("/tmp/.attach_pid2")
        file.write_bytes(leftovers.MARK)
        others.touch()
        folder.mkdir(mode=0o700)
        (folder / "agent.jar").touch()
        kept = Path("/tmp/.pulsar-doctor-1-1-def/precious")
        kept.parent.mkdir(mode=0o700)
        kept.touch()
        os.chown(kept.parent, SOMEBODY, SOMEBODY)
        for each in (file, folder, folder / "agent.jar", others):
            os.chown(each, SOMEBODY, SOMEBODY)
        Jvm(it.there)
        assert not file.exists()
        assert not folder.exists()
        assert kept.exists(), "it is not a name of ours"
        assert others.exists(), "it is another tool's"


def test_what_a_look_under_way_has_made_is_left_to_it():
    with hostile() as it:
        jvm = Jvm(it.there)
        laying = partial(agent._work, jvm.process, agent._folder_name(jvm.process), "look-1")
        with jvm.inside(jvm._waking) as waking, jvm.inside(laying) as looking:
            waking.step()
            looking.step()
            Jvm(it.there)
            assert len(left_in_tmp(it.pid)) == 2
        assert not left_in_tmp(it.pid)


def test_the_child_is_the_user_for_good_and_in_none_of_our_groups():
    def ids(_: int) -> Iterator[bytes]:
        yield repr((os.getresuid(), os.getresgid(), os.getgroups())).encode()

    before = os.getgroups()
    os.setgroups([0, 4])
    try:
        with hostile() as it, inside(it.there, ids) as child:
            told = child.step().decode()
    finally:
        os.setgroups(before)
    assert told == repr(((SOMEBODY,) * 3, (SOMEBODY,) * 3, []))


@pytest.mark.parametrize("where", ["a user", "root in a chroot"])
def test_the_whole_command_says_one_sentence_of_it(where):
    with hostile(**{**place(where), "tricks": ["at load"]}) as it:
        done = pulsar_doctor("examine", str(it.pid), "--attach", *NO_BROKER)
        assert it.untouched
    assert "mistake" not in done.stderr, done.stderr
    assert done.returncode == 3
    assert done.stdout.count(f"JVM {it.pid} ") == 1
