"""What is to say of topics as a whole: nobody has subscribed, and dead letters wait."""

from __future__ import annotations

from typing import Any

import pytest

from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.reading import topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.broker.stats.window import Window
from pulsar_doctor.checkup.topic_notes import topic_notes, without_subscription

MAIN = "persistent://public/default/orders"
DEAD, RETRY = f"{MAIN}-billing-DLQ", f"{MAIN}-billing-RETRY"
ON = f"billing on {MAIN}:"


def window(topic: str, partition: int | None = None, **stats: Any) -> TopicWindow:
    document = {"msgInCounter": 0, "subscriptions": {}, **stats}
    return TopicWindow(topic, partition, Window((Sample(None, topic_stats(document)),)))


def waits(backlog: int, consumers: int = 0) -> dict[str, Any]:
    each = [{"consumerName": f"c{number}"} for number in range(consumers)]
    return {"msgBacklog": backlog, "consumers": each}


USED = window(MAIN, subscriptions={"billing": waits(0, 1)})


@pytest.mark.parametrize(
    ("letters", "said"),
    [
        (
            window(DEAD, msgInCounter=19, subscriptions={"dead": waits(19)}),
            f"{ON} 19 entries wait in {DEAD} (its dead letters), and nobody reads them",
        ),
        (
            window(DEAD, msgInCounter=19),
            f"{ON} 19 messages went to {DEAD} (its dead letters), and nobody has subscribed: "
            "unless retention keeps them they are lost",
        ),
        (
            window(f"{MAIN}-DLQ", msgInCounter=19),
            f"{ON} 19 messages went to {MAIN}-DLQ (its dead letters), and nobody has subscribed: "
            "unless retention keeps them they are lost",
        ),
        (
            window(RETRY, msgInCounter=200, subscriptions={"billing": waits(200, 1)}),
            f"{ON} 200 entries wait in {RETRY} (its messages to be tried again)",
        ),
    ],
)
def test_what_waits_there_is_said_of_the_subscription(letters: TopicWindow, said: str) -> None:
    assert list(topic_notes([letters, USED]).of_letters(None)) == [(MAIN, said)]
    assert list(topic_notes([USED, letters]).of_letters("billing")) == [(MAIN, said)]
    assert list(topic_notes([USED, letters]).of_letters("other")) == []


@pytest.mark.parametrize(
    ("there", "owner"),
    [
        ("orders-dead-letters", "billing"), ("dlt.orders", "billing"), ("Orders_DLQ", "billing"),
        ("billing-DeadLetter", "billing"), ("all-dlq", None), ("orders-deadlines", None),
        ("reorders-dlq", None), ("ship-dlq", "ship"), ("orders-ship-dlq", "ship"),
    ],
)  # fmt: skip
def test_dead_letters_under_another_name_belong_to_the_one_that_it_names(
    there: str, owner: str | None
) -> None:
    space = MAIN.rpartition("/")[0]
    other = window(f"{space}/parcels", subscriptions={"ship": waits(0, 1)})
    letters = window(f"{space}/{there}", msgInCounter=19, subscriptions={"x": waits(19)})
    notes = list(topic_notes([USED, other, letters]).of_letters(None))
    assert [note.partition(" on ")[0] for _, note in notes] == ([owner] if owner else [])
    assert all("(by its name its dead letters)" in note for _, note in notes)


def test_dead_letters_that_two_subscriptions_may_have_sent_belong_to_none() -> None:
    both = window(MAIN, subscriptions={"billing": waits(0, 1), "shipping": waits(0, 1)})
    dead = window(f"{MAIN}-dead", msgInCounter=19)
    assert list(topic_notes([both, dead]).of_letters(None)) == []


@pytest.mark.parametrize(
    "letters",
    [
        window(DEAD, subscriptions={"dead": waits(0)}),
        window(DEAD),
        window(DEAD, msgInCounter=None),
        window(f"{MAIN}-shipping-DLQ", msgInCounter=19),
    ],
)
def test_nothing_is_said_where_nothing_waits_or_the_subscription_is_another(
    letters: TopicWindow,
) -> None:
    assert list(topic_notes([USED, letters]).of_letters(None)) == []


def test_of_two_subscriptions_nobody_knows_which_one_puts_its_dead_letters_there() -> None:
    main = window(MAIN, subscriptions={"billing": waits(0, 1), "audit": waits(0, 1)})
    notes = topic_notes([main, window(f"{MAIN}-DLQ", msgInCounter=19)])
    assert list(notes.of_letters(None)) == []
    [(_, said)] = notes.of_unused()
    assert f"{MAIN}-DLQ" in said


def test_a_topic_called_like_the_subscription_of_another_one_has_no_part_in_its_letters() -> None:
    other = window(f"{MAIN}-billing", subscriptions={"audit": waits(0, 1)})
    notes = topic_notes([USED, other, window(DEAD, msgInCounter=19)])
    assert [topic for topic, _ in notes.of_letters(None)] == [MAIN]


def test_partitions_are_summed() -> None:
    main = [window(MAIN, number, subscriptions={"billing": waits(0, 1)}) for number in (0, 1)]
    dead = [window(DEAD, number, subscriptions={"dead": waits(3)}) for number in (0, 1)]
    [(_, said)] = topic_notes([*main, *dead]).of_letters(None)
    assert said.startswith(f"{ON} 6 entries wait")


@pytest.mark.parametrize(
    ("stats", "said"),
    [
        (
            {"msgInCounter": 410_000, "storageSize": 0, "msgRateIn": 62.0},
            "410000 messages came in since it was loaded (62 a second), and none of them is stored:"
            " who subscribes now gets later ones only; check the names of the topic and of the "
            "subscription",
        ),
        (
            {"msgInCounter": 100, "storageSize": 3800},
            "100 messages came in since it was loaded, and 3.8 kB are stored: who subscribes from "
            "the earliest on gets them until the broker deletes them, or the topic as inactive "
            "(retention prevents both); check the names of the topic and of the subscription",
        ),
        (
            {"msgInCounter": 0, "storageSize": 0},
            "no message has come in since it was loaded; check the names of the topic and of the "
            "subscription",
        ),
        (
            {"msgInCounter": 5},
            "5 messages came in since it was loaded; check the names of the topic and of the "
            "subscription",
        ),
        ({"msgInCounter": None}, None),
    ],
)
def test_without_a_subscription_it_says_what_became_of_the_messages(
    stats: dict[str, Any], said: str | None
) -> None:
    assert without_subscription([window(MAIN, **stats)]) == said


def test_a_sweep_names_the_topics_that_nobody_has_subscribed_to() -> None:
    lonely = window(f"{MAIN}-2", msgInCounter=7)
    system = window("persistent://public/default/__change_events", msgInCounter=7)
    empty = window(f"{MAIN}-3")
    [(topic, said)] = topic_notes([USED, lonely, system, empty]).of_unused()
    assert topic == lonely.topic
    assert said.startswith(f"nobody has subscribed to 1 topic, though messages came in: {topic};")
    for dead in (DEAD, f"{MAIN}-DLQ"):
        assert list(topic_notes([USED, window(dead, msgInCounter=19)]).of_unused()) == []
