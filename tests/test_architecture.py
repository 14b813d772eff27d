"""What should hold for ever: style, types, the direction of imports, an instant --help."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import click
import pytest

from pulsar_doctor.cli import cli

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
HEAVY = ("rich", "pulsar", "_pulsar", "pyarrow", "httpx", "pyspark", "google.protobuf")
HELP = f"""
import sys
from pulsar_doctor.cli import run
code = run(sys.argv[1:])
loaded = [name for name in {HEAVY!r} if name in sys.modules]
print(*loaded, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(
    "tool",
    [
        ("ruff", "check", "--no-fix", "."),
        ("ruff", "format", "--check", "."),
        ("mypy",),
        ("lint-imports", "--no-logo"),
    ],
    ids=" ".join,
)
def test_the_tree_is_clean(tool: tuple[str, ...]) -> None:
    ran = subprocess.run(
        [BIN / tool[0], *tool[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def subcommands(group: click.Group, *path: str) -> list[tuple[str, ...]]:
    context = click.Context(group)
    found = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        found.append((*path, name))
        if isinstance(command, click.Group):
            found += subcommands(command, *path, name)
    return found


@pytest.mark.parametrize("command", [(), *subcommands(cli)], ids=" ".join)
def test_help_is_there_and_imports_nothing_heavy(command: tuple[str, ...]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", HELP, *command, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.strip() == "", f"--help imports {ran.stderr.strip()}"
    assert ran.stdout.startswith(f"Usage: pulsar-doctor {' '.join(command)}".strip())
