"""The temporary trace of a tap without --trace: kept if anything but healthy was seen.

It lies where no cleaner comes: in XDG_STATE_HOME, else ~/.local/state; where that cannot be
written, in the folder for temporary files, which a restart may empty. If the tap itself is killed,
it stays there.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from platformdirs import user_state_path

from pulsar_doctor.wording.sizes import in_words


class OwnTrace:
    """The folder of the temporary trace."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.begun = False  # from then on there is something to lose, and an error keeps it
        self.ended = False

    @property
    def promise(self) -> str:
        """What will become of it."""
        return (
            "the trace is temporary; give --trace DIR to keep it (where something is found it is "
            f"kept anyway): {self.folder}"
        )

    def end(self, seen: Sequence[str]) -> Path | None:
        """Where it stays; None where it is removed. seen: what was not healthy."""
        self.ended = True
        if seen:
            return self.folder
        shutil.rmtree(self.folder, ignore_errors=True)
        return None

    @property
    def place(self) -> str:
        """Where it is, how large, and how it is removed."""
        size = in_words(bytes_in(self.folder))
        return f"{self.folder} ({size}); `rm -r {shlex.quote(str(self.folder))}` removes it"


@contextmanager
def own_trace(say: Callable[[str], object]) -> Iterator[OwnTrace]:
    """A folder for the time of a with-block. say: takes the sentence where an error keeps it."""
    own = OwnTrace(_made())
    try:
        yield own
    finally:
        if not own.ended and own.begun:
            say(f"what the tap had recorded is kept in {own.place}")
        elif not own.ended:
            own.end(())


def bytes_in(folder: Path) -> int:
    """How many bytes all files in it have."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def _made() -> Path:
    name = f"{datetime.now():%Y%m%d-%H%M%S}-{os.getpid()}.ptrace"
    try:
        folder = user_state_path("pulsar-doctor", appauthor=False) / "taps" / name
        folder.mkdir(mode=0o700, parents=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="pulsar-doctor-", suffix=".ptrace"))
    return folder
