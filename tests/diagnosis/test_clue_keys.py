"""Every clue counts for some suspect, and whatever counts is a clue that may be seen."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pulsar_doctor.diagnosis import consumer_clues, subscription_clues
from pulsar_doctor.diagnosis.fitted import weights
from pulsar_doctor.diagnosis.healthy import EVERY_CONSUMER
from pulsar_doctor.diagnosis.observations import CLUES, OF_CONSUMER, OF_SUBSCRIPTION, SENTENCES
from tests.incidents.asking import HYPOTHESES

BY_RULES = {"undecided", "settled"}  # what the rules have said, and no look at a view
DIAGNOSIS = Path(consumer_clues.__file__).parent
WORDED = re.compile(r'\bworded\("(\w+)"')
pytestmark = pytest.mark.pure


def keys_of(module: ModuleType) -> Iterator[set[str]]:
    """Those that each yield of its tests may have; a table that it looks up counts whole."""
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        if isinstance(node, ast.Yield) and node.value is not None:
            key = node.value.elts[0] if isinstance(node.value, ast.Tuple) else node.value
            parts = list(ast.walk(key))
            tables = [getattr(module, n.id, {}) for n in parts if isinstance(n, ast.Name)]
            yield {
                *(n.value for n in parts if isinstance(n, ast.Constant) and n.value),
                *(key for table in tables if isinstance(table, dict) for key in table.values()),
            }


def observed() -> set[str]:
    of_each, of_all = list(keys_of(consumer_clues)), list(keys_of(subscription_clues))
    assert all(of_each)
    assert all(of_all)
    assert len(of_each) > 30
    assert len(of_all) > 30
    return set().union(*of_each, *of_all)


def seen() -> set[str]:
    return {row.clue or key for key, row in CLUES.items()}


def counted() -> set[str]:
    return {key for each in HYPOTHESES for key in (*each.speaks_for, *each.against)}


def excluding() -> set[object]:
    return {key for each in HYPOTHESES for key in (*each.excluded, *each.not_by)}


def test_each_row_of_the_table_has_a_test_and_each_test_has_a_row() -> None:
    assert observed() == CLUES.keys()


def test_each_row_that_is_no_clue_is_named_by_a_law_or_cause() -> None:
    files = [path for path in DIAGNOSIS.rglob("*.py") if path.name != "observations.py"]
    text = "\n".join(path.read_text("utf-8") for path in files)
    assert set(WORDED.findall(text)) <= SENTENCES.keys()
    assert {key for key in SENTENCES.keys() - CLUES.keys() if f'"{key}"' not in text} == set()


def test_what_excludes_a_cause_is_observed_or_its_own() -> None:
    consumers, whole = OF_CONSUMER.keys(), OF_SUBSCRIPTION.keys()
    for each in HYPOTHESES:
        assert {key for key in each.excluded if isinstance(key, str)} <= whole, each.code
        assert {key for key in each.not_by if isinstance(key, str)} <= consumers, each.code


def test_no_clue_is_seen_for_nothing() -> None:
    summed = {key for keys in EVERY_CONSUMER.values() for key in keys}
    assert seen() - counted() - summed - excluding() == set()
    assert EVERY_CONSUMER.keys() <= counted()


def test_what_counts_is_a_clue_that_there_is() -> None:
    assert counted() - seen() == {*EVERY_CONSUMER, *BY_RULES}
    assert {key for keys in EVERY_CONSUMER.values() for key in keys} <= seen()


def test_every_clue_of_a_fitted_cause_has_a_weight_and_speaks_one_way() -> None:
    assert weights().keys() <= {each.code for each in HYPOTHESES}
    for each in HYPOTHESES:
        keys = (*each.speaks_for, *each.against)
        assert len(set(keys)) == len(keys), each.code
        assert weights().get(each.code, {"": 0, **dict.fromkeys(keys, 0)}).keys() == {"", *keys}
