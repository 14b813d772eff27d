"""Parses option values: durations, sizes, shares and rates."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import click

from pulsar_doctor.wording.durations import seconds_of
from pulsar_doctor.wording.sizes import bytes_of

if TYPE_CHECKING:
    SecondsType = click.ParamType[float]  # generic since click 8.3, to the type checker only
    BytesType = click.ParamType[int]
else:
    SecondsType = BytesType = click.ParamType

PER_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
DAYS_MOST = 36500  # a hundred years: what clocks and timers can add to now


class Duration(SecondsType):
    """A length of time, written 250ms, 10s, 5m, 2h or 1d; a value in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds; wrong usage where the text is not a duration."""
        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip()
        seconds = 0.0 if text == "0" else seconds_of(text)
        if seconds is None:
            self.fail(f"{value!r} is not a duration; write 250ms, 10s, 5m, 2h or 1d", param, ctx)
        if seconds > DAYS_MOST * 86400:
            self.fail(f"{value!r} is more than {DAYS_MOST}d", param, ctx)
        return seconds


class Size(BytesType):
    """An amount of bytes, written 65536, 512MB or 2GiB; a value in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes; wrong usage where the text is not a size."""
        count = value if isinstance(value, int) else bytes_of(str(value))
        if count is None:
            self.fail(
                f"{value!r} is not a size; write 512MB, 2GiB or a number of bytes", param, ctx
            )
        return count


class Share(SecondsType):
    """A part of a whole, written 5% or 0.05; a value from 0 to 1."""

    name = "share"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """From 0 to 1; wrong usage where the text is none."""
        text = str(value).strip()
        try:
            share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            share = -1.0
        if not 0 <= share <= 1:
            self.fail(f"{value!r} is not a share; write 5% or 0.05", param, ctx)
        return share


class Rate(SecondsType):
    """Messages in a time, written 100/s, 30/m or 5/h; a value per second."""

    name = "rate"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Per second; wrong usage where the text is not a rate."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(s|m|h|d))?", str(value))
        per_second = float(match[1]) / PER_SECONDS[match[2] or ""] if match else 0.0
        if not per_second:
            self.fail(f"{value!r} is not a rate; write 100/s, 30/m or 5/h", param, ctx)
        return per_second


DURATION = Duration()
SIZE = Size()
SHARE = Share()
RATE = Rate()
