"""Decides whether others could change a file or folder that pulsar-doctor is about to trust.

One that others cannot write to may still be replaced, by whoever may write to a folder above it. So
every folder and link on the way is looked at. In a sticky folder, such as /tmp, others can replace
only what belongs to them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

WRITE = 0o022  # the right of the group and of everybody to write; an ACL shows in the group's
ANYTHING = 0o077
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK  # to open one
MAY_WRITE = "its group or others may write to {} (`chmod go-w` takes that right away)"


def belongs_to(there: os.stat_result, uid: int, *, forbidden: int = WRITE) -> bool:
    """Whether this user or root owns it, and nobody else has any of the forbidden rights on it."""
    return there.st_uid in (0, uid) and not there.st_mode & forbidden


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
            if not belongs_to(there, uid, forbidden=0 if replaced_by_owner else WRITE):
                return MAY_WRITE.format(each)
        return None if belongs_to(path.stat(), uid) else MAY_WRITE.format(path)
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


def locked(file: int) -> bool:
    """Whether it is locked by this descriptor now. Who holds the lock of a file of ours uses it."""
    import fcntl  # not on every system

    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
