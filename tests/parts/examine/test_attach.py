"""Into what may not be looked into: one sentence each, and nothing happens to the process."""

from __future__ import annotations

import os
import re
import resource
import select
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.evidence.dumps.hotspot import dump
from pulsar_doctor.parts.examine.child import CannotAttach
from pulsar_doctor.parts.examine.identity import Process, process
from pulsar_doctor.parts.examine.jvm import agent
from pulsar_doctor.parts.examine.jvm.attach import Jvm
from pulsar_doctor.parts.examine.jvm.proof import _takes_signals
from pulsar_doctor.parts.examine.looking import Looking
from tests.parts.examine import javas
from tests.parts.examine.java_client import container, left_in_tmp, only_child
from tests.support import eventually
from tests.support.command_line import pulsar_doctor
from tests.support.maven import compiled
from tests.support.wanting import wanting

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc"))
SOURCE = Path(__file__).parent / "clients" / "Idle.java"
NOBODY = 65534
root = pytest.mark.skipif(os.geteuid() != 0, reason=wanting("root"))


@pytest.fixture(scope="module", params=javas.OURS_AND_8)
def java(request: pytest.FixtureRequest) -> Path:
    return javas.java(request.param)


@pytest.fixture(scope="module")
def idle() -> Iterator[Path]:
    """A folder with the program, for every user, and outside of /tmp."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        compiled([SOURCE], Path(folder), javas.java(javas.OURS))
        Path(folder).chmod(0o755)
        yield Path(folder)


class Idle:
    """The program's process."""

    def __init__(self, *line: Any, **how: Any) -> None:
        self.process = subprocess.Popen(
            [*map(str, line), "com.acme.Idle"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **how,
        )  # fmt: skip

    def __enter__(self) -> Idle:
        assert self.process.stdout is not None
        began = []
        while line := self.process.stdout.readline():
            began.append(line)
            if "@ready" in line:
                return self
        raise AssertionError(f"it has ended: {self.said()}{''.join(began)}")

    def __exit__(self, *_: object) -> None:
        self.said()

    def said(self) -> str:
        """What it printed since; it has ended then."""
        self.process.kill()
        self.process.wait()
        Path(f"/tmp/.java_pid{self.process.pid}").unlink(missing_ok=True)  # a killed one leaves it
        assert self.process.stdout is not None
        text = "" if self.process.stdout.closed else self.process.stdout.read()
        self.process.stdout.close()
        return text

    @property
    def there(self) -> Process:
        return process(self.process.pid)


def refusal(there: Process) -> str:
    """Why it cannot be attached to."""
    with pytest.raises(CannotAttach) as refused:
        Jvm(there)
    return str(refused.value)


@contextmanager
def started(*line: Any) -> Iterator[subprocess.Popen[str]]:
    """Any other program, which must still be there at the end."""
    program = subprocess.Popen([*map(str, line)], stdout=subprocess.PIPE, text=True)
    try:
        yield program
        assert program.poll() is None, "it was ended by us"
    finally:
        program.kill()
        program.wait()
        assert program.stdout is not None
        program.stdout.close()


@pytest.fixture
def sleeping() -> Iterator[int]:
    """A program that SIGQUIT would end."""
    with started("sleep", 600) as sleep:
        eventually(lambda: process(sleep.pid).name == "sleep")  # its name comes after its start
        yield sleep.pid


def test_a_process_that_is_no_jvm_is_not_signalled(sleeping):
    assert refusal(process(sleeping)) == f"process {sleeping} (sleep) is not a JVM"
    time.sleep(0.2)


PRETENDS = """
import mmap, signal, sys, time
signal.signal(signal.SIGQUIT, lambda *_: print("signalled", flush=True))
with open(sys.argv[1], "rb") as library:
    mapped = mmap.mmap(library.fileno(), 0, prot=mmap.PROT_READ)
    print("ready", flush=True)
    time.sleep(600)
"""


def test_a_process_that_only_has_the_library_is_not_signalled(java):
    (library,) = java.parents[1].glob("**/server/libjvm.so")
    with started(sys.executable, "-c", PRETENDS, library) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        there = process(other.pid)
        assert (there.kind, there.catches(signal.SIGQUIT)) == ("jvm", True)
        assert "nothing shows that a HotSpot JVM runs in it" in refusal(there)
        assert select.select([other.stdout], [], [], 0.3)[0] == [], "it was signalled"


def test_hotspots_thread_for_signals_is_known_by_its_name():
    own = Path(f"/proc/self/task/{threading.get_native_id()}/comm")
    before = own.read_text()
    assert not _takes_signals(os.getpid())
    try:
        own.write_text("Signal Dispatcher")
        assert _takes_signals(os.getpid())
    finally:
        own.write_text(before)


def test_a_jvm_answers_and_keeps_nothing_but_its_socket(java, idle):
    with Idle(java, "-cp", idle) as it:
        jvm = Jvm(it.there)
        assert it.there.kind == "jvm"
        assert "com.acme.Idle.main" in jvm.ask("threaddump")
        (main,) = [each for each in dump(jvm.ask("threaddump")).threads if each.name == "main"]
        assert main.role == "application"
        assert main.line == "com.acme.Idle.main (Unknown Source)"
        assert agent.consumers(jvm).consumers == ()
        assert not left_in_tmp(it.process.pid)
        assert not Path(f"/tmp/.attach_pid{it.process.pid}").exists()
        assert "Full thread dump" not in it.said()


@pytest.mark.slow
def test_looks_at_the_same_moment_do_not_take_each_others_agent_away(java, idle):
    """Into one JVM, and into two of one user."""
    with Idle(java, "-cp", idle) as one, Idle(java, "-cp", idle) as other:
        jvms = [Jvm(one.there), Jvm(other.there), Jvm(one.there)]
        with ThreadPoolExecutor(len(jvms)) as lookers:
            looks = lookers.map(lambda at: agent.consumers(jvms[at % len(jvms)]), range(90))
            assert {each.consumers for each in looks} == {()}
        assert not left_in_tmp(one.process.pid)
        assert not left_in_tmp(other.process.pid)


def test_what_a_killed_look_has_left_does_not_hinder_the_next(java, idle):
    with Idle(java, "-cp", idle) as it:
        jvm = Jvm(it.there)
        folder = Path("/tmp", agent._folder_name(jvm.process))
        folder.mkdir(mode=0o700)
        (folder / "agent.jar").write_bytes(b"half of it")
        (folder / "look-1.part").touch()
        assert agent.consumers(jvm).consumers == ()
        assert not left_in_tmp(it.process.pid)


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("-XX:+DisableAttachMechanism", "DisableAttachMechanism"),
        ("-Xrs", "does not catch SIGQUIT"),
    ],
)
def test_a_jvm_that_does_not_want_it_is_left_alone(java, idle, option, why):
    for counters in ("-XX:+UsePerfData", "-XX:-UsePerfData"):
        with Idle(java, counters, option, "-cp", idle) as it:
            assert why in refusal(it.there)
            time.sleep(0.2)
            assert it.process.poll() is None
            assert "Full thread dump" not in it.said()


