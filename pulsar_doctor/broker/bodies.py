"""Unpacks HTTP responses step by step, with limits on their size and their time.

What is packed may be a thousand times as long as what is sent, it may unpack to nothing, and a body
may have no end: limits hold for what comes in and for what comes out. Only gzip and deflate are
unpacked, once: nothing else is requested.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from contextlib import suppress

import httpx2

from pulsar_doctor.broker.patience import SLOWEST, AnswerLimits, AnswerPatience, TooSlow

ANSWER_BYTES = 128 << 20  # one document; 20,000 subscriptions of a topic have about 60 MB
ANSWER_VALUES = 12_000_000  # what a document may hold, counted by its signs before it is read
TOKEN_BYTES = 1 << 20  # of an OAuth2 issuer
STREAM_BYTES = 4 << 30
REFUSAL_BYTES = 1 << 16  # what comes with a status other than 200; more is not read
LINE_BYTES = 1 << 20  # of metrics: names of a topic and of a subscription, and a number
NAMES_MOST = 200_000  # topics, or subscriptions of segments, of one broker
PIECE_BYTES = 1 << 16
ANSWER = AnswerLimits("a document", ANSWER_BYTES, longest=6)
TOKEN = AnswerLimits("an OAuth2 issuer's answer", TOKEN_BYTES)
# All loaded topics of one broker, or its metrics, with 17 KB for each topic (4.0.8).
STREAM = AnswerLimits(
    "a list or metrics",
    STREAM_BYTES,
    longest=60,
    more=f", {LINE_BYTES >> 20} MiB a line, {NAMES_MOST:,} names",
)
ACCEPTED = "gzip, deflate"
WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
PLAIN = frozenset({"", "identity"})
BEHIND = "more bytes behind the end of what is packed"
SIGNS = (b",", b":", b"[", b"{")


class TooLong(ValueError):
    """An unpacked body, or a line of it, is longer than it may be."""

    def __init__(self, most: int, what: str = "") -> None:
        super().__init__(f"{what}more than {most} bytes")
        self.most = most  # bytes
        self.what = what  # "a line of ", where it is not the body


class TooMany(ValueError):
    """An answer holds more values, or names, than it may."""

    def __init__(self, most: int, what: str) -> None:
        super().__init__(f"more than {most:,} {what}")


async def pieces_of(
    response: httpx2.Response, patience: AnswerPatience
) -> AsyncGenerator[bytes, None]:
    """The body, unpacked, in pieces of at most PIECE_BYTES. Raises as body_of."""
    coding = response.headers.get("Content-Encoding", "").strip().lower()
    unpacker = None if coding in PLAIN else Unpacker(coding, response.request)
    received, read, most = 0, 0, patience.limits.bytes_most
    raws = response.aiter_raw(SLOWEST)  # which waits for so many bytes: no more than a second
    while raw := await patience.of(anext(raws, b""), response):
        patience.came(len(raw))
        received += len(raw)
        for piece in (raw,) if unpacker is None else unpacker.feed(raw):
            read += len(piece)
            if read > most:
                raise TooLong(most)
            yield piece
        if received > most:  # of what unpacks to nothing
            raise TooLong(most)
    if unpacker is not None:
        unpacker.end()


async def lines_of(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes, None]:
    """Whole lines, many at once, each behind its line feed. Raises TooLong, and as the pieces."""
    kept, length = [b"\n"], 0
    async for piece in pieces:
        whole, newline, rest = piece.rpartition(b"\n")
        if newline:
            yield b"".join((*kept, whole))
            kept, length = [newline], 0
        kept.append(rest)
        length += len(rest)
        if length > LINE_BYTES:
            raise TooLong(LINE_BYTES, "a line of ")
    yield b"".join(kept)


async def body_of(response: httpx2.Response, patience: AnswerPatience) -> bytearray:
    """The whole body, unpacked. Raises TooLong, TooSlow, httpx2's errors."""
    body = bytearray()
    async for piece in pieces_of(response, patience):
        body += piece
    return body


async def beginning_of(response: httpx2.Response, patience: AnswerPatience) -> bytearray:
    """At most REFUSAL_BYTES of the body, and what has come of it in time."""
    body = bytearray()
    with suppress(TooSlow, TooLong):
        async for piece in pieces_of(response, patience):
            body += piece
            if len(body) >= REFUSAL_BYTES:
                break
    return body


def require_few(body: bytes | bytearray) -> None:
    """Raises TooMany where a document would take many times its length in memory."""
    if sum(body.count(sign) for sign in SIGNS) > ANSWER_VALUES:
        raise TooMany(ANSWER_VALUES, "values")


class Unpacker:
    """One body that is packed once. Raises httpx2.DecodingError for any other."""

    def __init__(self, coding: str, request: httpx2.Request) -> None:
        self._request = request
        if coding not in WINDOWS:
            raise self._wrong("no coding that was asked for")
        self._stream = zlib.decompressobj(WINDOWS[coding])
        self._begun = False
        self._raw = coding == "deflate"  # some send it without zlib's header

    def feed(self, data: bytes) -> Iterator[bytes]:
        """What these bytes unpack to. Bytes behind the end are refused: zlib would keep all."""
        if data and self._stream.eof:
            raise self._wrong(BEHIND)
        self._begun = self._begun or bool(data)
        more = bool(data)
        while more:
            try:
                piece = self._stream.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                if not self._raw:
                    raise self._wrong(str(error).rpartition(": ")[2]) from None
                self._raw, self._stream = False, zlib.decompressobj(-zlib.MAX_WBITS)
                continue
            if self._stream.unused_data:
                raise self._wrong(BEHIND)
            self._raw = False
            data = self._stream.unconsumed_tail
            if piece:
                yield piece
            more = bool(data) or len(piece) == PIECE_BYTES

    def end(self) -> None:
        """The body has ended: so must what was packed."""
        if self._begun and not self._stream.eof:
            raise self._wrong("cut off")

    def _wrong(self, why: str) -> httpx2.DecodingError:
        return httpx2.DecodingError(why, request=self._request)
