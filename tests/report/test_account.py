"""Where the messages of a subscription are, as -v, JSON and the page show it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.checkup.incident import Recordings, of_recordings
from pulsar_doctor.diagnosis.weighing import diagnose
from pulsar_doctor.evidence import by_stats
from pulsar_doctor.evidence.account import Account, Flow, Place, Rest
from pulsar_doctor.evidence.balance import Balance, FlowRate
from pulsar_doctor.evidence.values import Count, at_least, exactly
from pulsar_doctor.report.account import account_table
from pulsar_doctor.report.incident.page import page
from tests.checkup.test_case import judge
from tests.made.states import FOLDER, recorded
from tests.report.checkups import FALLING, checkup, verdict, written

NOTHING = Account(exactly(0), (), ())
SMALL = 100  # bytes of JSON where nothing waits and nothing was watched
PLACES = (
    Place("in-transaction", Count(0, 3), Rest(0.0, None)),
    Place("unread", exactly(1500), Rest(9.9, 10.9), older=1500),
    Place("replay", exactly(1), Rest(0.0, 2.0)),
    Place("held", Count(50, 989), Rest(0.001, 0.001), "slow", exactly(989)),
    Place("held", exactly(4), Rest(30.0, None), "batches", exactly(40), partly=2),
    Place("unaccounted", None, Rest(5.0, 5.0)),
)
FLOWS = (
    Flow("published", exactly(0)), Flow("sent", exactly(1)),
    Flow("acknowledged", exactly(10), "entries"), Flow("expired", exactly(0)),
    Flow("consumers that came and left", exactly(2), "consumers"), Flow("sent again", at_least(0)),
)  # fmt: skip
WHOLE = Account(Count(1554, 1558), PLACES, FLOWS, "more is held than there is")


def lines(account: Account) -> list[str]:
    return list(account_table(account).lines)


def test_each_place_says_how_many_who_has_them_and_when_it_last_moved() -> None:
    assert lines(WHOLE) == [
        "1554 to 1558 entries in the backlog",
        "behind an open transaction: 0 to 3 entries, last moved: not reported",
        "unread: 1500 entries, last sent 9.9 s to 11 s ago",
        "in the replay queue: 1 entry, last sent at most 2 s ago",
        "held by slow: 989 messages, last taken or acknowledged 1 ms ago",
        "held by batches: 40 messages in 4 entries, 2 partly acknowledged,"
        " nothing taken or acknowledged for at least 30 s",
        "not reported: read, and with nobody",
        "in the window: published 0 messages, sent 1 message, acknowledged 10 entries,"
        " consumers that came and left: 2",
        "contradiction: more is held than there is",
    ]


@pytest.mark.parametrize(
    ("account", "says"),
    [(NOTHING, "nothing waits"), (replace(NOTHING, total=None), "the backlog is not reported")],
)
def test_nothing_and_not_reported_are_not_the_same(account: Account, says: str) -> None:
    assert lines(account) == [says]


def test_of_many_consumers_those_are_named_that_hold_most() -> None:
    held = [Place("held", exactly(n), None, f"c{n}", exactly(n)) for n in range(1, 21)]
    shown = lines(Account(exactly(300), (PLACES[1], *held), ()))
    assert len(shown) == 1 + 8 + 1
    assert shown[2].startswith("held by c14: 14 messages")
    assert shown[-2].startswith("held by c20: 20 messages")
    assert shown[-1] == "and 13 more consumers, 91 messages"


def test_details_have_a_row_for_each_place_below_one_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = written("table", checkup([verdict("stalled", account=WHOLE)]), verbose=True)
    rows = text[text.index("  account  ") :].splitlines()
    assert [row[11:] for row in rows if row] == lines(WHOLE)
    assert "account" not in written("table", checkup([verdict("stalled", account=WHOLE)]))


def test_below_its_account_is_what_comes_in_and_goes_out() -> None:
    moves = replace(FALLING, acknowledged=FlowRate(0.25, 0.1, None, 60.0))
    text = written("table", checkup([verdict(account=WHOLE, balance=moves)]), verbose=True)
    assert "messages a second: 120 come in, 40 sent, 0.25 acknowledged" in text
    still = Balance(comes_in=FlowRate(0.0, 0.0, 0.1, 60.0))
    assert account_table(WHOLE, still) == account_table(WHOLE)


def test_of_healthy_partitions_the_one_with_the_largest_backlog_is_shown() -> None:
    parts = [
        verdict(partition=n, backlog=n % 3, account=replace(NOTHING, total=exactly(n % 3)))
        for n in range(4)
    ]
    text = written("table", checkup(parts), verbose=True)
    assert "  account  partition 2: 2 entries in the backlog\n" in text
    assert "account" not in written("table", checkup(parts))


def account_json(account: Account | None) -> Any:
    (line,) = written("jsonl", checkup([verdict(account=account)])).splitlines()
    return json.loads(line)["account"]


def test_json_has_a_number_or_its_bounds() -> None:
    found = account_json(WHOLE)
    assert found["total"] == {"least": 1554, "most": 1558}
    assert found["places"][3] == {
        "place": "held", "entries": {"least": 50, "most": 989}, "messages": 989,
        "consumer": "slow", "rest": 0.001, "older": 0, "partly": None,
    }  # fmt: skip
    assert [each["rest"] for each in found["places"][:3]] == [
        {"least": 0.0, "most": None}, {"least": 9.9, "most": 10.9}, {"least": 0.0, "most": 2.0},
    ]  # fmt: skip
    assert found["places"][5]["entries"] is None
    assert found["flows"][2] == {"name": "acknowledged", "count": 10, "unit": "entries"}
    assert found["contradiction"] == "more is held than there is"
    assert account_json(None) is None


def test_where_nothing_waits_json_is_small() -> None:
    observed = recorded("4.0.8", "healthy-idle")
    (first, *_), those = observed.window.samples, judge()
    once = replace(observed, window=replace(observed.window, given=(first,)))
    found = diagnose(by_stats.subscription_view(once), those.causes, those.limits)
    assert found.account == NOTHING
    assert len(json.dumps(account_json(found.account))) < SMALL


def test_the_page_has_a_table_in_the_section_of_each_subscription() -> None:
    file = FOLDER / "4.0.8" / "key-shared-blocked.jsonl.gz"
    incident = of_recordings(Recordings(None, SampleFiles([str(file)])), judge(), print, print)
    (diagnosis,) = incident.checkup.diagnoses
    assert diagnosis.account is not None
    hostile = replace(diagnosis.account.places[-1], consumer="<b>\x1b[31m")
    places = (*diagnosis.account.places[:-1], hostile)
    incident.checkup.diagnoses = [
        replace(diagnosis, account=replace(diagnosis.account, places=places))
    ]
    section = page(incident).partition('<section class="verdict ')[2].partition("</section>")[0]
    assert "<caption>Where its messages are: 280 entries in the backlog</caption>" in section
    assert '<th scope="row">in the replay queue</th><td>115 entries</td>' in section
    assert (
        '<th scope="row">held by &lt;b&gt;\N{REPLACEMENT CHARACTER}[31m</th><td>165 messages</td>'
        in section
    )
    assert "in the window: published 0 messages" in section
    assert re.findall(r"flex-grow: (\d+)", section) == ["115", "165"]
