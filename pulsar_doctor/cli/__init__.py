"""The command line. Subcommands are found by their presence: files or folders here, and parts."""

from __future__ import annotations

import importlib
import os
import pkgutil
from functools import cache
from typing import Any

import click

from pulsar_doctor import HOME_PAGE, __version__, installed
from pulsar_doctor.cli import _completing
from pulsar_doctor.cli._commands import Suggesting, write_options
from pulsar_doctor.cli._options import connection_options
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.wording.gate import complain, stderr

EPILOG = (
    "Exit codes: 0 nothing stalled, 1 a stall was found, 2 wrong usage or unreadable input, "
    "3 could not be examined, 130 interrupted. COLUMNS in the environment is the width of what is "
    "printed; without it a pipe has 100 columns."
)
NOBODY_READS = 141  # what a shell says of a program that SIGPIPE has ended
FIRST = "stall-check"  # in --help, of its group
# What a subcommand names as its GROUP, and the heading above those of one group in --help.
GROUPS = {
    "diagnose": "Diagnose",
    "watch": "Watch the wire",
    "experiment": "Experiment",
    "analyse": "Analyse with Spark",
    "local": "Pulsar on this machine",
    "setup": "Settings",
}


class Subcommands(Suggesting):
    """Finds the subcommands by their files and folders, and imports one when it is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Names as the user types them, in alphabetical order."""
        names = [*_own(), *installed.having("command")]
        return sorted(name.replace("_", "-") for name in names)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The click command of that module, or None where there is no such module."""
        if cmd_name not in self.list_commands(ctx):
            return None
        command = module_of(cmd_name).command
        assert isinstance(command, click.Command)
        return command

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The subcommands first, then the options that all of them share."""
        self.format_commands(ctx, formatter)
        write_options(ctx, formatter, {})

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The subcommands below the headings of their groups."""
        names = sorted(self.list_commands(ctx), key=lambda name: name != FIRST)
        width = max(map(len, names))
        for group, heading in GROUPS.items():
            rows = [
                (name.ljust(width), self._in_short(ctx, name, formatter.width - width - 6))
                for name in names
                if group == module_of(name).GROUP
            ]
            if rows:  # all of a group may be parts that are not installed
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def _in_short(self, ctx: click.Context, name: str, limit: int) -> str:
        command = self.get_command(ctx, name)
        assert command is not None
        return command.get_short_help_str(limit)


@cache
def _own() -> list[str]:
    found = (module.name for module in pkgutil.iter_modules(__path__))
    return [name for name in found if not name.startswith("_")]


def module_of(subcommand: str) -> Any:
    """The module of a subcommand, as the user types it: of the core or of a part."""
    name = subcommand.replace("-", "_")
    if name in _own():
        return importlib.import_module(f"{__name__}.{name}")
    return installed.load(name, "command")


@click.command(
    cls=Subcommands, epilog=EPILOG, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="pulsar-doctor")
@connection_options
def cli() -> None:
    """Explains why an Apache Pulsar consumer is stuck, and what to do about it.

    \b
    A consumer is stuck:      pulsar-doctor stall-check TOPIC
    Somebody sent you a file: pulsar-doctor stall-check --stats FILE
    A running process:        pulsar-doctor examine PID --attach
    A client to be started:   pulsar-doctor tap --listen 127.0.0.1:6651
    Watch permits at work:    pulsar-doctor consume --zero-queue
    See a stall and its cure: pulsar-doctor demo
    """


def _show(error: click.ClickException) -> None:
    """What is wrong, in one sentence, and where to look it up; a group alone shows its help."""
    what = " ".join(error.format_message().split()).rstrip(".")
    what = what.replace("a valid integer range", "a whole number")  # in click's own words
    context = error.ctx if isinstance(error, click.UsageError) else None
    if what.startswith("Usage:"):
        error.show(stderr())
        return
    if what[1:2].islower():
        what = what[0].lower() + what[1:]
    path = context.command_path if context else "pulsar-doctor"
    complain(f"{what}{' See' if what.endswith('?') else '; see'} `{path} --help`")


def run(arguments: list[str] | None = None) -> int:
    """Runs one command line; returns its exit code, and says an error in one sentence on stderr."""
    try:
        if instruction := os.environ.get(_completing.VARIABLE):
            return _completing.answer(cli, instruction)
        result: Any = cli.main(args=arguments, prog_name="pulsar-doctor", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.ClickException as error:
        _show(error)
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    except DoctorError as error:
        complain(str(error))
        return error.exit_code
    except SystemExit:  # nobody reads stdout any more: click ends with 1, which is a stall here
        return NOBODY_READS
    except OSError as error:  # such as a full disk below what is written
        complain(f"cannot read or write: {error.strerror or error}")
        return DoctorError.exit_code
    except Exception as error:  # a mistake of ours must not pass for "a stall was found"
        if missing := installed.missing_part(error):
            complain(f"the part {missing} of pulsar-doctor is not installed here")
            return DoctorError.exit_code
        if os.environ.get("PULSAR_DOCTOR_TRACEBACK"):
            raise
        where = f" at {HOME_PAGE}" if HOME_PAGE else ""
        complain(
            f"a mistake in pulsar-doctor itself: {type(error).__name__}: {error}; "
            f"please report it{where} with what PULSAR_DOCTOR_TRACEBACK=1 prints"
        )
        return DoctorError.exit_code
