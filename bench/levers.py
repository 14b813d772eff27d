"""Brings a real broker's subscriptions into slow states, and moves the lever that is advised first.

    python bench/levers.py [--only TEXT] [--service-url URL] [--admin-url URL]

Of each state: what stall-check says sets the pace, what it predicts for its first lever, and what
was measured after that lever was really moved. Round trips are made longer by a relay that holds
bytes back, with a tap in front of it. The exit code is the number of states of which the limit is
wrong or the gain is off by more than 25 %. Without URLs a broker is started.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import queue
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import pulsar

from pulsar_doctor.parts.sandbox.lifetime import running

SUBSCRIPTION = "s"
WINDOW, WARM, MEASURED = 10.0, 6.0, 10.0  # seconds
OFF_MOST = 0.25
TYPES = {"shared": pulsar.ConsumerType.Shared, "key_shared": pulsar.ConsumerType.KeyShared}
TENANT = "public"


@dataclass(slots=True)
class Done:
    """Messages that were finished: each once, and when."""

    seen: set[bytes] = field(default_factory=set)
    at: list[float] = field(default_factory=list)

    def add(self, message: Any) -> None:
        """One more, unless it was finished before."""
        key = message.message_id().serialize()
        if key not in self.seen:
            self.seen.add(key)
            self.at.append(time.monotonic())

    def rate(self, since: float, until: float) -> float:
        """Messages a second."""
        return sum(since <= each < until for each in self.at) / (until - since)


@dataclass(slots=True)
class Stage:
    """One topic with its producers and consumers, closed at the end."""

    service_url: str
    admin_url: str
    topic: str
    stack: ExitStack
    done: Done = field(default_factory=Done)
    stop: threading.Event = field(default_factory=threading.Event)
    trace: Path | None = None
    consumers_url: str | None = None

    def produce(
        self, messages: int, key: Callable[[int], str] | None = None, rate: float | None = None
    ) -> None:
        """So many at once, or so many a second until the end."""
        client = pulsar.Client(self.service_url, logger=_quiet())
        producer = client.create_producer(
            self.topic, batching_enabled=False, block_if_queue_full=True
        )

        def send(number: int) -> None:
            named = {} if key is None else {"partition_key": key(number)}
            producer.send_async(b"x" * 50, lambda result, message: None, **named)

        def go_on() -> None:
            began, number = time.monotonic(), 0
            while not self.stop.wait(0.02):
                while number < (time.monotonic() - began) * (rate or 0):
                    send(number)
                    number += 1

        for number in range(messages):
            send(number)
        producer.flush()
        if rate:
            self._thread(go_on)
        self.stack.callback(_close, client)

    def subscribe(self) -> None:
        """The subscription, before anything is published."""
        self.consume("nobody", at_once=0).close()

    def consume(
        self,
        name: str,
        *,
        kind: str = "shared",
        size: int = 100,
        work: float = 0.0,
        at_once: int = 1,
        hold: float = 0.0,
        ahead: int = 0,
        timeout_ms: int | None = None,
    ) -> pulsar.Client:
        """A consumer with workers, on a connection of its own. hold: from receive to ack."""
        client = pulsar.Client(self.consumers_url or self.service_url, logger=_quiet())
        consumer = client.subscribe(
            self.topic, SUBSCRIPTION, TYPES[kind], consumer_name=name, receiver_queue_size=size,
            initial_position=pulsar.InitialPosition.Earliest,
            unacked_messages_timeout_ms=timeout_ms,
        )  # fmt: skip
        taken: queue.Queue[tuple[float, Any]] = queue.Queue(ahead or (10_000 if hold else 1))

        def receive(work_on: Callable[[Any], None]) -> None:
            while not self.stop.is_set():
                try:
                    message = consumer.receive(timeout_millis=200)
                except pulsar.Timeout:
                    continue
                except Exception:
                    return
                work_on(message)

        def finish(message: Any) -> None:
            if work:
                time.sleep(work)
            with suppress(Exception):
                consumer.acknowledge(message)
                self.done.add(message)

        def put(message: Any) -> None:
            while not self.stop.is_set():
                with suppress(queue.Full):
                    taken.put((time.monotonic() + hold, message), timeout=0.2)
                    return

        def from_taken() -> None:
            while not self.stop.is_set():
                with suppress(queue.Empty):
                    due, message = taken.get(timeout=0.2)
                    time.sleep(max(0.0, due - time.monotonic()))
                    finish(message)

        if hold or ahead:
            self._thread(lambda: receive(put))
        for _ in range(at_once):
            self._thread(from_taken if hold or ahead else lambda: receive(finish))
        self.stack.callback(_close, client)
        return client

    def _thread(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        self.stack.callback(thread.join, 3)

    def admin(self, method: str, path: str, body: Any = None) -> None:
        """One request of the REST API."""
        request = urllib.request.Request(
            f"{self.admin_url}/admin/v2/{path}", method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": "application/json"},
        )  # fmt: skip
        with suppress(urllib.error.HTTPError), urllib.request.urlopen(request, timeout=20):
            pass

    @property
    def namespace(self) -> str:
        """Of its topic."""
        return "/".join(self.topic.split("://")[1].split("/")[:2])

    def asked(self) -> list[dict[str, Any]]:
        """What sets the pace of each partition, and how long it was watched."""
        command = [
            sys.executable, "-m", "pulsar_doctor", "stall-check", self.topic, "-s", SUBSCRIPTION,
            "--service-url", self.service_url, "--admin-url", self.admin_url,
            "--window", f"{WINDOW:.0f}s", "-o", "json",
        ]  # fmt: skip
        if self.trace is not None:
            command += ["--trace", str(self.trace)]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=90)
        if not done.stdout:
            raise SystemExit(done.stderr)
        found: list[dict[str, Any]] = json.loads(done.stdout)["subscriptions"]
        return found


def _close(client: pulsar.Client) -> None:
    with suppress(Exception):
        client.close()


def _quiet() -> Any:
    import logging

    logger = logging.getLogger("levers")
    logger.setLevel(logging.CRITICAL)
    return logger


@dataclass(frozen=True, slots=True)
class State:
    """One slow state. play returns what moves the lever to the value that was advised."""

    name: str
    set_by: str
    lever: str
    play: Callable[[Stage], Callable[[float | None], None]]
    partitions: int = 0
    warm: float = WARM
    delay: float = 0.0  # seconds of added round trip
    cure_warm: float = WARM


def shared(stage: Stage) -> Callable[[float | None], None]:
    stage.subscribe()
    stage.produce(8000)
    stage.consume("a", work=0.05)
    return lambda value: _more(stage, value, 1, work=0.05)


def _more(stage: Stage, value: float | None, had: int, **how: Any) -> None:
    for number in range(had, int(value or 0)):
        stage.consume(f"more-{number}", **how)


def key_shared(stage: Stage) -> Callable[[float | None], None]:
    stage.subscribe()
    stage.produce(12000, key=lambda number: f"key-{number % 997}")
    how: dict[str, Any] = {"kind": "key_shared", "work": 0.05, "size": 20}
    for name in "ab":
        stage.consume(name, **how)
    return lambda value: _more(stage, value, 2, **how)


def partitioned(stage: Stage) -> Callable[[float | None], None]:
    stage.subscribe()
    stage.produce(12000)
    stage.consume("a", work=0.02)
    return lambda value: _more(stage, value, 1, work=0.02)


def _hot(number: int) -> str:
    """Four of five messages have one key."""
    return f"key-{number}" if number % 5 == 0 else "hot"


def hot_key(stage: Stage) -> Callable[[float | None], None]:
    stage.subscribe()
    first = [stage.consume(name, kind="key_shared", work=0.05, size=20) for name in "ab"]
    stage.produce(0, key=_hot, rate=60.0)

    def cure(value: float | None) -> None:
        for client in first:
            client.close()
        for name in "cd":
            stage.consume(name, kind="key_shared", work=0.05, size=20, at_once=int(value or 1))

    return cure


def small_queue(size: int, messages: int) -> Callable[[Stage], Callable[[float | None], None]]:
    def play(stage: Stage) -> Callable[[float | None], None]:
        stage.subscribe()
        stage.produce(messages)
        first = stage.consume("a", size=size)

        def cure(value: float | None) -> None:
            first.close()
            stage.consume("b", size=int(value or 1))

        return cure

    return play


def unacked_limit(stage: Stage) -> Callable[[float | None], None]:
    path = f"namespaces/{stage.namespace}/maxUnackedMessagesPerConsumer"
    stage.admin("POST", path, 20)
    stage.subscribe()
    stage.produce(8000)
    first = stage.consume("a", size=10, hold=0.5, at_once=100)

    def cure(value: float | None) -> None:
        stage.admin("POST", path, int(value or 0))
        first.close()
        stage.consume("b", size=10, hold=0.5, at_once=100)

    return cure


def throttled(stage: Stage) -> Callable[[float | None], None]:
    def limit(rate: int) -> None:
        stage.admin("POST", f"namespaces/{stage.namespace}/subscriptionDispatchRate", {
            "dispatchThrottlingRateInMsg": rate, "dispatchThrottlingRateInByte": -1,
            "ratePeriodInSecond": 1, "relativeToPublishRate": False,
        })  # fmt: skip

    limit(50)
    stage.subscribe()
    stage.produce(8000)
    stage.consume("a", size=500)
    return lambda value: limit(round(value or 0))


def timeouts(stage: Stage) -> Callable[[float | None], None]:
    stage.subscribe()
    stage.produce(8000)
    first = stage.consume("a", work=0.05, ahead=250, size=100, timeout_ms=10_000)

    def cure(value: float | None) -> None:
        first.close()
        stage.consume("b", work=0.05, ahead=250, size=100)

    return cure


STATES = (
    State("application, Shared", "application", "consumers", shared),
    State("application, Key_Shared", "application", "consumers", key_shared, cure_warm=10.0),
    State("application, 4 partitions", "application", "consumers", partitioned, partitions=4),
    State("hot key, Key_Shared", "key", "at once", hot_key, cure_warm=8.0),
    State("queue of 4 at 20 ms", "queue", "receiver queue", small_queue(4, 30_000), delay=0.02),
    State("queue of 10 at 100 ms", "queue", "receiver queue", small_queue(10, 20_000), delay=0.1),
    State("limit of unacknowledged", "acknowledgements", "unacked limit", unacked_limit),
    State("throttled", "dispatch", "dispatch rate", throttled),
    State("ack time-outs", "redeliveries", "redeliveries", timeouts, warm=30.0),
)


class Delay(asyncio.Protocol):
    """Passes bytes on half a round trip later."""

    def __init__(self, seconds: float, other: asyncio.Future[asyncio.Transport]) -> None:
        self.seconds, self.other = seconds, other

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(self.seconds, self._write, data)

    def _write(self, data: bytes) -> None:
        self.other.add_done_callback(lambda other: other.result().write(data))

    def connection_lost(self, error: Exception | None) -> None:
        self.other.add_done_callback(lambda other: other.result().close())


async def _relay(port: int, to: tuple[str, int], seconds: float, ready: threading.Event) -> None:
    loop = asyncio.get_running_loop()

    class Accepted(Delay):
        def __init__(self) -> None:
            super().__init__(seconds / 2, loop.create_future())

        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            super().connection_made(transport)
            here: asyncio.Future[asyncio.Transport] = loop.create_future()
            here.set_result(transport)  # type: ignore[arg-type]
            self.task = loop.create_task(self.dial(here))

        async def dial(self, here: asyncio.Future[asyncio.Transport]) -> None:
            there, _ = await loop.create_connection(lambda: Delay(seconds / 2, here), *to)
            self.other.set_result(there)

    server = await loop.create_server(Accepted, "127.0.0.1", port)
    ready.set()
    async with server:
        await server.serve_forever()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextmanager
def far_away(stage: Stage, seconds: float, folder: Path) -> Iterator[None]:
    """Its consumers reach the broker by a tap, and that by a relay which holds bytes back."""
    host, port = stage.service_url.removeprefix("pulsar://").split(":")
    relay_port, tap_port, ready = _free_port(), _free_port(), threading.Event()
    way = (relay_port, (host, int(port)), seconds, ready)
    threading.Thread(target=lambda: asyncio.run(_relay(*way)), daemon=True).start()
    ready.wait(5)
    stage.trace, stage.consumers_url = folder / "trace", f"pulsar://127.0.0.1:{tap_port}"
    command = [
        sys.executable, "-m", "pulsar_doctor", "tap", "--listen", f"127.0.0.1:{tap_port}",
        "--service-url", f"pulsar://127.0.0.1:{relay_port}", "--trace", str(stage.trace), "-q",
    ]  # fmt: skip
    tap = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with suppress(OSError), socket.create_connection(("127.0.0.1", tap_port), 1):
                break
            time.sleep(0.2)
        yield
    finally:
        tap.terminate()
        tap.wait(20)


@dataclass(frozen=True, slots=True)
class Outcome:
    """One state, as it was judged and as it was."""

    state: State
    pace: dict[str, Any]
    before: float
    after: float

    @property
    def lever(self) -> dict[str, Any]:
        return self.pace["levers"][0] if self.pace["levers"] else {}

    @property
    def off(self) -> float:
        """By how much the predicted gain differs from the measured one."""
        gain = self.after / self.before if self.before else 0.0
        return abs((self.lever.get("gain") or 0.0) / gain - 1) if gain else 1.0

    @property
    def right(self) -> bool:
        named = self.pace["set_by"] == self.state.set_by
        return named and self.lever.get("lever") == self.state.lever and self.off <= OFF_MOST

    def __str__(self) -> str:
        lever, gain = self.lever, self.after / self.before if self.before else 0.0
        return (
            f"{'ok ' if self.right else 'NO '} {self.state.name:<27} {self.pace['set_by']:<16} "
            f"{lever.get('lever')} {lever.get('value')}: now {self.before:.1f}/s "
            f"(stall-check {self.pace['rate']:.1f}), predicted x{lever.get('gain') or 0:.2f}, "
            f"measured {self.after:.1f}/s x{gain:.2f}, off {self.off:.0%}\n"
            f"      {self.pace['summary']}"
        )


def measured(state: State, service_url: str, admin_url: str) -> Outcome:
    """Brings it about, asks, moves the lever and counts."""
    namespace = f"{TENANT}/levers-{int(time.time())}"
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="levers-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        stage = Stage(service_url, admin_url, f"persistent://{namespace}/slow", stack)
        stage.admin("PUT", f"namespaces/{namespace}", {})
        stack.callback(stage.admin, "DELETE", f"namespaces/{namespace}")
        path = stage.topic.replace("://", "/")
        if state.partitions:
            stage.admin("PUT", f"{path}/partitions", state.partitions)
        stack.callback(
            stage.admin, "DELETE", f"{path}{'/partitions' if state.partitions else ''}?force=true"
        )
        if state.delay:
            stack.enter_context(far_away(stage, state.delay, folder))
        cure = state.play(stage)
        stack.callback(stage.stop.set)
        time.sleep(state.warm)
        began = time.monotonic()
        found = stage.asked()
        before = stage.done.rate(began, time.monotonic())
        pace = max((each["pace"] for each in found if each["pace"]), key=lambda each: each["rate"])
        cure(pace["levers"][0]["value"] if pace["levers"] else None)
        time.sleep(state.cure_warm)
        began = time.monotonic()
        time.sleep(MEASURED)
        return Outcome(state, pace, before, stage.done.rate(began, time.monotonic()))


def main(arguments: list[str]) -> int:
    """Plays them one after the other."""
    parser = argparse.ArgumentParser(prog="levers", description=__doc__)
    parser.add_argument("--only", default="", help="states whose names contain this")
    parser.add_argument("--service-url")
    parser.add_argument("--admin-url")
    options = parser.parse_args(arguments)
    with ExitStack() as stack:
        service_url, admin_url = options.service_url, options.admin_url
        if service_url is None:
            broker = stack.enter_context(running(reuse=False))
            service_url, admin_url = broker.service_url, broker.admin_url
        chosen = [state for state in STATES if options.only in state.name]
        outcomes = []
        for state in chosen:
            outcomes.append(measured(state, service_url, admin_url))
            print(outcomes[-1], flush=True)
    wrong = sum(not each.right for each in outcomes)
    print(f"{len(outcomes) - wrong} of {len(outcomes)} right, and within {OFF_MOST:.0%}")
    return wrong


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
