"""What `holes` makes of a trace, by what the trace knows of the broker: transcripts of a wire."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.checkup.holes.from_trace import holes_of_trace
from pulsar_doctor.ledger.acks.doubts import INDEX_ACKS, OLDER
from pulsar_doctor.report.holes.document import as_json
from pulsar_doctor.trace.folder import Meta, journal_name
from tests.made.wire import SHARED, Wire

NUMBERS = ("mark_delete", "ranges", "acknowledged_entries", "holes", "hole_entries")


def document(folder: Path, said: Wire, keeps: str | None = None, **how: Any) -> dict[str, Any]:
    """keeps: what the broker told of acks of parts of batches; None: it did not."""
    told = {} if keeps is None else {"acknowledgmentAtBatchIndexLevelEnabled": keeps}
    Meta("x", broker={"version": "4.0.8", "configuration": told}).write(folder)
    (folder / journal_name(1)).write_bytes(said.journal)
    (account,) = holes_of_trace(folder, (), None, None, **how).accounts
    return as_json(account)


def in_parts() -> Wire:
    """Of four batches the first and the third are acknowledged in two parts, the last as one."""
    said = Wire().open().attached(sub_type=SHARED).flow(100).pushed(range(4), batch=3)
    for entry in (0, 2):
        said.acked([entry], open_bits=0b011).acked([entry], open_bits=0b100)
    return said.acked([3])


@pytest.mark.parametrize(
    ("keeps", "numbers"), [("true", ["7:0", 1, 2, 1, 1]), ("false", ["7:-1", 1, 1, 1, 3])]
)
def test_the_setting_that_was_recorded_counts(tmp_path, keeps, numbers):
    found = document(tmp_path, in_parts(), keeps)
    assert [found[name] for name in NUMBERS] == numbers
    assert [found[f"{name}_least"] for name in NUMBERS] == numbers
    assert [found[f"{name}_most"] for name in NUMBERS] == numbers
    assert found["not_told"] == []


def test_without_it_there_are_bounds_and_a_doubt(tmp_path):
    found = document(tmp_path, in_parts())
    assert [found[name] for name in NUMBERS] == [None, 1, None, None, None]
    assert [found[f"{name}_least"] for name in NUMBERS] == ["7:-1", 1, 1, 1, 1]
    assert [found[f"{name}_most"] for name in NUMBERS] == ["7:0", 1, 2, 1, 3]
    assert found["oldest_hole"] is None
    assert (found["oldest_hole_begin_least"], found["oldest_hole_begin_most"]) == ("7:0", "7:1")
    assert (found["account"], found["status"]) == (None, "healthy")
    assert found["not_told"] == [INDEX_ACKS]


def test_what_is_said_counts_and_not_what_was_recorded(tmp_path):
    found = document(tmp_path, in_parts(), "true", batch_index_acks=False)
    assert (found["mark_delete"], found["not_told"]) == ("7:-1", [])


def test_where_it_makes_no_difference_there_is_no_doubt(tmp_path):
    found = document(tmp_path, in_parts().acked([0]).acked([2]))
    assert [found[name] for name in NUMBERS] == ["7:0", 1, 2, 1, 1]
    assert found["not_told"] == []


def test_a_doubt_leaves_the_number_and_tells_what_is_certain_beside(tmp_path):
    said = Wire().open().attached(sub_type=SHARED).flow(100).pushed(range(5, 9)).acked([5, 7])
    found = document(tmp_path, said)
    assert [found[name] for name in NUMBERS] == ["7:5", 1, 1, 1, 1]
    assert [found[f"{name}_least"] for name in NUMBERS] == [None, 1, 1, 1, 1]
    assert [found[f"{name}_most"] for name in NUMBERS] == ["7:5", None, None, None, None]
    assert found["not_told"] == [OLDER]
