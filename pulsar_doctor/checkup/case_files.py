"""Reads a case from a file: its JSON, a page that carries it, or a bundle."""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from base64 import b64decode, b64encode

from pulsar_doctor.broker.bodies import TooMany, require_few
from pulsar_doctor.broker.samples.bundled import CASE
from pulsar_doctor.broker.samples.files import called, opened
from pulsar_doctor.broker.stats.fields import document_of as read_json
from pulsar_doctor.checkup.case import SavedCase, case_from, document_of
from pulsar_doctor.errors import InputError

CASE_BYTES = 128 << 20  # unpacked
IN_PAGE = re.compile(
    rb'<script\b[^>]{0,200}\bid="?pulsar-doctor-case"?[^>]{0,200}>(.*?)</script>', re.S | re.I
)


def read_case(name: str) -> SavedCase:
    """The case in a file of JSON, in an incident page or in a bundle; `-` is standard input.

    Raises InputError where there is none.
    """
    what = called(name)
    with opened(name, CASE) as stream:
        content = stream.read(CASE_BYTES + 1)
    if content.lstrip()[:1] == b"<":
        content = _in_page(content, what)
    return case_of_json(content, what)


def case_of_json(content: bytes, what: str) -> SavedCase:
    """The case that this JSON is. what: names it in errors. Raises InputError."""
    if len(content) > CASE_BYTES:
        raise InputError(f"{what} is longer than any case: more than {CASE_BYTES >> 20} MiB")
    try:
        require_few(content)
    except TooMany:
        raise InputError(f"{what} holds more values than any case has") from None
    return case_from(read_json(content, what), what)


def for_page(case: SavedCase) -> str:
    """A case as a page carries it: gzip in Base64, so that no text in it is part of the HTML."""
    content = json.dumps(document_of(case), separators=(",", ":"), allow_nan=False)
    return b64encode(gzip.compress(content.encode(), mtime=0)).decode()


def _in_page(page: bytes, what: str) -> bytes:
    found = IN_PAGE.search(page)
    if found is None:
        raise InputError(f"{what} is a page without a case; `report` writes one into it")
    try:
        packed = io.BytesIO(b64decode(found[1]))
        with gzip.GzipFile(fileobj=packed) as unpacked:
            return unpacked.read(CASE_BYTES + 1)
    except (ValueError, OSError, EOFError, zlib.error):
        raise InputError(f"{what} has a damaged case") from None
