"""What a part of an answer tells all the same, and what it does not rule out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pulsar_doctor.broker.samples.pasted import document_in
from pulsar_doctor.broker.samples.plain import plain_stats
from pulsar_doctor.broker.samples.plain_windows import plain_windows
from pulsar_doctor.diagnosis.actions.limits import raised_limit
from pulsar_doctor.diagnosis.observing import first_of
from pulsar_doctor.diagnosis.ruling_out import ruled_out
from pulsar_doctor.diagnosis.subscription_clues import of_subscription
from pulsar_doctor.evidence.by_stats import subscription_view
from pulsar_doctor.evidence.subscription import SubscriptionView
from tests.incidents.asking import HYPOTHESES


def view_of(part: Any) -> SubscriptionView:
    document = document_in(part.encode(), "s").document if isinstance(part, str) else part
    [window] = plain_windows([plain_stats(document, "s")], (), None)
    [observed] = window.subscriptions()
    return subscription_view(observed)


def excluded(view: SubscriptionView, code: str) -> str | None:
    [of] = (each for each in HYPOTHESES if each.code == code)
    found = first_of(of.excluded, of_subscription(view), view)
    return found and found.text


def cut(*consumers: dict[str, Any], **more: Any) -> str:
    """A subscription whose list of consumers is cut off behind these."""
    text = json.dumps({"type": "Shared", "msgBacklog": 900, **more, "consumers": consumers})
    return text[: text.rindex("]")] + ", {"


BUSY = {"availablePermits": 700, "unackedMessages": 0, "blockedConsumerOnUnackedMsgs": False}


def test_the_rate_of_a_subscription_that_is_not_told_is_that_of_its_consumers() -> None:
    each = [{**BUSY, "msgRateOut": 2.5, "messageAckRate": 0.0}, {**BUSY, "msgRateOut": 1.5}]
    assert view_of({"consumers": each}).msg_rate_out == 4.0
    assert view_of({"consumers": each}).message_ack_rate is None  # another may acknowledge
    assert view_of({"consumers": each, "msgRateOut": 9.0}).msg_rate_out == 9.0


@pytest.mark.parametrize(
    ("part", "type_"),
    [
        ({"drainingHashes": [{"hash": 6, "unackMsgs": 1, "blockedAttempts": 3}]}, "Key_Shared"),
        ({"drainingHashesCount": 2}, "Key_Shared"),
        ({"drainingHashesCount": 0, "drainingHashes": []}, None),
    ],
)
def test_what_keys_wait_for_tells_that_it_is_key_shared(
    part: dict[str, Any], type_: str | None
) -> None:
    assert view_of({"consumers": [BUSY | part]}).type == type_
    assert view_of({"type": "Shared", "consumers": [BUSY | part]}).type == "Shared"


def test_what_is_counted_on_shared_alone_is_no_failover() -> None:
    holds, nothing = BUSY | {"unackedMessages": 41}, BUSY
    assert "Shared" in (excluded(view_of({"consumers": [holds]}), "inactive-failover") or "")
    assert excluded(view_of({"consumers": [nothing]}), "inactive-failover") is None


@pytest.mark.parametrize("code", ["not-acknowledging", "permits-exhausted", "permit-leak"])
def test_who_is_left_out_may_be_the_one(code: str) -> None:
    whole = {"type": "Shared", "msgBacklog": 900, "unackedMessages": 0, "consumers": [BUSY]}
    short = view_of(cut(BUSY, unackedMessages=88))
    unlisted = view_of(whole | {"unackedMessages": 88})
    assert code in {each.code for each in ruled_out(view_of(whole), HYPOTHESES)}
    assert code not in {each.code for each in ruled_out(short, HYPOTHESES)}
    assert code not in {each.code for each in ruled_out(unlisted, HYPOTHESES)}
    assert excluded(short, "no-consumer") == "at least 1 consumer is attached"


@pytest.mark.parametrize(
    ("limit", "held", "says"),
    [
        (None, 7100, "about 7100, judging by what is held"),
        (None, None, "50000 today"),
        (None, 50100, "50000 today"),
        (7000, 7100, "7000 today"),
    ],
)
def test_a_limit_that_is_not_told_is_no_higher_than_what_is_held_at_it(
    limit: int | None, held: int | None, says: str
) -> None:
    assert says in raised_limit(view_of({"consumers": [BUSY]}), "consumer", limit, held).text
