"""A real shell on a terminal, with the completion that `pulsar-doctor completion` prints for it."""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support import eventually
from tests.support.command_line import environment, pulsar_doctor
from tests.support.wanting import wanting

# How each starts, the file that it reads first, and what is in there. {}: the file with the script.
SHELLS = {
    "bash": ("bash --noprofile --rcfile rc -i", "rc", "source {}; PS1='READY> '"),
    "zsh": (
        "zsh -i",
        ".zshrc",
        "autoload -U compinit; compinit -u; source {}; PS1='READY> '; unsetopt prompt_sp",
    ),
    "fish": (
        "fish -i",
        ".config/fish/config.fish",
        "function fish_prompt; echo -n 'READY> '; end; set fish_greeting; source {}",
    ),
}
# Completes as the program does. What Enter starts is written down and not run.
PROGRAM = """\
#!/bin/sh
if [ -n "$_PULSAR_DOCTOR_COMPLETE" ]; then
  {python} -c 'import sys; sys.argv[0] = "pulsar-doctor"
from pulsar_doctor.__main__ import main; main()'
  echo tab >> {room}/done
else
  printf '%s\\n' "$@" | tr '\\n' '\\037' >> {room}/started; echo >> {room}/started
  echo enter >> {room}/done
fi
"""


class Shell:
    """The terminal of a shell, and what it started."""

    def __init__(self, terminal: int, room: Path) -> None:
        self.terminal, self.room = terminal, room
        self.shown = b""  # everything that reached the terminal

    def press(self, keys: str, what: str) -> None:
        """Types these keys, and waits until the program has answered them. what: tab or enter."""
        before = self._done(what)
        os.write(self.terminal, keys.encode())
        eventually(lambda: self._read(0.02) and self._done(what) > before)
        self._read(0.15)

    def completed(self, *words: str) -> list[str]:
        """The arguments with which Enter starts the program after Tab."""
        before = len(self.started)
        self.press(f"pulsar-doctor {' '.join(words)}\t", "tab")
        shown = len(self.shown)
        self.press("\r", "enter")
        self.prompt(shown)
        return self.started[before]

    def prompt(self, since: int = 0) -> None:
        """Waits for a prompt behind so many bytes."""
        eventually(lambda: b"READY> " in self._read(0.05)[since:])

    @property
    def started(self) -> list[list[str]]:
        """The arguments of each start."""
        file = self.room / "started"
        lines = file.read_text().splitlines() if file.exists() else []
        return [line.split("\x1f")[:-1] for line in lines]

    def _done(self, what: str) -> int:
        file = self.room / "done"
        return file.read_text().split().count(what) if file.exists() else 0

    def _read(self, seconds: float) -> bytes:
        """All that was shown, once nothing more has come for so long."""
        while select.select([self.terminal], [], [], seconds)[0]:
            self.shown += os.read(self.terminal, 65536)
        return self.shown


@contextmanager
def shell(name: str, room: Path, files: Path, **variables: str) -> Iterator[Shell]:
    """This shell, in the folder `files`. room: the home folder, with the program in it."""
    if shutil.which(name) is None:
        pytest.skip(wanting(name))
    (room / "bin").mkdir(parents=True)
    (room / "script").write_text(pulsar_doctor("completion", name).stdout)
    program = room / "bin" / "pulsar-doctor"
    program.write_text(PROGRAM.format(python=shlex.quote(sys.executable), room=room))
    program.chmod(0o755)
    command, first, text = SHELLS[name]
    (room / first).parent.mkdir(parents=True, exist_ok=True)
    (room / first).write_text(text.format(room / "script"))
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        shlex.split(command.replace("rc ", f"{room}/rc ")), stdin=theirs, stdout=theirs,
        stderr=theirs, cwd=files, env=_variables(room) | variables, start_new_session=True,
        preexec_fn=_takes_the_terminal,  # noqa: PLW1509 - there is one thread only
    )  # fmt: skip
    os.close(theirs)
    try:
        opened = Shell(ours, room)
        opened.prompt()
        yield opened
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def _variables(room: Path) -> dict[str, str]:
    folders = {"HOME": str(room), "XDG_CONFIG_HOME": str(room / ".config"), "ZDOTDIR": str(room)}
    path = {"PATH": f"{room / 'bin'}:{os.environ['PATH']}"}
    return environment() | folders | path | {"TERM": "xterm", "LC_ALL": "C.UTF-8"}


def _takes_the_terminal() -> None:
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
