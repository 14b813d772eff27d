"""Real clients, each in a process of its own, that do what a test orders and say what came of it.

Orders and answers are lines of JSON. The first order is where to connect: service_url, trust (a CA
file), token_file, transactions. Then `do` names one of

    subscribe  name, topic, subscription, type, queue
    produce    topic, first, count, bytes, batched, compression, chunked   -> sha256
               batch (Java only): messages of one at most
    receive    name, count, ack (individual, cumulative, nack, none), timeout_ms;
               every_from: until each of `count` numbers from there on has come, whatever else does
               -> sha256 over all payloads as they came, in_order, numbers (of 2,000 at most)
    transact   (Java only, and said so at first: transactions) name, count, commit: so many taken
               and acknowledged in a transaction, which is then committed (true), aborted (false)
               or left open (null); with a topic in place of a name, or beside
               it: so many sent in it; seconds: after which the broker aborts it (1800)
    end        (Java only) commit: ends the transactions that are open
    forget     (Java only) leaves the transactions that are open to their time-out
    leave      (Java only) name: the consumer closes
    seek       name: to the earliest message
    close

pulsar-flex of npm is here for what it does not know, proxies above all: it subscribes, produces
one by one, receives with ack individual or none, and closes. pulsar-rs of cargo is here for
its own way to ask for permits: queue is what it asks for at a time, `held` (1000) what it holds for
the application. It does what pulsar-flex does, and nack. Its first build takes a minute or two.

A client's log is kept: with the tap it may show no error that it does not show without.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.parts.sandbox import distribution, versions
from tests.support import npm
from tests.support.looking import Looking
from tests.support.processes import remote_ports
from tests.support.wanting import wanting

HERE = Path(__file__).parent
LANGUAGES = ("python", "java", "go")
ORDER_SECONDS = 60.0


@dataclass(frozen=True)
class Received:
    sha256: str
    in_order: bool
    numbers: list[int]


class RealClient:
    """A client's process."""

    def __init__(self, language: str, process: subprocess.Popen[str], log: Path) -> None:
        self.language = language
        self._process = process
        self.log = log
        self.pid = 0

    def order(self, seconds: float = ORDER_SECONDS, /, **order: Any) -> dict[str, Any]:
        """Has it done; an error of the client is an AssertionError here."""
        answer = self.tried(seconds, **order)
        assert "error" not in answer, f"{order}: {answer['error']}\n{self.said()[-3000:]}"
        return answer

    def tried(self, seconds: float = ORDER_SECONDS, /, **order: Any) -> dict[str, Any]:
        """Has it tried; the answer is the client's own, an error included."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        late = threading.Timer(seconds, self._process.kill)
        late.start()
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            late.cancel()
        assert line, f"no answer to {order} in {seconds} s\n{self.said()[-3000:]}"
        return dict(json.loads(line))

    def subscribe(self, topic: str, name: str = "c", **options: Any) -> None:
        self.order(do="subscribe", topic=topic, name=name, **({"subscription": "s"} | options))

    def produce(
        self, topic: str, count: int, *, size: int = 100, first: int = 0, **how: Any
    ) -> str:
        seconds = ORDER_SECONDS + count / 500
        order = how | {"topic": topic, "first": first, "count": count, "bytes": size}
        return str(self.order(seconds, do="produce", **order)["sha256"])

    def receive(self, count: int, name: str = "c", **how: Any) -> Received:
        seconds = ORDER_SECONDS + count / 500
        return Received(**self.order(seconds, do="receive", name=name, count=count, **how))

    def close(self) -> None:
        self.order(do="close")

    def said(self) -> str:
        return self.log.read_text("utf-8", "replace")

    def complaints(self) -> Counter[str]:
        """What it logged as a warning or an error: each kind without its numbers."""
        return Counter(
            kind
            for line in self.said().splitlines()
            if re.search(r"\b(WARN|ERROR|level=(warning|error))\b", line)
            for kind in [kind_of(line)]
        )


def kind_of(line: str) -> str:
    """A log line without time, thread, names and numbers: what can be compared."""
    line = re.sub(r'^time="[^"]*" ', "", line)
    line = re.sub(r"^[\d:T., +-]+", "", line)
    return re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{5,}\b|\d+", "#", line)


@contextlib.contextmanager
def starting(language: str, folder: Path, service_url: str, **hello: Any) -> Iterator[RealClient]:
    """A client of this language, ended with the with-block. hello: as in the first
    order."""
    log = folder / f"{language}-{len(list(folder.glob(f'{language}-*.log')))}.log"
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            command(language), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr,
            text=True, env=environment(), start_new_session=True,
        )  # fmt: skip
    client = RealClient(language, process, log)
    try:
        client.pid = client.order(service_url=service_url, **hello)["pid"]
        yield client
    finally:
        assert process.stdin is not None
        assert process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()


def environment() -> dict[str, str]:
    return {k: v for k, v in os.environ.items() if not k.startswith("PULSAR_CLIENT")} | {
        "PULSAR_HOME": str(versions.pulsar_home(None)),
        "JAVA_HOME": str(distribution.java_home()),
    }


def command(language: str) -> list[str]:
    if language == "go":
        return [str(go_program())]
    if language == "flex":
        return ["node", str(flex_program())]
    if language == "rust":
        return [str(rust_program())]
    if language == "java" and not find_spec("py4j"):
        pytest.skip(wanting("py4j"))
    return [sys.executable, str(HERE / f"{language}_client.py")]


@functools.cache
def go_program() -> Path:
    """The Go program, built once where a toolchain is at hand."""
    if not shutil.which("go"):
        pytest.skip(wanting("go"))
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    program = Path(folder) / "client"
    built = subprocess.run(
        ["go", "build", "-o", str(program), "."],
        cwd=HERE / "go", capture_output=True, text=True, check=False,
    )  # fmt: skip
    if re.search("dial tcp|no such host|GOPROXY|proxy", built.stderr):
        pytest.skip(wanting("the modules of the Go client"))
    assert built.returncode == 0, built.stderr
    return program


@functools.cache
def flex_program() -> Path:
    """The program for pulsar-flex of npm, its packages beside it: fetched once."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder)
    shutil.copytree(HERE / "flex", folder, dirs_exist_ok=True)
    npm.fetched(Path(folder), "the packages of pulsar-flex")
    return Path(folder) / "client.js"


