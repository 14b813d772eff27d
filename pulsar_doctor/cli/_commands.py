"""Formats --help with headings, and suggests a name for a mistyped subcommand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click
from click.core import ParameterSource

from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.spelling import near

OPTIONS = "Options"
HYPHEN = re.compile(r"(?<=\w)-(?=\w)")
UNBROKEN = "\N{NON-BREAKING HYPHEN}"
EXAMPLES_MOST = 3
WHOLE = "`{} -v --help` and the manual page have all details and the exit codes."


class HelpText(click.HelpFormatter):
    """Breaks no line of --help at a hyphen: names of commands and options stay whole."""

    def write_text(self, text: str) -> None:
        """A paragraph."""
        super().write_text(HYPHEN.sub(UNBROKEN, text))

    def write_dl(self, rows: Iterable[tuple[str, str]], *args: Any, **options: Any) -> None:
        """Options, or subcommands, and what they are."""
        super().write_dl(
            [(name, HYPHEN.sub(UNBROKEN, text)) for name, text in rows], *args, **options
        )

    def write(self, string: str) -> None:
        """What has been broken into lines."""
        super().write(string.replace(UNBROKEN, "-"))


class HelpContext(click.Context):
    """Where --help is written."""

    formatter_class = HelpText


class ConnectionOption(click.Option):
    """Where a broker is: among the last options of --help."""

    heading = "Connection (or in the environment, such as PULSAR_DOCTOR_ADMIN_URL)"


class TalkOption(click.Option):
    """How much is printed: the last options of --help."""

    heading = "Verbosity"


class DependentOption(click.Option):
    """An option that changes nothing unless one of others is given, too.

    needs: the names of these parameters.
    """

    def __init__(self, *names: Any, needs: tuple[str, ...], **more: Any) -> None:
        super().__init__(*names, **more)
        self.needs = needs


class Sections(click.Command):
    """A command with a --help of one sentence, a few examples, and its options under headings.

    With --verbose before it, --help prints the whole description.
    """

    context_class = HelpContext
    # heading -> names of parameters; what is in none comes next, then the connection
    sections: Mapping[str, tuple[str, ...]] = {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Click's own step from words to values. Raises UsageError for what would be ignored."""
        rest = super().parse_args(ctx, args)
        params = self.get_params(ctx)
        dependent = (each for each in params if isinstance(each, DependentOption))
        for each in () if ctx.resilient_parsing else dependent:
            if typed(each.name, ctx) and not any(typed(name, ctx) for name in each.needs):
                raise click.UsageError(_lonely(each, params), ctx)
        return rest

    def format_help_text(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The first sentence and examples, or everything."""
        if _is_verbose(ctx):
            super().format_help_text(ctx, formatter)
            return
        first, *_ = (self.help or "").strip().split("\n\n")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(" ".join(first.split()))
        with formatter.section("Examples"):
            for line in list(self.examples())[:EXAMPLES_MOST]:
                formatter.write(f"{'':{formatter.current_indent}}{line}\n")

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Where the whole help is; or, where it is, the command's own end."""
        if _is_verbose(ctx):
            super().format_epilog(ctx, formatter)
            return
        formatter.write_paragraph()
        formatter.write_text(WHOLE.format(ctx.command_path))

    def examples(self) -> Iterator[str]:
        """The command lines of the description and of its end."""
        for paragraph in f"{self.help or ''}\n\n{self.epilog or ''}".split("\n\n"):
            mark, *lines = [line.strip() for line in paragraph.strip().splitlines()] or [""]
            if mark == "\b":
                yield from (line for line in lines if "pulsar-doctor " in line)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the options, a list for each heading."""
        write_options(ctx, formatter, self.sections)


def typed(name: str | None, ctx: click.Context | None = None) -> bool:
    """Whether the user gave a parameter of this call, so that it is not its default."""
    source = (ctx or click.get_current_context()).get_parameter_source(name or "")
    return source is not None and source is not ParameterSource.DEFAULT


def first_typed(*names: str) -> str | None:
    """The first of these parameters that the user gave, as its option; None where none was."""
    ctx = click.get_current_context()
    options = _options_of(ctx.command.get_params(ctx))
    return next((options[name] for name in names if typed(name)), None)


def _options_of(params: Iterable[click.Parameter]) -> dict[str | None, str]:
    return {each.name: max(each.opts, key=len) for each in params}


def _lonely(param: DependentOption, params: Iterable[click.Parameter]) -> str:
    named = _options_of(params)
    others = listed([named[name] for name in param.needs], len(named), " or ")
    return f"{named[param.name]} needs {others}; add {'it' if len(param.needs) == 1 else 'one'}"


def write_options(
    ctx: click.Context, formatter: click.HelpFormatter, sections: Mapping[str, tuple[str, ...]]
) -> None:
    """The options of a command: a list for each heading, the connection and messages last."""
    last = (OPTIONS, ConnectionOption.heading, TalkOption.heading)
    heading_of = {name: title for title, names in sections.items() for name in names}
    found: dict[str, list[tuple[str, str]]] = {title: [] for title in (*sections, *last)}
    for param in ctx.command.get_params(ctx):
        record = param.get_help_record(ctx)
        if record is not None and isinstance(param, click.Option):
            other = TalkOption.heading if "--help" in param.opts else OPTIONS
            title = heading_of.get(param.name or "", getattr(param, "heading", other))
            found[title].append(record)
    for title, records in found.items():
        if records:
            with formatter.section(title):
                formatter.write_dl(records)


def _is_verbose(ctx: click.Context) -> bool:
    return bool(ctx.find_root().ensure_object(dict).get("verbose"))


class Suggesting(click.Group):
    """A group that knows what somebody may have meant who mistypes one of its subcommands."""

    context_class = HelpContext
    command_class = Sections

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Click's own step from the first argument to a command."""
        name = args[0]
        known = ctx.resilient_parsing or not name[:1].isalnum()  # as while Tab is pressed
        if not known and self.get_command(ctx, name) is None:
            ctx.fail(f"there is no subcommand {name}; {near(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


def sectioned(sections: Mapping[str, tuple[str, ...]]) -> type[Sections]:
    """A class of command with these headings."""
    return type("Sections", (Sections,), {"sections": sections})
