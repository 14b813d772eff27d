"""Unpacks HTTP responses step by step, with a limit on their size.

What is packed may be a thousand times as long as what is sent, and a body may have no end: limits
hold for what comes out. Only gzip and deflate are unpacked, once: nothing else is asked for.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator, Iterator

import httpx2

ANSWER_BYTES = 128 << 20  # one document; 20,000 subscriptions of a topic have about 60 MB
ANSWER_VALUES = 12_000_000  # what a document may hold, counted by its signs before it is read
REFUSAL_BYTES = 1 << 16  # what comes with a status other than 200; more is not read
TOKEN_BYTES = 1 << 20  # an answer of an OAuth2 issuer
STREAM_BYTES = 16 << 30  # all loaded topics of one broker, which are read topic by topic
PIECE_BYTES = 1 << 16
ACCEPTED = "gzip, deflate"
WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "x-gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
PLAIN = frozenset({"", "identity"})
SIGNS = (b",", b":", b"[", b"{")


class TooLong(ValueError):
    """An unpacked body is longer than it may be."""

    def __init__(self, most: int) -> None:
        super().__init__(f"more than {most} bytes")
        self.most = most  # bytes


class TooMany(ValueError):
    """A document holds more values than it may."""


async def pieces_of(response: httpx2.Response, most: int) -> AsyncGenerator[bytes, None]:
    """The body, unpacked, in pieces of at most PIECE_BYTES. Raises TooLong, httpx2's errors."""
    coding = response.headers.get("Content-Encoding", "").strip().lower()
    unpacker = None if coding in PLAIN else Unpacker(coding, response.request)
    read = 0
    async for raw in response.aiter_raw(PIECE_BYTES):
        for piece in (raw,) if unpacker is None else unpacker.feed(raw):
            read += len(piece)
            if read > most:
                raise TooLong(most)
            yield piece
    if unpacker is not None:
        unpacker.end()


async def body_of(response: httpx2.Response, most: int = ANSWER_BYTES) -> bytearray:
    """The whole body, unpacked. Raises TooLong, httpx2's errors."""
    body = bytearray()
    async for piece in pieces_of(response, most):
        body += piece
    return body


async def beginning_of(response: httpx2.Response, most: int = REFUSAL_BYTES) -> bytearray:
    """At most so much of the body."""
    body = bytearray()
    try:
        async for piece in pieces_of(response, most):
            body += piece
    except TooLong:
        pass
    return body


def require_few(body: bytes | bytearray) -> None:
    """Raises TooMany where a document would take many times its length in memory."""
    if sum(body.count(sign) for sign in SIGNS) > ANSWER_VALUES:
        raise TooMany


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
        """What these bytes unpack to."""
        self._begun = self._begun or bool(data)
        more = bool(data)
        while more:
            try:
                piece = self._stream.decompress(data, PIECE_BYTES)
            except zlib.error as error:
                if not self._raw:
                    raise self._wrong(str(error)) from None
                self._raw, self._stream = False, zlib.decompressobj(-zlib.MAX_WBITS)
                continue
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
