"""What --help shows of each subcommand, and what each of them has to have beside its code."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from pulsar_doctor.cli import GROUPS, cli, module_of
from pulsar_doctor.cli._commands import ConnectionOption, DependentOption, Sections, TalkOption
from tests import manpages

PROGRAM = click.Context(cli)


def leaves(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(PROGRAM):
        command = group.get_command(PROGRAM, name)
        if isinstance(command, click.Group):
            yield from leaves(command, *path, name)
        elif command is not None:
            yield " ".join((*path, name)), command


LEAVES = dict(leaves(cli))
GROUPS_OF_COMMANDS = sorted({name.rpartition(" ")[0] for name in LEAVES})  # "": the program


def shown(*arguments: str) -> str:
    ran = CliRunner().invoke(
        cli, [*arguments, "--help"], terminal_width=80, prog_name="pulsar-doctor"
    )
    assert ran.exit_code == 0
    return ran.output


@pytest.mark.parametrize("name", LEAVES)
def test_help_is_a_sentence_examples_and_options_with_the_connection_last(name: str) -> None:
    command = LEAVES[name]
    assert isinstance(command, Sections)
    first, *rest = re.split(r"\n\n(?=\S)", shown(*name.split()))
    sentence = " ".join(first.partition("\n\n")[2].split())
    assert sentence.endswith("."), sentence
    assert len(sentence) <= 120
    examples, *options, more = rest
    title, *lines = examples.splitlines()
    assert title == "Examples:"
    assert len(lines) == 3 if " " not in name else 1 <= len(lines) <= 3
    assert all("pulsar-doctor " in line and len(line) <= 80 for line in lines)
    headings = [each.partition(":\n")[0] for each in options]
    connects = any(isinstance(each, ConnectionOption) for each in command.params)
    last = [*([ConnectionOption.heading] if connects else []), TalkOption.heading]
    assert headings[-len(last) :] == last
    assert not connects or len(options[-2].splitlines()) <= 12
    assert "-v --help" in more
    assert re.search(r"\w-$", shown(*name.split()), re.M) is None, "a name is broken"


@pytest.mark.parametrize("name", LEAVES)
def test_options_that_are_many_stand_under_headings(name: str) -> None:
    command = LEAVES[name]
    own = [p for p in command.params if type(p) in (click.Option, DependentOption) and not p.hidden]
    assert isinstance(command, Sections)
    known = {each for names in command.sections.values() for each in names}
    assert known <= {p.name for p in own}, "a heading names an option that is not there"
    if len(own) > 12:
        assert {p.name for p in own} == known


@pytest.mark.parametrize("name", [*GROUPS_OF_COMMANDS, *LEAVES])
def test_help_fits_a_terminal_of_80_columns(name: str) -> None:
    assert [line for line in shown(*name.split()).splitlines() if len(line) > 80] == []
    whole = shown(*name.split(), "-v") if name in LEAVES else ""
    wide = [line for line in whole.splitlines() if len(line) > 80]
    assert [line for line in wide if "pulsar-" not in line and "pulsar_" not in line] == []


def test_verbose_help_says_everything() -> None:
    short, whole = shown("holes"), shown("holes", "-v")
    assert "Exit codes:" in whole
    assert "Exit codes:" not in short
    assert "Everything up to mark-delete is acknowledged." in whole


@pytest.mark.parametrize("name", cli.list_commands(PROGRAM))
def test_each_subcommand_has_a_group_and_a_manual_page(name: str) -> None:
    assert module_of(name).GROUP in GROUPS
    page = manpages.FOLDER / "man1" / f"pulsar-doctor-{name}.1"
    headings = re.findall(r"^\.SH (.+)$", page.read_text("utf-8"), re.M)
    wanted = {"NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT"}
    if name in ("known-issues", "sandbox", "trace", "context"):  # options are those of its commands
        wanted = wanted - {"OPTIONS"} | {"COMMANDS"}
    # These read and write nothing.
    if name not in ("completion", "demo", "explain", "mcp", "monitoring", "schema"):
        wanted |= {"FILES"}
    assert wanted <= set(headings)


@pytest.mark.parametrize("name", ["demo", "sandbox start"])
def test_who_starts_a_pulsar_of_its_own_takes_no_address(name: str) -> None:
    found = [each.opts[0] for each in LEAVES[name].params if isinstance(each, ConnectionOption)]
    assert found == ["--pulsar-home"]


@pytest.mark.parametrize("name", ["known-issues", "context", "sandbox", "trace"])
def test_a_group_heads_its_examples(name: str) -> None:
    assert "\n  Examples:\n    pulsar-doctor " in shown(name)
