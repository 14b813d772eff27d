"""The words for a verdict that all formats share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from operator import attrgetter

from pulsar_doctor.checkup.result import STATUSES, Tally
from pulsar_doctor.diagnosis.answers import (
    HEALTHY,
    NONE_OF_THESE,
    Finding,
    NothingMoves,
    Rests,
    Suspect,
    TooProbable,
    Unknown,
    Unreliable,
)
from pulsar_doctor.diagnosis.short_form import culprit, topic_words
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.diagnosis.verdict import Diagnosis
from pulsar_doctor.evidence.whereabouts import Whereabouts
from pulsar_doctor.wording.printable import listed, many, printable
from pulsar_doctor.wording.sentences import joined, say

NO_RULE = {HEALTHY: "nothing is wrong", NONE_OF_THESE: "no known cause applies"}
RESTING = (Unreliable, Rests, NothingMoves)  # says more than any probability
READERS_REST = "readers stand still while messages wait"
READS_AT_WILL = (
    "If it may rest (log tail, table view): --accept-unknown readers; if not, look into its "
    "process: pulsar-doctor examine PID"
)
NOTHING_JUDGED = "no subscription was judged"
DEFAULT_NAMESPACE = "public/default/"
FRACTION = re.compile(r"\.\d+")  # of a second
CLIENT = re.compile(r"Pulsar[- ]([A-Za-z+]+)[- ]v?(\d.*)")  # what a client says of itself


def counted(counts: Mapping[Status, int]) -> str:
    """`1 stalled, 3 healthy`: the verdicts that occur, worst first."""
    return ", ".join(f"{counts[status]} {status}" for status in STATUSES if counts.get(status))


def totals(counts: Counter[Status], tally: Tally) -> str:
    """`4 subscriptions: 1 stalled, 3 healthy; 1 suppressed`."""
    words = ": ".join(filter(None, (many(counts.total(), "subscription"), counted(counts))))
    return f"{words}{suppressed(tally)}"


def suppressed(tally: Tally) -> str:
    """`; 2 suppressed`: verdicts that do not count as failed, each partition apart."""
    number = sum(tally.suppressed.values())
    return f"; {number} suppressed" if number else ""


def backlog(entries: int | None) -> str:
    """Entries, or that nobody reported."""
    return "not reported" if entries is None else str(entries)


def cause(diagnosis: Diagnosis, *, with_name: bool = True) -> str:
    """The first cause and its culprit in a few words; of an unknown verdict, what it may be.

    Where nothing is suspected either, what is in the way.
    """
    if diagnosis.status != "unknown" and diagnosis.findings:
        worst = diagnosis.findings[0]
        return culprit(worst) if with_name else worst.code
    first = diagnosis.suspected
    facts = (*(doubt(diagnosis, kind) for kind in RESTING), would_decide(diagnosis))
    if first is None and (why := next(filter(None, facts), None)):
        return why
    if first is None and diagnosis.suspects:
        first = max(diagnosis.suspects, key=attrgetter("probability"))
        if first.code == HEALTHY and (why := doubt(diagnosis)):
            return why
    if first is not None:
        return f"{first.likelihood} {accused(first, with_name=with_name)} ({first.share})"
    why = diagnosis.unknowns[0] if diagnosis.unknowns else "not decided"
    return printable(why.removeprefix(f"{HEALTHY}: "))


def doubt(diagnosis: Diagnosis, kind: type[Unknown] = Unknown) -> str:
    """The first reason of that kind for which it is not healthy; "" where only the odds say so."""
    unknown = (each for each in diagnosis.unknown if not isinstance(each, TooProbable))
    why = (each for each in unknown if isinstance(each, kind))
    return next((printable(each.reason) for each in why), "")


def would_decide(diagnosis: Diagnosis) -> str:
    """Where no clue speaks for the likeliest cause: the number that is not reported; else ""."""
    first = diagnosis.likeliest
    if first is None or first.likelihood == "unlikely" or not first.missing:
        return ""
    if diagnosis.suspected is not None:
        return ""
    decides, *others = (name.replace("_", " ") for name in first.missing)
    more = f"; also not reported: {listed(others, 2)}" if others else ""
    return printable(f"{decides} is not reported, and would decide{more}")


def accused(suspect: Suspect, *, with_name: bool = True) -> str:
    """`permits-exhausted of worker-3`; in words where it is not a cause."""
    if suspect.code in NO_RULE:
        return NO_RULE[suspect.code]
    return printable(culprit(suspect) if with_name else suspect.causes)


def short_topic(name: str) -> str:
    """`orders` of `public/default/orders`: the short name that Pulsar's own tools take as well."""
    short = topic_words(name).removeprefix(DEFAULT_NAMESPACE)
    return short if "/" not in short and short else topic_words(name)


def client(version: str) -> str:
    """`Java 4.0.8` of `Pulsar-Java-v4.0.8`; what is written otherwise, as it is."""
    known = CLIENT.fullmatch(version)
    return printable(f"{known[1]} {known[2]}" if known else version)


def beside(finding: Finding) -> Iterator[tuple[str, str]]:
    """What the view adds to a finding: where its consumer is, since when, and who suffers."""
    if finding.where and (where := whereabouts(finding.where, finding.summary)):
        yield "where", where
    if finding.since:
        yield "since", f"{finding.since[:19].replace('T', ' ')} UTC or before"
    if finding.impact:
        yield "impact", finding.impact


def whereabouts(where: Whereabouts, known_text: str = "") -> str:
    """`10.0.3.7:51494, Java 4.0.8, connected 2 h`; without an address that was shown before.

    The moment instead, where only a bound shows how long ago that is.
    """
    since, connected = where.connected_since, where.connected
    version = client(where.client_version) if where.client_version else None
    if connected and (connected.exact or not since):
        since = None if connected.says_nothing else say("connected {}", connected)
    elif since:
        since = f"connected since {FRACTION.sub('', since)}"
    address = (where.address or "").lstrip("/")
    parts = (
        address if address not in known_text else None,
        version,
        since,
    )
    return joined(", ", (part or "" for part in parts))


def what_to_do(finding: Finding) -> Iterator[tuple[str, str]]:
    """Every action in order: when and what, then the line to run and what belongs to it.

    A check that holds for several actions in a row is below the last of them.
    """
    for number, action in enumerate(finding.actions, start=1):
        yield action.when, action.text
        last = action.check not in {after.check for after in finding.actions[number : number + 1]}
        rows = {"run": action.command, "but": action.side_effect, "undo": action.undo}
        rows["check"] = action.check if last else None
        yield from ((name, text) for name, text in rows.items() if text)
