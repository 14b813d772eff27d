"""Removes secrets from error messages, versions and unknown commands."""

from __future__ import annotations

import re
from functools import lru_cache

from pulsar_doctor.wire.text import text_of

RAW_BYTES_MOST = 4096  # to blank so much takes a few milliseconds
ERROR_CHARACTERS = 200

_PASSWORD = r"(?:pass[-_ ]?(?:wor[dt]|wd|phrase|code)|ps?wr?d|psw)"
_WORD = (
    rf"(?:token|{_PASSWORD}|pass|pw|secret|credentials?|creds?|auth(?:orization|data|params)?|key"
    r"|bearer|basic|jwt|cookie|session(?:[-_ ]?id)?|signature|sig|(?<![a-z])(?:pin|otp|sas))"
)
_IS = r"\s*(?:[=:]|%3[ad])"  # also as it is written in a URL
_VALUE = rf"(?:(?:\S*[=:]|{_WORD}|is|was)[\"']?\s+)*\S+"  # "bearer token: x": x is meant
_SECRETS = re.compile(
    r"ey[JA][\w-]+(?:\.[\w-]*)*"  # a JSON web token, or what is left of one
    r"|(?<=//)[^/\s@]+(?=@)"  # the user of a URL
    rf"|(?i:{_WORD}[\"']?{_IS}\s*{_VALUE})"
    rf"|(?i:(?:bearer|basic|{_PASSWORD}|secret)\s+{_VALUE})"
    rf"|(?i:(?:token|key)\s+(?=\S*\d|\S*[=:]\s|{_WORD}\s){_VALUE})"  # "token expired" may stay
)


def redact(message: str) -> str:
    """An error as it may be kept: one line, short, without what resembles a credential."""
    line = " ".join(message.split())[: 4 * ERROR_CHARACTERS]
    line = _SECRETS.sub("[redacted]", line)
    return line if len(line) <= ERROR_CHARACTERS else line[: ERROR_CHARACTERS - 1] + "…"


@lru_cache(maxsize=1_000)
def redact_version(version: str | bytes) -> str:
    """The version that a client says it has, as it may be kept: an application may write anything.

    The names of topics, subscriptions, consumers and producers stay as they are: they are what
    these are known by, and two that are redacted would become one.
    """
    return redact(text_of(version))


def blanked(command: bytes) -> bytes:
    """The shape of an unknown command: field numbers, wire types and lengths, values all zero.

    b"" where it is no protobuf or too long to be worth its room.
    """
    if len(command) > RAW_BYTES_MOST:
        return b""
    try:
        return _blank_message(command, inside=True)
    except (IndexError, ValueError):
        return b""


def _blank_message(data: bytes, *, inside: bool) -> bytes:
    out = bytearray()
    at = 0
    while at < len(data):
        start = at
        tag, at = _varint(data, at)
        if not 8 <= tag < 1 << 32:
            raise ValueError("a field number that cannot be")
        out += data[start:at]
        wire_type = tag & 7
        if wire_type == 0:
            start = at
            _, at = _varint(data, at)
            out += b"\x80" * (at - start - 1) + b"\x00"
        elif wire_type in (1, 5):
            width = 8 if wire_type == 1 else 4
            out += bytes(width)
            at += width
        elif wire_type == 2:
            start = at
            length, at = _varint(data, at)
            if length > len(data) - at:
                raise ValueError("a field that ends behind its message")
            out += data[start:at]
            out += _blank_nested(data[at : at + length]) if inside else bytes(length)
            at += length
        else:
            raise ValueError("a wire type that nothing uses")
    if at != len(data):
        raise ValueError("a field that ends behind its message")
    return bytes(out)


def _blank_nested(data: bytes) -> bytes:
    # Every field of BaseCommand is a message; what is inside may be text, so it is not opened.
    try:
        return _blank_message(data, inside=False)
    except (IndexError, ValueError):
        return bytes(len(data))


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > 63:
            raise ValueError("a number that is too long")
