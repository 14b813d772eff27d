"""Every JSON of ours that a test reads is validated against the JSON Schema of its document.

`watch` does it wherever a test calls json.loads, so that no test can forget it. Here the schema is
closed: a field that it does not know is wrong, though whoever reads our JSON must bear one.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from pulsar_doctor.report.schemas import names, schema_of

SHIPPED = Draft202012Validator
OURS = "pulsar-doctor/"
OPEN = "judged"  # a part of others, which are closed themselves
NAMES = frozenset(names())
_right = deque[str](maxlen=20)  # once is enough
LOOKED_AT_MOST = 200  # of a list of verdicts, or of the consumers of one


def watch() -> None:
    """From now on, whatever a test reads with json.loads is looked at."""
    loads = json.loads

    def watched(text: Any, **how: Any) -> Any:
        read = loads(text, **how)
        asking = sys._getframe(1).f_globals.get("__name__", "")
        if isinstance(read, dict) and asking.startswith("tests.") and text not in _right:
            check(read)
        return read

    json.loads = watched  # type: ignore[assignment]


def check_text(text: str) -> None:
    """The same of what a command line has printed: a document, lines, or nothing of ours."""
    if not text.startswith(f'{{"schema": "{OURS}'):
        return
    decode = json.JSONDecoder().decode
    try:
        check(decode(text))
        _right.append(text)
    except json.JSONDecodeError:
        for line in text.splitlines():
            check(decode(line))
            _right.append(line)


def check(document: Mapping[str, Any]) -> None:
    """Fails where it says of itself that it is ours and is not as its schema says."""
    kind = str(document.get("schema")).removeprefix(OURS).partition("/")[0]
    if kind not in NAMES:
        return
    part = dict(document)
    if isinstance(verdicts := part.get("subscriptions"), list):
        part["subscriptions"] = [*map(_with_some_consumers, _some(verdicts))]
    found = _validator(kind, document.get("event")).iter_errors(part)
    wrong = max(_errors(found), key=_depth, default=None)
    assert wrong is None, f"{kind}{wrong.json_path[1:]}: {wrong.message}"


def _errors(found: Iterable[ValidationError]) -> Iterator[ValidationError]:
    """With those of the branches of a choice."""
    for error in found:
        yield error
        yield from _errors(error.context or ())


def _depth(error: ValidationError) -> int:
    """What is wrong deep inside makes all around it wrong, too."""
    return len(error.absolute_path)


def _some(each: list[Any]) -> list[Any]:
    """The first and the last of very many."""
    half = LOOKED_AT_MOST // 2
    return each if len(each) <= LOOKED_AT_MOST else [*each[:half], *each[-half:]]


def _with_some_consumers(verdict: Any) -> Any:
    if isinstance(verdict, dict) and isinstance(each := verdict.get("consumers"), list):
        return verdict | {"consumers": _some(each)}
    return verdict


@cache
def _validator(kind: str, event: str | None) -> Any:
    shipped = schema_of(kind)
    SHIPPED.check_schema(shipped)
    defs = shipped.get("$defs", {})
    closed = {each: _closed(told, each == OPEN) for each, told in defs.items()}
    whole = {name: value for name, value in shipped.items() if name != "$defs"}
    if "oneOf" in whole:
        whole = {"$ref": "#/$defs/document"}
    for one in whole.get("anyOf", ()):
        if one["properties"]["event"]["const"] == event:  # errors are of this one
            whole = one
    return SHIPPED({"$defs": closed, **_closed(whole), "unevaluatedProperties": False})


def _closed(schema: Any, is_open: bool = False) -> Any:
    """The same, where no object may have a field that is not named."""
    if isinstance(schema, list):
        return [_closed(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    closed = {name: _closed(told) for name, told in schema.items()}
    if "properties" in schema and not is_open:
        closed["unevaluatedProperties"] = False
    return closed
