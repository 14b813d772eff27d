"""Answers that drip, stay silent, or have no end: each is given up in time, and named."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import aclosing, contextmanager
from itertools import count, repeat
from typing import Any

import pytest

from pulsar_doctor.broker import bodies, credentials
from pulsar_doctor.broker.admin import (
    Admin,
    BrokerFailed,
    NotFound,
    Unreachable,
    live_topics,
    segments,
    streaming,
)  # fmt: skip
from pulsar_doctor.broker.admin import metrics as metrics_of_brokers
from pulsar_doctor.broker.admin.live_metrics import LIVE
from pulsar_doctor.broker.patience import SLOWEST
from pulsar_doctor.errors import DoctorError
from tests.broker.http_broker import Asked, HttpBroker, Reply, serving
from tests.broker.test_admin import SECRET, STATS, always, ask, refusal, stats
from tests.broker.test_fleet import A, B, cluster, names, survey, tree
from tests.broker.test_fleet import stats as quiet_stats

METRICS = "/metrics/"
LIST = "broker-stats/topics"
AT_ONCE = 0.3  # seconds, a time-out
SOON = 1.5  # where a first piece has to come before it, also on a busy machine


def drip(*first: bytes, drop: bytes = b" ") -> Iterator[bytes]:
    yield from first
    while True:
        time.sleep(0.05)
        yield drop


def without_end(*pieces: bytes) -> Iterator[bytes]:
    yield from pieces
    yield from repeat(b"x" * (1 << 16))


async def listed(admin: Admin) -> list[str]:
    async with aclosing(admin.loaded_topics()) as topics:
        return [topic.topic async for topic in topics]


def metrics(broker: HttpBroker) -> Callable[[Admin], Any]:
    return lambda admin: live_topics(admin, [broker.url.removeprefix("http://")])


@contextmanager
def raw(answer: Callable[[], Iterator[bytes]]) -> Iterator[str]:
    """Answers each request with these bytes, whatever they are; its URL."""

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
                with connection:
                    connection.recv(1 << 16)
                    for piece in answer():
                        connection.sendall(piece)
            except OSError:
                if server.fileno() < 0:
                    return

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)


def of_metrics(reply: Callable[[], Reply]) -> Any:
    def answer(asked: Asked) -> Reply:
        if asked.path == METRICS:
            return reply()
        if asked.path.endswith("/brokers"):
            return Reply(document=[asked.headers["host"]])
        return Reply(document=LIVE)

    return serving(answer)


# Time


@pytest.mark.parametrize("question", [stats, listed])
@pytest.mark.parametrize("status", [200, 404])
def test_a_body_that_drips_is_given_up(question, status):
    with always(Reply(status, pieces=drip())) as broker:
        kind = Unreachable if status == 200 else NotFound
        sentence = refusal(kind, broker.url, question, timeout_seconds=SOON)
    if status == 200:
        assert re.search(r"sent \d+ bytes of .* in [\d.]+s, and no end: .* is not used", sentence)


def test_metrics_that_drip_are_given_up():
    with of_metrics(lambda: Reply(pieces=drip(b"pulsar_x 1\n"))) as broker:
        sentence = refusal(Unreachable, broker.url, metrics(broker), timeout_seconds=SOON)
    assert re.search(r"sent \d+ bytes of the metrics in [\d.]+s, and no end", sentence)


@pytest.mark.parametrize("question", [stats, listed])
@pytest.mark.parametrize(
    ("head", "drop"),
    [(b"HTTP/1.1 200 OK\r\nX: ", b"x"), (b"", b"HTTP/1.1 100 Continue\r\n\r\n")],
    ids=["headers", "nothing but to wait"],
)
def test_headers_that_drip_are_given_up(question, head, drop):
    with raw(lambda: drip(head, drop=drop)) as url:
        sentence = refusal(Unreachable, url, question, timeout_seconds=AT_ONCE)
    assert re.search(r"did not answer for .* within 0\.\ds", sentence)


def test_a_slow_answer_that_keeps_coming_is_read():
    body = json.dumps(STATS).encode()

    def slowly() -> Iterator[bytes]:
        for _ in range(6):
            time.sleep(0.1)
            yield b" " * SLOWEST
        yield body

    with always(Reply(pieces=slowly())) as broker:
        assert ask(broker.url, stats, timeout_seconds=AT_ONCE).document == STATS


def test_the_slow_link_of_a_port_forward_is_not_too_slow():
    body = json.dumps(STATS).encode()

    def at_25_kb_a_second() -> Iterator[bytes]:
        for _ in range(10):
            time.sleep(0.1)
            yield b" " * 2500
        yield body

    with always(Reply(pieces=at_25_kb_a_second())) as broker:
        assert ask(broker.url, stats, timeout_seconds=2 * AT_ONCE).document == STATS


def test_what_keeps_coming_for_too_long_is_given_up():
    def steadily() -> Iterator[bytes]:
        while True:
            time.sleep(0.02)
            yield b" " * SLOWEST

    with always(Reply(pieces=steadily())) as broker:
        sentence = refusal(Unreachable, broker.url, timeout_seconds=AT_ONCE)
    assert re.search(r"sent [\d,]+ bytes of the stats of .* in [12][.\d]*s, and no end", sentence)


def test_the_time_that_we_need_ourselves_does_not_count():
    pieces = [json.dumps(tree({A: STATS})).encode(), b" " * 10, b" "]

    async def slow_reader(admin: Admin) -> list[str]:
        found = []
        async with aclosing(admin.loaded_topics()) as topics:
            async for topic in topics:
                await asyncio.sleep(2 * AT_ONCE)
                found.append(topic.topic)
        return found

    with always(Reply(pieces=iter(pieces))) as broker:
        assert ask(broker.url, slow_reader, timeout_seconds=AT_ONCE) == [A]


def test_an_issuer_of_tokens_that_drips_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(credentials, "ISSUER_SECONDS", AT_ONCE)
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"client_id": "me", "client_secret": SECRET}))
    with always(Reply(pieces=drip())) as shop:
        params = f"issuerUrl:{shop.url},privateKey:file://{key}"
        more = {"auth_plugin": "oauth2", "auth_params": params}
        assert "gives no token (TooSlow)" in refusal(DoctorError, "http://127.0.0.1:1", **more)


# Length and number


@pytest.mark.parametrize("begun", [b"", b"pulsar_x 1\npulsar_subscriptions_count{"])
def test_a_line_of_metrics_without_an_end_is_given_up(begun):
    with of_metrics(lambda: Reply(pieces=without_end(*filter(None, [begun])))) as broker:
        sentence = refusal(BrokerFailed, broker.url, metrics(broker), timeout_seconds=60)
    assert "answers with more than 1 MiB of a line of the metrics" in sentence


@pytest.mark.parametrize(
    "begun",
    [
        b'{"a": {"b": {"c": {"d": {"e": "',  # in the stats of a topic
        b'{"a": {"b": {"c": {"',  # in a name
        b'{"a": {"b": {"c": {"d": {"e": [' + b"[]," * (bodies.ANSWER_VALUES // 4),
    ],
    ids=["text", "name", "values"],
)
def test_stats_of_a_topic_without_an_end_are_given_up(begun, monkeypatch):
    monkeypatch.setattr(streaming, "TOPIC_CHARACTERS", 8 << 20)
    monkeypatch.setattr(streaming, "VALUES_MOST", bodies.ANSWER_VALUES // 5)
    pieces = [begun[at : at + bodies.PIECE_BYTES] for at in range(0, len(begun), 1 << 16)]
    with always(Reply(pieces=without_end(*pieces))) as broker:
        sentence = refusal(BrokerFailed, broker.url, listed, timeout_seconds=60)
    assert "the stats of one topic h" in sentence


def test_space_without_an_end_is_given_up(monkeypatch):
    monkeypatch.setattr(streaming, "TOPIC_CHARACTERS", 1 << 20)
    with always(Reply(pieces=repeat(b" " * (1 << 16)))) as broker:
        assert "have no end" in refusal(BrokerFailed, broker.url, listed, timeout_seconds=60)


@pytest.mark.parametrize("of_segments", [False, True])
def test_more_names_than_a_broker_has_are_not_kept(of_segments, monkeypatch):
    for module in (streaming, metrics_of_brokers, segments):
        monkeypatch.setattr(module, "NAMES_MOST", 100)
    line = b'pulsar_subscriptions_count{topic="%d"} 1\n'
    if of_segments:
        names = b'topic="segment://t/n/a/0000-ffff-0",subscription="%d"'
        line = b"pulsar_subscription_back_log{" + names + b"} 1\n"
    endless = (line % n for n in count())

    async def numbers(admin: Admin) -> Any:
        return await admin._segments._numbers(broker.url.removeprefix("http://"), 0)

    with of_metrics(lambda: Reply(pieces=endless)) as broker:
        question = numbers if of_segments else metrics(broker)
        sentence = refusal(BrokerFailed, broker.url, question, timeout_seconds=60)
    assert re.search("holds more than 100 subscriptions|name more topics than a broker", sentence)


def test_a_list_of_more_topics_than_a_broker_has_is_given_up(monkeypatch):
    monkeypatch.setattr(streaming, "NAMES_MOST", 100)
    begun = b'{"t/n": {"0x0_0x1": {"persistent": {"a": {}'
    endless = (b',"%d": {}' % n for n in count())

    def pieces() -> Iterator[bytes]:
        yield begun
        yield from endless

    with always(Reply(pieces=pieces())) as broker:
        assert "more than 100 topics" in refusal(BrokerFailed, broker.url, listed)


# What becomes of the rest


@pytest.mark.parametrize("path", [METRICS, LIST])
def test_a_survey_names_what_was_cut_and_keeps_the_rest(path):
    stored = {A: quiet_stats(), B: quiet_stats()}
    with cluster(stored, replies={path: Reply(pieces=drip())}) as broker:
        windows, fleet = survey(broker.url, timeout_seconds=1)
    assert names(windows) == ([A, B] if path == METRICS else [])
    assert "and no end" in fleet.unread[0].reason or fleet.notes != []
    assert fleet.unread != []  # which ends with 3


def test_a_list_that_is_cut_brings_no_questions_about_what_only_it_names():
    invented = {f"persistent://t/n/x{n}": quiet_stats(5) for n in range(2000)}
    text = json.dumps(tree({A: quiet_stats(5), **invented})).encode()
    with cluster({A: quiet_stats(5)}, replies={LIST: Reply(pieces=drip(text[:-1]))}) as broker:
        windows, fleet = survey(broker.url, timeout_seconds=1)
    assert names(windows) == [A]
    assert [asked.path for asked in broker.asked if "/x" in asked.path] == []
    assert len(fleet.notes) == 1


def test_segments_of_a_broker_that_drips_wait_once_and_those_of_others_are_read(monkeypatch):
    monkeypatch.setattr(segments, "NOW_SECONDS", 0.1)  # less than it is waited
    stuck = "segment://t/n/a/0000-7fff-0"
    line = f'pulsar_subscription_back_log{{topic="{stuck}",subscription="s"}} 7\n'

    def answer(asked: Asked) -> Reply:
        if asked.path == METRICS:
            mine = asked.headers["host"] in good.url
            return Reply(body=line.encode()) if mine else Reply(pieces=drip())
        hosts = [each.url.removeprefix("http://") for each in (good, bad)]
        return Reply(
            document=hosts
            if asked.path.endswith("/brokers")
            else LIVE
            if "configuration" in asked.path
            else {}
        )

    async def all_of_them(admin: Admin) -> list[Any]:
        of_bad = (admin.topic_stats(f"segment://t/n/a/8000-ffff-{n}") for n in range(1, 6))
        return await asyncio.gather(admin.topic_stats(stuck), *of_bad, return_exceptions=True)

    with serving(answer) as good, serving(answer) as bad:
        read, *unread = ask(good.url, all_of_them, timeout_seconds=AT_ONCE)
    assert read.document["subscriptions"]["s"]["msgBacklog"] == 7
    assert {type(each) for each in unread} == {Unreachable}
    assert "and no end" in str(unread[0])
    assert len([asked for asked in bad.asked if asked.path == METRICS]) == 1


def test_limits_are_logged_for_whoever_wants_to_know(caplog):
    with (
        caplog.at_level("DEBUG", "pulsar_doctor.requests"),
        always(Reply(document=STATS)) as broker,
    ):
        ask(broker.url, stats, timeout_seconds=10)
    assert caplog.messages[:2] == [
        "limits of a document: 10 s without a byte; 10 s in all, and 1 s for each 8 KiB, up to "
        "60 s; 128 MiB unpacked",
        "limits of a list or metrics: 10 s without a byte; 10 s in all, and 1 s for each 8 KiB, "
        "up to 600 s; 4,096 MiB unpacked, 1 MiB a line, 200,000 names",
    ]
