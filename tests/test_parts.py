"""The core knows no part: a copy without one, and without what is built on it, works as before."""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import grimp
import pytest

from pulsar_doctor import installed
from tests import architecture

ROOT = Path(__file__).parent.parent
STATE = ROOT / "tests/states/4.0.8/prefetch-hogging.jsonl.gz"
CORE = """
import importlib, pkgutil, sys
import pulsar_doctor
ours = [m.name for m in pkgutil.walk_packages(pulsar_doctor.__path__, "pulsar_doctor.")]
for name in ours:
    if not name.endswith("__main__") and not name.startswith("pulsar_doctor.parts."):
        importlib.import_module(name)
print(*[name for name in sys.modules if name.startswith("pulsar_doctor.parts.")])
"""
PART = re.compile(r"(tests|pulsar_doctor)\.parts\.|bench\b")
ROOMS = "broker|causes|diagnosis|evidence|incidents|known|ledger|wire"
OF_A_ROOM = re.compile(rf"tests\.({ROOMS})\.(\w+\.)*test_\w+$")
OF_THE_TAP = "tests/broker/test_input_files.py::test_certificates_are_not_waited_for"


def without(parts: set[str], folder: Path) -> Path:
    """A copy of the package in which these parts are missing."""
    left_out = {ROOT / "pulsar_doctor/parts" / part for part in parts}

    def ignored(where: str, names: list[str]) -> list[str]:
        return [name for name in names if Path(where, name) in left_out]

    shutil.copytree(ROOT / "pulsar_doctor", folder / "pulsar_doctor", ignore=ignored)
    return folder


def ran(where: Path, *command: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, command)], cwd=where, capture_output=True, text=True, check=False
    )


def built_on(part: str) -> set[str]:
    """This part and all that import it, or import what imports it."""
    found = {part}
    while True:
        users = {
            importer.removeprefix("parts.")
            for importer, imported in architecture.arrows()
            if imported.removeprefix("parts.") in found and importer.startswith("parts.")
        }
        if users <= found:
            return found
        found |= users


@cache
def listed(where: Path) -> set[str]:
    """The subcommands that --help lists."""
    said = ran(where, "-m", "pulsar_doctor", "--help")
    assert said.returncode == 0, said.stderr
    return set(re.findall(r"^  ([a-z-]+)  +[A-Z]", said.stdout.partition("Options:")[0], re.M))


@cache
def verdict(where: Path) -> dict[str, object]:
    said = ran(where, "-m", "pulsar_doctor", "stall-check", "--stats", STATE, "-o", "json")
    assert said.returncode == 1, said.stderr
    document: dict[str, object] = json.loads(said.stdout)
    return {name: value for name, value in document.items() if name != "checked_at"}


@pytest.mark.parametrize("part", installed.parts())
def test_without_a_part_the_core_works_as_before(part: str, tmp_path: Path) -> None:
    missing = built_on(part)
    rest = without(missing, tmp_path)
    assert listed(rest) == listed(ROOT) - missing
    assert verdict(rest) == verdict(ROOT)
    said = ran(rest, "-m", "pulsar_doctor", part)
    assert said.returncode == 2
    assert f"there is no subcommand {part}" in said.stderr


def test_the_core_imports_no_part_and_needs_none(tmp_path: Path) -> None:
    rest = without(set(installed.parts()), tmp_path)
    said = ran(rest, "-c", CORE)
    assert (said.returncode, said.stdout.strip()) == (0, ""), said.stderr


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (("bundle", "orders", "-o", "b.tar.gz", "--examine", "1"), "examine"),
        (("bundle", "orders", "-o", "b.tar.gz", "--capture"), "capture"),
        (("consume", "orders"), "tap"),
        (("consume",), "sandbox"),
    ],
)
def test_what_needs_a_part_that_is_missing_says_so_in_one_sentence(
    arguments: tuple[str, ...], part: str, tmp_path: Path
) -> None:
    said = ran(without({part}, tmp_path), "-m", "pulsar_doctor", *arguments)
    assert said.returncode == 3
    line = f"pulsar-doctor: the part {part} of pulsar-doctor is not installed here"
    assert said.stderr.splitlines()[-1] == line


def test_a_part_shows_in_the_help_as_soon_as_its_folder_is_there(tmp_path: Path) -> None:
    rest = without(set(installed.parts()), tmp_path)
    folder = rest / "pulsar_doctor/parts/greet"
    folder.mkdir()
    (folder / "__init__.py").write_text('"""Greets."""\n')
    (folder / "command.py").write_text(
        "import click\n\nGROUP = 'setup'\n\n@click.command()\ndef command():\n"
        "    '''Prints a greeting.'''\n    click.echo('hello')\n"
    )
    (folder / "documents.json").write_text('{"greet": {"schema": "=greet/1"}}')
    assert "greet" in listed(rest)
    assert ran(rest, "-m", "pulsar_doctor", "greet").stdout == "hello\n"
    assert "greet" in ran(rest, "-m", "pulsar_doctor", "schema").stdout.split()


def test_the_core_names_parts_only_where_it_loads_them_by_name() -> None:
    """A module of the core that mentions the folder of parts would go round the contract."""
    package = architecture.PACKAGE
    named = {
        file.name
        for file in package.rglob("*.py")
        if file.relative_to(package).parts[0] != "parts"
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and "pulsar_doctor.parts" in node.value
    }
    assert named == {"installed.py"}


def files_of_the_core() -> list[str]:
    """Test files that import no part, nor anything that does."""
    graph = grimp.build_graph("tests", "pulsar_doctor", "bench")
    outside = {each for each in graph.modules if PART.match(each)}
    return [
        f"{module.replace('.', '/')}.py"
        for module in sorted(graph.modules)
        if OF_A_ROOM.match(module) and not outside & graph.find_upstream_modules(module)
    ]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_pure_tests_of_the_core_pass_without_any_part(tmp_path: Path) -> None:
    rest = without(set(installed.parts()), tmp_path)
    for folder in ("tests", "docs", "bench"):
        shutil.copytree(ROOT / folder, rest / folder, ignore=shutil.ignore_patterns("parts"))
    shutil.copy(ROOT / "pyproject.toml", rest)
    tests = files_of_the_core()
    assert len(tests) > 60
    options = ("-q", "-n", "2", "-m", "pure", "--deselect", OF_THE_TAP)
    said = ran(rest, "-m", "pytest", *options, *tests)
    assert said.returncode == 0, said.stdout[-3000:]
