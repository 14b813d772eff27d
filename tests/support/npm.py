"""Packages of npm, fetched into a folder of a test."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.wanting import wanting

OPTIONS = (
    "--ignore-scripts",
    "--no-package-lock",
    "--no-audit",
    "--no-fund",
    "--fetch-retries=0",
)
NOT_HAD = "ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ETIMEDOUT|ENOTCACHED|E40[34]|EBADPLATFORM"


def fetched(folder: Path, what: str, *packages: str) -> Path:
    """The folder with these packages, or with those of its package.json. what: for who has none."""
    if not shutil.which("node") or not shutil.which("npm"):
        pytest.skip(wanting("node and npm"))
    line = ["npm", "install", *OPTIONS, *packages]
    done = subprocess.run(line, cwd=folder, capture_output=True, text=True, check=False)
    if re.search(NOT_HAD, done.stderr):
        pytest.skip(wanting(what))
    assert done.returncode == 0, done.stderr
    return folder / "node_modules"
