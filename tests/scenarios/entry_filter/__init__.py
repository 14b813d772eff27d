"""An entry filter of a broker that was started with it: see PutBack.java. Needs a JDK."""

from __future__ import annotations

import subprocess
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from pulsar_doctor.parts.sandbox import versions
from tests.scenarios.scene import Scene
from tests.scenarios.table import scenario, warning

NAME = "put-back"
SOURCE = Path(__file__).with_name("PutBack.java")
DEFINITION = f"name: {NAME}\ndescription: for tests\nentryFilterClass: PutBack\n"


def plug_in() -> Mapping[str, str]:
    """Builds it; settings of a broker that has it, for topics whose policies name it."""
    folder = Path(tempfile.mkdtemp(prefix="entry-filter-"))
    libraries = f"{versions.pulsar_home(None) / 'lib'}/*"
    command = ["javac", "--release", "17", "-cp", libraries, "-d", str(folder), str(SOURCE)]
    subprocess.run(command, check=True, capture_output=True)
    jar = folder / "put-back.jar"
    with zipfile.ZipFile(jar, "w") as packed:
        packed.write(folder / "PutBack.class", "PutBack.class")
    with zipfile.ZipFile(folder / f"{NAME}.nar", "w") as packed:
        packed.write(jar, f"META-INF/bundled-dependencies/{jar.name}")
        packed.writestr("META-INF/services/entry_filter.yml", DEFINITION)
    return {"entryFiltersDirectory": str(folder), "allowOverrideEntryFilters": "true"}


@scenario("entry-filter-puts-back", warning("entry-filter-puts-back"), conf=plug_in)
def _puts_back(scene: Scene) -> None:
    """It puts 200 of 210 messages back each second, beside a worker with permits."""
    scene.begin()
    scene.policy("entryFilters", {"entryFilterNames": NAME})
    scene.unload()  # the dispatcher keeps the filters with which it began
    scene.work(scene.consume("works", queue=100))
    scene.produce(10)
    scene.produce(200, properties={"later": "yes"})
    scene.until(lambda: scene.stats()["filterRescheduledMsgCount"] > 2 * 200)
