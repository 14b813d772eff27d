"""What is in the cache folder is run: it is used only if nobody else could have put it there."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.analyze.archive import Archive
from pulsar_doctor.parts.analyze.java import fitted
from pulsar_doctor.parts.sandbox import distribution, versions
from pulsar_doctor.parts.sandbox.distribution import alone, cache_folder, ensure, sha_of
from tests.support.command_line import environment
from tests.support.wanting import wanting

NOBODY = 65_534
root = pytest.mark.skipif(os.geteuid() != 0, reason=wanting("root"))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache folder with a Pulsar in it."""
    archive, cache = tmp_path / "pulsar.tar.gz", tmp_path / "cache"
    with tarfile.open(archive, "w:gz") as tar:
        for name in ("pulsar/bin/pulsar", "pulsar/lib/a.jar", "pulsar/lib/b.jar"):
            member = tarfile.TarInfo(name)
            member.size, member.mode = 1, 0o664
            tar.addfile(member, io.BytesIO(b"x"))
    before = os.umask(0)
    try:
        ensure(cache, "pulsar", sha_of(archive, "sha512"), print, lambda *_: archive)
    finally:
        os.umask(before)
    return cache


def found(cache: Path) -> Path:
    """The Pulsar in there; it is never brought anew."""
    return ensure(cache, "pulsar", "", print, lambda *_: pytest.fail("it was fetched"))


def test_what_was_unpacked_is_found_again_and_is_for_its_user_alone(cache: Path) -> None:
    assert found(cache) == cache / "pulsar"
    assert cache.stat().st_mode & 0o077 == 0
    assert {each.stat().st_mode & 0o022 for each in (cache / "pulsar").rglob("*")} == {0}


def add(home: Path) -> None:
    (home / "lib" / "c.jar").touch()


def change(home: Path) -> None:
    (home / "lib" / "a.jar").write_text("y")


def rename(home: Path) -> None:
    (home / "lib" / "a.jar").rename(home / "lib" / "0.jar")


def remove(home: Path) -> None:
    (home / "lib" / "a.jar").unlink()


def link(home: Path) -> None:
    (home / "lib" / "a.jar").rename(home.parent / "a.jar")
    (home / "lib" / "a.jar").symlink_to(home.parent / "a.jar")


def lay(home: Path) -> None:
    (home.parent / "pulsar.sha256").unlink()


@pytest.mark.parametrize("spoil", [add, change, rename, remove, link, lay])
def test_one_that_is_not_as_it_was_unpacked_is_not_run(
    cache: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(cache / "pulsar")
    with pytest.raises(DoctorError, match="is not what was unpacked there"):
        found(cache)


def test_logs_that_pulsars_own_tools_write_there_change_nothing(cache: Path) -> None:
    (cache / "pulsar" / "logs").mkdir()
    (cache / "pulsar" / "logs" / "pulsar-client.log").write_text("a line")
    assert found(cache) == cache / "pulsar"


@root
def test_one_that_others_may_change_is_not_run(cache: Path) -> None:
    jar, home = cache / "pulsar" / "lib" / "a.jar", cache / "pulsar"
    os.chown(jar, NOBODY, NOBODY)
    with pytest.raises(DoctorError, match=r"a\.jar belongs to another user"):
        found(cache)
    os.chown(jar, 0, 0)
    home.chmod(0o777)
    with pytest.raises(DoctorError, match=f"others may write to {home}"):
        found(cache)


def test_the_pulsars_with_a_checksum_of_ours_are_those_that_are_listed() -> None:
    listed = {f"apache-pulsar-{version}" for version in versions.DISTRIBUTIONS}
    assert set(distribution.DIGESTS) == listed


@root
def test_sudo_that_keeps_the_environment_uses_nothing_of_the_user(tmp_path: Path) -> None:
    home = tmp_path / "home"
    planted = home / ".cache" / "pulsar-doctor" / "apache-pulsar-4.0.8" / "bin"
    planted.mkdir(parents=True)
    (planted / "pulsar").write_text(f"touch {tmp_path}/ran")
    for each in (home, *home.rglob("*")):
        os.chown(each, NOBODY, NOBODY)
    for variables in ({"HOME": str(home)}, {"XDG_CACHE_HOME": str(home / ".cache")}):
        with_them = {k: v for k, v in environment().items() if "CACHE" not in k} | variables
        ran = subprocess.run(
            [sys.executable, "-m", "pulsar_doctor", "sandbox", "start"],
            env=with_them, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert ran.returncode == 3
        assert f"is not used, since what is in it is run, and {home} belongs to" in ran.stderr
    assert not (tmp_path / "ran").exists()


@root
def test_in_a_shared_folder_each_user_has_one_of_his_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    monkeypatch.delenv("PULSAR_DOCTOR_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(shared))
    assert cache_folder() == shared / "pulsar-doctor"
    (shared / "pulsar-doctor").mkdir(0o755)
    assert cache_folder() == shared / "pulsar-doctor"
    os.chown(shared / "pulsar-doctor", NOBODY, NOBODY)
    with pytest.raises(DoctorError, match=f"belongs to user {NOBODY}"):
        cache_folder()
    os.chown(shared / "pulsar-doctor", 0, 0)
    shared.chmod(0o777)
    with pytest.raises(DoctorError, match=f"others may write to {shared} "):
        cache_folder()


def test_whatever_the_umask_is_a_new_cache_folder_is_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULSAR_DOCTOR_CACHE", str(tmp_path / "a" / "cache"))
    before = os.umask(0)
    try:
        for _ in range(2):
            cache = cache_folder()
            with alone(cache / "lock"):
                assert fitted(Path("/usr/bin/java"), cache)
    finally:
        os.umask(before)


def test_a_lock_is_not_taken_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="symbolic links"), alone(tmp_path / "lock"):
        pass
    assert not (tmp_path / "victim").exists()


@root
def test_an_archive_of_classes_that_others_may_change_is_not_read(tmp_path: Path) -> None:
    kept, cache = (
        Archive(tmp_path / "cache", "spark-classes-x", "Reads", "Writes"),
        tmp_path / "cache",
    )
    cache.mkdir()
    file = cache / "spark-classes-x-8.archive"
    file.write_bytes(b"rubbish!")
    file.chmod(0o644)
    assert kept.file == file
    for owner, group, mode in ((NOBODY, NOBODY, 0o644), (0, NOBODY, 0o664), (0, 0, 0o646)):
        os.chown(file, owner, group)
        file.chmod(mode)
        assert kept.file is None
        with kept.used(tmp_path / "java.log", warm=None) as option:
            assert option == ""
    os.chown(file, 0, 0)
    file.chmod(0o644)
    os.chown(cache, NOBODY, NOBODY)
    assert kept.file is None


@root
def test_a_java_for_spark_that_others_may_change_is_written_anew(tmp_path: Path) -> None:
    java = fitted(Path("/usr/bin/java"), tmp_path) / "bin" / "java"
    os.chown(java, NOBODY, NOBODY)
    assert fitted(Path("/usr/bin/java"), tmp_path) == java.parents[1]
    assert java.stat().st_uid == 0
    java.parent.chmod(0o777)
    with pytest.raises(DoctorError, match="others may write"):
        fitted(Path("/usr/bin/java"), tmp_path)
