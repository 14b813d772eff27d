"""Reads a case from a file: its JSON, a page that carries it, or a bundle."""

from __future__ import annotations

import re

from pulsar_doctor.broker.bodies import TooMany, require_few
from pulsar_doctor.broker.samples.bundled import CASE
from pulsar_doctor.broker.samples.files import called, opened
from pulsar_doctor.broker.stats.fields import document_of
from pulsar_doctor.checkup.case import SavedCase, case_from
from pulsar_doctor.errors import InputError

CASE_BYTES = 128 << 20  # unpacked
IN_PAGE = re.compile(
    rb'<script\b[^>]{0,200}\bid="?pulsar-doctor-case"?[^>]{0,200}>(.*?)</script>', re.S | re.I
)


def read_case(name: str) -> SavedCase:
    """The case in a file of JSON, in an incident page or in a bundle; `-` is standard input.

    Raises InputError where there is none.
    """
    with opened(name, CASE) as stream:
        content = stream.read(CASE_BYTES + 1)
    if len(content) > CASE_BYTES:
        raise InputError(
            f"{called(name)} is longer than any case: more than {CASE_BYTES >> 20} MiB"
        )
    if content.lstrip()[:1] == b"<":
        content = _in_page(content, name)
    return case_of_json(content, called(name))


def case_of_json(content: bytes, what: str) -> SavedCase:
    """The case that this JSON is. what: names it in errors. Raises InputError."""
    try:
        require_few(content)
    except TooMany:
        raise InputError(f"{what} holds more values than any case has") from None
    return case_from(document_of(content, what), what)


def _in_page(page: bytes, name: str) -> bytes:
    found = IN_PAGE.search(page)
    if found is None:
        raise InputError(f"{called(name)} is a page without a case; `report` writes one into it")
    return found[1]
