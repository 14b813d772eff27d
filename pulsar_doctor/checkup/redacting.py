"""Replaces names in a case or in samples by pseudonyms, and leaves out other text from outside.

A text stays only if its shape shows that it is a number, a position or a time, or if it is one of
the program's own words. Everything else is a name, which becomes a pseudonym, or is left out. The
pseudonyms of one file agree with each other. Their key is random and is not kept, so that nobody
can find out a name by trying.
"""

from __future__ import annotations

import hmac
import re
import secrets
from base64 import b32encode
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Literal, get_args, get_origin, get_type_hints

from pulsar_doctor.broker.samples.plain import UNKNOWN
from pulsar_doctor.broker.samples.reading import USERS_OWN
from pulsar_doctor.broker.stats import cursors, internal, topic
from pulsar_doctor.checkup.case import SavedCase
from pulsar_doctor.checkup.result import REST, STATUSES
from pulsar_doctor.diagnosis.causes import load
from pulsar_doctor.evidence import by_stats, by_wire, measures, stats_moved, stats_reading
from pulsar_doctor.evidence.facts import FACTS
from pulsar_doctor.ledger.clients import CLIENTS
from pulsar_doctor.ledger.topics import split_partition
from pulsar_doctor.wording.typed_json import FORMS, Value, form_of, of_json, to_json

LEFT_OUT = "left out by --redact"
# A number with its bounds, a position, of a transaction, ranges of positions, or a time.
HARMLESS = re.compile(
    r"((at least |at most )?-?\d+( to -?\d+|\.\d+)?)?|-?\d+(:-?\d+){1,3}|\d+,\d+"
    r"|\[([\[(]-?\d+:-?\d+(\.\.|\u2025)-?\d+:-?\d+[\])],? ?)*\]"
    r"|\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d([.,]\d+)?(Z|[+-][\d:]+)?"
)
NUMBER = r"\d+(?:\.\d+)*(?:-M\d+)?"
KEPT = {  # of texts of these kinds, what they begin with
    "change": re.compile(r"[a-z-]+\.[a-z_]+=[\w.%]+$"),
    "version": re.compile(
        rf"(?:{'|'.join(re.escape(text) for each in CLIENTS for text in each.reports)})"
        rf"(?:[- ]?v?{NUMBER}|$)|(?:(?:Java|Python) |v?){NUMBER}"
    ),
}
SHAPES = {  # what stays before and behind a name of the kind
    "cluster": rf"(?P<before>{re.escape(cursors.REPLICATOR_PREFIX)}\.)?(?P<name>.*)",
    "code": r"(?P<name>.*?)(?P<behind>:\d+)?\)?",
    "consumer": r"(?P<name>.*?)(?P<behind>(-seg-\d+)?( \(\d+\)|#\d+)?)",
    "host": r"((?P<before>/|https?://)|\w+://)?(?P<name>\[[^\]]*\]|[^/:]*)(?P<behind>:\d{1,5})?(/.*)?",
}
SCHEMES = ("persistent", "non-persistent", "topic", "segment")
OWN_WORDS = frozenset(
    {"Exclusive", "Shared", "Failover", "Key_Shared", "as told", "measured"}
    | {*STATUSES, measures.STATS, measures.WIRE, measures.PROCESS, "internal", "unknown"}
    | {by_wire.REFUSED, by_wire.GAP, by_wire.INCOMPLETE, by_wire.LIKELY, by_wire.BETWEEN_BOUNDS}
    | {by_stats.STORES_NOTHING, *(counter for _, counter in stats_reading.COUNTERS)}
    | {stats_moved.FLOW_UNSEEN, stats_moved.CLOCK_UNSEEN}
    | {cursors.REPLICATOR, cursors.SHADOW, cursors.DEDUPLICATION, cursors.COMPACTION}
    | {"subscription", "topic", "broker", "available_permits", "unacked_messages", "backlog"}
    | {"RUNNABLE", "BLOCKED", "WAITING", "TIMED_WAITING", "Ready", "Connecting", "Closed", "None"}
    | {"LedgerOpened", "ClosingLedger", "ClosedLedger", "CreatingLedger", "Open", "NoLedger"}
)
NOBODYS = {REST, "(the broker)", UNKNOWN}  # in place of a name
OWN_CURSORS = {*cursors.BY_NAME, *cursors.ON_TOPICS}

# What kind of name fields hold, by their names in a case, or in a broker's answer.
FIELDS = {
    "topic": "topic dead_letter_topic not_loaded unreachable notes",
    "subscription": "subscription filled_by",
    "consumer": "label name consumer named last who consumerName activeConsumerName",
    "producer": "producerName",
    "host": "address hosts local remote local_address remote_address admin_url ownerBroker",
    "context": "context",
    "file": "files",
    "thread": "thread owner deadlock deadlocks",
    "code": "top line frames inside task on",
    "version": "client_version clientVersion broker_version runtime",
    "change": "changes",
}
KINDS = {field: kind for kind, fields in FIELDS.items() for field in fields.split()}
KINDS_WITHIN = {
    ("cluster", "name"): "cluster", ("process", "name"): "process", ("function", "name"): "topic",
    ("segments", "name"): "topic", ("shifts", "name"): None,
    ("own", "of"): "cluster", ("waits", "of"): "code",
}  # fmt: skip
# Objects of a broker's answer that have names as keys.
KEYS = {
    "subscriptions": "subscription", "cursors": "subscription", "replication": "cluster",
    "consumersAfterMarkDeletePosition": "consumer",
}  # fmt: skip