def test_a_jvm_without_counters_is_known_by_its_thread_for_signals(java, idle):
    with Idle(java, "-XX:-UsePerfData", "-cp", idle) as it:
        assert "com.acme.Idle.main" in Jvm(it.there).ask("threaddump")


@pytest.mark.parametrize("java", [javas.OURS], indirect=True)  # Java 8 has no such option
def test_a_jvm_that_loads_no_agents_tells_its_threads_all_the_same(java, idle):
    with Idle(java, "-XX:-EnableDynamicAgentLoading", "-cp", idle) as it:
        jvm = Jvm(it.there)
        with pytest.raises(CannotAttach, match="EnableDynamicAgentLoading"):
            agent.consumers(jvm)
        assert "com.acme.Idle.main" in jvm.ask("threaddump")


def test_an_agent_that_fails_tells_why(java, idle):
    with Idle(java, "-cp", idle) as it:
        jvm = Jvm(it.there)
        with pytest.raises(CannotAttach, match=r"has failed: java.lang.NumberFormat.* in"):
            agent.consumers(jvm, objects=1 << 40)
        assert agent.consumers(jvm).consumers == ()
        resource.prlimit(it.process.pid, resource.RLIMIT_FSIZE, (0, 0))
        with pytest.raises(CannotAttach, match="could not write its answer"):
            agent.consumers(jvm)
        assert not left_in_tmp(it.process.pid)


