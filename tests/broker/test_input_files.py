"""Files that a user names on the command line may be pipes, devices, folders, or without an end."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from pulsar_doctor.broker import bodies, input_files
from pulsar_doctor.broker.samples import files
from pulsar_doctor.cli import run
from pulsar_doctor.errors import InputError
from tests.cli.checked import Checked

STATS = json.dumps({"msgRateIn": 0.0, "subscriptions": {"billing": {"msgBacklog": 0}}})

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no such pipes on Windows")


Check = Callable[..., Checked]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str]) -> Check:
    """check(*words): one command line."""

    def checking(*words: str) -> Checked:
        code = run([*words])
        said = capsys.readouterr()
        return Checked(code, said.out, said.err)

    return checking


def silent_pipe(path: Path) -> str:
    os.mkfifo(path)
    return str(path)


def folder(path: Path) -> str:
    path.mkdir()
    return str(path)


def zeros(path: Path) -> str:
    path.symlink_to("/dev/zero")
    return str(path)


UNREADABLE = {
    silent_pipe: "nothing came from the pipe",
    folder: "Is a directory",
    zeros: "a device",
}


@pytest.mark.parametrize("made", UNREADABLE)
@pytest.mark.parametrize(
    "arguments",
    [
        ("stall-check", "--stats"),
        ("stall-check", "--internal-stats"),
        ("stall-check", "orders", "--after"),
        ("stall-check", "orders", "--client-conf"),
        ("holes", "orders", "-s", "billing", "--internal-stats"),
        ("stall-check", "orders", "--auth-plugin", "token", "--auth-params", "file://{}"),
    ],
)
def test_what_is_no_file_is_refused_in_one_sentence(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...], made: Callable[[Path], str],
) -> None:  # fmt: skip
    monkeypatch.setattr(input_files, "SILENT_SECONDS", 0.05)
    *words, last = arguments
    path = made(tmp_path / "made")
    given = [*words, last.format(path)] if "{}" in last else [*words, last, path]
    checked = check(*given, "--admin-url", "http://127.0.0.1:1")
    assert checked.code == 2
    assert UNREADABLE[made] in checked.sentence()


@pytest.mark.parametrize("made", UNREADABLE)
@pytest.mark.parametrize(
    "arguments",
    [
        ("stall-check", "orders", "--tls-trust-certs", "{}"),
        ("tap", "--listen-tls-cert", "{}", "--listen-tls-key", "{}"),
        ("tap", "--service-url", "pulsar+ssl://127.0.0.1:1", "--auth-plugin", "tls",
         "--auth-params", "tlsCertFile:{},tlsKeyFile:{}"),
    ],
    ids=["trust", "tap", "plugin"],
)  # fmt: skip
def test_certificates_are_not_waited_for(
    check: Check, tmp_path: Path, arguments: tuple[str, ...], made: Callable[[Path], str]
) -> None:
    path = made(tmp_path / "made")
    checked = check(*(each.replace("{}", path) for each in arguments))
    assert checked.code == 2
    assert "is not a file, but a folder, a pipe or a device" in checked.sentence()


SHELL = '"$0" -m pulsar_doctor stall-check -o json --stats <({})'


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("cat stats", '"billing"'),
        ("sleep 0.3; head -c 20 stats; sleep 0.3; tail -c +21 stats", '"billing"'),
        ("gzip -c stats", '"billing"'),
        ("true", "is empty"),
    ],
)
def test_a_pipe_of_the_shell_is_read(tmp_path: Path, command: str, told: str) -> None:
    (tmp_path / "stats").write_text(STATS)
    ran = subprocess.run(
        ["bash", "-c", SHELL.replace("{}", command), sys.executable],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert told in ran.stdout + ran.stderr


def test_a_named_pipe_is_read_from_a_writer_that_comes_later(tmp_path: Path) -> None:
    pipe = Path(silent_pipe(tmp_path / "pipe"))

    def write() -> None:
        time.sleep(0.2)
        pipe.write_bytes(gzip.compress(STATS.encode()))

    writer = threading.Thread(target=write)
    writer.start()
    with files.opened(str(pipe)) as stream:
        assert stream.read() == STATS.encode()
    writer.join()


def test_a_pipe_that_stays_silent_in_the_middle_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(input_files, "SILENT_SECONDS", 0.1)
    pipe = Path(silent_pipe(tmp_path / "pipe"))
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with pipe.open("wb", buffering=0) as writer:
        writer.write(STATS[:20].encode())
        with files.opened(str(pipe)) as stream:
            os.close(reader)
            with pytest.raises(InputError, match=r"nothing came from the pipe .* for 0\.1 s"):
                stream.read()


def test_a_socket_of_the_caller_is_read_as_well() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(STATS.encode())
        theirs.shutdown(socket.SHUT_WR)
        with files.opened(f"/dev/fd/{ours.fileno()}") as stream:
            assert stream.read() == STATS.encode()


HEADER = b'{"schema":"pulsar-doctor/samples/1"}\n'


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "packed"])
@pytest.mark.parametrize("begin", [b"{", HEADER], ids=["document", "samples"])
def test_a_file_without_an_end_is_read_no_further_than_an_answer_may_be(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, begin: bytes, packed: bool
) -> None:
    monkeypatch.setattr(files, "ANSWER_BYTES", 1_000)  # 128 MiB are read in two seconds
    content = begin + b"1" * 5_000
    (tmp_path / "stats").write_bytes(gzip.compress(content) if packed else content)
    checked = check("stall-check", "--stats", str(tmp_path / "stats"))
    assert checked.code == 2
    assert "is longer than 0 MiB, the most that is read: cut it" in checked.sentence()


def test_a_file_of_too_many_values_is_refused(
    check: Check, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "ANSWER_VALUES", 3)
    (tmp_path / "stats").write_text(STATS)
    checked = check("stall-check", "--stats", str(tmp_path / "stats"))
    assert checked.code == 2
    assert "holds more values than a broker's answer has" in checked.sentence()


def test_standard_input_has_an_end_too() -> None:
    given = (sys.executable, "-m", "pulsar_doctor", "stall-check", "--stats", "-")
    with open("/dev/zero", "rb") as zeros:  # noqa: PTH123 (a device)
        ran = subprocess.run(
            given, stdin=zeros, capture_output=True, text=True, timeout=60, check=False
        )
    assert ran.returncode == 2
    assert ran.stderr == (
        "pulsar-doctor: standard input is longer than 128 MiB, the most that is read: cut it\n"
    )
