"""Open transactions of a topic: when a broker is asked for them, and what is kept of its answer."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.samples import Recorder, StatsAnswer
from pulsar_doctor.broker.samples.files import opened
from pulsar_doctor.broker.samples.saved import read_saved
from pulsar_doctor.broker.sampling import SamplingPlan
from pulsar_doctor.broker.stats.observed import Observed, TopicWindow
from pulsar_doctor.broker.stats.transactions import SlowTransaction
from pulsar_doctor.checkup.bundle import _redacted
from pulsar_doctor.checkup.redacting import Pseudonyms
from pulsar_doctor.errors import InputError
from pulsar_doctor.evidence.account import Account, account_of
from pulsar_doctor.evidence.by_stats import subscription_view
from tests.broker.http_broker import Reply
from tests.broker.test_sampling import SOON, asked_for, cluster, read

V3 = "/admin/v3/transactions"
BUFFER, PENDING = f"{V3}/transactionBufferStats/t/n/x", f"{V3}/pendingAckStats/t/n/x/s"
PRODUCERS = {"state": "Ready", "maxReadPosition": "7:99", "ongoingTxnSize": 1}
CONSUMERS = {"state": "Ready", "ongoingTxnSize": 2}
ENABLED = {"brokers/configuration/runtime": {"transactionCoordinatorEnabled": "true"}}


def script(read_to: str = "7:0", open_ones: int | None = 1, **more: Any) -> dict[str, Any]:
    """A topic with 300 entries; the cursor has read up to there."""
    subscription = {"type": "Shared", "msgBacklog": 300, "unackedMessages": 0, "msgDelayed": 0,
                    "msgInReplay": 0, "consumers": [{"consumerName": "c"}]} | more  # fmt: skip
    cursor = {"markDeletePosition": "7:-1", "readPosition": read_to, "state": "Open",
              "individuallyDeletedMessages": "[]", "cursorLedger": 3}  # fmt: skip
    stats = {
        "msgInCounter": 300,
        "ongoingTxnCount": open_ones,
        "subscriptions": {"s": subscription},
    }
    internal = {"lastConfirmedEntry": "7:299", "cursors": {"s": cursor}}
    return {"x/stats": stats, "x/internalStats": internal, BUFFER: PRODUCERS, PENDING: CONSUMERS}


def only(windows: tuple[TopicWindow, ...]) -> tuple[Observed, Account]:
    (window,) = windows
    (observed,) = window.subscriptions()
    return observed, account_of(subscription_view(observed))


def places(account: Account) -> dict[str, tuple[int | None, int | None]]:
    return {
        each.name: (each.entries.least, each.entries.most) if each.entries else (None, None)
        for each in account.places
    }


def test_entries_behind_an_open_transaction_are_not_readable() -> None:
    with cluster(script()) as broker:
        _, account = only(read(broker.url, "t/n/x").windows)
    assert places(account) == {"in-transaction": (200, 200), "unread": (100, 100)}
    assert (asked_for(broker)[BUFFER], asked_for(broker)[PENDING]) == (1, 0)


def test_of_what_was_read_and_nobody_has_some_may_be_acknowledged_in_a_transaction() -> None:
    with cluster(script("7:250", open_ones=0)) as broker:
        observed, account = only(read(broker.url, "t/n/x").windows)
    assert observed.transactions.pending_of("s") == 2
    assert places(account)["pending-ack"] == (0, 250)
    assert (asked_for(broker)[BUFFER], asked_for(broker)[PENDING]) == (0, 1)


SLOW = f"{V3}/slowTransactions/10000"
TOPIC = "persistent://t/n/x"


def slow(number: str, *, publishes: str = "", acks: dict[str, Any] | None = None) -> dict[str, Any]:
    produced = {publishes: {"aborted": False}} if publishes else {}
    return {"txnId": number, "status": "OPEN", "openTimestamp": 1000, "timeoutAt": 90_000,
            "producedPartitions": produced, "ackedPartitions": acks or {}}  # fmt: skip


def test_the_age_of_an_open_transaction_is_read_once() -> None:
    both = slow("(3,4)", publishes=TOPIC, acks={TOPIC: {"s": {}, "other": {}}})
    elsewhere = slow(
        "(0,1)", publishes="persistent://t/n/y", acks={"persistent://t/n/y": {"s": {}}}
    )
    answer = {SLOW: {"(0,1)": elsewhere, "(3,4)": both}}
    with cluster(script("7:250") | answer) as broker:
        observed, _ = only(read(broker.url, "t/n/x").windows)
        assert asked_for(broker)[SLOW] == 1
    found = observed.transactions.slow_of("s")
    assert found == tuple(SlowTransaction("3,4", name, 1000, 90.0) for name in (None, "s"))


@pytest.mark.parametrize(
    "answer",
    [Reply(403, {"reason": "no"}), {"(0,1)": slow("(0,1)") | {"openTimestamp": "then"}}, {"x": 1}],
    ids=["forbidden", "wrong type", "no object"],
)
def test_an_age_that_cannot_be_read_is_not_reported(answer: Any) -> None:
    with cluster(script("7:250") | {SLOW: answer}) as broker:
        observed, _ = only(read(broker.url, "t/n/x").windows)
    assert observed.transactions.slow_of("s") == ()


def test_no_age_is_asked_for_where_no_transaction_is_open() -> None:
    none = {PENDING: {"ongoingTxnSize": 0}, SLOW: {}}
    with cluster(script("7:250", open_ones=0) | none) as broker:
        only(read(broker.url, "t/n/x").windows)
        assert asked_for(broker)[SLOW] == 0


def test_where_no_transaction_is_open_nothing_is_pending() -> None:
    answer = {PENDING: {"ongoingTxnSize": 0}}
    with cluster(script("7:250", open_ones=0) | answer) as broker:
        _, account = only(read(broker.url, "t/n/x").windows)
    assert places(account)["unaccounted"] == (250, 250)
    assert "pending-ack" not in {each.name for each in account.places}


@pytest.mark.parametrize(
    "script",
    [
        script("7:250", unackedMessages=250, open_ones=None),
        script("7:250", msgInReplay=250, open_ones=0),
        script("7:250", consumers=[], open_ones=0),
    ],
    ids=["held", "in replay", "nobody attached"],
)
def test_no_transaction_is_asked_for_where_nothing_depends_on_it(script: dict[str, Any]) -> None:
    script["x/stats"]["subscriptions"]["s"]["consumers"] = [
        each | {"avgMessagesPerEntry": 1}
        for each in script["x/stats"]["subscriptions"]["s"]["consumers"]
    ]
    with cluster(script) as broker:
        only(read(broker.url, "t/n/x").windows)
    assert not any(key.startswith(V3) for key in asked_for(broker))


@pytest.mark.parametrize(
    "plan", [SamplingPlan(0, limits=False), SamplingPlan(0, internal=False)], ids=str
)
def test_no_transaction_is_asked_for_at_a_first_glance(plan: SamplingPlan) -> None:
    with cluster(script("7:250")) as broker:
        only(read(broker.url, "t/n/x", plan=plan).windows)
    assert not any(key.startswith(V3) for key in asked_for(broker))


def test_a_broker_without_a_coordinator_is_not_asked_where_that_is_known() -> None:
    known = {"brokers/configuration/runtime": {"transactionCoordinatorEnabled": "false"}}
    with cluster(script("7:250", open_ones=None) | known) as broker:
        view, account = only(read(broker.url, "t/n/x", plan=SOON).windows)
    assert (view.open_transactions, view.transactions.pending_of("s")) == (0, 0)
    assert places(account) == {"unread": (50, 50), "unaccounted": (250, 250)}
    assert not any(key.startswith(V3) for key in asked_for(broker))


WRONG = {
    "forbidden": Reply(403, {"reason": "no"}),
    "unknown": Reply(404, {"reason": "no"}),
    "not allowed": Reply(405, {"reason": "no"}),
    "no coordinator": Reply(503, {"reason": "not configured with transactionCoordinatorEnabled"}),
    "no JSON": Reply(body=b"<html>", content_type="text/html"),
    "a list": Reply(document=[1]),
    "cut": Reply(document={}, cut=True),
    "wrong types": Reply(document={"maxReadPosition": "far", "ongoingTxnSize": "two"}),
    "impossible": Reply(document={"ongoingTxnSize": -1}),
    "contradictory": Reply(
        body=b'{"maxReadPosition": "7:1", "maxReadPosition": "7:2", '
        b'"ongoingTxnSize": 0, "ongoingTxnSize": 1}'
    ),
}


@pytest.mark.parametrize("why", WRONG)
def test_what_cannot_be_read_is_not_reported(why: str) -> None:
    with cluster(script("7:250") | {BUFFER: WRONG[why], PENDING: WRONG[why]}) as broker:
        sampled = read(broker.url, "t/n/x")
    observed, account = only(sampled.windows)
    assert observed.unreadable is None
    assert observed.transactions.pending_of("s") is None
    assert places(account)["in-transaction"] == (0, 50)
    assert places(account)["pending-ack"] == (0, 250)
    assert (sampled.notes, sampled.unread) == ((), ())
    assert (asked_for(broker)[BUFFER], asked_for(broker)[PENDING]) == (1, 1)


def saved(folder: Path) -> Path:
    """A file of --save of a topic with open transactions of both kinds."""
    both = slow("(3,4)", publishes=TOPIC, acks={TOPIC: {"s": {}}})
    answers = script("7:250") | ENABLED | {SLOW: {"(3,4)": both}}
    with cluster(answers) as broker:
        (window,) = read(broker.url, "t/n/x").windows
    with Recorder(folder / "s") as recorder:
        stats, internal = answers["x/stats"], answers["x/internalStats"]
        recorder.add(StatsAnswer("persistent://t/n/x", 1, stats, internal))
        recorder.limits("persistent://t/n/x", window.limits, None, window)
    return folder / "s"


def read_again(path: Path) -> tuple[Observed, Account]:
    with opened(str(path), "") as stream:
        schema = json.loads(stream.readline())["schema"]
        return only(tuple(read_saved(stream, "s", schema, []).windows()))


@pytest.mark.parametrize("redacted", [False, True])
def test_a_saved_file_has_the_same_account_without_names_too(
    tmp_path: Path, *, redacted: bool
) -> None:
    path = saved(tmp_path)
    if redacted:
        path.write_bytes(_redacted(path.read_bytes(), Pseudonyms()))
        assert b'"s"' not in gzip.decompress(path.read_bytes())
    observed, account = read_again(path)
    assert observed.transactions.pending_of(observed.subscription) == 2
    found = observed.transactions.slow_of(observed.subscription)
    assert [each.subscription for each in found] == [None, observed.subscription]
    assert observed.unreadable == 50
    assert places(account)["in-transaction"] == (50, 50)


def test_a_saved_file_with_damaged_transactions_is_refused(tmp_path: Path) -> None:
    lines = gzip.decompress(saved(tmp_path).read_bytes())
    (tmp_path / "d").write_bytes(lines.replace(b'"open":2', b'"open":"2"'))
    with pytest.raises(InputError, match="its transactions cannot be read"):
        read_again(tmp_path / "d")


def test_segments_in_a_redacted_file_have_no_names() -> None:
    name = "segment://t/n/orders/0000-ffff-0"
    line = {"topic": name, "limits": {}, "segments": [{"id": 0, "name": name}], "loaded": [0]}
    packed = gzip.compress(b"{}\n" + json.dumps(line).encode() + b"\n")
    assert b"orders" not in gzip.decompress(_redacted(packed, Pseudonyms()))
