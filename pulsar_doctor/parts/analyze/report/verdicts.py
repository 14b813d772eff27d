"""The verdicts at the end of each trace, as table rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pulsar_doctor.checkup.result import STATUSES
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.parts.analyze.analysis import Analysis, moment
from pulsar_doctor.parts.analyze.report.tables import TRACE, WHERE
from pulsar_doctor.report.paper import PLAIN_SYMBOLS, STYLES, SYMBOLS
from pulsar_doctor.report.tables import TableColumn, TableRow, View
from pulsar_doctor.report.words import cause, counted

STALLED_BEFORE = (
    "a time without permits was as long as a stall and is over; whether messages waited meanwhile, "
    "and what other consumers did, is not judged"
)


def statuses(analysis: Analysis) -> Mapping[Status, int]:
    """How many verdicts have which status."""
    counts = Counter(each.diagnosis.status for each in analysis.verdicts)
    return {status: counts[status] for status in STATUSES}


def in_words(analysis: Analysis) -> str:
    """How many subscriptions have which status."""
    if not analysis.verdicts:
        return "nothing could be judged"
    return f"{counted(statuses(analysis))} at the end"


def unwell(analysis: Analysis) -> list[TableRow]:
    """A row for each subscription that is not healthy, the worst first."""
    return [
        {
            "trace_id": each.trace_id,
            "topic": each.diagnosis.full_topic,
            "subscription": each.diagnosis.subscription,
            "status": each.diagnosis.status,
            "cause": cause(each.diagnosis),
            "at": moment(each.at_us),
        }
        for each in analysis.verdicts
        if each.diagnosis.status != "healthy"
    ]


def badge(status: Status, view: View) -> str:
    """`✖ STALLED`."""
    return f"{(SYMBOLS if view.utf else PLAIN_SYMBOLS)[status]} {status.upper()}"


def _style(row: TableRow) -> str:
    return STYLES[row["status"]]


COLUMNS = (
    TableColumn("verdict", 0, lambda row, view: badge(row["status"], view), style=_style),
    WHERE,
    TableColumn("cause", 0, lambda row, view: row["cause"], least=22),
    TableColumn("at", 4, lambda row, view: view.clock(row["at"])),
    TRACE,
)
