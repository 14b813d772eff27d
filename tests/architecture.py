"""The lists in docs/architecture.md: the modules of each room by their first lines, and the layers.

`python tests/architecture.py` writes them; a test fails while they are not what this makes.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pulsar_doctor"
PAGE = ROOT / "docs" / "architecture.md"
LIST = re.compile(r"(<!-- made: (?P<what>\S+) -->\n).*?(<!-- end -->\n)", re.DOTALL)


def page(text: str) -> str:
    """The page with its lists made anew; what stands around them stays."""
    return LIST.sub(lambda found: found[1] + made(found["what"]) + found[3], text)


def made(what: str) -> str:
    """One list: of the layers, or of a room's modules."""
    lines = layers() if what == "layers" else modules(PACKAGE / what)
    return "".join(f"{line}\n" for line in lines)


def rooms() -> list[str]:
    """All rooms, and nothing that stands beside them at the top."""
    return sorted(path.parent.name for path in PACKAGE.glob("*/__init__.py"))


def modules(room: Path, indent: str = "") -> Iterator[str]:
    """A line for each module, those of rooms within below theirs."""
    for path in sorted(room.iterdir()):
        if (path / "__init__.py").exists():
            yield f"{indent}- `{path.name}/`: {first_line(path / '__init__.py')}"
            yield from modules(path, f"{indent}  ")
        elif path.suffix == ".py" and path.stem != "__init__" and not path.stem.endswith("_pb2"):
            yield f"{indent}- `{path.stem}`: {first_line(path)}"


def first_line(path: Path) -> str:
    """What a file says of itself."""
    told = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return told.split("\n", 1)[0] if told else ""


def layers() -> list[str]:
    """The layers that import-linter holds, the uppermost first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contract = project["tool"]["importlinter"]["contracts"][0]
    return ["```", *contract["layers"], "```"]


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
