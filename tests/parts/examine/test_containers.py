"""The process of a container is found by what the kernel tells of it."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.examine.containers import in_container, with_id
from pulsar_doctor.parts.examine.identity import process
from tests.support import eventually
from tests.support.command_line import answered, pulsar_doctor
from tests.support.wanting import wanting

INNER, OUTER = "4f5e" * 16, "aa" * 32


def has_id(cgroups: str, named: str) -> bool:
    return next(with_id(cgroups, named), None) is not None


@pytest.mark.parametrize(
    "cgroups",
    [
        f"12:pids:/docker/{INNER}\n0::/docker/{INNER}",
        f"0::/system.slice/docker-{INNER}.scope",
        "0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod0d1e_2f.slice/"
        f"cri-containerd-{INNER}.scope",
        f"1:name=systemd:/kubepods/burstable/pod0d1e-2f/{INNER}",
        f"0::/machine.slice/libpod-{INNER}.scope/container",
        f"0::/docker/{OUTER}/kubelet/kubepods/pod0d1e-2f/{INNER}",
    ],
)
def test_the_id_is_the_innermost_one(cgroups):
    assert has_id(cgroups, INNER)
    assert has_id(cgroups, INNER[:12])
    assert not has_id(cgroups, INNER[:4])
    assert not has_id(cgroups, INNER[1:13])
    assert not has_id(cgroups, OUTER[:12])
    assert not has_id(cgroups, "docker")


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("unshare"), reason=wanting("root"))
def test_a_name_is_the_host_name_in_there():
    name = f"billing-{os.getpid()}"
    script = f'hostname {name}; "$1" -c "{SLEEPS}" & sleep 600'
    line = ["unshare", "--uts", "sh", "-c", script, "sh", sys.executable]
    with subprocess.Popen(line, start_new_session=True) as container:
        try:
            eventually(lambda: _pids(name) is not None)
            found = in_container(name)  # beside it runs a sleep
            assert (found.kind, os.getpgid(found.pid)) == ("python", container.pid)
            done = pulsar_doctor("examine", "--container", name, "--window", "0", *NO_BROKER)
            assert done.stdout.startswith(f"process {found.pid}, python")
            enter = ["nsenter", f"--target={found.pid}", "--uts", sys.executable, "-c", SLEEPS]
            with subprocess.Popen(enter) as other:
                eventually(lambda: _pids(name) == {found.pid, other.pid})
                other.kill()
        finally:
            os.killpg(container.pid, signal.SIGKILL)


@pytest.fixture
def sleeping() -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts a shell script in namespaces of its own, whose last word is to sleep."""
    running = []

    def start(script: str, *before: str) -> subprocess.Popen[bytes]:
        script = f"{script}; exec sleep 600"
        running.append(subprocess.Popen([*before, "sh", "-c", script]))
        eventually(lambda: process(running[-1].pid).name == "sleep")
        return running[-1]

    yield start
    for each in running:
        each.kill()
        each.wait()


SOMEBODY = ("setpriv", "--reuid=61431", "--regid=61431", "--clear-groups")
SETS_NAME = "hostname {}"
root = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "setpriv", "hostname"))),
    reason=wanting("root"),
)


@root
def test_a_name_that_somebody_gave_to_a_namespace_of_his_own_is_not_believed(sleeping):
    name = f"claimed-{os.getpid()}"
    own = sleeping(
        SETS_NAME.format(name), *SOMEBODY, "unshare", "--user", "--map-root-user", "--uts"
    )
    with pytest.raises(InputError, match=f"cannot be confirmed .* give its PID: {own.pid} "):
        in_container(name)
    real = sleeping(SETS_NAME.format(name), "unshare", "--uts")
    assert in_container(name).pid == real.pid


@root
def test_what_a_container_has_as_its_file_of_the_name_is_not_opened(sleeping, tmp_path):
    name = f"fifo-{os.getpid()}"
    os.mkfifo(tmp_path / "hostname")
    script = f"mount --bind {tmp_path}/hostname /etc/hostname; {SETS_NAME.format(name)}"
    real = sleeping(script, "unshare", "--mount", "--uts")
    began = time.monotonic()
    assert in_container(name).pid == real.pid
    with pytest.raises(InputError, match="no process that may be seen"):
        in_container(f"{name}-2")
    assert time.monotonic() - began < 10


@root
def test_an_id_that_somebody_gave_to_a_cgroup_of_his_own_is_not_believed(sleeping):
    above = Path(f"/sys/fs/cgroup/pids/of-somebody-{os.getpid()}")
    own = above / f"docker-{INNER}.scope"
    try:
        own.mkdir(parents=True)
    except OSError:
        pytest.skip(wanting("cgroups"))
    try:
        there = sleeping(":")
        (own / "cgroup.procs").write_text(str(there.pid))
        assert in_container(INNER[:12]).pid == there.pid
        os.chown(above, 61431, 61431)
        with pytest.raises(InputError, match=f"cannot be confirmed .* give its PID: {there.pid} "):
            in_container(INNER[:12])
    finally:
        there.kill()
        there.wait()
        eventually(lambda: not (own / "cgroup.procs").read_text())
        own.rmdir()
        above.rmdir()


SLEEPS = "import time; time.sleep(600)"
NO_BROKER = ("--admin-url", "http://127.0.0.1:1")


def _pids(name: str) -> set[int] | None:
    """Of the Python processes that may be meant; None as long as there is none."""
    try:
        found = in_container(name)
    except InputError as error:
        several = re.findall(r"(\d+) \(python", str(error))
        return {int(each) for each in several} or None
    return {found.pid} if found.kind == "python" else None


@pytest.mark.usefixtures("outside")  # a child enters each namespace that is not ours
def test_a_container_that_is_not_there_is_said_not_to_be():
    with pytest.raises(InputError, match="no process that may be seen from here is in a container"):
        in_container("nobody-there")


def test_without_a_pid_an_address_or_a_name_it_is_wrong_usage():
    done = answered("examine")
    assert done.returncode == 2
    assert "give a PID, a client's address, a consumer's name, or --container" in done.stderr
