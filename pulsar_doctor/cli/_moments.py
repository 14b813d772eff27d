"""Options that take a time: --since, --until and --at."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import Any

import click

from pulsar_doctor.cli._options import option
from pulsar_doctor.cli._types import DURATION


class When(click.ParamType):  # type: ignore[type-arg]
    """A moment: ISO 8601, UTC where no zone is given, or a duration back from the trace's end."""

    name = "time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime | float:
        """The moment, or the seconds before the end."""
        try:
            moment = datetime.fromisoformat(str(value))
        except ValueError:
            pass
        else:
            return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        try:
            return DURATION.convert(value, param, ctx)
        except click.BadParameter:
            example = "write 2026-08-01T12:00:00Z, or 30s for the last 30 seconds"
            self.fail(f"{value!r} is not a time; {example}", param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """What the help shows."""
        return "TIME"


# Which rows: fields of requests.
topic_option = partial(option, "--topic", help="Only this topic; its last part is enough.")
subscription_option = partial(option, "--subscription", help="Only this subscription.")
since_option = partial(option, "--since", "--from", type=When(), help="Only from this time on.")
until_option = partial(option, "--until", type=When(), help="Only up to this time.")
