"""Lookups that lead to nothing, from the rows of a trace."""

from __future__ import annotations

import pytest

from pulsar_doctor.parts.tap.observer.strays import FOLLOWS_SECONDS, Strays
from pulsar_doctor.wire.columns import Row

LATER = round(FOLLOWS_SECONDS * 1e6) + 1


def row(command: str, conn_id: int = 1, ts: int = 0, **values: object) -> Row:
    made = Row()
    made.command, made.conn_id, made.ts = command, conn_id, ts
    for name, value in values.items():
        setattr(made, name, value)
    return made


def looked(topic: str, ts: int = 0, **answer: object) -> list[Row]:
    return [
        row("LOOKUP", ts=ts, topic=topic, request_id=ts),
        row("LOOKUP_RESPONSE", ts=ts, request_id=ts, client_addr="c:1", **answer),
    ]


def told(rows: list[Row], now_us: int = LATER) -> list[str]:
    strays = Strays()
    for one in rows:
        strays.add(one)
    found = [one.topic for one in strays.late(now_us)]
    assert list(strays.late(now_us)) == []
    return found


def test_a_lookup_that_nobody_follows_is_told_when_the_time_is_over():
    assert told(looked("t"), LATER - 2) == []
    assert told(looked("t")) == ["t"]
    assert told(looked("t") + looked("t", 5) + looked("u", 6), LATER + 3) == ["t"]


@pytest.mark.parametrize("command", ["SUBSCRIBE", "PRODUCER"])
@pytest.mark.parametrize("name", ["t", "persistent://public/default/t", "public/default/t"])
def test_whoever_comes_for_the_topic_on_any_connection_follows_it(command, name):
    assert told([*looked("persistent://public/default/t"), row(command, 2, topic=name)]) == []
    assert told([*looked("t"), row(command, 2, topic="other")]) == ["t"]


def test_whoever_comes_for_a_segment_follows_the_lookup_of_its_scalable_topic():
    came = row("SUBSCRIBE", 2, topic="segment://public/default/t/0000-7fff-0")
    assert told([*looked("topic://public/default/t"), came]) == []
    assert told([*looked("topic://public/default/u"), came]) == ["topic://public/default/u"]


def test_a_lookup_that_fails_leads_nobody_anywhere():
    assert told(looked("t", error_code="ServiceNotReady")) == []


def test_a_topic_is_told_once():
    strays = Strays()
    for ts in (0, LATER):
        for one in looked("t", ts):
            strays.add(one)
        assert len(list(strays.late(ts + LATER))) == (ts == 0)
