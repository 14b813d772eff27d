"""Text of the wire as a trace stores it, including bytes that are not UTF-8.

The protocol's strings are bytes that nobody checks: a client may send what is no UTF-8, and
protobuf hands that on as bytes. In a trace each byte that is no UTF-8 is U+FFFD, the replacement
character, and two capital hexadecimal digits. Nothing is lost and no two names become one: where a
text itself has U+FFFD before two such digits, that one's bytes are written in the same way.

A text of more bytes than any name has is shortened, since each row of its consumer would carry it:
its beginning, its length, and the start of its SHA-256, so that two of them do not become one.
"""

from __future__ import annotations

import hashlib
import re

TEXT_BYTES_MOST = 1024
BEGINNING = 200  # characters of one that is longer
MARK = "\N{REPLACEMENT CHARACTER}"
_LONE = re.compile("[\udc80-\udcff]")  # how Python keeps a byte that is no UTF-8
_READS_AS_MARKED = re.compile(f"{MARK}(?=[0-9A-F]{{2}})")
_MARK_ITSELF = "".join(f"{MARK}{byte:02X}" for byte in MARK.encode())


def text_of(value: str | bytes) -> str:
    """A string of at most TEXT_BYTES_MOST bytes of UTF-8, another one for each other value."""
    if isinstance(value, str):
        if value.isascii() and len(value) <= TEXT_BYTES_MOST:
            return value
        value = value.encode("utf-8", "surrogatepass")  # JSON may bring half a character
    if len(value) > TEXT_BYTES_MOST:
        digest = hashlib.sha256(value).hexdigest()
        beginning = _decoded(value[:TEXT_BYTES_MOST])[:BEGINNING]
        return f"{beginning}… ({len(value)} bytes, SHA-256 {digest[:16]})"
    return _decoded(value)


def _decoded(value: bytes) -> str:
    text = value.decode("utf-8", "surrogateescape")
    text = _READS_AS_MARKED.sub(_MARK_ITSELF, text)
    return _LONE.sub(lambda lone: f"{MARK}{ord(lone[0]) - 0xDC00:02X}", text)