def test_the_last_look_tells_whether_it_saw_all(java, idle, monkeypatch):
    with Idle(java, "-cp", idle) as it:
        with monkeypatch.context() as few:
            few.setattr(agent, "consumers", partial(agent.consumers, objects=1))
            looking = Looking.at(it.process.pid, inside=True)
        assert looking.report().unknowns == (
            "the look ended after 200000 objects: there may be more consumers",
        )
        assert looking.again().unknowns == ()


def test_one_that_ends_in_between_is_said_to_have_ended(java, idle):
    with Idle(java, "-cp", idle) as it:
        jvm = Jvm(it.there)
        it.said()
        with pytest.raises(CannotAttach, match="has ended while it was looked at"):
            jvm.ask("threaddump")


def test_one_that_ends_in_between_leaves_no_file_of_ours(java, idle):
    with Idle(java, "-cp", idle) as it:
        jvm = Jvm(it.there)
        laying = partial(agent._work, jvm.process, agent._folder_name(jvm.process), "look-1")
        with jvm.inside(jvm._waking) as waking, jvm.inside(laying) as looking:
            waking.step()
            looking.step()
            assert len(left_in_tmp(it.process.pid)) == 2
            it.said()
        assert not left_in_tmp(it.process.pid)


def test_one_that_is_stopped_is_not_waited_for(java, idle):
    with Idle(java, "-cp", idle) as it:
        it.process.send_signal(signal.SIGSTOP)
        eventually(lambda: it.there.state == "T")
        assert "is stopped" in refusal(it.there)
        it.process.send_signal(signal.SIGCONT)
        time.sleep(0.2)
        assert "Full thread dump" not in it.said()


@root
def test_a_jvm_of_another_user_is_asked_as_that_user(java, idle):
    with Idle(java, "-cp", idle, user=NOBODY, group=NOBODY, extra_groups=[]) as it:
        jvm = Jvm(it.there)
        assert agent.consumers(jvm).consumers == ()
        assert os.geteuid() == 0
        assert Path(f"/tmp/.java_pid{it.process.pid}").stat().st_uid == NOBODY
        assert not left_in_tmp(it.process.pid)


@root
def test_somebody_else_is_told_whose_it_is(java, idle):
    with Idle(java, "-cp", idle) as it:
        there = it.there
        child = os.fork()
        if child == 0:
            os.seteuid(NOBODY)
            try:
                Jvm(there)
            except CannotAttach as error:
                os._exit(0 if "belongs to user 0; run this as that user" in str(error) else 2)
            os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0


@root
@pytest.mark.parametrize(("mode", "owner"), [(0o777, 0), (0o700, NOBODY)])
def test_a_folder_that_somebody_else_has_laid_there_is_not_used(java, idle, mode, owner):
    with Idle(java, "-cp", idle) as it:
        jvm = Jvm(it.there)
        there = Path("/tmp", agent._folder_name(jvm.process))
        there.mkdir()
        there.chmod(mode)
        os.chown(there, owner, owner)
        try:
            with pytest.raises(CannotAttach, match="somebody else's"):
                agent.consumers(jvm)
        finally:
            there.rmdir()


@root
@pytest.mark.skipif(not shutil.which("unshare"), reason=wanting("unshare"))
def test_a_jvm_in_a_container_is_asked_below_its_own_root(java, idle):
    with (
        container(java.parents[1], net=True) as (before, (inner,)),
        Idle(*before, inner / "bin/java", "-cp", idle) as it,
    ):
        pid = only_child(it.process.pid)
        there = process(pid)
        assert (there.kind, there.inner_pid) == ("jvm", 1)
        assert stat.S_ISDIR((there.root / "tmp").stat().st_mode)
        jvm = Jvm(there)
        assert "com.acme.Idle.main" in jvm.ask("threaddump")
        assert agent.consumers(jvm).consumers == ()
        assert {each.name for each in (there.root / "tmp").iterdir()} <= {
            ".java_pid1", "hsperfdata_root",
        }  # fmt: skip
        assert not Path(f"/tmp/.java_pid{pid}").exists()
        os.kill(pid, signal.SIGKILL)


