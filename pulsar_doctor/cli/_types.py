"""Parses option values: durations, sizes, shares and rates."""

import re
from collections.abc import Callable
from typing import Any

import click

from pulsar_doctor.wording.durations import seconds_of
from pulsar_doctor.wording.sizes import bytes_of

PER_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
DAYS_MOST = 36500  # a hundred years: what clocks and timers can add to now


class Quantity(click.ParamType):  # type: ignore[type-arg]
    """A number that is written with its unit."""

    def __init__(self, name: str, parse: Callable[[str], float | None], examples: str) -> None:
        self.name, self._parse, self._examples = name, parse, examples

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number; wrong usage where the text is none."""
        if isinstance(value, int | float):
            return value
        number = self._parse(str(value).strip())
        if number is None:
            self.fail(f"{value!r} is not a {self.name}; write {self._examples}", param, ctx)
        if self is DURATION and number > DAYS_MOST * 86400:
            self.fail(f"{value!r} is more than {DAYS_MOST}d", param, ctx)
        return number


def _seconds(text: str) -> float | None:
    return 0.0 if text == "0" else seconds_of(text)


def _share(text: str) -> float | None:
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        return None
    return share if 0 <= share <= 1 else None


def _per_second(text: str) -> float | None:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(s|m|h|d))?", text)
    return float(match[1]) / PER_SECONDS[match[2] or ""] or None if match else None


DURATION = Quantity("duration", _seconds, "250ms, 10s, 5m, 2h or 1d")  # in seconds
SIZE = Quantity("size", bytes_of, "512MB, 2GiB or a number of bytes")
SHARE = Quantity("share", _share, "5% or 0.05")  # from 0 to 1
RATE = Quantity("rate", _per_second, "100/s, 30/m or 5/h")  # a second
