"""Reads lines that are meant for a shell: with a shell, and as the program that they call would."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from pulsar_doctor.cli import cli
from tests.support import yaml_files

ADMIN: dict[str, dict[str, Any]] = yaml_files.read(Path(__file__).with_name("pulsar_admin.yaml"))


def words(lines: Sequence[str]) -> list[list[str]]:
    """The words of each line, as bash hands them to the program; what is behind a # is gone."""
    script = "say() { printf '%s\\0' \"$@\" $'\\001'; }\n"
    script += "".join(f"say {line}\n" for line in lines)
    ran = subprocess.run(
        ["bash"], input=script.encode("utf-8", "surrogatepass"), capture_output=True, check=True
    )
    assert ran.stderr == b""
    told = ran.stdout.decode("utf-8", "surrogatepass").split("\0")[:-1]
    found: list[list[str]] = [[]]
    for word in told:
        if word == "\1":
            found.append([])
        else:
            found[-1].append(word)
    return found[:-1]


def plain_words(line: str) -> list[str]:
    """Of a line whose names are all visible, without a shell."""
    return shlex.split(line, comments=True)


def assert_taken(line: Sequence[str]) -> None:
    """Whether its program would take these words."""
    program, *arguments = line
    PROGRAMS[program](arguments)


def _our_own(arguments: list[str]) -> None:
    name, *rest = arguments
    command = cli.get_command(click.Context(cli), name)
    assert command is not None, name
    with command.make_context(name, rest) as context:
        assert context.args == []


def _admin(arguments: list[str]) -> None:
    """As pulsar-admin takes it: options with their values, and so many names."""
    takes = ADMIN[" ".join(arguments[:2])]
    rest, names = arguments[2:], 0
    while rest:
        word = rest.pop(0)
        if word in takes.get("options", ()):
            assert rest, f"{word} has a value"
            value = rest.pop(0)
            assert not value.startswith("-") or value[1:].isdecimal(), "taken for an option"
        elif word not in takes.get("flags", ()):
            assert not word.startswith("-"), word
            names += 1
    assert names == takes["names"]


def _sockets(arguments: list[str]) -> None:
    """`ss -tnp 'sport = :51494'`."""
    flags, which = arguments
    assert flags == "-tnp"
    assert which.removeprefix("sport = :").isdecimal()


PROGRAMS = {"pulsar-doctor": _our_own, "pulsar-admin": _admin, "ss": _sockets}
