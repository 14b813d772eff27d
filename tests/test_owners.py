"""Who else could change a file or folder, by its owner, its rights, and those of all above it."""

from __future__ import annotations

import os
import pwd
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_doctor.owners import MAY_WRITE, open_to_others
from pulsar_doctor.parts.examine.child import CannotAttach
from pulsar_doctor.parts.examine.identity import Process
from pulsar_doctor.parts.examine.jvm.leftovers import agent_folder, sweep
from tests.support.wanting import wanting

NOBODY = 65_534
NO_ACCOUNT = 61_234
JVM = Process(1, 1, "java", os.geteuid(), os.getegid(), "S", 1, 0, "jvm")
root = pytest.mark.skipif(os.geteuid() != 0, reason=wanting("root"))


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A folder in another one, which nobody else can change."""
    folder = tmp_path / "home" / "cache"
    folder.mkdir(parents=True)
    for each in (folder, folder.parent):
        each.chmod(0o755)
    return folder


def test_a_folder_of_ours_below_folders_of_ours_is_ours(cache: Path) -> None:
    assert open_to_others(cache) is None
    assert open_to_others(cache / "not there yet") is None


@pytest.mark.parametrize("mode", [pytest.param(0o775, marks=root), 0o757, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to_is_not(cache: Path, mode: int) -> None:
    if mode == 0o775:  # of a group that is not this user's own
        os.chown(cache, 0, NOBODY)
    cache.chmod(mode)
    assert open_to_others(cache) == MAY_WRITE.format(cache)
    (cache / "file").touch(0o644)
    above = None if mode & 0o1000 else MAY_WRITE.format(cache)
    assert open_to_others(cache / "file") == above


@root
def test_nor_is_one_of_another_user_or_below_one_of_his(cache: Path) -> None:
    os.chown(cache, NOBODY, NOBODY)
    assert open_to_others(cache / "not there yet") == f"{cache} belongs to user {NOBODY}"
    os.chown(cache, 0, 0)
    os.chown(cache.parent, NOBODY, NOBODY)
    assert open_to_others(cache) == f"{cache.parent} belongs to user {NOBODY}"


@root
def test_a_link_leads_only_where_nobody_else_can_turn_it(cache: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("home/cache")
    assert open_to_others(link) is None
    os.chown(link, NOBODY, NOBODY, follow_symlinks=False)
    assert open_to_others(link) == f"{link} belongs to user {NOBODY}"
    os.chown(link, 0, 0, follow_symlinks=False)
    cache.parent.chmod(0o777)
    assert open_to_others(link / "x") == MAY_WRITE.format(link.parent / "home")


def test_links_in_a_circle_are_not_followed_for_ever(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    assert "Too many levels" in (open_to_others(tmp_path / "a") or "")


def seen_by(uid: int, cache: Path) -> str | None:
    for each in (cache.parents[1], *cache.parents[1].parents[:-2]):
        each.chmod(each.stat().st_mode | 0o011)  # of pytest, which nobody else may enter
    os.seteuid(uid)
    try:
        return open_to_others(cache)
    finally:
        os.seteuid(0)


@root
def test_the_own_group_of_the_user_may_write(cache: Path) -> None:
    uid, gid = pwd.getpwnam("daemon")[2:4]  # a group of the same name, without other members
    for each in (cache, cache.parent):
        os.chown(each, uid, gid)
        each.chmod(0o775)
    assert seen_by(uid, cache) is None
    assert open_to_others(cache) == f"{cache.parent} belongs to user {uid}"  # as sudo -E
    cache.chmod(0o777)
    assert seen_by(uid, cache) == MAY_WRITE.format(cache)
    cache.chmod(0o775)
    os.chown(cache, uid, NOBODY)
    assert seen_by(uid, cache) == MAY_WRITE.format(cache)
    os.chown(cache, uid, 0)
    assert seen_by(uid, cache) == MAY_WRITE.format(cache)


@root
def test_nor_may_the_group_of_a_user_without_an_account(cache: Path) -> None:
    for each in (cache, cache.parent):
        os.chown(each, NO_ACCOUNT, NO_ACCOUNT)
        each.chmod(0o775)
    assert seen_by(NO_ACCOUNT, cache) == MAY_WRITE.format(cache.parent)


@root
def test_the_own_group_of_root_may_write_but_not_where_an_acl_names_others(cache: Path) -> None:
    cache.chmod(0o775)
    assert open_to_others(cache) is None
    entries = [(1, 7, -1), (2, 7, 1), (4, 5, -1), (16, 7, -1), (32, 5, -1)]  # user 1 may write
    packed = b"".join(struct.pack("<HHi", *entry) for entry in entries)
    try:
        os.setxattr(cache, "system.posix_acl_access", struct.pack("<I", 2) + packed)
    except OSError:
        pytest.skip(wanting("a file system with access control lists"))
    assert open_to_others(cache) == MAY_WRITE.format(cache)


@root
def test_a_folder_of_root_is_good_for_everybody_who_cannot_write_to_it(cache: Path) -> None:
    assert seen_by(NOBODY, cache) is None
    os.chown(cache, NOBODY, NOBODY)
    assert seen_by(NOBODY, cache) is None
    os.chown(cache, 1, 1)
    assert seen_by(NOBODY, cache) == f"{cache} belongs to user 1"


@pytest.fixture
def tmp(tmp_path: Path) -> Iterator[int]:
    """The /tmp of a JVM, opened."""
    folder = os.open(tmp_path, os.O_RDONLY)
    yield folder
    os.close(folder)


@pytest.mark.parametrize("mode", [0o777, 0o755, 0o711, 0o701, 0o750, 0o710])
def test_the_agent_is_not_laid_where_others_may_enter(tmp_path: Path, tmp: int, mode: int) -> None:
    laid = tmp_path / ".pulsar-doctor-0"
    laid.mkdir()
    laid.chmod(mode)
    (laid / "agent.jar").write_text("theirs")
    with (
        pytest.raises(CannotAttach, match="somebody else's"),
        agent_folder(tmp, laid.name, JVM),
    ):
        pass
    sweep(tmp, os.geteuid())
    assert (laid / "agent.jar").read_text() == "theirs"
    laid.chmod(0o700)
    with agent_folder(tmp, laid.name, JVM):
        pass
    assert not laid.exists()
