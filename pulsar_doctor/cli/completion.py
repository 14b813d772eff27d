"""`pulsar-doctor completion`: prints the script for Tab completion in a shell."""

from __future__ import annotations

import click

from pulsar_doctor.cli._commands import Sections
from pulsar_doctor.cli._options import talk_options
from pulsar_doctor.wording.gate import tell

GROUP = "setup"


@click.command(cls=Sections)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@talk_options
def command(shell: str) -> None:
    """Prints the script that completes pulsar-doctor in a shell.

    It completes subcommands, options and files, codes (`explain`, --skip, --set), contexts, and
    topics if the broker answers within 300 ms.

    \b
    pulsar-doctor completion bash > ~/.local/share/bash-completion/completions/pulsar-doctor
    pulsar-doctor completion zsh > ~/.zfunc/_pulsar-doctor
    pulsar-doctor completion fish > ~/.config/fish/completions/pulsar-doctor.fish

    bash needs 4.4 or newer and the package bash-completion. In ~/.zshrc, zsh needs
    `fpath+=~/.zfunc` above `autoload -U compinit; compinit`. The next shell completes.
    """
    from click.shell_completion import get_completion_class

    program = click.get_current_context().find_root()
    script = get_completion_class(shell)
    assert script is not None
    name = str(program.info_name)
    variable = f"_{name.replace('-', '_').upper()}_COMPLETE"
    tell(*script(program.command, {}, name, variable).source().splitlines())
