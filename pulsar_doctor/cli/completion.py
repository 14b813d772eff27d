"""`pulsar-doctor completion`: prints the script for Tab completion in a shell."""

from __future__ import annotations

import click

from pulsar_doctor.cli import _completing
from pulsar_doctor.cli._commands import Sections
from pulsar_doctor.cli._options import talk_options
from pulsar_doctor.wording.gate import tell

GROUP = "setup"


@click.command(cls=Sections)
@click.argument("shell", type=click.Choice(_completing.SHELLS))
@talk_options
def command(shell: str) -> None:
    """Prints the script that completes pulsar-doctor in a shell.

    It completes subcommands, options and files, codes (`explain`, --skip, --set), contexts, and
    topics if the broker answers within 300 ms. Names with other characters than ASCII letters,
    digits and ./:@+=_- are left out: a shell could run them. Type such a name in quotes.

    \b
    source <(pulsar-doctor completion bash)
    pulsar-doctor completion zsh > ~/.zfunc/_pulsar-doctor
    pulsar-doctor completion fish > ~/.config/fish/completions/pulsar-doctor.fish

    bash needs 4.4 or newer and the package bash-completion. In ~/.zshrc, zsh needs
    `fpath+=~/.zfunc` above `autoload -U compinit; compinit`. The next shell completes.
    """
    program = click.get_current_context().find_root().command
    tell(*_completing.completion_of(shell, program).source().splitlines())
