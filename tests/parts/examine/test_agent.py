"""The agent that is shipped is the one whose source is here, and runs on Java 8."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

from pulsar_doctor.parts.examine.jvm.agent import JAR
from tests.parts.examine.jars import MANIFEST, SOURCES, classes

JAVA_8 = 52


def test_the_shipped_agent_is_made_of_its_source(tmp_path):
    classes(tmp_path)
    wanted = {
        f"pulsardoctor/{each.name}": each.read_bytes()
        for each in (tmp_path / "pulsardoctor").iterdir()
    }
    with zipfile.ZipFile(JAR) as shipped:
        there = {name: shipped.read(name) for name in shipped.namelist()}
    assert there.pop("META-INF/MANIFEST.MF") == MANIFEST
    assert there == wanted, "python -m tests.parts.examine.jars makes the jar anew"


def test_the_agent_is_small_and_for_java_8():
    assert JAR.stat().st_size < 19_500
    with zipfile.ZipFile(JAR) as shipped:
        for name in shipped.namelist():
            if name.endswith(".class"):
                magic, _, major = struct.unpack(">IHH", shipped.read(name)[:8])
                assert (magic, major) == (0xCAFEBABE, JAVA_8)


def test_the_agent_calls_nothing_that_would_change_the_application():
    source = "".join(each.read_text() for each in SOURCES.iterdir())
    for forbidden in (
        "retransform",
        "addTransformer",
        "Unsafe",
        ".set(",
        "new Thread(",
        "System.gc",
    ):
        assert forbidden not in source
    assert Path(JAR).name == "agent.jar"
