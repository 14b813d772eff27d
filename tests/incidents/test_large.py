"""Large subscriptions count as a broker does; what is posted of them can be read."""

from __future__ import annotations

from functools import cache
from random import Random

import pytest

from pulsar_doctor.diagnosis.answers import HEALTHY
from pulsar_doctor.evidence import by_stats
from tests.incidents.documents import Document
from tests.incidents.large import KINDS, RANGES, Large, large
from tests.incidents.moments import Taken
from tests.incidents.posted import DROPS, SINCE_25, as_posted, few_fields, posted

SEEDS = range(150)
SHOWS = {
    "stuck": "broker-read-stuck",
    "nobody": "no-consumer",
    "leaks": "permit-leak",
    "throttled": "dispatch-throttled",
    "storm": "redelivery-storm",
    "delayed": "delayed-messages",
    "miscounts": "backlog-counter-wrong",
    "keeps up": HEALTHY,
}


@cache
def drawn() -> list[Large]:
    return [large(seed) for seed in SEEDS]


def subscription(taken: Taken) -> Document:
    [told] = taken.stats["subscriptions"].values()
    assert isinstance(told, dict)
    return told


def cursor(taken: Taken) -> Document:
    [told] = taken.internal["cursors"].values()
    assert isinstance(told, dict)
    return told


def entry(position: str) -> tuple[int, int]:
    ledger, number = position.split(":")
    return int(ledger), int(number)


def test_each_kind_is_there() -> None:
    assert {each.case.kind for each in drawn()} == set(KINDS)


@pytest.mark.parametrize("kind", SHOWS)
def test_each_kind_shows_its_cause(kind: str) -> None:
    for each in drawn():
        if each.case.kind == kind:
            assert SHOWS[kind] in {code for code, _ in each.causes}


@pytest.mark.parametrize("seed", SEEDS)
def test_its_numbers_fit_together(seed: int) -> None:
    each = drawn()[seed]
    outs, reads = [], []
    for taken in each.moment.taken:
        told, cursor_now = subscription(taken), cursor(taken)
        outs.append(told["msgOutCounter"])
        reads.append(entry(cursor_now["readPosition"]))
        assert entry(cursor_now["markDeletePosition"]) < reads[-1]
        counted = taken.internal["entriesAddedCounter"] - cursor_now["messagesConsumedCounter"]
        assert told["msgBacklog"] == counted
        for consumer, member in zip(told["consumers"], each.case.members, strict=True):
            permits, batch = consumer["availablePermits"], member.batch
            assert -batch < permits <= member.queue
            flow = told["lastConsumedFlowTimestamp"]
            assert consumer["lastConsumedFlowTimestamp"] <= flow
    assert outs == sorted(outs)
    assert reads == sorted(reads)


def test_more_ranges_than_are_kept_are_told() -> None:
    found = [each for each in drawn() if ("holes-over-limit", None) in each.causes]
    assert found
    for each in found:
        assert subscription(each.moment.taken[-1])["nonContiguousDeletedMessagesRanges"] > RANGES


def test_whatever_is_left_out_can_be_read() -> None:
    for number, each in enumerate(drawn()):
        assert by_stats.subscription_view(posted(each.moment.taken[-1], Random(number)))


def test_a_posting_leaves_the_document_as_it_is() -> None:
    taken = drawn()[0].moment.taken[-1]
    before = repr(taken.stats)
    told = [as_posted(taken.stats, Random(1), drop) for drop in DROPS]
    assert repr(taken.stats) == before
    assert any("consumers" not in s for each in told for s in each["subscriptions"].values())
    assert told[3] == as_posted(taken.stats, Random(1), DROPS[3])


def test_a_posting_is_the_same_in_every_run() -> None:
    """Names of a set come in an order of each run's own."""
    stats = {"subscriptions": {"s": dict.fromkeys(SINCE_25, 1)}}
    told = as_posted(stats, Random(5), few_fields)["subscriptions"]["s"]
    assert SINCE_25 - told.keys() == {
        "drainingHashesUnackedMessages", "lastAckedTimestamp", "lastExpireTimestamp",
        "lastMarkDeleteAdvancedTimestamp", "messageAckRate", "msgInReplay",
        "nonContiguousDeletedMessagesRanges",
    }  # fmt: skip
