"""Answers that are longer than they may be, packed ones above all: told, and not read on."""

from __future__ import annotations

import gzip
import json
import time
import tracemalloc
import zlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, repeat

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_doctor.broker import bodies
from pulsar_doctor.broker.admin import BrokerFailed, NotFound
from pulsar_doctor.broker.bodies import ANSWER_BYTES, ANSWER_VALUES, PIECE_BYTES, Unpacker
from pulsar_doctor.errors import DoctorError
from tests.broker.http_broker import Asked, Reply, serving
from tests.broker.test_admin import SECRET, STATS, always, ask, refusal, stats

MIB = 1 << 20
REQUEST = httpx2.Request("GET", "http://127.0.0.1/")


def bomb(mib: int, blank: bytes = b" ") -> bytes:
    """Gzip of so many MiB, a thousandth as long."""
    packer, piece = zlib.compressobj(9, zlib.DEFLATED, 16 + zlib.MAX_WBITS), blank * MIB
    return b"".join([packer.compress(piece) for _ in range(mib)] + [packer.flush()])


def packed(body: bytes, coding: str = "gzip", status: int = 200) -> Reply:
    return Reply(status, body=body, headers={"Content-Encoding": coding})


def test_a_small_answer_that_unpacks_to_much_is_told_and_costs_little():
    with always(packed(bomb(600))) as broker:
        tracemalloc.start()
        sentence = refusal(BrokerFailed, broker.url, timeout_seconds=60)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert sentence.startswith(
        f"{broker.url} answers with more than 128 MiB of the stats of persistent://"
    )
    assert "is not used" in sentence
    assert len(broker.asked) == 1  # it would be as long again
    assert most < 2 * ANSWER_BYTES


def test_an_answer_without_an_end_is_told_before_its_time_is_over():
    began = time.monotonic()
    with always(Reply(pieces=repeat(b" " * MIB))) as broker:
        assert "answers with more than 128 MiB" in refusal(
            BrokerFailed, broker.url, timeout_seconds=60
        )
    assert time.monotonic() - began < 30


def test_a_refusal_without_an_end_is_a_refusal():
    def endless(asked: Asked) -> Reply:
        return Reply(404, pieces=repeat(b'{"reason": "' + b"x" * MIB))

    with serving(endless) as broker:
        assert "does not have the stats" in refusal(NotFound, broker.url)


def test_an_answer_of_many_small_values_is_not_read():
    body = b'{"a": [' + b"[]," * (ANSWER_VALUES // 2 + 1) + b"[]]}"
    with always(Reply(body=body)) as broker:
        sentence = refusal(BrokerFailed, broker.url, timeout_seconds=60)
    assert f"holds more than {ANSWER_VALUES:,} values" in sentence


def test_a_topic_with_20_000_subscriptions_is_within_what_is_read():
    each = {"msgBacklog": 7, "type": "Shared", "consumers": [{"consumerName": "x" * 2500}]}
    document = {"subscriptions": {f"sub-{number}": each for number in range(20_000)}}
    body = json.dumps(document).encode()
    assert len(body) > 49 * MIB
    for reply in (Reply(body=body), packed(gzip.compress(body, 1))):
        with always(reply) as broker:
            assert ask(broker.url, stats, timeout_seconds=60).document == document


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "deflate", "raw", "GZIP", "identity"])
def test_what_was_asked_for_packed_is_unpacked(coding):
    window = {"deflate": 15, "raw": -15}.get(coding, 31)
    packer = zlib.compressobj(9, zlib.DEFLATED, window)
    body = packer.compress(json.dumps(STATS).encode()) + packer.flush()
    if coding == "identity":
        body = json.dumps(STATS).encode()
    with always(packed(body, coding.replace("raw", "deflate"))) as broker:
        assert ask(broker.url, stats).document == STATS
    assert broker.asked[0].headers["accept-encoding"] == "gzip, deflate"


@pytest.mark.parametrize("coding", ["gzip, gzip", "br", "zstd", "gzip,deflate"])
def test_what_is_packed_in_another_way_or_twice_is_not_unpacked(coding):
    with always(packed(gzip.compress(gzip.compress(b"{}")), coding)) as broker:
        assert "cannot be unpacked" in refusal(BrokerFailed, broker.url)