@pytest.mark.skipif(not shutil.which("strace"), reason=wanting("strace"))
def test_without_attach_nothing_is_written_signalled_or_read_out(java, idle, tmp_path):
    with Idle(java, "-cp", idle) as it:
        pid, log = it.process.pid, tmp_path / "calls"
        line = [sys.executable, "-m", "pulsar_doctor", "examine", str(pid), "--no-attach"]
        line += ["--window", "0", "--admin-url", "http://127.0.0.1:1", "-o", "json"]
        done = subprocess.run(
            ["strace", "-f", "-o", log, "-e", "trace=" + ",".join(CALLS), *line],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        calls = log.read_text().splitlines()
        assert f'"pid": {pid}' in done.stdout, done.stderr
        assert any(f"/proc/{pid}/" in each for each in calls), "strace shows nothing"
        signalled = [each for each in calls if any(f" {name}(" in each for name in SIGNALS)]
        assert not [each for each in signalled if str(pid) in each]
        written = [each for each in calls if "O_WRONLY" in each or "O_RDWR" in each]
        assert not [each for each in written if f"/proc/{pid}" in each or '"/tmp/.' in each]
        assert not [each for each in calls if f"/proc/{pid}/mem" in each or "java_pid" in each]
        assert not [each for each in calls if " ptrace(" in each or "process_vm_readv(" in each]


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("strace"), reason=wanting("strace"))
@pytest.mark.parametrize("java", [javas.OURS], indirect=True)
def test_what_the_process_controls_is_reached_by_descriptors_and_by_no_link(java, idle, tmp_path):
    with Idle(java, "-cp", idle) as it:
        log = tmp_path / "calls"
        line = [sys.executable, "-m", "pulsar_doctor", "examine", str(it.process.pid), "--attach"]
        line += ["--window", "0", "--admin-url", "http://127.0.0.1:1"]
        strace = ["strace", "-f", "-o", log, "-e", "trace=%file,connect,setresuid"]
        done = subprocess.run([*strace, *line], capture_output=True, text=True, check=False)
        assert "main (application)" in done.stdout, done.stderr
    calls = [each for each in log.read_text().splitlines() if THEIRS.search(each)]
    opened = [each for each in calls if " openat(" in each]
    assert len(opened) > 10
    for each in opened:
        assert re.search(r" openat\(\d+, .*O_NOFOLLOW", each), each
    for each in set(calls) - set(opened):
        assert re.search(r" (unlinkat|mkdirat)\(\d+, |AT_SYMLINK_NOFOLLOW", each), each
    connected = [each for each in log.read_text().splitlines() if "AF_UNIX" in each]
    assert all("/proc/self/fd/" in each for each in connected if " connect(" in each)


ROOT = r"/proc/\d+/root"
THEIRS = re.compile(  # what a call begins with that names something in its /tmp
    rf' (?!execve|readlink)\w+\([^"]*"(/tmp/|{ROOT}/)?'
    r'(tmp"|tmp/|\.java_pid|\.attach_pid|\.pulsar-doctor|hsperfdata_|agent\.jar|look-)'
)
SIGNALS = ("kill", "tkill", "tgkill", "pidfd_send_signal", "pidfd_open", "rt_sigqueueinfo")
CALLS = (*SIGNALS, "ptrace", "process_vm_readv", "openat", "open", "connect", "unlink", "mkdir")


def test_a_pid_of_nobody_is_wrong_usage():
    done = pulsar_doctor("examine", "4194304")
    assert done.returncode == 2
    assert done.stderr.strip() == "pulsar-doctor: there is no process 4194304 (any more)"


def test_a_process_without_a_pulsar_client_is_told_so(java, idle):
    with Idle(java, "-cp", idle) as it:
        asked = ("examine", str(it.process.pid), "--attach", "--window", "100ms")
        done = pulsar_doctor(*asked, "--admin-url", "http://127.0.0.1:1")
    assert "consumers in its Pulsar clients: none" in done.stdout
    assert "main (application): java.lang.Thread.sleep" in done.stdout
    assert done.returncode == 3
    assert len(done.stderr.strip().splitlines()) == 3  # what it does, no broker, no consumer
