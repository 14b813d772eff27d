"""A verdict, its findings and its times, as JSON."""

from __future__ import annotations

from dataclasses import asdict
from math import inf
from typing import Any

from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.checkup.result import Checkup, Cluster
from pulsar_doctor.diagnosis.answers import (
    Action,
    Clue,
    DecideStep,
    Finding,
    Probe,
    RuledOut,
    Suspect,
)
from pulsar_doctor.diagnosis.cause import page_of
from pulsar_doctor.diagnosis.followup import After, ConsumerAfter, Shift
from pulsar_doctor.diagnosis.known.matching import KnownIssue
from pulsar_doctor.diagnosis.pace import Limit, SubscriptionPace
from pulsar_doctor.diagnosis.suppression import Suppression
from pulsar_doctor.diagnosis.usual import Usual
from pulsar_doctor.diagnosis.verdict import Diagnosis, Steady
from pulsar_doctor.evidence.account import Account, Flow, Place, Rest
from pulsar_doctor.evidence.balance import RATES, Balance, FlowRate
from pulsar_doctor.evidence.deadlines import Deadline
from pulsar_doctor.evidence.measures import Measure
from pulsar_doctor.evidence.numbers import REPORTED, ReportedConsumer
from pulsar_doctor.evidence.process_report import (
    ClientConsumer,
    Pool,
    ProcessReport,
    Sitting,
    TcpConnection,
)
from pulsar_doctor.evidence.values import Count
from pulsar_doctor.evidence.whereabouts import Whereabouts
from pulsar_doctor.ledger.balance import Starvation
from pulsar_doctor.model.levers import Lever
from pulsar_doctor.report.documents import (
    SHAPES,
    as_json,
    at,
    each_as,
    fields,
    names_of,
    rounded,
    whole,
)
from pulsar_doctor.wording.addresses import shown

__all__ = ["as_json", "moment_json"]  # as_json: with the shapes below


def _count(value: Count) -> Any:
    """Where it is not exact, its bounds; null is one that is not known."""
    exact = value.exact
    return {"least": value.least, "most": value.most} if exact is None else exact


def _rest(value: Rest) -> Any:
    """Seconds, between bounds where these differ."""
    fewest, longest = round(value.least, 3), value.most and round(value.most, 3)
    return fewest if fewest == longest else {"least": fewest, "most": longest}


def _age(value: Age) -> Any:
    """Seconds; at least so many where it is not exact."""
    return value.seconds if value.exact else {"least": value.seconds, "most": None}


def _thousandths(value: float) -> float:
    return round(value, 3)


def _five_digits(value: float) -> float | None:
    """null where no limit is known."""
    return None if value == inf else float(f"{value:.5g}")


def _balance(of: Diagnosis) -> Any:
    """Whether it keeps up, and which limits it reaches."""
    return of.balance and as_json(of.balance) | {"deadlines": as_json(of.deadlines)}


DIAGNOSIS = fields(
    "topic partition subscription type status backlog account balance pace findings suspects"
    " ruled_out not_told=unknowns known_issues consumers",
    balance=_balance,
)
CHECKED = fields(  # with what was requested of stall-check beside the verdict
    "*verdict decided?=decide_steps after? steady? suppressed? usual?", verdict=DIAGNOSIS
)
SHAPES |= {
    Age: _age,
    Count: _count,
    Rest: _rest,
    Cluster: whole(Cluster),
    Diagnosis: DIAGNOSIS,
    Finding: fields(
        "code severity confidence consumer summary evidence since where impact remedy actions"
        " explain page",
        page=lambda of: page_of(of.code),
    ),
    Measure: fields("name value unit bound?"),
    Whereabouts: fields("address client_version connected_since"),
    Action: fields("when text command side_effect undo check"),
    Suspect: fields(
        "code alike consumer probability summary for=speaks_for against missing decide where remedy"
    ),
    Clue: at("name"),
    Probe: whole(Probe),
    RuledOut: whole(RuledOut),
    KnownIssue: fields(
        "id=issue.id title=issue.title grade consumer affects fixed_in=issue.fixed_in"
        " workaround=issue.what_to_do url=issue.url missing"
    ),
    ReportedConsumer: fields(" ".join(row.name for row in REPORTED)),
    Account: whole(Account),
    Place: fields("place=name entries messages consumer rest older partly"),
    Flow: whole(Flow),
    Balance: rounded(
        _thousandths, fields(f"pace seconds {' '.join(RATES)} waits waits_messages delayed")
    ),
    FlowRate: rounded(_thousandths, whole(FlowRate)),
    Deadline: rounded(_thousandths, whole(Deadline)),
    SubscriptionPace: rounded(
        _five_digits, fields("set_by who rate arrivals summary limits assumptions levers")
    ),
    Limit: rounded(_five_digits, whole(Limit)),
    Lever: rounded(_five_digits, whole(Lever)),
    DecideStep: whole(DecideStep),
    After: fields(
        "outcome text before seconds blamed moved=shifts consumers",
        text=str,
        blamed=lambda of: of.blamed or None,
    ),
    ConsumerAfter: fields("consumer became address returned acknowledged=acked moved=shifts"),
    Shift: whole(Shift),
    Steady: fields("status before"),
    Suppression: fields("until why", until=lambda of: f"{of.until:%Y-%m-%dT%H:%M:%SZ}"),
    Usual: fields(
        "says=of.says text hour days=of.days resting_days=of.resting_days"
        " quiet_days=of.quiet_days not_well_days=of.not_well_days comes_in=of.comes_in"
        " rests since until",
        text=str,
    ),
    ProcessReport: fields(
        "pid name kind runtime connections consumers threads pools deadlocks seconds"
        " not_told=unknowns",
        consumers=lambda of: of.inspections[-1].consumers if of.inspections else None,
        threads=lambda of: of.threads if of.has_threads else None,
        pools=lambda of: of.pools if of.has_threads else None,
    ),
    TcpConnection: fields(names_of(TcpConnection), **each_as(shown, "local remote")),
    ClientConsumer: fields(
        f"{names_of(ClientConsumer)} refills_at", **each_as(shown, "local_address remote_address")
    ),
    Sitting: lambda of: asdict(of) | {"where": of.where},  # in a chain without it
    Pool: whole(Pool),
    Starvation: fields(
        "without_permits_seconds longest_without_permits_seconds without_permits_share=share",
        without_permits_seconds=lambda of: of.total_ns / 1e9,
        longest_without_permits_seconds=lambda of: of.longest_ns / 1e9,
    ),
}


def moment_json(checkup: Checkup) -> str:
    """When it was checked: ISO 8601 in UTC, with milliseconds."""
    return checkup.checked_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
