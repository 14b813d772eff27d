"""Breaks rules and views in drawn places, one at a time, and shows which tests notice it.

    python bench/mutations.py [--seed 36] [--count 100] [--only 3,17] [FOLDER]

The places are comparisons, numbers and conditions of diagnosis/ and evidence/, the same ones for
the same seed and sources. Each change is made in a copy of the tree in FOLDER, and the tests of
causes run there; if these pass, those of whatever judges. What no test notices is printed with its
line: either the change is equivalent, or a test is missing. The exit code is how many there are.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
JUDGED = ("diagnosis", "evidence")
RULES = ("tests/causes/test_rules.py", "tests/diagnosis/test_status.py", "-n", "0")
NEAR = ("tests/causes", "tests/diagnosis", "tests/evidence", "-n", "0")
OF_REST = (
    "checkup",
    "cursors",
    "incidents",
    "stats",
    "known",
    "process",
    "report",
    "scalable",
    "states",
)
FAR = (*(f"tests/{name}" for name in OF_REST), "-n", "2")
SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One expression of a file and what stands in its place."""

    path: str
    node: ast.expr
    instead: str

    def __str__(self) -> str:
        return f"{self.path}:{self.node.lineno}: {ast.unparse(self.node)} -> {self.instead}"

    def made(self, text: str) -> str:
        """The text of the file with it."""
        lines = text.encode().splitlines(keepends=True)
        node = self.node
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        before = b"".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
        after = lines[node.end_lineno - 1][node.end_col_offset :] + b"".join(
            lines[node.end_lineno :]
        )
        return (before + f"({self.instead})".encode() + after).decode()


def changes() -> Iterator[Change]:
    """All there are, in the order of the sources."""
    for part in JUDGED:
        for path in sorted((ROOT / "pulsar_doctor" / part).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            for node in expressions(ast.parse(path.read_text("utf-8"))):
                yield from (Change(name, node, ast.unparse(new)) for new in broken(node))


def expressions(node: ast.AST) -> Iterator[ast.expr]:
    """Those of it that run when something is judged: no annotations, no parts of f-strings."""
    if isinstance(node, ast.expr):
        yield node
    skipped = {"annotation", "returns", "decorator_list"}
    for name, value in ast.iter_fields(node):
        children = value if isinstance(value, list) else [value]
        for child in children if name not in skipped else ():
            if isinstance(child, ast.AST) and not isinstance(child, ast.JoinedStr):
                yield from expressions(child)


def broken(node: ast.expr) -> Iterator[ast.expr]:
    """What it may be changed to."""
    if isinstance(node, ast.Compare):
        for at, op in enumerate(node.ops):
            ops = [*node.ops[:at], SWAPPED[type(op)](), *node.ops[at + 1 :]]
            yield ast.Compare(node.left, ops, node.comparators)
    elif isinstance(node, ast.BoolOp):
        yield ast.BoolOp(ast.Or() if isinstance(node.op, ast.And) else ast.And(), node.values)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node.operand
    elif isinstance(node, ast.IfExp):
        yield ast.IfExp(ast.UnaryOp(ast.Not(), node.test), node.body, node.orelse)
    elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
        yield ast.BinOp(node, ast.Add(), ast.Constant(1))


def noticed(change: Change, tree: Path) -> str | None:
    """The first test that fails with this change; None where all pass."""
    original = (tree / change.path).read_text("utf-8")
    (tree / change.path).write_text(change.made(original), "utf-8")
    try:
        for tests in (RULES, NEAR, FAR):
            if by := failing(tree, *tests):
                return by
        return None
    finally:
        (tree / change.path).write_text(original, "utf-8")


def failing(tree: Path, *arguments: str) -> str | None:
    """The first pure test that fails there."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "pure", "-p", "no:cacheprovider"]
    command += arguments
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    ended = subprocess.run(
        command, check=False, cwd=tree, env=environment, capture_output=True, text=True
    )
    assert ended.returncode in (0, 1, 2), ended.stdout  # 2: a module cannot be imported any more
    told = [line for line in ended.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return None if ended.returncode == 0 else (told or [f"exit code {ended.returncode}"])[0]


def main() -> int:
    """Prints a line for each change, and the ones that nobody noticed once more."""
    parser = argparse.ArgumentParser("bench/mutations.py", description=__doc__)
    parser.add_argument("--seed", type=int, default=36)
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--only", help="the numbers of these alone, with commas")
    parser.add_argument("folder", type=Path, nargs="?", help="where the copy is made")
    asked = parser.parse_args()
    possible = list(changes())
    drawn = random.Random(asked.seed).sample(possible, asked.count)
    print(f"{len(possible):,} changes are possible, {len(drawn)} are made", flush=True)
    chosen = {int(number) for number in asked.only.split(",")} if asked.only else None
    folder = asked.folder or Path(tempfile.mkdtemp())
    tree = folder / "tree"
    keep = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, tree, ignore=keep, dirs_exist_ok=True)
    assert failing(tree, *NEAR) is None, "the tests fail without any change"
    missed = []
    for number, change in enumerate(drawn):
        if chosen and number not in chosen:
            continue
        began = time.monotonic()
        by = noticed(change, tree)
        missed += [] if by else [f"{number}  {change}"]
        print(f"{number:3} {time.monotonic() - began:5.0f} s  {change}\n      {by}", flush=True)
    print(f"\n{len(missed)} that no test notices:", *missed, sep="\n")
    return len(missed)


if __name__ == "__main__":
    sys.exit(main())
