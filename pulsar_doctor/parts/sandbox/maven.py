"""Downloads from a Maven repository, with retries and a progress bar."""

from __future__ import annotations

import contextlib
import shutil
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pulsar_doctor.errors import DoctorError, needing
from pulsar_doctor.parts.sandbox.distribution import Say, is_full, sha_of
from pulsar_doctor.wording.gate import stderr
from pulsar_doctor.wording.sizes import megabytes

NETWORK_SECONDS = 30
NETWORK_TRIES = 3
RETRY_SECONDS = 2.0
AT_ONCE = 8  # jars that are downloaded side by side
GROUP = "org.apache.pulsar"
DISTRIBUTION = "pulsar-server-distribution"

Advance = Callable[[int], None]
Showing = Callable[[str, int], contextlib.AbstractContextManager[Advance]]


class NotThereError(DoctorError):
    """The repository does not have it, or cannot be reached."""


@dataclass(frozen=True, slots=True)
class Jar:
    """One line of a lock file: what it is, its SHA-256 and its length in bytes."""

    sha256: str
    coordinates: str
    size: int

    @property
    def file(self) -> str:
        """A name that no other jar has."""
        return self.coordinates.replace(":", "-") + ".jar"


def distribution(folder: Path, say: Say, version: str) -> Path:
    """Downloads the distribution of this version into a folder; the archive's path.

    Raises NotThereError where the network or the repository does not give it.
    """
    with needing("sandbox", "the sandbox"):
        import jgo.maven  # noqa: F401
    component = _context(folder, _showing(version, say)).project(GROUP, DISTRIBUTION)
    artifact = component.at_version(version).artifact("bin", "tar.gz")
    return _patiently(artifact, f"{GROUP}:{DISTRIBUTION}:{version}", say)


def published_sha1(folder: Path, version: str) -> str:
    """What the repository itself says of that archive: no proof of where it comes from."""
    component = _context(folder).project(GROUP, DISTRIBUTION).at_version(version)
    artifact = component.artifact("bin", "tar.gz.sha1")
    return _patiently(artifact, f"the checksum of {version}", lambda _: None).read_text().split()[0]


def jars(folder: Path, found: Sequence[Jar], say: Say, version: str) -> None:
    """Downloads all of these into a folder, each checked against its SHA-256.

    Raises NotThereError for one that cannot be had, DoctorError for one that differs.
    """
    with needing("sandbox", "the sandbox"):
        import jgo.maven  # noqa: F401
    total = sum(each.size for each in found)
    say(f"downloading Apache Pulsar {version} as {len(found)} jars, {megabytes(total)}, once")
    context, turn = _context(folder / "maven"), threading.Lock()
    with _bar(version, total) as advance, ThreadPoolExecutor(AT_ONCE) as pool:

        def fetch(each: Jar) -> None:
            group, name, number, *rest = each.coordinates.split(":")
            artifact = context.project(group, name).at_version(number).artifact(*rest or ("",))
            path = _patiently(artifact, each.coordinates, lambda _: None)
            if sha_of(path, "sha256") != each.sha256:
                raise DoctorError(f"{each.coordinates} is not the jar that was tried: try again")
            path.rename(folder / each.file)
            with turn:
                advance(each.size)

        try:
            list(pool.map(fetch, found))
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    shutil.rmtree(folder / "maven")


def _context(folder: Path, progress: Showing | None = None) -> Any:
    from jgo.maven import MavenContext, PythonResolver

    return MavenContext(
        resolver=PythonResolver(progress_callback=progress),
        repo_cache=folder,
        local_repos=[],
        timeout=NETWORK_SECONDS,
    )


def _patiently(artifact: Any, what: str, say: Say) -> Path:
    for left in reversed(range(NETWORK_TRIES)):
        try:
            return Path(artifact.resolve())
        except (RuntimeError, OSError) as error:
            if is_full(error):
                raise
            if not left:
                raise NotThereError(_NOT_FETCHED.format(what, error)) from error
            say(f"the download failed ({type(error).__name__}); trying again")
        # What there is of the file would pass for the whole of it.
        shutil.rmtree(artifact.cached_path.parent, ignore_errors=True)
        time.sleep(RETRY_SECONDS)
    raise AssertionError("unreachable")


_NOT_FETCHED = (
    "cannot download {}: {}; try again, or unpack Apache Pulsar yourself and give --pulsar-home DIR"
)


def _showing(version: str, say: Say) -> Showing:
    @contextlib.contextmanager
    def show(name: str, total_bytes: int) -> Iterator[Advance]:
        say(f"downloading Apache Pulsar {version}, {megabytes(total_bytes)}, once")
        with _bar(name, total_bytes) as advance:
            yield advance
        say("downloaded")

    return show


@contextlib.contextmanager
def _bar(name: str, total_bytes: int) -> Iterator[Advance]:
    if not stderr().isatty():
        yield lambda _: None
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TransferSpeedColumn

    from pulsar_doctor.wording.consoles import GatedConsole

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=GatedConsole(stderr=True), transient=True) as progress:
        task = progress.add_task(name, total=total_bytes)
        yield lambda count: progress.update(task, advance=count)
