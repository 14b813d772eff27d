"""Writes the lock file of a version of Pulsar that has no distribution. Needs Maven.

`python -m tests.parts.sandbox.locking 4.2.4 pulsar` or `... 5.0.0-M1 pulsar-dependencies`: the
version, and the artifact that says which versions of everything else belong to it (the BOM of
Pulsar).
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

from pulsar_doctor.parts.sandbox.versions import LOCKS

POM = """<project>
<modelVersion>4.0.0</modelVersion><groupId>x</groupId><artifactId>x</artifactId><version>1</version>
<dependencyManagement><dependencies><dependency><groupId>org.apache.pulsar</groupId>
<artifactId>{bom}</artifactId><version>{version}</version><type>pom</type><scope>import</scope>
</dependency></dependencies></dependencyManagement>
<dependencies><dependency><groupId>org.apache.pulsar</groupId>
<artifactId>pulsar-broker</artifactId><version>{version}</version></dependency></dependencies>
</project>"""


def locked(version: str, bom: str) -> str:
    """A line for each jar: SHA-256, coordinates, bytes; by coordinates."""
    with tempfile.TemporaryDirectory() as room:
        (Path(room) / "pom.xml").write_text(POM.format(bom=bom, version=version))
        subprocess.run(
            ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime",
             "-DoutputDirectory=lib", "-Dmdep.useRepositoryLayout=true"],
            cwd=room, check=True,
        )  # fmt: skip
        return of_repository(Path(room) / "lib")


def of_repository(lib: Path) -> str:
    """The lines for all jars in a folder that has the layout of a repository."""
    lines = []
    for jar in lib.glob("**/*.jar"):
        *group, name, number, file = jar.relative_to(lib).parts
        classifier = file.removeprefix(f"{name}-{number}").removesuffix(".jar").strip("-")
        coordinates = ":".join(filter(None, [".".join(group), name, number, classifier]))
        content = jar.read_bytes()
        lines.append(f"{hashlib.sha256(content).hexdigest()} {coordinates} {len(content)}\n")
    return "".join(sorted(lines, key=lambda line: line.split()[1]))


if __name__ == "__main__":
    (LOCKS / f"{sys.argv[1]}.txt").write_text(locked(*sys.argv[1:3]), "utf-8")
