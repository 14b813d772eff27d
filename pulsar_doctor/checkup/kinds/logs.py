"""Logs of clients (Java, C++ and Python, Go) and of brokers."""

from __future__ import annotations

import re

from pulsar_doctor.checkup.kinds import Brought
from pulsar_doctor.diagnosis.known.log_lines import known_lines
from pulsar_doctor.wording.printable import many

WHAT = "logs of clients and brokers"
LINE = re.compile(
    r"\b(?:TRACE|DEBUG|INFO|WARN|ERROR)[\]:]{0,1}\s{1,3}"
    r"(?:org\.apache\.pulsar\.|o\.a\.p\.|\[[0-9]{1,20}\] \w{1,60}:[0-9]{1,6} \|)"
    r"|\blevel=(?:debug|info|warning|error) msg=\""
)


def is_mine(text: str) -> bool:
    """Whether it has a line as one of Pulsar's programs logs it."""
    return LINE.search(text) is not None


def read(text: str, name: str) -> Brought:
    """The known lines in it."""
    known = known_lines(text)
    lines = many(sum(each.count for each in known), "known line")
    return Brought(name, f"a log of {many(text.count(chr(10)) or 1, 'line')}, {lines}", known=known)
