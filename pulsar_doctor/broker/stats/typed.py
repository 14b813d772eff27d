"""Fills a dataclass from a JSON object of the broker, by field names and types.

The fields of such a value have the broker's names in snake case; moments end in `_ms` beside that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, partial
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from pulsar_doctor.broker.stats.bounds import BOUNDS, CONSUMERS_MOST, LeastMost, sentence, too_many
from pulsar_doctor.broker.stats.fields import Fields
from pulsar_doctor.broker.stats.functions import FunctionInstance, function_of
from pulsar_doctor.broker.stats.hash_ranges import unowned_hashes
from pulsar_doctor.broker.stats.values import HashRange, Position
from pulsar_doctor.wire.redaction import redact_version

V = TypeVar("V")
ReadField = Callable[[Fields, str], Any]
IgnoredFields = Mapping[type, frozenset[str]]
NOTHING_IGNORED: IgnoredFields = {}


def _ranges(fields: Fields, name: str) -> int | None:
    """broker-stats has another word for it."""
    ranges = fields.whole(name)
    return fields.whole("totalNonContiguousDeletedMessagesRange") if ranges is None else ranges


def _function(fields: Fields, name: str) -> FunctionInstance | None:
    """The function instance; whatever else is in this field is ignored."""
    return function_of(fields.document.get(name))


def _unowned(fields: Fields, name: str) -> tuple[HashRange, ...] | None:
    """Only the gaps are of use: a broker that splits ranges lists hundreds of them."""
    return unowned_hashes(fields.document)


def _version(fields: Fields, name: str) -> str | None:
    text = fields.text(name)
    return None if text is None else redact_version(text)


BY_TYPE: dict[Any, ReadField] = {
    int: Fields.whole,
    float: Fields.number,
    bool: Fields.flag,
    str: Fields.text,
    Position: Fields.position,
    Mapping[str, str]: Fields.texts,
    FunctionInstance: _function,
    tuple[HashRange, ...]: _unowned,
}
BY_NAME: dict[str, ReadField] = {
    "backlog_size": Fields.at_least_0,
    "oldest_backlog_message_age_seconds": Fields.at_least_0,
    "client_version": _version,
    "non_contiguous_deleted_messages_ranges": _ranges,
}
OF_OTHERS = frozenset({_unowned, _ranges})  # these read fields of other names


class _Form(NamedTuple):
    """How a kind of value is read: plain fields, objects within, and moments, by their names."""

    kind: type
    plain: list[tuple[str, str, ReadField]]
    inner: list[tuple[str, str, _Form, Callable[..., Any]]]
    moments: list[str]
    bounded: list[tuple[str, str, LeastMost]]
    keys: set[str]


def value_of(kind: type[V], fields: Fields, ignored: IgnoredFields = NOTHING_IGNORED) -> V:
    """A dataclass of this kind. ignored: fields that mean nothing, of the kinds within it.

    Raises InputError where a field has a wrong type.
    """
    value: V = _read(_form(kind), ignored, fields)  # type: ignore[arg-type]  # a class has a hash
    return value


def _read(form: _Form, ignored: IgnoredFields, document: Fields) -> Any:
    kind, plain, inner, moments, bounded, keys = form
    there = document.document
    # Most fields are not there, in the summaries of a whole broker.
    values = {
        name: read(document, key) for name, key, read in plain if key in there or read in OF_OTHERS
    }
    if moments:
        values["never"] = document.never(*moments)
    if bounded:
        wrong = _take_out(values, bounded, document)
        values["cannot_be"] = (
            *wrong,
            *(text for key, text in document.contradictions() if key in keys),
        )
    for name, key, one, read_all in inner:
        if name == "consumers" and (count := document.length(key)) > CONSUMERS_MOST:
            values["cannot_be"] += (too_many(document.where(key), count),)
            continue
        values[name] = read_all(
            document, key, partial(_read, one, ignored), ignored.get(one.kind, ())
        )
    return kind(**values)


def _take_out(
    values: dict[str, Any], bounded: list[tuple[str, str, LeastMost]], fields: Fields
) -> tuple[str, ...]:
    """Makes what cannot be a number that is not reported, and lists these."""
    wrong = []
    for name, key, (least, most) in bounded:
        value = values.get(name)
        if value is not None and not least <= value <= most:
            values[name] = None
            wrong.append(sentence(fields.where(key), value))
    return tuple(wrong)


@cache
def _form(kind: Any) -> _Form:
    form, hints = _Form(kind, [], [], [], [], set()), get_type_hints(kind)
    for name in (field.name for field in fields(kind) if field.name != "cannot_be"):
        key = re.sub("_([a-z])", lambda letter: letter[1].upper(), name.removesuffix("_ms"))
        form.keys.add(key)
        hint = get_args(hints[name])[0]
        if name.endswith("_ms"):
            form.plain.append((name, key, Fields.time_ms))
            form.moments.append(key)
        elif hint in BY_TYPE:
            form.plain.append((name, key, BY_NAME.get(name, BY_TYPE[hint])))
            if name in BOUNDS and "cannot_be" in hints:
                form.bounded.append((name, key, BOUNDS[name]))
        elif get_origin(hint) is tuple:
            form.inner.append((name, key, _form(get_args(hint)[0]), Fields.each))
        elif get_origin(hint) is Mapping:
            form.inner.append((name, key, _form(get_args(hint)[1]), Fields.by_name))
        elif isinstance(hint, type) and is_dataclass(hint):
            form.inner.append((name, key, _form(hint), Fields.one))
    return form
