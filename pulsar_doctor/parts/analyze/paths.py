"""Paths and URIs as Spark takes them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from pulsar_doctor.errors import InputError

PATTERNS = str.maketrans({char: f"\\{char}" for char in "\\*?[]{}"})


def literally(path: str) -> str:
    """A path in which Spark takes no character for a pattern."""
    return path.translate(PATTERNS)


def path_of(uri: str) -> str:
    """The path of a URI, or a path as it is."""
    return re.sub(r"^[A-Za-z][\w+.-]*:(//[^/]*)?(?=/|$)", "", uri)


def is_remote(folder: str) -> bool:
    """Whether it is a URI, and not one of a local file."""
    return re.match(r"(?!file:)[A-Za-z][\w+.-]*:/", folder) is not None


def absolute(folder: str) -> str:
    """A path or URI without its last slashes; a local one absolute, without .. in it.

    Raises InputError where it has a colon: Hadoop's file systems do not take that in a name.
    """
    scheme = "file:" if folder.startswith("file:") else ""
    path = folder.removeprefix(scheme)
    if ":" in path_of(path):
        raise InputError(f"cannot save to {folder}: Spark takes no colon in the name of a folder")
    if is_remote(folder):
        return folder.rstrip("/")
    return scheme + re.sub("^/+", "/", os.path.normpath(Path.cwd() / path))
