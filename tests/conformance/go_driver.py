"""The Go client, in a small program of ours that is built when it is first needed."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import threading
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from pulsar_doctor.parts.sandbox.distribution import alone, cache_folder
from tests.conformance.driver import RECEIVE_SECONDS, Consumer, Refused, Taken, Wanted

SOURCE = Path(__file__).parent / "go"
ANSWER_SECONDS = 60.0
BUILD_SECONDS = 900


def missing() -> str | None:
    """Why the Go client cannot be driven here; None where it can."""
    return None if shutil.which("go") else "no Go toolchain on the PATH"


def built() -> Path:
    """The program; built where it is missing or older than its source. Raises Refused."""
    program = cache_folder() / "conformance" / "go-driver"
    with alone(program.with_suffix(".lock")):
        newest = max(path.stat().st_mtime for path in SOURCE.iterdir())
        if program.is_file() and program.stat().st_mtime >= newest:
            return program
        run = subprocess.run(
            ["go", "build", "-mod=readonly", "-o", str(program), "."],
            cwd=SOURCE,
            env={**os.environ, "GOTOOLCHAIN": "local"},
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS,
            check=False,
        )
        if run.returncode:
            raise Refused(f"the Go program cannot be built: {run.stderr.strip()[-300:]}")
        program.touch()
    return program


class GoConsumer:
    def __init__(self, go: GoClient, number: int) -> None:
        self._go = go
        self._number = number

    def receive(self, count: int = 1, seconds: float = RECEIVE_SECONDS) -> list[Taken]:
        answer = self._go.ask(
            "receive", consumer=self._number, count=count, milliseconds=int(seconds * 1000)
        )
        return [_taken(each) for each in answer.get("messages", ())]

    def ack(self, taken: list[Taken]) -> None:
        self._each("ack", taken)

    def nack(self, taken: list[Taken]) -> None:
        self._each("nack", taken)

    def seek(self, to: Taken) -> None:
        self._each("seek", [to])

    def pause(self) -> None:
        raise Refused("the Go client cannot pause")

    resume = pause

    def let(self, count: int) -> None:
        raise Refused("the Go client has no listener")

    def begun(self) -> int:
        return 0

    def close(self) -> None:
        with contextlib.suppress(Refused):
            self._go.ask("close", consumer=self._number)

    def _each(self, do: str, taken: list[Taken]) -> None:
        self._go.ask(do, consumer=self._number, messages=[each.handle for each in taken])


class GoClient:
    name = "go"
    package = None
    can = frozenset({"auto", "zero", "expire", "crypto", "reader", "plain_zero", "zero_timeout"})

    def __init__(self, service_url: str) -> None:
        self._process = subprocess.Popen(
            [built()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._answers: dict[int, Future[dict[str, Any]]] = {}
        threading.Thread(target=self._listen, daemon=True).start()
        self.ask("connect", url=service_url)

    def ask(self, do: str, **values: Any) -> dict[str, Any]:
        """Waits for the answer to one command. Raises Refused with the client's words."""
        assert self._process.stdin is not None
        result: Future[dict[str, Any]] = Future()
        with self._lock:
            number = next(self._numbers)
            self._answers[number] = result
            self._process.stdin.write(json.dumps({"id": number, "do": do, **values}) + "\n")
            self._process.stdin.flush()
        answer = result.result(ANSWER_SECONDS)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            self._answers.pop(answer["id"]).set_result(answer)
        for waiting in self._answers.values():
            waiting.set_result({"error": "the Go program has ended"})

    def subscribe(self, wanted: Wanted) -> Consumer:
        answer = self.ask(
            "subscribe",
            topic=wanted.topic,
            type=wanted.type,
            name=wanted.name,
            queue=wanted.queue,
            auto=wanted.auto,
            crypto=wanted.crypto or "",
            chunks_most=wanted.chunks_most or 0,
            expire_chunks_ms=wanted.expire_chunks_ms or 0,
            nack_ms=wanted.nack_ms,
        )
        return GoConsumer(self, answer["consumer"])

    def reader(self, topic: str, start: Taken, queue: int, *, inclusive: bool = False) -> Consumer:
        answer = self.ask(
            "reader", topic=topic, messages=[start.handle], queue=queue, inclusive=inclusive
        )
        return GoConsumer(self, answer["consumer"])

    def at(self, ledger_id: int, entry_id: int, batch_index: int) -> Taken:
        answer = self.ask("at", ledger=ledger_id, entry=entry_id, batch_index=batch_index)
        return _taken(answer["messages"][0])

    def another(self, service_url: str) -> GoClient:
        return GoClient(service_url)

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()


def _taken(each: dict[str, Any]) -> Taken:
    return Taken(each["handle"], each["ledger"], each["entry"], each["batch_index"])
