"""The options that many subcommands share, accepted before and after the subcommand."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, fields
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from pulsar_doctor.wording.durations import seconds_of
from pulsar_doctor.wording.gate import warn
from pulsar_doctor.wording.printable import many
from pulsar_doctor.wording.sizes import bytes_of
from pulsar_doctor.wording.spelling import near

if TYPE_CHECKING:
    from pulsar_doctor.broker.settings import Settings
    from pulsar_doctor.diagnosis.cause import Cause
    from pulsar_doctor.diagnosis.weighing import CauseLimits

    SecondsType = click.ParamType[float]  # generic since click 8.3, to the type checker only
    BytesType = click.ParamType[int]
else:
    SecondsType = BytesType = click.ParamType

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


PER_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
DAYS_MOST = 36500  # a hundred years: what clocks and timers can add to now


class Duration(SecondsType):
    """A length of time, written 250ms, 10s, 5m, 2h or 1d; a value in seconds."""

    name = "duration"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds; wrong usage where the text is no duration."""
        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip()
        seconds = 0.0 if text == "0" else seconds_of(text)
        if seconds is None:
            self.fail(f"{value!r} is no duration; write 250ms, 10s, 5m, 2h or 1d", param, ctx)
        if seconds > DAYS_MOST * 86400:
            self.fail(f"{value!r} is more than {DAYS_MOST}d", param, ctx)
        return seconds


class Size(BytesType):
    """An amount of bytes, written 65536, 512MB or 2GiB; a value in bytes."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Bytes; wrong usage where the text is no size."""
        count = value if isinstance(value, int) else bytes_of(str(value))
        if count is None:
            self.fail(f"{value!r} is no size; write 512MB, 2GiB or a number of bytes", param, ctx)
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
            self.fail(f"{value!r} is no share; write 5% or 0.05", param, ctx)
        return share


