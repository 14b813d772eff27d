"""Jars by their Maven coordinates, fetched once, and Eclipse's compiler, which any Java runs."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from pulsar_doctor.parts.sandbox.distribution import cache_folder
from tests.support.wanting import wanting

COMPILER = "org.eclipse.jdt:ecj:3.42.0"


@functools.cache
def jar(coordinates: str) -> Path:
    """The jar of group:artifact:version."""
    maven = pytest.importorskip("jgo.maven", reason=wanting("jgo"))
    group, artifact, version = coordinates.split(":")
    context = maven.MavenContext(
        resolver=maven.PythonResolver(),
        repo_cache=cache_folder() / "maven",
        local_repos=[],
        timeout=60,
    )
    try:
        return Path(context.project(group, artifact).at_version(version).artifact().resolve())
    except (RuntimeError, OSError):
        pytest.skip(wanting(f"{coordinates} of Maven"))


def compiled(sources: Sequence[Path], folder: Path, java: Path, classpath: str = "") -> None:
    """Class files of Java 8 into a folder, by Eclipse's compiler on this Java."""
    options = ["-source", "8", "-target", "8", "-g:none" if not classpath else "-g", "-nowarn"]
    paths = ["-classpath", classpath] if classpath else []
    done = subprocess.run(
        [java, "-jar", jar(COMPILER), *options, *paths, "-d", folder, *sources],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
