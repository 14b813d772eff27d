"""Lists the modules of each room and part by the first lines of their docstrings, and the layers.

    python tests/architecture.py                   everything
    python tests/architecture.py wire parts.tap    a room of the core and a part
    python tests/architecture.py --figures         arrows, layers, longest import chain, lines

docs/architecture.md explains what these lists only name.
"""

from __future__ import annotations

import ast
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import grimp

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pulsar_doctor"
PAGE = ROOT / "docs" / "architecture.md"
PARTS = "parts"


def listing(names: list[str]) -> Iterator[str]:
    """The lines to print: of all packages and the layers, or of the packages that are named."""
    for name in names or packages():
        folder = PACKAGE.joinpath(*name.split("."))
        yield f"{name}: {first_line(folder / '__init__.py')}"
        yield from modules(folder, "  ")
    if not names:
        yield "layers, uppermost first:"
        yield from (f"  {layer}" for layer in layers())


def packages() -> list[str]:
    """The rooms of the core, and the parts as `parts.tap`."""
    core = {path.parent.name for path in PACKAGE.glob("*/__init__.py")} - {PARTS}
    parts = {path.parent.name for path in (PACKAGE / PARTS).glob("*/__init__.py")}
    return [*sorted(core), *(f"{PARTS}.{part}" for part in sorted(parts))]


def modules(package: Path, indent: str) -> Iterator[str]:
    """A line for each module; those of inner packages are below theirs."""
    for path in sorted(package.iterdir()):
        if (path / "__init__.py").exists():
            yield f"{indent}{path.name}/: {first_line(path / '__init__.py')}"
            yield from modules(path, f"{indent}  ")
        elif path.suffix == ".py" and path.stem != "__init__" and not path.stem.endswith("_pb2"):
            yield f"{indent}{path.stem}: {first_line(path)}"


def first_line(path: Path) -> str:
    """The first line of a file's docstring."""
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return docstring.split("\n", 1)[0] if docstring else ""


def layers() -> list[str]:
    """The layers that import-linter holds, the uppermost first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    found: list[str] = project["tool"]["importlinter"]["contracts"][0]["layers"]
    return found


@cache
def imports() -> grimp.ImportGraph:
    """Who imports whom, wherever in a file, also for type checkers only."""
    return grimp.build_graph("pulsar_doctor")


def arrows() -> dict[tuple[str, str], list[str]]:
    """Each room or part (or module beside them) that imports another one, and where."""
    found: dict[tuple[str, str], list[str]] = {}
    for module in sorted(imports().modules):
        for imported in sorted(imports().find_modules_directly_imported_by(module)):
            arrow = package_of(module), package_of(imported)
            if arrow[0] != arrow[1]:
                found.setdefault(arrow, []).append(f"{module} -> {imported}")
    return found


def package_of(module: str) -> str:
    """The room of the core, or the part as `parts.tap`; the root package is an empty name."""
    _, name, *inner = f"{module}.".split(".")
    return f"{name}.{inner[0]}" if name == PARTS and inner[0] else name


def kinds_of_arrows() -> Counter[str]:
    """How many there are within the core, between parts, and from a part to the core."""
    return Counter(
        "between parts" if imported.startswith(f"{PARTS}.")
        else "from parts to the core" if importer.startswith(f"{PARTS}.")
        else "within the core"
        for importer, imported in arrows()
    )  # fmt: skip


def lines() -> Counter[str]:
    """Lines of Python of the core and of each part; generated files are left out."""
    counted = Counter[str]()
    for path in PACKAGE.rglob("*.py"):
        if not path.stem.endswith("_pb2"):
            module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
            found = package_of(module.removesuffix(".__init__"))
            name = found if found.startswith(f"{PARTS}.") else "core"
            counted[name] += len(path.read_text(encoding="utf-8").splitlines())
    return counted


@cache
def chain(module: str) -> tuple[str, ...]:
    """The longest chain of imports that begins with this module."""
    chains = map(chain, sorted(imports().find_modules_directly_imported_by(module)))
    return (module, *max(chains, key=len, default=()))


def figures() -> Iterator[str]:
    """What the structure is measured by."""
    yield from (f"arrows {kind}: {count}" for kind, count in kinds_of_arrows().items())
    yield f"layers: {len(layers())}"
    longest = max(map(chain, sorted(imports().modules)), key=len)
    yield f"longest import chain: {len(longest)}"
    yield from (f"  {module}" for module in longest)
    yield from (f"lines of {name}: {count:,}" for name, count in lines().most_common())
    yield "arrows that one import makes:"
    yield from (f"  {where[0]}" for where in arrows().values() if len(where) == 1)


if __name__ == "__main__":
    wanted = sys.argv[1:]
    print("\n".join(figures() if wanted == ["--figures"] else listing(wanted)))
