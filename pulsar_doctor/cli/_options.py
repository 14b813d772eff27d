"""Options that many subcommands share, accepted before and after the subcommand."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import field, fields
from functools import partial, wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from pulsar_doctor import installed
from pulsar_doctor.cli import _completing
from pulsar_doctor.cli._commands import ConnectionOption, DependentOption, TalkOption
from pulsar_doctor.cli._types import DURATION, SIZE

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    # The same option is at the program and at its subcommand; the one nearer to the end wins.
    if value is not None and param.name is not None:
        ctx.find_root().ensure_object(dict)[param.name] = value


def _count(ctx: click.Context, param: click.Parameter, value: int) -> None:
    counted = ctx.find_root().ensure_object(dict)
    counted[param.name] = counted.get(param.name, 0) + value


def _no_color(ctx: click.Context, param: click.Parameter, value: bool | None) -> None:
    if value:
        os.environ["NO_COLOR"] = "1"  # what rich and all that we start look at


def _option(*names: str, help: str, **more: Any) -> Callable[[F], F]:
    return click.option(
        *names, cls=ConnectionOption, expose_value=False, callback=_remember, help=help, **more
    )


OFFERED = {
    name: _option(name, **how) for name, how in installed.offered("offers", "CONNECTION").items()
}
CONNECTION = (
    _option("--service-url", metavar="URL", help="Broker, default pulsar://localhost:6650."),
    _option("--admin-url", metavar="URL", help="REST API, default http://localhost:8080."),
    _option(
        "--context",
        metavar="NAME",
        shell_complete=_completing.contexts,
        help="A named cluster; `context list` shows them.",
    ),
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
    _option("--no-proxy", is_flag=True, default=None, help="Without HTTPS_PROXY."),
    *OFFERED.values(),
)
_talk = partial(click.option, cls=TalkOption, expose_value=False)
TALK = (
    _talk(
        "-v", "--verbose", count=True, is_eager=True, callback=_count,
        help="Print more; -vv: also each request, and where each setting comes from (on stderr).",
    ),
    _talk(
        "-q", "--quiet", is_flag=True, default=None, callback=_remember, help="Print less on "
            "stderr."
    ),
    _talk(
        "--no-color", is_flag=True, default=None, callback=_no_color,
        help="No colours; NO_COLOR in the environment does the same.",
    ),
)  # fmt: skip


def together(*options: Callable[[F], F]) -> Callable[[F], F]:
    """Several options as one decorator, in the order in which --help shows them."""

    def add(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def option(*names: str, **more: Any) -> Any:
    """A field of a request that is an option of click's; the parameter is named as the field.

    needs: fields without which it would change nothing; one of them has to be given, too.
    """
    return field(metadata={"adds": [partial(click.option, *names, **_as_dependent(more))]})


def _as_dependent(more: dict[str, Any]) -> dict[str, Any]:
    return {"cls": DependentOption} | more if "needs" in more else more


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


check_options = together(  # those of parts; `given` in _calls has their values
    *(
        click.option(
            name, expose_value=False, callback=_remember, **_as_dependent({**needs, **how})
        )
        for table, needs in (("VERDICT", {}), ("WATCH", {"needs": ("watch",)}))
        for name, how in installed.offered("offers", table).items()
    )
)
connection_options = together(*CONNECTION, *TALK)
talk_options = together(*TALK)  # for subcommands that connect to nothing
# For those that start a Pulsar of their own, and connect to no other.
local_options = together(*(OFFERED[name] for name in OFFERED if name == "--pulsar-home"), *TALK)


def output_option(*formats: str) -> Any:
    """-o/--output with these formats; the first is the default."""
    return option(
        "-o", "--output", type=click.Choice(formats), default=formats[0], show_default=True,
        help="Format of the output.",
    )  # fmt: skip


# Fields that several requests have.
topics_argument = partial(
    argument, metavar="[TOPIC]...", nargs=-1, shell_complete=_completing.topics
)
only_subscription_option = partial(
    option, "-s", "--subscription", metavar="SUB", help="Only this subscription."
)
window_option = partial(option, "--window", type=DURATION, show_default=True)
interval_option = partial(
    option, "--interval", type=DURATION, default="1s", show_default=True,
    help="Time between two samples.",
)  # fmt: skip
redact_option = partial(
    option, "--redact", is_flag=True,
    help="Replace addresses and the names of topics, subscriptions, consumers and producers by "
        "pseudonyms that nobody can reverse; numbers stay.",
)  # fmt: skip
set_option = partial(
    option, "--set", metavar="RULE.THRESHOLD=VALUE", multiple=True,
    shell_complete=_completing.thresholds,
    help="Change a threshold, e.g. permits-exhausted.refill_wait=2m; `explain -v` lists them.",
)  # fmt: skip
trace_option = partial(
    option, "--trace", metavar="DIR", type=click.Path(path_type=Path),
    help="Keep the trace in this folder.",
)  # fmt: skip
proven_only_option = partial(
    option, "--proven-only", is_flag=True,
    help="Leave out what a capture read as only likely: commands that a payload could look like.",
)  # fmt: skip
broker_version_option = partial(
    option, "--broker-version", metavar="VERSION",
    help="The broker's version, for known issues, if no file of --save reports it.",
)  # fmt: skip
fail_on_option = partial(
    option, "--fail-on", type=click.Choice(["stalled", "suspect", "warning", "never"]),
    default="stalled", show_default=True,
    help="Exit with 1 from this verdict on; suspect: also if a stall is likely but not certain.",
)  # fmt: skip
accept_unknown_option = partial(
    option, "--accept-unknown", type=click.Choice(["all", "readers"]),
    help="Exit with 0 instead of 3 for verdicts that are unknown. all: each, and if there is none; "
        "readers: only of readers (non-durable subscriptions) that rest while messages wait, and "
        "for no other reason. What could not be read still gives 3.",
)  # fmt: skip
ring_option = partial(
    option, "--ring", metavar="DURATION", type=DURATION,
    help="Keep only the newest part of the trace, of this length; a copy is kept for each stall "
        "and each SIGUSR2.",
)  # fmt: skip
max_bytes_option = partial(
    option, "--max-bytes", metavar="SIZE", type=SIZE,
    help="Never use more disk than this, e.g. 512MB or 2GiB; the oldest part is deleted.",
)  # fmt: skip
