"""`stall-check --watch --listen`: what a scrape gets, and when."""

from __future__ import annotations

import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.error import HTTPError

import pytest

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.monitoring.rounds import (
    AT_ONCE_MOST,
    LastRound,
    address_of,
    is_loopback,
    served,
)
from tests.broker.http_broker import HttpBroker, Reply
from tests.broker.replayed import HEALTHY, cluster, states, stuck
from tests.report.test_prometheus import of, parsed
from tests.support import eventually
from tests.support.command_line import environment

LOOPBACK = "127.0.0.1"
OUTSIDE = pytest.mark.usefixtures("outside")
Answer = tuple[int, dict[str, str], str]


def get(port: int, path: str, **headers: str) -> Answer:
    request = urllib.request.Request(f"http://{LOOPBACK}:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return answer.status, dict(answer.headers), answer.read().decode()
    except HTTPError as error:
        return error.code, dict(error.headers), error.read().decode()


@contextmanager
def serving(every_seconds: float = 30.0) -> Iterator[tuple[LastRound, int]]:
    last = LastRound(every_seconds)
    with served(last, LOOPBACK, 0) as (_, port):
        yield last, port


@OUTSIDE
def test_before_the_first_round_the_page_is_empty_and_it_is_not_ready() -> None:
    with serving() as (_, port):
        assert get(port, "/metrics")[::2] == (200, "# EOF\n")
        assert get(port, "/health")[0] == 200
        code, _, text = get(port, "/ready")
        assert (code, json.loads(text)) == (503, {"ready": False, "round_age_seconds": None})


@OUTSIDE
def test_a_round_is_there_until_the_next_one_ends_and_has_an_age() -> None:
    with serving() as (last, port):
        last.publish("a 1\n# EOF\n")
        assert get(port, "/metrics")[2] == "a 1\n# EOF\n"
        code, _, text = get(port, "/ready")
        assert code == 200
        assert 0 <= json.loads(text)["round_age_seconds"] < 10


@OUTSIDE
def test_a_round_that_is_too_old_is_not_ready(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(every_seconds=5.0) as (last, port):
        last.publish("# EOF\n")
        later = time.monotonic() + 3 * 5 + 60 + 1
        monkeypatch.setattr(time, "monotonic", lambda: later)
        assert (get(port, "/ready")[0], get(port, "/health")[0]) == (503, 200)


@OUTSIDE
def test_the_content_type_is_what_the_scraper_takes() -> None:
    with serving() as (_, port):
        newer = get(port, "/metrics", Accept="application/openmetrics-text;version=1.0.0,*/*")[1]
        older = get(port, "/metrics?x=1", Accept="text/plain")[1]
    assert newer["Content-Type"] == "application/openmetrics-text; version=1.0.0; charset=utf-8"
    assert older["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"


@pytest.mark.parametrize(
    "request_line",
    [b"GET", b"\x00" * 70_000, b"POST /metrics HTTP/1.0"],
    ids=["cut off", "no text", "a method that is not known"],
)
def test_who_asks_for_nonsense_ends_only_the_own_connection(request_line: bytes) -> None:
    with serving() as (_, port):
        with socket.create_connection((LOOPBACK, port)) as talking:
            talking.settimeout(10)
            talking.sendall(request_line + b"\r\n\r\n")
            while True:
                try:
                    if not talking.recv(65536):
                        break
                except ConnectionError:
                    break
        assert get(port, "/nothing/here")[0] == 404
        connection = http.client.HTTPConnection(LOOPBACK, port, timeout=10)
        connection.request("HEAD", "/metrics")
        assert connection.getresponse().read() == b""


def test_connections_that_say_nothing_are_few_and_leave_room_once_they_end() -> None:
    with serving() as (_, port):
        with ExitStack() as stack:
            for _ in range(AT_ONCE_MOST):
                stack.enter_context(socket.create_connection((LOOPBACK, port)))
            one_more = stack.enter_context(socket.create_connection((LOOPBACK, port)))
            one_more.settimeout(10)
            assert one_more.recv(1) == b"", "it is sent away at once"
        eventually(lambda: _answers(port), 10)


def _answers(port: int) -> bool:
    try:
        return get(port, "/health")[0] == 200
    except OSError:
        return False


@pytest.mark.parametrize("text", ["", "9464", ":9464", "x:", "x:70000", "x:²", "127.0.0.1"])
def test_what_is_no_address_is_wrong_usage(text: str) -> None:
    with pytest.raises(InputError, match="takes HOST:PORT"):
        address_of(text)


def test_addresses() -> None:
    assert address_of("[::1]:9464") == ("::1", 9464)
    assert [is_loopback(each) for each in ("127.8.0.1", "::1", "0.0.0.0", "::", "fe80::1%lo")] == [
        True, True, False, False, False,
    ]  # fmt: skip


@OUTSIDE
def test_an_address_that_is_taken_is_one_sentence() -> None:
    with serving() as (_, port), ExitStack() as stack:
        for host, number in ((LOOPBACK, port), ("x" * 99, 0)):
            with pytest.raises(DoctorError, match=f"cannot listen at {host}:{number}: "):
                stack.enter_context(served(LastRound(5), host, number))


@contextmanager
def watching(broker: HttpBroker, *arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    started = subprocess.Popen(
        [sys.executable, "-m", "pulsar_doctor", "stall-check", "--admin-url", broker.url,
         "--interval", "100ms", "--window", "200ms", "--watch", "--every", "5s", *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    assert started.stderr is not None
    try:
        port = re.search(r"metrics at http://\S+:(\d+)/metrics", started.stderr.readline())
        assert port is not None
        yield started, int(port[1])
    finally:
        started.kill()
        started.communicate()


def test_a_watch_answers_from_the_round_that_has_ended_and_asks_no_broker() -> None:
    topics = {"held": stuck(), "quiet": states(HEALTHY)}
    with (
        cluster(topics) as broker,
        watching(broker, "--all", "--listen", f"{LOOPBACK}:0") as (process, port),
    ):
        eventually(lambda: get(port, "/ready")[0] == 200, 30)
        process.send_signal(signal.SIGSTOP)  # no further round
        asked = len(broker.asked)
        process.send_signal(signal.SIGCONT)
        pages = [parsed(get(port, "/metrics")[2]) for _ in range(20)]
        statuses = of(pages[-1], "subscription_status")
        assert [each["status"] for each, _ in statuses] == ["stalled"]
        assert len(broker.asked) - asked <= 40, "a round at most, and none for a scrape"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 1


def test_where_a_round_fails_the_last_one_stays() -> None:
    with (
        cluster({"held": stuck()}) as broker,
        watching(broker, "held", "--listen", f"{LOOPBACK}:0") as (_, port),
    ):
        eventually(lambda: get(port, "/ready")[0] == 200, 30)
        broker.answer = lambda _: Reply(503, {"reason": "gone"})
        before, asked = get(port, "/metrics")[2], len(broker.asked)
        eventually(lambda: len(broker.asked) > asked + 3, 30)
        assert "pulsar_doctor_finding" in before
        assert get(port, "/metrics")[2] == before


def test_without_a_watch_there_is_nothing_to_answer(run: Callable[..., Any]) -> None:
    code, out, err = run("stall-check", "--all", "--listen", "127.0.0.1:0")
    assert (code, out) == (2, "")
    assert "--listen needs --watch; add it" in err
