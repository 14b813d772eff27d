"""On other systems than Linux all modules can be imported, and what needs Linux says so."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import environment

# A Python without what the standard library has on Linux only.
ELSEWHERE = """
import asyncio, fcntl, multiprocessing, os, select, signal, socket, ssl, subprocess, sys, time
ON_LINUX = {
    fcntl: "F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_OFD_SETLK",
    os: "O_PATH O_TMPFILE O_DIRECT O_NOATIME fdatasync pipe2 pidfd_open memfd_create eventfd setns "
    "unshare sched_getaffinity sched_setaffinity sched_setscheduler posix_fadvise posix_fallocate "
    "splice copy_file_range getxattr setxattr getrandom getresuid setresuid getresgid setresgid",
    select: "epoll",
    signal: "pidfd_send_signal sigtimedwait sigwaitinfo SIGRTMIN SIGPWR",
    socket: "AF_PACKET AF_NETLINK AF_VSOCK SOCK_CLOEXEC SOCK_NONBLOCK SO_MARK TCP_QUICKACK "
    "TCP_USER_TIMEOUT",
    time: "CLOCK_BOOTTIME CLOCK_TAI",
}
for module, names in ON_LINUX.items():
    for name in names.split():
        vars(module).pop(name, None)
"""
IMPORTS = """
import importlib, pkgutil
import pulsar_doctor
for module in pkgutil.walk_packages(pulsar_doctor.__path__, "pulsar_doctor."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
        print(module.name)
"""
RUNS = """
import sysconfig
sysconfig.get_config_vars()  # those of this Python, before its system looks like another
sys.platform = "darwin"
from pulsar_doctor.cli import run
sys.exit(run(sys.argv[1:]))
"""


def elsewhere(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", ELSEWHERE + program, *arguments],
        env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_no_module_needs_linux_to_be_imported() -> None:
    ran = elsewhere(IMPORTS)
    assert ran.returncode == 0, ran.stderr
    assert len(ran.stdout.split()) > 400


@pytest.mark.parametrize(
    ("arguments", "begins"),
    [
        (["examine", "1"], "examine needs Linux; "),
        (["examine", "--container", "billing-7c9f", "--attach"], "examine needs Linux; "),
        (["capture", "-i", "any", "--trace", "t.ptrace"], "capture -i needs Linux; "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_needs_linux_says_so_in_one_sentence_and_leaves_nothing(
    arguments: list[str], begins: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ran = elsewhere(RUNS, *arguments)
    assert ran.returncode == 3
    assert ran.stderr.startswith(f"pulsar-doctor: {begins}")
    assert len(ran.stderr.splitlines()) == 1
    assert ran.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_captured_files_are_read_on_every_system(tmp_path: Path) -> None:
    captured = Path(__file__).parents[1] / "parts/capture/recorded/tcpdump-lo.pcap.gz"
    trace = str(tmp_path / "t.ptrace")
    ran = elsewhere(RUNS, "capture", str(captured), "--port", "46557", "--trace", trace)
    assert ran.returncode == 0, ran.stderr
