"""The package is in plain English: private words and broken openings become fewer, and never more.

Words are counted in names, docstrings, comments and messages. What to write instead: reported or
known for `told`, request or options for `asked`, is at or is blocked in for `stands` and `sits`,
works or is sent for `goes`, sample for `look`, message or text for `said`. For `whose` and `of its`
name the owner; for `likewise` repeat the words. A docstring is read alone, in an editor's hover: it
begins with its subject or its verb, not with "Of", "As", "All", "Its" or "Those".

Counting is not reading. Ten files to read: `random.Random(60).sample(sorted(files), 10)`, with the
lines of `git ls-files "pulsar_doctor/*.py"` without _pb2 as files, and another seed each time.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import pulsar_doctor

PACKAGE = Path(pulsar_doctor.__file__).parent
PRIVATE = ("told", "asked", "said", "stands", "looks", "whose", "goes", "likewise")
# All of these in the modules, and the broken openings. A change that removes some lowers it.
MOST_IN_ALL = 144
# The others, in every file that we write. The broker's own "look-ahead" is among them.
MOST = {"sits": 37, "look": 209, "of its": 271}
SLACK = 25  # of a number that is too high: changes that are made side by side
WORD = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]*")
OPENING = re.compile(r"\s*(Of|As|All|Its|Those)\b")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def texts(*suffixes: str) -> Iterator[str]:
    for path in PACKAGE.rglob("*.*"):
        if path.suffix in suffixes and not path.stem.endswith("_pb2"):
            yield path.read_text("utf-8")


@cache
def counts(*suffixes: str) -> Counter[str]:
    """How often each word is in the package; a name counts by its parts."""
    found: Counter[str] = Counter()
    for text in texts(*suffixes):
        words = [word.lower() for word in WORD.findall(text)]
        found.update(words)
        found.update(f"{one} {other}" for one, other in pairwise(words))
    return found


def broken_openings() -> list[str]:
    nodes = (node for text in texts(".py") for node in ast.walk(ast.parse(text)))
    docstrings = (ast.get_docstring(node) for node in nodes if isinstance(node, DOCUMENTED))
    return [text for text in docstrings if text and OPENING.match(text)]


def test_there_are_fewer_private_words_and_broken_openings_and_the_number_says_so() -> None:
    openings = broken_openings()
    found = sum(counts(".py")[word] for word in PRIVATE) + len(openings)
    assert found <= MOST_IN_ALL, f"{found - MOST_IN_ALL} more: use plain words; {openings}"
    assert found > MOST_IN_ALL - SLACK, f"well done: lower MOST_IN_ALL to {found}"


@pytest.mark.parametrize("word", MOST)
def test_there_are_fewer_of_the_others_and_the_number_says_so(word: str) -> None:
    found = counts(".py", ".java", ".toml")[word]
    assert found <= MOST[word], f"{found - MOST[word]} more of {word!r}: use plain words"
    assert found > MOST[word] - SLACK, f"well done: lower the number of {word!r} to {found}"