@functools.cache
def rust_program() -> Path:
    """The program for pulsar-rs of cargo, built where a tool chain is at hand, and kept."""
    if not shutil.which("cargo") or not shutil.which("cc"):
        pytest.skip(wanting("cargo and a C compiler"))
    with tempfile.TemporaryDirectory() as folder:
        protoc = Path(folder) / "protoc"  # its build asks for one; grpcio-tools has it
        protoc.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m grpc_tools.protoc "$@"\n')
        protoc.chmod(0o700)
        built = subprocess.run(
            ["cargo", "build"], cwd=HERE / "rust", env=os.environ | {"PROTOC": protoc},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    if re.search(
        "failed to (download|get)|[Cc]ould not (resolve|connect)|offline mode", built.stderr
    ):
        pytest.skip(wanting("the crates of pulsar-rs"))
    if "Could not find directory of OpenSSL" in built.stderr:
        pytest.skip(wanting("the headers of OpenSSL"))
    assert built.returncode == 0, built.stderr
    return HERE / "rust/target/debug/client"


class Watch(Looking):
    """Looks again and again where the TCP connections of some processes lead."""

    def __init__(self, *pids: int) -> None:
        super().__init__(every_seconds=0.02)
        self.pids = pids
        self.ports: set[int] = set()

    def look(self) -> None:
        for pid in self.pids:
            self.ports |= remote_ports(pid)
        super().look()
