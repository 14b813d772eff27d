"""Small runs of stall-check, made up, for the tests of the report."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args

from hypothesis import strategies as st

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.checkup.result import Checkup
from pulsar_doctor.diagnosis.actions.commands import quoted
from pulsar_doctor.diagnosis.answers import (
    HEALTHY,
    NONE_OF_THESE,
    Action,
    Clue,
    Finding,
    Probe,
    RuledOut,
    Severity,
    Suspect,
    Unknown,
)
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.account import Account, Flow, Place, PlaceName, Rest
from pulsar_doctor.evidence.balance import Balance, FlowRate
from pulsar_doctor.evidence.deadlines import Deadline
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.evidence.numbers import ReportedConsumer
from pulsar_doctor.evidence.values import Count
from pulsar_doctor.evidence.whereabouts import Whereabouts
from pulsar_doctor.report.stall_check.formats import write
from pulsar_doctor.report.stall_check.wanted import Wanted
from pulsar_doctor.wording.sentences import say
from tests.support import schemas

ORDERS = "persistent://public/default/orders"
AT = datetime(2026, 5, 1, 12, 0, 0, 250_000, tzinfo=UTC)
HOLDS = say("{} holds {:messages} and has {:permits}", "worker-3", 500, 0)
REMEDY = "Give this consumer a smaller receiver queue."
STATUSES: tuple[Status, ...] = ("stalled", "unknown", "warning", "healthy")
HOSTILE = (  # what means something to a terminal, to a log, to markup or to a format of ours
    "\x1b[31m", "\x9b2J", "\x07", "\x00", "\x7f", "\x85", "\u2028", "\u202e", "\ud800", "\ufffe",
    "\n", "\r", "\t", " ", "|", "%", "%0A", "::error::", ":", ",", ";", "=", "&", "<", ">", "]]>",
    "</testcase>", '"', "'", "\\", "{", "}", "#", "[red]", "[/]", ":bug:", "*", "_", "`", "\u732b",
)  # fmt: skip
pieces = st.characters() | st.sampled_from(HOSTILE)  # any character, halves of characters too
texts = st.lists(pieces, max_size=12).map("".join)
names = st.lists(pieces, min_size=1, max_size=12).map("".join)
ages = st.none() | st.builds(Age, st.integers(0, 10**15), st.booleans())
told_clues = st.builds(Clue, texts, texts).map(lambda clue: (clue,))
told_names = texts.map(lambda name: (name,))
counts = st.none() | st.builds(Count, st.integers(0, 9), st.none() | st.integers(9, 10**12))

rests = st.none() | st.builds(Rest, st.floats(0, 1), st.none() | st.floats(1, 1e9))
places = st.builds(
    Place, st.sampled_from(get_args(PlaceName)), counts, rests, st.none() | names, counts
)
accounts = st.builds(
    Account, counts, st.lists(places, max_size=3).map(tuple),
    st.just((Flow("sent", Count(1, 1)),)), st.none() | texts,
)  # fmt: skip

FALLING = Balance(
    "falls-behind",
    comes_in=FlowRate(120.0, 117.155, 122.845, 60.0),
    sent_out=FlowRate(40.0, 38.35, None, 60.0),
    growth=FlowRate(80.0, 75.505, 84.511, 60.0),
    waits=Count(639_000, 639_000),
)
DEADLINES = (Deadline("message-ttl", 3600.0, "messages expire unread"),)


def finding(
    code: str = "permits-exhausted",
    severity: Severity = "stalled",
    consumer: str | None = "worker-3",
    summary: str = HOLDS,
    actions: tuple[Action, ...] = (),
) -> Finding:
    numbers = (Measure("available_permits", 0, "permits"), Measure("last_ack", 720, "seconds"))
    return Finding(
        code=code, severity=severity, confidence=0.9, consumer=consumer, summary=summary,
        evidence=numbers, remedy=REMEDY, actions=actions,
    )  # fmt: skip


def located() -> Finding:
    """One whose consumer has a place, and of which somebody suffers."""
    where = Whereabouts(
        "/10.0.3.7:51494", "Pulsar-Java-v4.0.8", "2026-05-01T10:00:00Z", Age(7_200_000, True)
    )
    since, impact = "2026-05-01T11:48:00.250Z", say("{:entries} wait to be sent", 40)
    return replace(finding(), where=where, since=since, impact=impact)


def verdict(
    status: Status = "healthy",
    subscription: str = "billing",
    topic: str = ORDERS,
    **more: Any,
) -> Diagnosis:
    """A verdict with what belongs to its status; `more` are fields of the diagnosis."""
    severe: dict[Status, Severity] = {"stalled": "stalled", "warning": "warning"}
    findings = (finding(severity=severe[status]),) if status in severe else ()
    told: dict[str, Any] = {
        "partition": None,
        "type": "Shared",
        "backlog": 498,
        "findings": findings,
    }
    if status == "unknown":
        told["unknowns"] = ("broker-read-stuck: one sample does not show whether it moves",)
        told["unknown"] = (Unknown("one sample does not show whether it moves"),)
    if (growth := more.pop("growth", None)) is not None:
        more["balance"] = Balance(growth_entries=FlowRate(growth / 60, None, None, 10.0))
    told = {"unknowns": (), **told, **more}
    return Diagnosis(topic=topic, subscription=subscription, status=status, **told)


PROBE = Probe(
    "Read it once more in a minute: whether out is still 10",
    "pulsar-doctor stall-check persistent://public/default/orders -s billing --window 60s",
    60.0,
)
STUCK = Suspect(
    "key-shared-blocked", "ks-stuck", 0.7, "ks-stuck has returned none of its 10 messages",
    (Clue("never_acked", "10 given, none ever acknowledged"), Clue("idle", "ks-ok goes on")),
    (Clue("connected", "connected for 20 s only"),),
    ("since_ack", "read_position"),
    PROBE,
    Whereabouts("/10.0.3.7:51494", "Pulsar-Java-v4.0.8", None, Age(7_200_000, True)),
    stalls=True,
)  # fmt: skip
SLOW = Suspect("slow-but-progressing", "ks-stuck", 0.2, "its work takes more than 10 s a message")
WELL = Suspect(HEALTHY, None, 0.07, "")
ANOTHER = Suspect(NONE_OF_THESE, None, 0.03, "")
SUSPECTS = (STUCK, SLOW, WELL, ANOTHER)
RULED_OUT = (
    RuledOut("no-consumer", "2 consumers are attached"),
    RuledOut("blocked-on-unacked-consumer", "10 of 50000 used"),
)


def suspected(subscription: str = "ledger", first: float = 0.7, **more: Any) -> Diagnosis:
    """An unknown one with suspects, of which the first has this probability."""
    told: dict[str, Any] = {
        "suspects": (replace(STUCK, probability=first), SLOW, WELL, ANOTHER),
        "ruled_out": RULED_OUT,
        "unknowns": (
            "key-shared-blocked: one sample does not show whether it moves",
            "permit-leak: needs a trace of the wire",
        ),
        **more,
    }
    return verdict("unknown", subscription, **told)


def caused(number: int, **more: Any) -> Diagnosis:
    """One that is stalled for a cause of its own."""
    found = (finding(f"cause-{number}"),)
    return verdict("stalled", f"s{number}", findings=found, **more)


def checkup(diagnoses: Iterable[Diagnosis], **more: Any) -> Checkup:
    """Of ten seconds of a broker, unless said otherwise; a generator is read once."""
    told: dict[str, Any] = {"window_seconds": 10.0, "samples": 11, "checked_at": AT, **more}
    return Checkup("broker", (diagnosis for diagnosis in diagnoses), **told)


def written(name: str, run: Checkup, **wanted: Any) -> str:
    """The report in this format."""
    out = io.StringIO(newline="")
    write(name, run, out, wanted=Wanted(**wanted))
    schemas.check_text(out.getvalue())
    return out.getvalue()


def actions_on(name: str) -> tuple[Action, ...]:
    """Two, with lines that name it, as rules write them."""
    unload = f"pulsar-admin topics unload {quoted(name)}"
    check = f"pulsar-doctor stall-check {quoted(name)}  # healthy"
    text = f"Restart the process of {name}."
    return (
        Action("now", text, None, "what it holds comes again", None, check),
        Action("now", "Unload the topic.", unload, "all come back", None, check),
        Action("today", "Set a smaller queue.", undo="set it back"),
    )


def assert_actions_in_order(text: str) -> None:
    """Those of `actions_on("persistent://a/b/c d")`, as plain lines tell them."""
    told = [
        "Now: Restart the process",
        "But: what it holds comes again",
        "Now: Unload the topic.",
        "Run: pulsar-admin topics unload 'persistent://a/b/c d'",
        "Check: pulsar-doctor stall-check 'persistent://a/b/c d'  # healthy",
        "Today: Set a smaller queue.",
        "Undo: set it back",
    ]
    places = [text.index(line) for line in told]
    assert places == sorted(places)


@st.composite
def any_verdict(draw: st.DrawFn) -> Diagnosis:
    """One with names of any characters."""
    status = draw(st.sampled_from(STATUSES))
    found = finding(
        severity="warning" if status == "warning" else "stalled",
        consumer=draw(st.none() | names),
        summary=draw(texts),
        actions=actions_on(draw(names)) if draw(st.booleans()) else (),
    )
    told = st.none() | texts
    found = replace(
        found,
        where=draw(st.builds(Whereabouts, told, told, told, ages)),
        impact=draw(told),
    )
    ruled_out = st.builds(RuledOut, names, texts)
    suspects = st.builds(
        Suspect, names, told, st.floats(0, 1), texts, told_clues, told_clues, told_names,
        st.none() | st.builds(Probe, texts, told, st.none() | st.floats(0, 1e6), st.booleans()),
    )  # fmt: skip
    there = st.builds(
        ReportedConsumer, names, told, told, told, told, ages, unacked_messages=counts
    )
    return verdict(
        status,
        draw(names),
        draw(names),
        partition=draw(st.none() | st.integers(0, 3)),
        backlog=draw(st.none() | st.integers(-1, 10**12)),
        findings=(found,) if status in ("stalled", "warning") else (),
        unknowns=(draw(texts),) if status == "unknown" else (),
        consumers=draw(st.none() | st.lists(there, max_size=3).map(tuple)),
        growth=draw(st.none() | st.integers(-9, 9)),
        account=draw(st.none() | accounts),
        suspects=tuple(draw(st.lists(suspects, max_size=2))) if status == "unknown" else (),
        ruled_out=tuple(draw(st.lists(ruled_out, max_size=1))) if status == "unknown" else (),
    )
