"""The versions of Apache Pulsar that the sandbox can run, and how each is downloaded.

A distribution where the repository has one; else the jars of the broker, as locks/VERSION.txt lists
them, in a folder laid out as a distribution (made_home). What is downloaded is what was tried:
its checksum is written down here. Of other versions only the repository's own checksum is known.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.sandbox import maven
from pulsar_doctor.parts.sandbox.distribution import (
    Say,
    cache_folder,
    ensure,
    made,
    sha_of,
    to_stderr,
    unpack,
    without_spaces,
)
from pulsar_doctor.wording.sizes import DOWNLOAD_BYTES
from pulsar_doctor.wording.sizes import VERSION as DEFAULT

HERE = Path(__file__).parent
LOCKS = HERE / "locks"
MADE_HOME = HERE / "made_home"  # what a distribution has beside its jars
NUMBER = re.compile(r"\d+\.\d+\.\d+(?:-[\w.]+)?")


@dataclass(frozen=True, slots=True)
class Distribution:
    """The archive of a version: its length in bytes and its SHA-512."""

    size: int
    sha512: str


DISTRIBUTIONS = {
    "2.11.0": Distribution(
        404_285_612,
        "b2f96db0ed86a2bd149be061374d09dff4ad89037888671d3cc5de5e559de83b"
        "3e4909917a79be508b9572894922ecc0d8170c219c5c94519eb42baded7c1031",
    ),
    "3.3.5": Distribution(
        217_368_337,
        "8a2c99aff26ef5c06d5d0c57a6c93daaa648933af7724fa496e53f1d867ecf67"
        "305b87b8998f68c29a11d93afeb71d749769732930d31d512f5d65c7aba49d10",
    ),
    DEFAULT: Distribution(
        DOWNLOAD_BYTES,
        "65b769b10696cdfebf7fc5bcdc95dd663702e27051e616c1a13cb100e91279525"
        "be35352171befe7b0011176330aab29bd0a6c8a0f2f0646641af46d2e33cbd6",
    ),
}


@dataclass(frozen=True, slots=True)
class KnownVersion:
    """A version that works."""

    version: str
    made_of: str
    size: int  # of the download, in bytes
    home: Path  # where it is, once downloaded

    @property
    def here(self) -> bool:
        """Whether it is downloaded already."""
        return self.home.is_dir()


def known() -> list[KnownVersion]:
    """Every version, oldest first."""
    found = [
        KnownVersion(v, "distribution", each.size, home_of(v)) for v, each in DISTRIBUTIONS.items()
    ]
    for lock in LOCKS.glob("*.txt"):
        listed = list(jars_of(lock.stem))
        found.append(
            KnownVersion(lock.stem, f"{len(listed)} jars", sum(each.size for each in listed),
                  home_of(lock.stem))
        )  # fmt: skip
    return sorted(found, key=lambda each: [*map(int, re.findall(r"\d+", each.version))])


def home_of(version: str) -> Path:
    """Where this version is once it is downloaded; InputError where that is no version."""
    if not NUMBER.fullmatch(version):
        raise InputError(f"{version!r} is not a version of Apache Pulsar; write it as {DEFAULT}")
    return cache_folder() / f"apache-pulsar-{version}"


def jars_of(version: str) -> Iterator[maven.Jar]:
    """The jars of a version that has a lock file."""
    for line in (LOCKS / f"{version}.txt").read_text("utf-8").splitlines():
        sha256, coordinates, size = line.split()
        yield maven.Jar(sha256, coordinates, int(size))


def pulsar_home(given: Path | None, say: Say = to_stderr, version: str | None = None) -> Path:
    """The Pulsar to run: the folder that the user named, else this version, downloaded if missing.

    Raises InputError where the named folder holds no Pulsar, or both are named; DoctorError where
    the version cannot be had.
    """
    if given is None:
        return without_spaces(_brought(version or DEFAULT, say))
    if version is not None:
        raise InputError("--pulsar-home and --pulsar-version name two Pulsars; give one of them")
    if not (given / "bin" / "pulsar").is_file():
        raise InputError(f"{given} holds no bin/pulsar; --pulsar-home names an unpacked Pulsar")
    return without_spaces(given.absolute())


def _brought(version: str, say: Say) -> Path:
    home = home_of(version)
    fetch = partial(maven.distribution, version=version)
    if listed := DISTRIBUTIONS.get(version):
        return ensure(home.parent, home.name, listed.sha512, say, fetch)
    if (LOCKS / f"{version}.txt").is_file():
        return made(home.parent, home.name, say, partial(_of_jars, version, say))
    return made(home.parent, home.name, say, partial(_unlisted, version, say))


def _of_jars(version: str, say: Say, _: Path, target: Path) -> None:
    shutil.copytree(MADE_HOME, target)
    (target / "lib").mkdir()
    maven.jars(target / "lib", list(jars_of(version)), say, version)


def _unlisted(version: str, say: Say, work: Path, target: Path) -> None:
    say(
        f"Apache Pulsar {version} is not among the versions that were tried here (see "
        "`pulsar-doctor sandbox versions`): it is only checked against the repository's checksum"
    )
    try:
        archive = maven.distribution(work, say, version)
    except maven.NotThereError as error:
        raise DoctorError(f"{error}; {_NO_DISTRIBUTION}") from error
    if sha_of(archive, "sha1") != maven.published_sha1(work / "checksum", version):
        raise DoctorError(f"the download of {version} is damaged: its SHA-1 is another; try again")
    unpack(archive, target, sha_of(archive, "sha512"))


_NO_DISTRIBUTION = "versions without a distribution can be run only if `sandbox versions` has them"
