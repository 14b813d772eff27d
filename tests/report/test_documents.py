from __future__ import annotations

from dataclasses import dataclass

import pytest

from pulsar_doctor.report.documents import as_json, fields


@dataclass(frozen=True, slots=True)
class Inner:
    number: int
    text: str | None = None


@dataclass(frozen=True, slots=True)
class Outer:
    name: str
    inner: Inner | None = None


def test_a_field_is_an_attribute_a_path_or_what_computes_it() -> None:
    write = fields("name size=inner.number both", both=lambda of: [of.name, of.inner.text])
    assert write(Outer("a", Inner(1))) == {"name": "a", "size": 1, "both": ["a", None]}


def test_a_path_through_none_is_null_and_what_is_null_may_be_left_out() -> None:
    assert fields("size=inner.number")(Outer("a")) == {"size": None}
    assert fields("name size?=inner.number")(Outer("a")) == {"name": "a"}


def test_fields_of_another_value_are_put_in_the_place_of_its_name() -> None:
    write = fields("*inner name", inner=lambda of: fields("number text")(of.inner))
    assert [*write(Outer("a", Inner(1, "b"))).items()] == [
        ("number", 1), ("text", "b"), ("name", "a"),
    ]  # fmt: skip


def test_what_computes_no_field_is_refused() -> None:
    with pytest.raises(AssertionError, match="siez"):
        fields("name size", siez=lambda of: 1)


def test_a_value_without_a_shape_stays_what_it_is() -> None:
    assert as_json([Inner(1), None, "a"]) == [Inner(1), None, "a"]