class Pseudonyms:
    """The pseudonyms of one file, or of several that belong together."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)

    def value(self, value: Value) -> Value:
        """The same frozen dataclass without names, where its fields are called as in a case."""
        return of_json(type(value), self._walked(to_json(value)))

    def fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The JSON of such values without names."""
        walked: dict[str, Any] = self._walked(fields)
        return walked

    def answer(self, document: Any) -> Any:
        """A broker's answer without names; fields that this program does not know are left out."""
        return self._walked(document, known=_fields_of_answers())

    def of(self, kind: str, name: str) -> str:
        """The pseudonym of a name."""
        if kind == "topic":
            return self._topic(name)
        if kind in KEPT:
            kept = KEPT[kind].match(name)
            return name if name in OWN_WORDS else kept[0] if kept else LEFT_OUT
        if kind == "subscription" and name in OWN_CURSORS:
            return name
        if kind == "subscription" and name.startswith(f"{cursors.REPLICATOR_PREFIX}."):
            kind = "cluster"
        if kind == "consumer" and name.startswith("/"):
            kind = "host"  # of a consumer without a name
        match = re.fullmatch(SHAPES.get(kind, "(?P<name>.*)"), name, re.DOTALL)
        parts = match.groupdict("") if match else {"name": name}
        return "".join(
            (parts.get("before", ""), self._coined(kind, parts["name"]), parts.get("behind", ""))
        )

    def _coined(self, kind: str, name: str) -> str:
        text = f"{kind} {name}".encode("utf-8", "surrogatepass")
        digest = hmac.digest(self._key, text, "sha256")
        return f"{kind}-{b32encode(digest[:5]).decode().lower()}" if name else ""

    def _walked(
        self, value: Any, field: str = "", within: str = "", known: frozenset[str] | None = None
    ) -> Any:
        """field: the name of the field that has the value, within: that of the object around it."""
        if isinstance(value, str):
            return self._text(value, field, within)
        if isinstance(value, list):
            first, *rest = value or [None]
            paired = KINDS.get(field) == "host" and field != "hosts"  # an address and its port
            paired |= field in ("unreachable", "notes")
            if isinstance(first, str) and paired:
                behind = [LEFT_OUT if isinstance(each, str) else each for each in rest]
                return [self._text(first, field, within), *behind]
            return [self._walked(each, field, within, known) for each in value]
        if not isinstance(value, dict):
            return value
        named = known is not None and field in KEYS and within != field
        return {
            name: self._walked(each, field if named else key, field, known)
            for key, each in value.items()
            if named or known is None or key in known
            for name in [self.of(KEYS[field], key) if named else key]
        }

    def _text(self, text: str, field: str, within: str) -> str:
        kind = KINDS_WITHIN.get((within, field), KINDS.get(field))
        if kind is not None and text not in NOBODYS:
            return self.of(kind, text)
        if text in NOBODYS or text in OWN_WORDS or text in _words() or HARMLESS.fullmatch(text):
            return text
        return LEFT_OUT

    def _topic(self, name: str) -> str:
        base, partition = split_partition(name)
        segment = re.fullmatch(r"(segment://.+)(/[0-9a-f]+-[0-9a-f]+-\d+)", base, re.DOTALL)
        base, number = (segment[1], segment[2]) if segment else (base, "")
        scheme, found, path = base.rpartition("://")
        kinds = ["tenant", "namespace", "topic"]
        parts = path.split("/", 2)
        named = zip(kinds[3 - len(parts) :], parts, strict=True)
        scheme = scheme if scheme in SCHEMES else ""
        end = number if partition is None else f"-partition-{partition}"
        return f"{scheme}{found if scheme else ''}{'/'.join(self._coined(*e) for e in named)}{end}"


@cache
def _words() -> frozenset[str]:
    """The words of the program that a case may have in its fields."""
    form_of(SavedCase)
    hints = [hint for kind in [*FORMS] for hint in get_type_hints(kind).values()]
    counters = (counter for _, counter in stats_reading.COUNTERS)
    codes = (cause.code for cause in load())
    return frozenset((*FACTS, *codes, *counters, *_literals(hints)))


def _literals(hints: list[Any]) -> set[str]:
    found: set[str] = set()
    for hint in hints:
        inner = get_args(hint)
        found |= set(inner) if get_origin(hint) is Literal else _literals([*inner])
    return found


@cache
def _fields_of_answers() -> frozenset[str]:
    """The fields of a broker's answer that this program reads, by the broker's names."""
    kinds = [each for of in (topic, internal) for each in vars(of).values() if is_dataclass(each)]
    names = {field.name for kind in kinds for field in fields(kind)}
    camel = {re.sub("_([a-z])", lambda m: m[1].upper(), n.removesuffix("_ms")) for n in names}
    return frozenset(camel) - USERS_OWN
