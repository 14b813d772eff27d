"""Words that only we understand become fewer in the package, and never more.

They are counted in names, help, messages and comments. What to write instead: reported or known for
`told`, requested for `asked`, is at or is blocked in for `stands` and `sits`, works or is sent for
`goes`, sample for `look`, message for `said`. For `whose` and `of its` name the owner; for
`likewise` repeat the words.
"""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

import pulsar_doctor

PACKAGE = Path(pulsar_doctor.__file__).parent
# How often each may be there. A change that removes some lowers its number.
MOST = {
    "told": 1912,
    "asked": 1022,
    "stands": 129,
    "sits": 52,
    "goes": 159,
    "look": 211,  # the broker's own "look-ahead" is among them
    "said": 261,
    "whose": 149,
    "of its": 268,
    "likewise": 22,
}
SLACK = 25  # of a number that is too high: changes that are made side by side
WORD = re.compile(r"[a-z]+|[A-Z]+(?![a-z])|[A-Z][a-z]*")


@cache
def counts() -> Counter[str]:
    """How often each word is in the package; a name counts by its parts."""
    found: Counter[str] = Counter()
    for path in PACKAGE.rglob("*.*"):
        if path.suffix in (".py", ".java", ".toml") and not path.stem.endswith("_pb2"):
            words = [word.lower() for word in WORD.findall(path.read_text("utf-8"))]
            found.update(words)
            found.update(f"{one} {other}" for one, other in pairwise(words))
    return found


@pytest.mark.parametrize("word", MOST)
def test_there_are_fewer_private_words_and_the_number_says_so(word: str) -> None:
    found = counts()[word]
    assert found <= MOST[word], f"{found - MOST[word]} more of {word!r}: use plain words"
    assert found > MOST[word] - SLACK, f"well done: lower the number of {word!r} to {found}"
