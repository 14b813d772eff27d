"""What should hold for ever: style, types, the direction of imports, an instant --help."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from pulsar_doctor.cli import cli
from tests import architecture

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pulsar_doctor"
BIN = Path(sys.executable).parent
REPORT = re.compile(r"pulsar_doctor\.(parts\.\w+\.)?report\b")
# python tests/architecture.py --figures
ARROWS_MOST = {"within the core": 61, "between parts": 10, "from parts to the core": 102}
LAYERS_MOST, CHAIN_MOST, PART_MOST = 11, 20, 8000  # the last: lines of a part
HEAVY = (
    "rich", "pulsar", "_pulsar", "pyarrow", "httpx2", "pyspark", "google.protobuf", "asyncio",
)  # fmt: skip
HELP = f"""
import sys
from pulsar_doctor.cli import run
code = run(sys.argv[1:])
loaded = [name for name in {HEAVY!r} if name in sys.modules]
print(*loaded, file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize(
    "tool",
    [
        ("ruff", "check", "--no-fix", "."),
        ("ruff", "format", "--check", "."),
        ("mypy",),
        ("lint-imports", "--no-logo"),
    ],
    ids=" ".join,
)
def test_the_tree_is_clean(tool: tuple[str, ...]) -> None:
    ran = subprocess.run(
        [BIN / tool[0], *tool[1:]], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr


def types_of(module: Path) -> Iterator[tuple[str, str]]:
    """Each public class with its place, and each public name of a type with what it stands for."""
    for node in ast.parse(module.read_text("utf-8")).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, f"a class of {module.relative_to(ROOT)}"
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            if name[0].isupper() and not name.isupper():
                yield name, ast.unparse(node.value)


def test_no_name_of_a_type_stands_for_two_things() -> None:
    meanings = defaultdict[str, set[str]](set)
    for module in sorted((ROOT / "pulsar_doctor").rglob("*.py")):
        if not module.name.endswith("_pb2.py"):  # generated: the protocol's names
            for name, meaning in types_of(module):
                meanings[name].add(meaning)
    twice = {name: told for name, told in meanings.items() if len(told) > 1 and name[0] != "_"}
    assert not twice


def draws(module: Path) -> bool:
    """Whether it belongs to the command line or the report, of the core or of a part."""
    top, *inner = module.relative_to(PACKAGE).with_suffix("").parts
    name = inner[1] if top == architecture.PARTS and len(inner) > 1 else top
    return name in ("cli", "report", "command", "schemas", "rounds")


def test_nothing_but_the_command_line_draws_on_the_report() -> None:
    """Result values live below it."""
    drawn = [
        f"{module.relative_to(ROOT)}: {node.module}.{alias.name}"
        for module in sorted(PACKAGE.rglob("*.py"))
        if not draws(module)
        for node in ast.walk(ast.parse(module.read_text("utf-8")))
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if REPORT.match(f"{node.module}.{alias.name}")
    ]
    assert not drawn


def test_a_type_error_is_found_in_what_measures_and_in_what_tests_stand_on(tmp_path: Path) -> None:
    paths = ("bench/fleet.py", "tests/support/command_line.py", "tests/conformance/tools.py")
    planted: list[str | Path] = []
    for at, path in enumerate(paths):
        wrong = tmp_path / f"wrong{at}.py"
        wrong.write_text((ROOT / path).read_text() + '\nPLANTED: int = "a text"\n')
        planted += ["--shadow-file", ROOT / path, wrong]
    ran = subprocess.run(
        [BIN / "mypy", *planted], cwd=ROOT, capture_output=True, text=True, check=False
    )
    found = re.findall(r"^(.+):\d+: error: .*\[assignment\]$", ran.stdout, re.M)
    assert sorted(found) == sorted(paths), ran.stdout


def subcommands(group: click.Group, *path: str) -> list[tuple[str, ...]]:
    context = click.Context(group)
    found = []
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        found.append((*path, name))
        if isinstance(command, click.Group):
            found += subcommands(command, *path, name)
    return found


@pytest.mark.parametrize("command", [(), *subcommands(cli)], ids=" ".join)
def test_help_is_there_and_imports_nothing_heavy(command: tuple[str, ...]) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", HELP, *command, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stderr.strip() == "", f"--help imports {ran.stderr.strip()}"
    assert ran.stdout.startswith(f"Usage: pulsar-doctor {' '.join(command)}".strip())


def test_the_help_shows_every_subcommand_whole_in_a_group() -> None:
    ran = CliRunner().invoke(cli, ["--help"], terminal_width=80)
    shown = re.findall(r"^  ([a-z-]+)  +[A-Z].*[^.]\.$", ran.output.partition("Options:")[0], re.M)
    assert sorted(shown) == cli.list_commands(click.Context(cli))


def test_packages_know_few_others() -> None:
    found = architecture.kinds_of_arrows()
    assert {kind: most for kind, most in ARROWS_MOST.items() if found[kind] > most} == {}
    assert len(architecture.layers()) <= LAYERS_MOST
    longest = max(map(architecture.chain, sorted(architecture.imports().modules)), key=len)
    assert len(longest) <= CHAIN_MOST, longest


def test_no_part_is_large() -> None:
    lines = architecture.lines()
    assert {name: count for name, count in lines.items() if count > PART_MOST} == {
        "core": lines["core"]
    }


def test_the_page_is_short_and_has_a_line_for_each_package() -> None:
    page = architecture.PAGE.read_text(encoding="utf-8")
    assert len(page.encode()) <= 12 * 1024
    described = re.findall(r"^\| `([\w.]+)` \|", page, re.M)
    assert sorted(described) == sorted(architecture.packages())


def test_every_module_says_in_its_first_line_what_it_is_for() -> None:
    listed = subprocess.run(
        [sys.executable, "tests/architecture.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = listed.stdout.splitlines()
    assert len(lines) > 400
    assert [line for line in lines if line.endswith(": ")] == []
    assert lines[-len(architecture.layers()) :] == [f"  {each}" for each in architecture.layers()]


def test_every_path_on_the_page_leads_somewhere() -> None:
    page = architecture.PAGE.read_text(encoding="utf-8")
    named = re.findall(r"`([\w.]+/[\w./]*)`", page)
    assert len(named) > 20
    assert [
        path for path in named if not any((top / path).exists() for top in (ROOT, PACKAGE))
    ] == []
