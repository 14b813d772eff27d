"""On other systems than Linux all modules can be imported, and what needs Linux says so.

What the base does with files and a broker works without all that only POSIX systems have.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.command_line import environment, pulsar_doctor

STATE = str(Path(__file__).parents[1] / "states/4.0.8/prefetch-hogging.jsonl.gz")

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
# A Python without what the standard library has on POSIX systems only, as on Windows.
ON_WINDOWS = """
import asyncio, os, select, signal, socket, subprocess, sys
class NotThere:
    def find_spec(self, name, path=None, target=None):
        if name in {"fcntl", "termios", "pwd", "grp", "resource", "pty", "tty", "syslog"}:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
for name in ("fcntl", "termios", "pwd", "grp", "resource", "pty", "tty"):
    sys.modules.pop(name, None)
sys.meta_path.insert(0, NotThere())
ON_POSIX = {
    os: "O_NOFOLLOW O_NONBLOCK O_DIRECTORY O_CLOEXEC O_NOCTTY O_SYNC fchmod fchown fork geteuid "
    "getgid getegid getpgid killpg setsid statvfs sysconf set_blocking mkfifo lchown "
    "chroot listxattr getxattr WNOHANG waitid",
    select: "poll epoll",
    signal: "SIGHUP SIGPIPE SIGALRM SIGKILL SIGUSR1 SIGUSR2 SIGQUIT SIGCHLD SIGWINCH "
    "pthread_sigmask setitimer sigwait pthread_kill siginterrupt",
    socket: "AF_UNIX SO_REUSEPORT socketpair",
}
for module, names in ON_POSIX.items():
    for name in names.split():
        vars(module).pop(name, None)
def no_signals(*arguments): raise NotImplementedError
asyncio.BaseEventLoop.add_signal_handler = asyncio.BaseEventLoop.remove_signal_handler = no_signals
from asyncio import unix_events
unix_events._UnixSelectorEventLoop.add_signal_handler = no_signals
unix_events._UnixSelectorEventLoop.remove_signal_handler = no_signals
from pulsar_doctor.cli import run
sys.exit(run(sys.argv[1:]))
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
    ("arguments", "code"),
    [
        (["--help"], 0),
        (["explain", "permits-exhausted"], 0),
        (["stall-check", "--stats", STATE], 1),
        (["stall-check", "--stats", STATE, "-o", "github"], 1),
        (["stall-check", "orders", "--admin-url", "http://127.0.0.1:1"], 3),
        (["holes", "--stats", STATE], 0),
        (["simulate", "--rate", "5/s", "--duration", "10s"], 0),
        (["report", STATE, "-o", "SAVED"], 0),
        (["context", "list"], 0),
        (["known-issues", "match", STATE], 0),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else "",
)
def test_the_base_needs_nothing_that_windows_has_not(
    arguments: list[str], code: int, tmp_path: Path
) -> None:
    saved = str(tmp_path / "saved")
    given = [saved if each == "SAVED" else each for each in arguments]
    ran = subprocess.run(
        [sys.executable, "-c", ON_WINDOWS, *given],
        env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    usual = pulsar_doctor(*given)
    assert (ran.returncode, ran.stdout) == (code, usual.stdout), ran.stderr


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
