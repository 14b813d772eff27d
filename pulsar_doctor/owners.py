"""Decides whether others could change a file or folder that pulsar-doctor is about to trust.

One that others cannot write to may still be replaced, by whoever may write to a folder above it. So
every folder and link on the way is looked at. In a sticky folder, such as /tmp, others can replace
only what belongs to them. The user's own group may write, as umask 002 allows it: it has the user's
name and no other member.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

WRITE = 0o022  # the right of the group and of everybody to write; an ACL shows in the group's
ANYTHING = 0o077

# To open one, with the flags that this system knows.
FOLDER = sum(
    getattr(os, flag, 0) for flag in ("O_DIRECTORY", "O_NOFOLLOW", "O_CLOEXEC", "O_NONBLOCK")
)
MAY_WRITE = "its group or others may write to {} (`chmod go-w` takes that right away)"


def belongs_to(there: os.stat_result, uid: int, *, forbidden: int = WRITE) -> bool:
    """Whether this user or root owns it, and nobody else has any of the forbidden rights on it."""
    return there.st_uid in (0, uid) and not there.st_mode & forbidden


def writable_by_others(path: Path, uid: int) -> bool:
    """Whether others than this user and root own it or may write to it. Raises OSError."""
    there = path.lstat()
    if belongs_to(there, uid):
        return False
    by_group_only = belongs_to(there, uid, forbidden=stat.S_IWOTH)
    return not (by_group_only and there.st_gid == _own_group(uid) and not _has_acl(path))


@cache
def _own_group(uid: int) -> int | None:
    """The group that has this user alone as its member; None where there is none.

    Nobody else has it as primary group if it has the user's name: a list of all accounts, which
    would show it, can take minutes.
    """
    import grp  # not on every system
    import pwd

    try:
        user = pwd.getpwuid(uid)
        group = grp.getgrgid(user.pw_gid)
    except KeyError:
        return None
    alone = group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
    return group.gr_gid if alone else None


def _has_acl(path: Path) -> bool:
    """Whether the rights of the group may be those of others, by an access control list."""
    if sys.platform != "linux":
        return True  # nobody knows
    try:
        return any("acl" in name for name in os.listxattr(path, follow_symlinks=False))
    except OSError as error:
        return error.errno != errno.ENOTSUP


def open_to_others(path: Path) -> str | None:
    """Who else could change or replace this file or folder; None if nobody can, or it is missing.

    "Else" is everybody but root and the user who runs this.
    """
    uid = os.geteuid()
    try:
        with suppress(FileNotFoundError):
            path.stat()  # raises OSError for links in a circle
        for each in _way_to(path.absolute()):
            there = each.lstat()
            replaced_by_owner = stat.S_ISLNK(there.st_mode) or there.st_mode & stat.S_ISVTX
            if there.st_uid not in (0, uid):
                return f"{each} belongs to user {there.st_uid}"
            if not replaced_by_owner and writable_by_others(each, uid):
                return MAY_WRITE.format(each)
        return MAY_WRITE.format(path) if writable_by_others(path.resolve(), uid) else None
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"{path} cannot be looked at: {error.strerror}"


def _way_to(path: Path) -> Iterator[Path]:
    """The root, each folder below it, and this itself; after a link also the way that it leads."""
    for each in (*reversed(path.parents), path):
        yield each
        if each.is_symlink():
            yield from _way_to(each.parent / each.readlink())


def locked(file: int, *, shared: bool = False) -> bool | None:
    """Whether it is locked by this descriptor now; None: this system has no such locks.

    Who holds the lock of a file of ours uses it.
    """
    try:
        import fcntl
    except ModuleNotFoundError:
        return None
    try:
        fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
