"""What makes Tab complete in each shell, as files that the wheel installs where shells look.

`python -m tests.generate` writes completions/.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from click.shell_completion import ShellComplete

from pulsar_doctor.cli import cli
from pulsar_doctor.cli._completing import completion_of

FOLDER = Path(__file__).parent.parent / "completions"
NAMES = {"bash": "pulsar-doctor.bash", "zsh": "_pulsar-doctor", "fish": "pulsar-doctor.fish"}


def files() -> Iterator[tuple[Path, str]]:
    """Each file and its text, whatever shells this machine has."""
    for shell, name in NAMES.items():
        lines = ShellComplete.source(completion_of(shell, cli)).splitlines()
        yield FOLDER / name, "\n".join(map(str.rstrip, lines)).strip() + "\n"