class Rate(SecondsType):
    """Messages in a time, written 100/s, 30/m or 5/h; a value per second."""

    name = "rate"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Per second; wrong usage where the text is no rate."""
        match = re.fullmatch(r"(\d+(?:\.\d+)?)(?:/(s|m|h|d))?", str(value))
        per_second = float(match[1]) / PER_SECONDS[match[2] or ""] if match else 0.0
        if not per_second:
            self.fail(f"{value!r} is no rate; write 100/s, 30/m or 5/h", param, ctx)
        return per_second


DURATION = Duration()
SIZE = Size()
SHARE = Share()
RATE = Rate()


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    # The same option stands at the program and at its subcommand; the one nearer to the end wins.
    if value is not None and param.name is not None:
        ctx.find_root().ensure_object(dict)[param.name] = value


def _no_color(ctx: click.Context, param: click.Parameter, value: bool | None) -> None:
    if value:
        os.environ["NO_COLOR"] = "1"  # what rich and all that we start look at


def _option(*names: str, help: str, **more: Any) -> Callable[[F], F]:
    variable = "PULSAR_DOCTOR_" + names[0].lstrip("-").replace("-", "_").upper()
    return click.option(
        *names, expose_value=False, callback=_remember, help=f"{help}  [env: {variable}]", **more
    )


CONNECTION = (
    _option("--service-url", metavar="URL", help="Broker, default pulsar://localhost:6650."),
    _option("--admin-url", metavar="URL", help="REST API, default http://localhost:8080."),
    _option(
        "--client-conf",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Pulsar's own client.conf; also PULSAR_CLIENT_CONF.",
    ),
    _option("--auth-plugin", metavar="NAME", help="Authentication, Java class names too."),
    _option("--auth-params", metavar="TEXT", help="Its parameters; better from the environment."),
    _option(
        "--tls-trust-certs",
        metavar="FILE",
        type=click.Path(path_type=Path),
        help="Certificates to trust.",
    ),
    _option("--tls-allow-insecure", is_flag=True, default=None, help="Trust any certificate."),
    _option(
        "--sandbox",
        is_flag=True,
        default=None,
        help="Run against a real Pulsar on this machine, started if need be.",
    ),
    _option(
        "--pulsar-home",
        metavar="DIR",
        type=click.Path(path_type=Path),
        help="A Pulsar distribution that is already there.",
    ),
)
TALK = (
    click.option(
        "-v", "--verbose", is_flag=True, default=None, expose_value=False, callback=_remember,
        help="Say more on stderr.",
    ),
    click.option(
        "-q", "--quiet", is_flag=True, default=None, expose_value=False, callback=_remember,
        help="Say less on stderr.",
    ),
    click.option(
        "--no-color", is_flag=True, default=None, expose_value=False, callback=_no_color,
        help="No colours; NO_COLOR in the environment does the same.",
    ),
)  # fmt: skip


class Sections(click.Command):
    """A command whose --help shows its options under headings, in the order of the command.

    sections: heading -> names of parameters; what is in none stands under the last.
    """

    sections: Mapping[str, tuple[str, ...]] = {}

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, a list for each heading."""
        heading_of = {name: title for title, names in self.sections.items() for name in names}
        *_, last = self.sections
        found: dict[str, list[tuple[str, str]]] = {title: [] for title in self.sections}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is not None and isinstance(param, click.Option):
                title = heading_of.get(param.name or "", last)
                found[title].append(record)
        for title, records in found.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Suggesting(click.Group):
    """A group that knows what somebody may have meant who mistypes one of its subcommands."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Click's own step from the first argument to a command."""
        name = args[0]
        if name[:1].isalnum() and self.get_command(ctx, name) is None:
            ctx.fail(f"there is no subcommand {name}; {near(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


def sectioned(sections: Mapping[str, tuple[str, ...]]) -> type[Sections]:
    """A class of command with these headings."""
    return type("Sections", (Sections,), {"sections": sections})


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order in which --help shows them."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def option(*names: str, **more: Any) -> Any:
    """A field of a request that is an option of click's; the parameter is named as the field."""
    return field(metadata={"adds": [partial(click.option, *names, **more)]})


def argument(**more: Any) -> Any:
    """A field of a request that is an argument of click's."""
    return field(metadata={"adds": [partial(click.argument, **more)]})


def part(kind: type[Any], *options: Callable[[F], F]) -> Any:
    """A field of a request that is passed on whole; its options have the names of its fields."""
    return field(metadata={"adds": [partial(_as_is, each) for each in options], "part": kind})


def _as_is(option: Callable[[F], F], _: str) -> Callable[[F], F]:
    return option


def taking(request: type[Any]) -> Callable[[Callable[[Any], T]], Callable[..., T]]:
    """Adds the options of a request's fields, and passes what is typed as the one value.

    request: a dataclass; options that are added otherwise fill the fields of their names.
    """
    parts = {f.name: f.metadata["part"] for f in fields(request) if "part" in f.metadata}

    def taken(command: Callable[[Any], T]) -> Callable[..., T]:
        @wraps(command)
        def called(**values: Any) -> T:
            for name, kind in parts.items():
                own = [each.name for each in fields(kind) if each.name in values]
                values[name] = kind(**{each: values.pop(each) for each in own})
            return command(request(**values))

        return adding(**{each.name: each for each in fields(request)})(called)

    return taken


def adding(**request_fields: Any) -> Callable[[F], F]:
    """Adds the options of fields; for a function that takes few, each of them alone."""

    def added(command: F) -> F:
        for name, each in reversed(request_fields.items()):
            for add in reversed(each.metadata.get("adds", ())):
                command = add(name)(command)
        return command

    return added


connection_options = together(*CONNECTION, *TALK)
talk_options = together(*TALK)  # for subcommands that connect to nothing


def settings() -> Settings:
    """The settings of this call: options, environment, client.conf, defaults."""
    from pulsar_doctor.broker.settings import load

    return load(click.get_current_context().find_root().ensure_object(dict), os.environ)


@contextmanager
def connected(where: Settings | None = None) -> Iterator[Settings]:
    """The settings of this call, or these; with --sandbox a real broker runs meanwhile."""
    where = where or settings()
    if not where.sandbox:
        yield where
        return
    from pulsar_doctor.sandbox import lifetime

    with lifetime.connected(where, say) as there:
        yield there


def checks(changes: Sequence[str] = ()) -> tuple[Sequence[Cause], CauseLimits]:
    """All causes and their thresholds, with the changes of --set. InputError for a wrong one."""
    from pulsar_doctor.diagnosis.causes import load
    from pulsar_doctor.diagnosis.limits import limits_of

    causes = load()
    return causes, limits_of(causes, changes)


def end_as_with_ctrl_c() -> None:
    """So that what has to be done at the end is done where we are told to end, too."""

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # not under nohup
            signal.signal(number, interrupt)


def told(name: str) -> bool:
    """Whether one of --verbose and --quiet was given."""
    return bool(click.get_current_context().find_root().ensure_object(dict).get(name))


def say(text: str) -> None:
    """Talk, on stderr; nothing under --quiet."""
    if not told("quiet"):
        warn(text)


def say_more(text: str) -> None:
    """Talk that only --verbose wants to hear."""
    if told("verbose"):
        say(text)


def accepted(unknown: int, *, accept: bool) -> None:
    """Says that verdicts that are unknown count as healthy, where that was asked for."""
    if accept and unknown:
        warn(f"{many(unknown, 'verdict')} unknown: accepted (--accept-unknown)")


def output_option(*formats: str) -> Any:
    """-o/--output with these formats; the first is the default."""
    return option(
        "-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True,
        help="What stdout carries.",
    )  # fmt: skip


def _json_version(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is not None:
        os.environ["PULSAR_DOCTOR_JSON_VERSION"] = value  # what the report looks at


json_version_option = click.option(
    "--json-version", type=click.Choice(["2", "3"]), expose_value=False, callback=_json_version,
    envvar="PULSAR_DOCTOR_JSON_VERSION", show_envvar=True,
    help="Names in JSON: 3, or 2 as before 0.2.0; goes with 0.3.0.",
)  # fmt: skip


# Fields that several requests have.
set_option = partial(
    option, "--set", metavar="RULE.THRESHOLD=VALUE", multiple=True,
    help="Change a threshold, e.g. permits-exhausted.refill_wait=2m; `explain` lists them.",
)  # fmt: skip
trace_option = partial(
    option, "--trace", metavar="DIR", type=click.Path(path_type=Path),
    help="Keep the trace in this folder.",
)  # fmt: skip
proven_only_option = partial(
    option, "--proven-only", is_flag=True,
    help="Of packets, leave out what is only likely: commands that a payload could look like.",
)  # fmt: skip
fail_on_option = partial(
    option, "--fail-on", type=click.Choice(["stalled", "suspect", "warning", "never"]),
    default="stalled", show_default=True,
    help="From which verdict on the exit code is 1; suspect: also where a stall is likely, and "
    "nothing decides it.",
)  # fmt: skip
accept_unknown_option = partial(
    option, "--accept-unknown", is_flag=True,
    help="Let the exit code be 0 where it would be 3 for a verdict that is unknown, or for "
    "none at all; what could not be read still makes it 3.",
)  # fmt: skip
ring_option = partial(
    option, "--ring", metavar="DURATION", type=DURATION,
    help="Keep the newest part of the trace only, so long; a copy of it is kept for "
    "each stall and each SIGUSR2.",
)  # fmt: skip
max_bytes_option = partial(
    option, "--max-bytes", metavar="SIZE", type=SIZE,
    help="Never take more than this of the disk, e.g. 512MB or 2GiB; the oldest goes.",
)  # fmt: skip
