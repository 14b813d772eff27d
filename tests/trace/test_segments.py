"""A segment takes whatever a command may say, and gives it back."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pulsar_doctor.trace import segments
from pulsar_doctor.trace.sealing import open_trace
from pulsar_doctor.wire.columns import COLUMNS, NAMES, Row, maker_of, values_of
from tests.made.traces import values, write_trace
from tests.made.wire import Wire, slow_consumer


def written(path: Path, *rows: Row) -> Path:
    writer = segments.SegmentWriter(path)
    for row in rows:
        writer.add(row)
    writer.close()
    return path


def test_a_row_that_says_nothing_is_null_or_neutral() -> None:
    neutral = {"string": ""}
    assert values_of(Row()) == tuple(
        None if column.nullable else neutral.get(column.type, 0) for column in COLUMNS
    )


@given(st.lists(st.sampled_from(NAMES), unique=True))
def test_a_row_is_made_of_any_columns(names: list[str]) -> None:
    row = maker_of(tuple(names))(*range(len(names)))
    untouched = dict(zip(NAMES, values_of(Row()), strict=True))
    assert values_of(row) == tuple((untouched | {n: i for i, n in enumerate(names)}).values())


def test_a_name_from_a_file_does_not_become_code() -> None:
    with pytest.raises(KeyError, match="no columns of a trace"):
        maker_of(("seq", "a=print(1)"))


def test_a_client_that_asks_for_more_than_a_column_holds_is_sealed_all_the_same(
    tmp_path: Path,
) -> None:
    said = Wire().open().attached().flow(2**32 - 1).flow(2**32 - 1).pushed([1])
    rows = list(open_trace(write_trace(tmp_path, said.blocks)).rows())
    assert rows[-1].command == "MESSAGE"
    assert [row.available_permits for row in rows[-2:]] == [2**31 - 1] * 2


def test_a_number_that_is_too_large_leaves_its_neighbours_alone(tmp_path: Path) -> None:
    rows = []
    for messages in (3, -(2**40), None, 2**70):
        rows.append(Row())
        rows[-1].messages = messages
    path = written(tmp_path / "seg-000001.parquet", *rows)
    assert [row.messages for row in segments.read_rows(path)] == [3, -(2**31), None, 2**31 - 1]


@pytest.mark.parametrize(("messages", "held"), [(7, 7), (2**70, 2**31 - 1)])
def test_a_value_that_all_rows_have_is_that_of_each(
    tmp_path: Path, messages: int, held: int
) -> None:
    rows = [Row() for _ in range(3)]
    for row in rows:
        row.messages = messages
    rows[1].permits = 1
    path = written(tmp_path / "seg-000001.parquet", *rows)
    found = [(row.messages, row.permits) for row in segments.read_rows(path)]
    assert found == [(held, None), (held, 1), (held, None)]


def test_columns_that_are_null_throughout_have_as_many_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "seg-000001.parquet", *(Row() for _ in range(5)))
    assert values(segments.read_rows(path, ["raw"])) == values([Row()] * 5)


def test_a_column_that_is_not_ours_is_left_alone(tmp_path: Path) -> None:
    row = Row()
    row.permits = 7
    path = written(tmp_path / "seg-000001.parquet", row)
    table = pq.read_table(path)
    pq.write_table(table.append_column("__class__", pa.array([1])), path, write_page_checksum=True)
    assert values(segments.read_rows(path)) == values([row])
    (read,) = segments.read_rows(path, ["permits", "__class__"])
    assert (type(read), read.permits) == (Row, 7)


def test_columns_are_read_in_pieces_of_any_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = open_trace(write_trace(tmp_path, slow_consumer(200).blocks))
    whole = values(trace.rows())
    for rows in (1, 7, 64):
        monkeypatch.setattr(segments, "READ_ROWS", rows)
        assert values(trace.rows()) == whole


def test_numbers_that_hardly_repeat_have_no_dictionary(tmp_path: Path) -> None:
    path = written(tmp_path / "seg-000001.parquet", Row())
    with pq.ParquetFile(path) as file:
        group = file.metadata.row_group(0)
        columns = [group.column(at) for at in range(group.num_columns)]
    encodings = {column.path_in_schema: column.encodings for column in columns}
    assert set(encodings) == {*segments.DIFFERENCES, *segments.DICTIONARIES, "durable"}
    for name, used in encodings.items():
        assert ("DELTA_BINARY_PACKED" in used) == (name in segments.DIFFERENCES), name
        assert ("RLE_DICTIONARY" in used) == (name in segments.DICTIONARIES), name
