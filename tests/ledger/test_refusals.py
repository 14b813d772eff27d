"""Why clients did not get through, from the rows of a trace."""

from __future__ import annotations

import json

import pytest

from pulsar_doctor.ledger.refusals import OTHERS, REASONS_MOST
from pulsar_doctor.ledger.timeline import Timeline
from pulsar_doctor.wire.columns import Row


def row(command: str, conn_id: int = 1, **values: object) -> Row:
    made = Row()
    made.command, made.conn_id, made.ts, made.mono_ns = command, conn_id, 7, 7
    for name, value in values.items():
        setattr(made, name, value)
    return made


def after(*rows: Row) -> Timeline:
    timeline = Timeline()
    for one in rows:
        timeline.apply(one)
    return timeline


def reasons(timeline: Timeline) -> dict[str, int]:
    return {reason: one.count for reason, one in timeline.refusals.by_reason.items()}


def refused(conn_id: int, message: str = "Token expired") -> list[Row]:
    return [
        row("OPEN", conn_id, client_addr=f"10.0.0.{conn_id}:1"),
        row("CONNECT", conn_id, client_version="Python"),
        row(
            "ERROR", conn_id, direction="to_client", error_code="AuthenticationError",
            error_message=message,
        ),
        row("CLOSE", conn_id, error_message="closed by the broker"),
    ]  # fmt: skip


def test_a_reason_is_kept_once_with_how_often_and_whose_it_was_first():
    timeline = after(*refused(1), *refused(2), *refused(3, "No token"))
    assert reasons(timeline) == {
        "AuthenticationError: Token expired": 2, "AuthenticationError: No token": 1,
    }  # fmt: skip
    first = timeline.refusals.by_reason["AuthenticationError: Token expired"]
    assert (first.client_addr, first.client_version, first.first_us) == ("10.0.0.1:1", "Python", 7)


@pytest.mark.parametrize(
    ("why", "greeted", "counts"),
    [
        ("refused: no lookup named it", False, True),
        ("refused: no lookup named it", True, False),
        ("closed by the client", False, False),
        ("reset by the broker", False, False),
        ("the tap ends", False, False),
    ],
)
def test_a_connection_that_nobody_let_in_says_why(why, greeted, counts):
    rows = [row("OPEN"), *([row("CONNECTED")] * greeted), row("CLOSE", error_message=why)]
    assert reasons(after(*rows)) == ({why: 1} if counts else {})


def test_other_errors_are_no_refusals():
    error = row("ERROR", direction="to_client", error_code="ConsumerBusy", error_message="x")
    assert reasons(after(row("OPEN"), row("CONNECTED"), error)) == {}


def test_they_outlive_a_restart():
    timeline = after(*refused(1), row("OPEN", 2), row("CONNECTED", 2))
    again = Timeline.restore(json.loads(json.dumps(timeline.state())))
    again.apply(row("CLOSE", 2, error_message="refused: later"))
    assert reasons(again) == reasons(timeline)


def test_they_are_bounded():
    timeline = after(*(one for n in range(REASONS_MOST + 5) for one in refused(n, str(n))))
    assert len(reasons(timeline)) == REASONS_MOST + 1
    assert reasons(timeline)[OTHERS] == 5
