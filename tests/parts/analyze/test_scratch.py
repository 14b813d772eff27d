"""The temporary folder of an analysis, and those that killed analyses have left."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pulsar_doctor.parts.analyze.scratch import PREFIX, scratch
from tests.support import eventually
from tests.support.wanting import wanting

NOBODY = 65_534
root = pytest.mark.skipif(os.geteuid() != 0, reason=wanting("root"))

HOLDS = """
import time
from pulsar_doctor.parts.analyze.scratch import scratch
with scratch() as folder:
    (folder / "blockmgr").mkdir()
    (folder / "ready").touch()
    time.sleep(60)
"""


def test_what_a_killed_analysis_leaves_goes_with_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    line, variables = [sys.executable, "-c", HOLDS], os.environ | {"TMPDIR": str(tmp_path)}
    runs = [subprocess.Popen(line, env=variables) for _ in range(2)]
    try:
        eventually(lambda: len(list(tmp_path.glob(f"{PREFIX}*/ready"))) == 2)
        runs[0].kill()
        runs[0].wait()
        (tmp_path / f"{PREFIX}open").mkdir()
        (tmp_path / f"{PREFIX}open").chmod(0o755)
        with scratch() as folder:
            assert folder.stat().st_mode & 0o777 == 0o700
            left = {each.name for each in tmp_path.iterdir()} - {folder.name, f"{PREFIX}open"}
            assert len(left) == 1, "that of the run that goes on"
        assert not folder.exists()
    finally:
        for run in runs:
            run.kill()
            run.wait()


@root
def test_a_folder_of_another_user_and_a_link_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    theirs, victim = tmp_path / f"{PREFIX}theirs", tmp_path / "victim"
    theirs.mkdir(0o700)
    os.chown(theirs, NOBODY, NOBODY)
    victim.mkdir(0o700)
    (tmp_path / f"{PREFIX}link").symlink_to(victim)
    with scratch():
        pass
    assert theirs.exists()
    assert victim.exists()
    shutil.rmtree(theirs)
