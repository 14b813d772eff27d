"""A process of somebody else that looks like a JVM, and what must stay as it was beside it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pulsar_doctor.parts.examine.identity import Process, process

SCRIPT = Path(__file__).parent / "clients" / "hostile.py"
SOMEBODY = 61_431
OPTIONS: dict[str, Any] = {
    "uid": SOMEBODY, "root": None, "namespaces": False, "seed": 1, "tricks": [],
    "answer": None, "reply": "", "dump": "Full thread dump\n",
}  # fmt: skip
FILES = 5


class Hostile:
    """The process, and the folder of root that it wants to have changed."""

    def __init__(self, running: subprocess.Popen[str], room: Path) -> None:
        self.pid = running.pid
        self.victim = room / "victim"
        self._before = seen(self.victim)

    @property
    def there(self) -> Process:
        return process(self.pid)

    @property
    def untouched(self) -> bool:
        """Whether nothing in the folder, nor the folder itself, has changed in any way."""
        return seen(self.victim) == self._before


def seen(folder: Path) -> list[tuple[str, os.stat_result]]:
    """All that the kernel tells of a folder and what is in it, but when it was read."""
    found = [folder, *sorted(folder.rglob("*"))]
    return [(str(each), _without_atime(each.lstat())) for each in found]


def _without_atime(there: os.stat_result) -> Any:
    return (there.st_mode, there.st_ino, there.st_uid, there.st_size, there.st_mtime_ns,
            there.st_ctime_ns, there.st_nlink)  # fmt: skip


@contextlib.contextmanager
def hostile(*, chroot: bool = False, **options: Any) -> Iterator[Hostile]:
    """One such process. chroot: in a root of its own, which is a folder of this machine."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        room = Path(folder)
        room.chmod(0o755)
        _lay(room)
        mine = {"victim": str(room / "victim"), "library": str(room / "libjvm.so")}
        root = {"root": str(room / "root")} if chroot else {}
        line = [sys.executable, str(SCRIPT), json.dumps({**OPTIONS, **mine, **root, **options})]
        with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as running:
            try:
                assert running.stdout is not None
                assert running.stdout.readline() == "@ready\n"
                yield Hostile(running, room)
            finally:
                running.kill()
                running.wait()
                with contextlib.suppress(OSError):  # a test may have given it to somebody else
                    Path(f"/tmp/.java_pid{running.pid}").unlink(missing_ok=True)
                _tidy()


def _lay(room: Path) -> None:
    (room / "libjvm.so").write_bytes(b"\x7fELF" * 1024)
    for inner in (room / "root/tmp", room / "victim"):
        inner.mkdir(parents=True)
    (room / "root/tmp").chmod(0o1777)
    (room / "root").chmod(0o777)
    (room / "victim").chmod(0o700)
    for at in range(FILES):
        (room / f"victim/file-{at}").write_text("precious")


def _tidy() -> None:
    for each in Path("/tmp").iterdir():
        with contextlib.suppress(OSError):
            if each.lstat().st_uid == SOMEBODY:
                shutil.rmtree(each) if each.is_dir() and not each.is_symlink() else each.unlink()