def test_what_is_packed_and_cut_off_cannot_be_unpacked():
    with always(packed(gzip.compress(json.dumps(STATS).encode() + b" " * 9999)[:-9])) as broker:
        assert "cannot be unpacked" in refusal(BrokerFailed, broker.url)


@pytest.mark.parametrize("window", [31, 15, -15], ids=["gzip", "deflate", "raw"])
@pytest.mark.parametrize("status", [200, 404])
def test_bytes_behind_the_end_of_what_is_packed_are_refused_at_once(window, status):
    packer = zlib.compressobj(9, zlib.DEFLATED, window)
    body = packer.compress(json.dumps(STATS).encode()) + packer.flush()
    headers = {"Content-Encoding": "gzip" if window == 31 else "deflate"}
    reply = Reply(status, pieces=chain([body], repeat(b"x" * PIECE_BYTES)), headers=headers)
    with always(reply) as broker:
        sentence = refusal(BrokerFailed, broker.url, timeout_seconds=60)
    assert sentence.endswith("cannot be unpacked: more bytes behind the end of what is packed")


def test_another_packed_body_behind_the_first_is_refused():
    half = len(json.dumps(STATS)) // 2
    body = json.dumps(STATS).encode()
    with always(packed(gzip.compress(body[:half]) + gzip.compress(body[half:]))) as broker:
        assert "more bytes behind the end" in refusal(BrokerFailed, broker.url)


@pytest.mark.parametrize("status", [200, 404])
def test_what_unpacks_to_nothing_and_has_no_end_is_given_up(status, monkeypatch):
    monkeypatch.setattr(bodies, "ANSWER", replace(bodies.ANSWER, bytes_most=4 * MIB))
    begun = gzip.compress(b"")[:10]
    empty = b"\0\0\0\xff\xff" * (PIECE_BYTES // 5)  # blocks of deflate
    headers = {"Content-Encoding": "gzip"}
    with always(Reply(status, pieces=chain([begun], repeat(empty)), headers=headers)) as broker:
        kind = BrokerFailed if status == 200 else NotFound
        sentence = refusal(kind, broker.url, timeout_seconds=60)
    assert status == 404 or "answers with more than 4 MiB of the stats" in sentence


def test_broker_stats_that_are_packed_are_unpacked_piece_by_piece(monkeypatch):
    async def first(admin: object) -> None:
        async for _ in admin.loaded_topics():  # type: ignore[attr-defined]
            pass

    with always(packed(bomb(300))) as broker:
        tracemalloc.start()
        assert "the stats of one topic have no end" in refusal(
            BrokerFailed, broker.url, first, timeout_seconds=60
        )
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert most < 16 * MIB
        monkeypatch.setattr(bodies, "STREAM", replace(bodies.STREAM, bytes_most=40 * MIB))
        assert "answers with more than 40 MiB" in refusal(
            BrokerFailed, broker.url, first, timeout_seconds=60
        )


def test_an_issuer_of_tokens_is_not_read_without_end(tmp_path):
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"client_id": "me", "client_secret": SECRET}))
    with always(Reply(pieces=repeat(b" " * MIB))) as shop:
        params = f"issuerUrl:{shop.url},privateKey:file://{key}"
        more = {"auth_plugin": "oauth2", "auth_params": params}
        assert "gives no token (TooLong)" in refusal(DoctorError, "http://127.0.0.1:1", **more)


def pieces(data: bytes) -> Iterator[bytes]:
    return (data[at : at + 7] for at in range(0, len(data), 7))


@given(st.lists(st.tuples(st.binary(max_size=50), st.integers(1, 40_000)), max_size=5))
def test_whatever_was_packed_comes_out_in_small_pieces(parts):
    body = b"".join(part * times for part, times in parts)
    unpacker, out = Unpacker("gzip", REQUEST), bytearray()
    for raw in pieces(gzip.compress(body)):
        for piece in unpacker.feed(raw):
            assert len(piece) <= PIECE_BYTES
            out += piece
    unpacker.end()
    assert out == body


def test_an_empty_body_that_calls_itself_packed_is_empty():
    Unpacker("gzip", REQUEST).end()
    assert bodies.ACCEPTED == "gzip, deflate"
