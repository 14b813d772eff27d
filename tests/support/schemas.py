"""Every JSON of ours that a test reads is held against the JSON Schema that is shipped.

`watch` does it wherever a test calls json.loads, so that no test can forget it. Here the schema is
closed: a field that it does not know is wrong, though whoever reads our JSON must bear one.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any

from jsonschema import Draft202012Validator

from pulsar_doctor.report.stall_check.schema import schema

SHIPPED = Draft202012Validator
OURS = "pulsar-doctor/"
OPEN = "judged"  # a part of others, which are closed themselves
TAP_HEAD = ("schema", "event", "at", "before")
_right = deque[str](maxlen=20)  # once is enough
LOOKED_AT_MOST = 200  # of a list of verdicts


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
    """Fails where it says of itself that it is ours and its verdicts are not as the schema says."""
    for name, part in _parts(document):
        wrong = next(_validator(name).iter_errors(part), None)
        assert wrong is None, f"{name}{wrong.json_path[1:]}: {wrong.message}"


def _parts(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """What of it has a schema, by its name there."""
    kind = str(document.get("schema")).removeprefix(OURS).partition("/")[0]
    match kind:
        case "stall-check":
            yield "document", {**document, "subscriptions": _some(document.get("subscriptions"))}
        case "verdict":
            yield "line", document
        case "tap" if document["event"] == "verdict":
            yield OPEN, {k: v for k, v in document.items() if k not in TAP_HEAD}
        case "tap" if document["event"] == "end":
            yield from ((OPEN, verdict) for verdict in document["subscriptions"])
        case "simulate" if document.get("verdict"):
            yield OPEN, document["verdict"]
        case "consume":
            findings = (each["findings"] for each in document["consumers"])
            yield from (("finding", finding) for finding in chain.from_iterable(findings))


def _some(verdicts: Any) -> Any:
    """The first and the last of very many."""
    if not isinstance(verdicts, list) or len(verdicts) <= LOOKED_AT_MOST:
        return verdicts
    half = LOOKED_AT_MOST // 2
    return [*verdicts[:half], *verdicts[-half:]]


@cache
def _validator(name: str) -> Any:
    shipped = schema()
    SHIPPED.check_schema(shipped)
    closed = {each: _closed(told, each == OPEN) for each, told in shipped["$defs"].items()}
    asked = {"$ref": f"#/$defs/{name}", "unevaluatedProperties": False}
    return SHIPPED({"$defs": closed, **asked})


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
