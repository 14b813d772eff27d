"""Breaks the package in drawn places, one at a time, and shows which lane of tests notices it.

    python bench/mutations.py [--seed 52] [--each 10] [--only 3,17] [FOLDER]

The places are comparisons, numbers and conditions: as many of each part of `PARTS`, the same ones
for the same seed and sources. Each change is made in a copy of the tree in FOLDER. First the
nearest tests of the default lane run, with one change at a time. What they let live is then broken
all at once for one run of the default lane, and what that lets live for one run of the nightly
lane; whose change a failure is, is found by running the failed tests again with each change alone.
So a change that another one hides would be missed: no two are in one file.

Prints what each change is noticed by. What no test notices is either equivalent, or a test is
missing. The exit code is how many there are.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
# What a part is called, its folders in the package, and where its nearest tests are.
PARTS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "relay": (("parts/tap/relay",), ("tests/parts/tap/relay", "tests/parts/tap/test_killed.py")),
    "trace": (("trace", "ledger", "wire"), ("tests/trace", "tests/ledger", "tests/wire")),
    "capture": (("parts/capture",), ("tests/parts/capture",)),
    "broker": (("broker",), ("tests/broker", "tests/scalable", "tests/cli")),
    "examine": (("parts/examine",), ("tests/parts/examine",)),
    "rules": (("diagnosis", "evidence"), ("tests/causes", "tests/diagnosis", "tests/evidence")),
}
NEAREST = ("-m", "not slow and not nightly and not broker", "-x", "-n", "2")
LANES = {"default": ("-n", "3"), "nightly": ("-n", "3", "-m", "nightly")}
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


def changes(folders: Sequence[str]) -> list[Change]:
    """All that are possible in these folders of the package, in the order of the sources."""
    found = []
    for folder in folders:
        for path in sorted((ROOT / "pulsar_doctor" / folder).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if not name.endswith("_pb2.py"):
                for node in expressions(ast.parse(path.read_text("utf-8"))):
                    found += [Change(name, node, ast.unparse(new)) for new in broken(node)]
    return found


def drawn(seed: int, each: int) -> list[tuple[str, Change]]:
    """As many changes of each part, with the part; never two of one file."""
    found: list[tuple[str, Change]] = []
    for part, (folders, _) in PARTS.items():
        possible = changes(folders)
        random.Random(f"{seed} {part}").shuffle(possible)
        by_file: dict[str, Change] = {}
        for change in possible:
            by_file.setdefault(change.path, change)
        found += [(part, change) for change in list(by_file.values())[:each]]
    return found


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


@dataclass(frozen=True, slots=True)
class Tree:
    """A copy of the project in which changes are made and tests run."""

    folder: Path

    def failed(self, made: Sequence[Change], *arguments: str) -> list[str]:
        """The tests that fail with these changes, in the order of their reports."""
        files = {each.path: (self.folder / each.path).read_text("utf-8") for each in made}
        try:
            for each in made:
                (self.folder / each.path).write_text(each.made(files[each.path]), "utf-8")
            return self._failing(arguments)
        finally:
            for path, text in files.items():
                (self.folder / path).write_text(text, "utf-8")

    def _failing(self, arguments: Sequence[str]) -> list[str]:
        command = [sys.executable, "-m", "pytest", "-q", "-rfE", "-p", "no:cacheprovider"]
        environment = {**os.environ, "PYTHONPATH": str(self.folder), "PYTHONDONTWRITEBYTECODE": "1"}
        ended = subprocess.run(
            [*command, *arguments], check=False, cwd=self.folder, env=environment,
            capture_output=True, text=True,
        )  # fmt: skip
        # pytest-xdist adds the group of a test to its name
        named = re.findall(r"^(?:FAILED|ERROR) (.+?)(?:@[\w./]+)?(?: - .*)?$", ended.stdout, re.M)
        return named if ended.returncode == 0 or named else [f"exit code {ended.returncode}"]


def by_lane(tree: Tree, lane: str, alive: Sequence[Change]) -> dict[Change, str]:
    """Which of the changes the lane notices, each with the first test that fails with it alone."""
    failed = [each for each in tree.failed(alive, *LANES[lane]) if "::" in each]
    print(f"{lane} lane, {len(alive)} changes at once: {len(failed)} tests fail", flush=True)
    found = {}
    for change in alive if failed else ():
        alone = tree.failed([change], *failed, "-x", "-n", "0", "-m", "")
        assert not alone or "::" in alone[0], f"pytest did not run {failed}: {alone}"
        if alone:
            found[change] = f"{lane}: {alone[0]}"
    return found


def main() -> int:
    """Prints a line for each change, and the ones that nobody noticed once more."""
    parser = argparse.ArgumentParser("bench/mutations.py", description=__doc__)
    parser.add_argument("--seed", type=int, default=52)
    parser.add_argument("--each", type=int, default=10, help="how many of each part")
    parser.add_argument("--only", help="the numbers of these alone, with commas")
    parser.add_argument("folder", type=Path, nargs="?", help="where the copy is made")
    options = parser.parse_args()
    chosen = {int(number) for number in options.only.split(",")} if options.only else None
    made = [
        (part, change)
        for number, (part, change) in enumerate(drawn(options.seed, options.each))
        if chosen is None or number in chosen
    ]
    tree = Tree(copy_in(options.folder or Path(tempfile.mkdtemp())))
    nearest = {each for part, _ in made for each in PARTS[part][1]}
    assert not tree.failed([], *NEAREST, *nearest), "tests fail without any change"
    by: dict[Change, str] = {}
    for number, (part, change) in enumerate(made):
        began = time.monotonic()
        if failed := tree.failed([change], *NEAREST, *PARTS[part][1]):
            by[change] = f"nearest: {failed[0]}"
        took = time.monotonic() - began
        print(f"{number:3} {took:5.0f} s  {part}  {change}\n      {by.get(change)}", flush=True)
    for lane in LANES:
        by |= by_lane(tree, lane, [change for _, change in made if change not in by])
    print(Counter((part, by.get(change, "nothing").partition(":")[0]) for part, change in made))
    print(
        *(f"{change}\n      {by[change]}" for change in by if "nearest" not in by[change]), sep="\n"
    )
    missed = [change for _, change in made if change not in by]
    print(f"\n{len(missed)} that no test notices:", *missed, sep="\n")
    return len(missed)


def copy_in(folder: Path) -> Path:
    """The tree of this checkout, copied into the folder."""
    keep = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache")
    return Path(shutil.copytree(ROOT, folder / "tree", ignore=keep, dirs_exist_ok=True))


if __name__ == "__main__":
    sys.exit(main())
