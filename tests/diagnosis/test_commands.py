"""A name in a line is one word of a shell, whatever somebody has called a topic or subscription."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.diagnosis.actions.commands import (
    admin,
    check,
    holes,
    namespace_admin,
    policy_admin,
    quoted,
    subscription_admin,
)
from pulsar_doctor.evidence.subscription import SubscriptionView
from tests.diagnosis.shell import assert_taken, plain_words, words
from tests.report.checkups import HOSTILE, pieces

TOPIC = "persistent://public/default/orders"
SHELL = (
    "$(touch x)",
    "-s x",
    "`id`",
    "; rm -rf /",
    "' '",
    "a'b",
    '"$HOME"',
    "!!",
    "~",
    "-x",
    "&&",
    "\\'",
)
names = st.lists(pieces | st.sampled_from(SHELL), min_size=1, max_size=8).map("".join)
names = names.map(lambda name: name.replace("\0", "").replace("\1", "") or "x")


def view(topic: str = TOPIC, subscription: str = "billing", **told: object) -> SubscriptionView:
    return SubscriptionView(
        topic=topic,
        partition=told.pop("partition", None),  # type: ignore[arg-type]
        subscription=subscription,
        type="Shared",
        sources=frozenset(),
        consumers=(),
        **told,  # type: ignore[arg-type]
    )


@pytest.mark.usefixtures("outside")
@settings(deadline=None, max_examples=20)
@given(some=st.lists(names, min_size=1, max_size=60))
def test_a_shell_reads_each_name_as_one_word(some: list[str]) -> None:
    some = [*some, *SHELL, "".join(HOSTILE).replace("\0", "")]
    lines = [quoted(name) for name in some]
    assert all(line.isprintable() for line in lines), "one visible line"
    assert words(lines) == [[name] for name in some]


@pytest.mark.parametrize("name", [*SHELL, "a b", "\x1b[31m", "it's\nnew", "\u732b"])
def test_lines_with_odd_names_are_taken_by_their_programs(name: str) -> None:
    odd = view(f"{TOPIC}{name}", name)
    lines = [
        admin(odd, "topics unload"),
        subscription_admin(odd, "topics unsubscribe") or admin(odd, "topics stats"),
        policy_admin(odd, "get-dispatch-rate", "-ap"),
        check(odd, "healthy"),
        holes(odd),
    ]
    for line in words([line or "" for line in lines]):
        assert_taken(line)
        assert name in "".join(line)


def test_a_name_that_pulsar_admin_takes_for_an_option_has_no_line() -> None:
    assert subscription_admin(view(subscription="-s x"), "topics unsubscribe") is None
    line = subscription_admin(view(), "topics peek-messages", "-n", "1")
    assert line == f"pulsar-admin topics peek-messages -n 1 -s billing {TOPIC}"


def test_a_partition_is_unloaded_alone_and_has_the_policies_of_its_topic() -> None:
    third = view(partition=3)
    assert admin(third, "topics unload") == f"pulsar-admin topics unload {TOPIC}-partition-3"
    line = policy_admin(third, "remove-dispatch-rate")
    assert line == f"pulsar-admin topicPolicies remove-dispatch-rate {TOPIC}"


@pytest.mark.parametrize(
    ("topic", "namespace"),
    [
        (TOPIC, "public/default"),
        ("persistent://prop/cluster/ns/topic", "prop/cluster/ns"),
        ("non-persistent://a/b/c", "a/b"),
    ],
)
def test_a_namespace_is_what_stands_before_the_name(topic: str, namespace: str) -> None:
    line = namespace_admin(view(topic), "get-max-unacked-messages-per-consumer")
    assert line == f"pulsar-admin namespaces get-max-unacked-messages-per-consumer {namespace}"


def test_where_a_file_does_not_name_its_topic_there_is_no_line() -> None:
    unnamed = view("unknown")
    assert admin(unnamed, "topics unload") is None
    assert policy_admin(unnamed, "get-dispatch-rate") is None
    assert namespace_admin(unnamed, "get-max-unacked-messages-per-consumer") is None
    assert check(unnamed, "healthy") is None


def test_what_to_expect_stands_behind_the_line() -> None:
    line = check(view(), "healthy")
    assert line == f"pulsar-doctor stall-check {TOPIC} -s billing  # healthy"
    assert plain_words(line or "") == ["pulsar-doctor", "stall-check", TOPIC, "-s", "billing"]
