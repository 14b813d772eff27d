"""Keeps the classes that Spark has loaded in an archive, from which the next Java starts faster.

Java maps it into memory instead of searching, reading and verifying the classes of 250 jars, and
checks by itself whether it fits. One that does not is deleted.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from pulsar_doctor import __version__
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.owners import open_to_others
from pulsar_doctor.parts.analyze.configuration import JAVA_OPTIONS, is_ours
from pulsar_doctor.parts.sandbox.distribution import alone, cache_folder, java_home, own_folder

PREFIX = "spark-classes-"
# The options of Java that read an archive, and that write one when Java ends; since which version.
OPTIONS = ((25, "AOTCache", "AOTCacheOutput"), (17, "SharedArchiveFile", "ArchiveClassesAtExit"))
# What Java says of it stays off stdout, where a document may be.
LOG = " -Xlog:disable -Xlog:all=warning:stderr"
REFUSED = re.compile(
    r"^\[.*error *\]\[(?:cds|aot)|^\[.*warning *\]\[cds|^# A fatal error", re.MULTILINE
)
KEPT = "the classes of Spark are kept in {}: the next analyses start faster"
NOT_KEPT = "the classes of Spark are not kept: {} is full or cannot be written, or Java failed"
NOT_HERE = "--warm is for rows that Spark reads on this machine"
SUGGESTED = "`analyze --warm`, once, lets the next analyses start faster"


@dataclass(frozen=True, slots=True)
class Archive:
    """The archive for one Java, one Spark and this version, in this folder."""

    folder: Path
    name: str  # ends with the size: Java 17 crashes on a file that was cut short
    reads: str  # the -XX option to read an archive
    writes: str  # the -XX option to write one

    @property
    def file(self) -> Path | None:
        """The file, where it is there and whole, and others cannot change it."""
        with contextlib.suppress(OSError):
            for file in self.folder.glob(f"{self.name}-*.archive"):
                whole = file.stem == f"{self.name}-{file.stat().st_size}"
                if whole and not open_to_others(file):
                    return file
        return None

    def remove(self, name: str | None = None) -> None:
        """Deletes it, or all with names that begin so, where the folder allows that."""
        with contextlib.suppress(OSError):
            for file in self.folder.glob(f"{name or self.name}*.archive"):
                file.unlink()

    @contextlib.contextmanager
    def used(self, log: Path, *, warm: bool | None) -> Iterator[str]:
        """The option that a Java needs to read the archive, or to make it; or none.

        log: what Java prints. warm: make it where it is missing; False: delete it. Leave this when
        Java has ended.
        """
        if warm is False:
            self.remove()
        with contextlib.ExitStack() as stack:
            option = ""
            if file := self.file:
                stack.callback(self._judge, log)
                option = f'{LOG} -XX:{self.reads}="{file}"'
            elif warm:
                with contextlib.suppress(OSError):
                    option = f'{LOG} -XX:{self.writes}="{stack.enter_context(self._made())}"'
            yield option

    def _judge(self, log: Path) -> None:
        if log.exists() and REFUSED.search(log.read_text(errors="replace")):
            self.remove()

    @contextlib.contextmanager
    def _made(self) -> Iterator[Path]:
        """Where Java shall write it; OSError where the folder cannot be written."""
        with (
            alone(self.folder / f"{PREFIX}lock"),
            tempfile.TemporaryDirectory(
                dir=self.folder, prefix="making-", ignore_cleanup_errors=True
            ) as work,
        ):
            new = Path(work, self.name)
            yield new
            with contextlib.suppress(OSError):
                if size := new.stat().st_size:
                    self.remove(PREFIX)
                    new.chmod(0o600)
                    new.rename(self.folder / f"{self.name}-{size}.archive")


def archive_for(java: Path, jars: Path, cache: Path) -> Archive | None:
    """The archive for this Java home and these jars; None where Java's version is not known."""
    with contextlib.suppress(OSError):
        release = (java / "release").read_text()
        version = re.search(r'^JAVA_VERSION="(\d+)', release, re.MULTILINE)
        made_of = repr((__version__, str(java), release, str(jars), jars.stat().st_mtime_ns))
        name = f"{PREFIX}{hashlib.sha256(made_of.encode()).hexdigest()[:12]}"
        for since, reads, writes in OPTIONS:
            if version and int(version[1]) >= since:
                return Archive(cache, name, reads, writes)
    return None


def archive_here(spark_home: Path) -> Archive | None:
    """The archive for the Java that Spark gets on this machine."""
    with contextlib.suppress(DoctorError):
        return archive_for(java_home(), spark_home / "jars", cache_folder())
    return None


@contextlib.contextmanager
def with_archive(
    settings: Mapping[str, str], spark_home: Path, log: Path, *, warm: bool | None
) -> Iterator[dict[str, str]]:
    """These settings of Spark; in this machine's memory Java uses the archive."""
    options = settings.get(JAVA_OPTIONS, "")
    archive = archive_here(spark_home) if is_ours(options) else None
    if archive is None:
        yield dict(settings)
        return
    with archive.used(log, warm=warm) as option:
        yield {**settings, JAVA_OPTIONS: options + option}


def note(spark_home: Path, *, here: bool, warm: bool, suggest: bool) -> str | None:
    """What to say of the archive after an analysis: what --warm did, or once that it exists.

    Or why it is not used, where others could change what is in the cache folder.
    """
    if not here:
        return NOT_HERE if warm else None
    try:
        cache = cache_folder()
    except DoctorError as error:
        return str(error)
    archive = archive_here(spark_home) if warm or suggest else None
    kept = archive.file if archive else None
    if warm:
        return KEPT.format(kept) if kept else NOT_KEPT.format(cache)
    if suggest and archive and not kept:
        with contextlib.suppress(OSError):
            (own_folder(archive.folder) / f"{PREFIX}suggested").touch(exist_ok=False)
            return SUGGESTED
    return None
