"""Commands that show their options under headings, and groups that know mistyped names."""

from __future__ import annotations

from collections.abc import Mapping

import click

from pulsar_doctor.wording.spelling import near


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
        known = ctx.resilient_parsing or not name[:1].isalnum()  # as while Tab is pressed
        if not known and self.get_command(ctx, name) is None:
            ctx.fail(f"there is no subcommand {name}; {near(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)


def sectioned(sections: Mapping[str, tuple[str, ...]]) -> type[Sections]:
    """A class of command with these headings."""
    return type("Sections", (Sections,), {"sections": sections})
