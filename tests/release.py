"""Builds what a release consists of: `python -m tests.release [FOLDER]` (dist/ by default).

A wheel, a source archive, and one file that runs with any Python of 3.11 or newer: the base with
all that it needs, which is plain Python. Beside them SHA256SUMS. The file is made by shiv, which
unpacks it at its first start into ~/.shiv (SHIV_ROOT).
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
ONE_FILE = "pulsar-doctor.pyz"
COMPILED = (".so", ".pyd", ".dylib", ".dll")


def build(folder: Path) -> list[Path]:
    """Builds all of it there, and says what is there."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("pulsar_doctor-*"), *folder.glob(ONE_FILE)):
        old.unlink()
    build_packages = [
        sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", str(folder),
    ]  # fmt: skip
    subprocess.run(build_packages, cwd=ROOT, check=True)
    (wheel,) = folder.glob("*.whl")
    build_one_file(wheel, folder / ONE_FILE)
    files = [*folder.glob("pulsar_doctor-*"), folder / ONE_FILE]
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}" for file in files]
    (folder / "SHA256SUMS").write_text("\n".join(sums) + "\n")
    return files


def build_one_file(wheel: Path, target: Path) -> None:
    """One file of the base. Raises RuntimeError where something in it was compiled."""
    subprocess.run(
        [
            sys.executable, "-m", "shiv", "-q", "--compressed", "--reproducible",
            "-c", "pulsar-doctor", "-p", "/usr/bin/env python3", "-o", target,
            "-c", "pulsar-doctor", wheel, "--constraint", ROOT / "constraints.txt",
        ],
        check=True,
    )  # fmt: skip
    with zipfile.ZipFile(target) as archive:
        compiled = [name for name in archive.namelist() if name.endswith(COMPILED)]
    if compiled:
        raise RuntimeError(f"{target} runs on one system only: {compiled}")


if __name__ == "__main__":
    for file in build(Path(sys.argv[1] if sys.argv[1:] else ROOT / "dist").absolute()):
        print(f"{file}: {file.stat().st_size / 1e6:.1f} MB")
