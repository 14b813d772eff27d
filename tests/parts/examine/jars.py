"""Makes the agent's jar of its source: `python -m tests.parts.examine.jars`."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

from pulsar_doctor.parts.examine.jvm.agent import JAR
from pulsar_doctor.parts.sandbox import distribution
from tests.support.maven import compiled

MANIFEST = (
    b"Manifest-Version: 1.0\r\n"
    b"Agent-Class: pulsardoctor.Agent\r\n"
    b"Can-Redefine-Classes: false\r\n"
    b"Can-Retransform-Classes: false\r\n\r\n"
)
SOURCES = JAR.with_name("java")
LONG_AGO = (1980, 1, 1, 0, 0, 0)


def made(folder: Path) -> bytes:
    """The jar of the class files in this folder."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as jar:
        _put(jar, "META-INF/MANIFEST.MF", MANIFEST)
        for file in sorted((folder / "pulsardoctor").iterdir()):
            _put(jar, f"pulsardoctor/{file.name}", file.read_bytes())
    return out.getvalue()


def _put(jar: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, LONG_AGO)
    entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
    entry.create_system = 3
    jar.writestr(entry, content)


def classes(folder: Path) -> None:
    """The agent's class files into a folder."""
    compiled(sorted(SOURCES.iterdir()), folder, distribution.java_home() / "bin/java")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        classes(Path(folder))
        JAR.write_bytes(made(Path(folder)))


if __name__ == "__main__":
    main()
