"""Who the consumers of a captured connection are, by what the broker says of them."""

from __future__ import annotations

import pytest

from pulsar_doctor.broker.stats.topic import ConsumerStats
from pulsar_doctor.parts.capture.asking import _addresses_in
from pulsar_doctor.parts.capture.following import CaptureFollowing
from pulsar_doctor.parts.capture.naming import Naming
from pulsar_doctor.parts.capture.reported import ConsumerSample, StatsConsumer
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from tests.parts.capture.packing import START_NS, Heard, Talk
from tests.parts.capture.talks import BEGINNING
from tests.parts.tap.tapped import command_frame, message
from tests.wire.test_batches import message as message_with

SECOND = 1_000_000_000
MESSAGE_LEDGER = 7  # of tests.parts.tap.tapped.message
TOPIC = "persistent://public/default/t"


def flow_of(number: int, permits: int) -> bytes:
    return command_frame(11, "flow", consumer_id=number, message_permits=permits)


def ack_of(number: int, ledger: int) -> bytes:
    ids = [wire.MessageId(ledger_id=ledger, entry_id=1)]
    return command_frame(10, "ack", consumer_id=number, ack_type=0, message_id=ids)


def told(name: str, permits: int, sent: int, at_ns: int, topic: str = TOPIC):
    address = "10.0.0.7:43668"
    return StatsConsumer(
        topic, "s", "Shared",
        ConsumerStats(
            consumer_name=name, address=f"/{address}", client_version="Pulsar-CPP-v4",
            available_permits=permits, unacked_messages=0, msg_out_counter=sent,
        ),
        at_ns, at_ns + 1000,
    )  # fmt: skip


class Named:
    """A conversation, and samples between its packets."""

    def __init__(self, *, joined: bool = True, quiet: float = 0) -> None:
        self.talk = Talk().open()
        for way, data, _ in BEGINNING[:2] if joined else BEGINNING:
            self.talk.say(way, data)
        self.talk.wait(quiet)
        heard = Heard()
        self.stats, self.naming = heard.stats, Naming(heard)
        self.following = CaptureFollowing(self.naming, [6650])

    def say(self, *said: tuple[int, bytes]) -> None:
        for way, data in said:
            self.talk.say(way, data)

    def sample(
        self,
        *consumers: tuple[str, int, int],
        topic: str | None = None,
        ledgers: tuple[int, ...] = (),
        complete: bool = True,
        quiet: float = 2,
    ) -> None:
        """Of a moment with so many quiet seconds before it, and two behind. topic: of it alone."""
        self._run()
        self.talk.wait(quiet)
        each = [told(*one, self.talk.now_ns, topic or TOPIC) for one in consumers]
        of_topics = dict.fromkeys(ledgers, topic or TOPIC)
        self.naming.sample(ConsumerSample(each, complete and topic is None, of_topics))
        self.talk.wait(2)
        self._read()

    def _run(self) -> None:
        for packet in self.talk.packets:
            self.naming.due(packet.time_ns)
            self.following.packet(packet)
        self.talk.packets.clear()

    def _read(self) -> None:
        self.following.pass_time(self.talk.now_ns)
        self.naming.read(self.talk.now_ns, self.following.connections())

    @property
    def story(self) -> list[tuple[object, ...]]:
        """Each STATS: name, number, how it was found."""
        return [
            (each["consumer_name"], each["consumer_id"], each["known_by"]) for each in self.stats
        ]

    def found(self) -> dict[object, tuple[object, ...]]:
        """By name: the last number and how it was found."""
        return {
            each["consumer_name"]: (each["consumer_id"], each["known_by"]) for each in self.stats
        }


def test_one_alone_at_its_address_is_known_by_it():
    named = Named(quiet=3)
    named.say((0, flow_of(7, 10)))
    named.sample(("a", 10, 0))
    assert named.found() == {"a": (7, "address")}
    assert named.stats[-1]["permits"] == 10


def test_a_message_whose_metadata_cannot_be_read_counts_as_one():
    named = Named(quiet=3)
    named.say((1, message_with(3, b"\x0a\xff\xff")))
    named.sample(("a", 9, 1))
    assert named.found() == {"a": (1, "address")}


def test_where_not_all_topics_were_asked_it_is_only_likely():
    named = Named()
    named.say((0, flow_of(7, 10)))
    named.sample(("a", 10, 0), complete=False)
    assert named.found() == {"a": (7, "likely")}


def test_two_on_one_connection_are_told_apart_by_what_moves():
    named = Named(quiet=3)
    named.say((0, flow_of(1, 5)), (0, flow_of(2, 5)))
    named.sample(("a", 5, 0), ("b", 5, 0))
    assert named.found() == {}
    named.say((1, message(2, b"", 1)), (1, message(2, b"", 2)))
    named.sample(("a", 5, 0), ("b", 3, 2))
    assert named.found() == {"a": (1, "movement"), "b": (2, "movement")}
    assert {each["consumer_name"]: each["permits"] for each in named.stats} == {"a": 5, "b": 3}


def test_a_sample_amid_their_frames_does_not_blur_what_moved():
    named = Named(quiet=3)
    named.sample(("a", 5, 0), ("b", 5, 0))
    named.say((1, message(1, b"", 1)), (1, message(2, b"", 1)), (0, flow_of(2, 5)))
    named.sample(("a", 4, 1), ("b", 9, 1), quiet=0)
    assert {each["consumer_id"] for each in named.stats} == {None}
    named.sample(("a", 4, 1), ("b", 9, 1))
    assert named.found() == {"a": (1, "movement"), "b": (2, "movement")}


def test_two_that_do_nothing_stay_numbers():
    named = Named(quiet=3)
    named.say((0, flow_of(1, 5)), (0, flow_of(2, 5)))
    for _ in range(3):
        named.sample(("a", 5, 0), ("b", 5, 0))
    assert named.stats == []


def test_one_that_says_nothing_has_a_name_and_no_number():
    named = Named(quiet=3)
    named.sample(("a", 0, 100))
    assert named.found() == {"a": (None, "address")}
    assert named.stats[-1]["permits"] == 0


def test_who_spoke_while_the_first_sample_was_taken_is_not_said_to_be_silent():
    named = Named(quiet=3)
    named.say((0, flow_of(1, 5)), (0, flow_of(2, 5)))
    named.sample(("a", 5, 0), ("b", 5, 0), quiet=0)
    named.sample(("a", 5, 0), ("b", 5, 0))
    assert named.found() == {}
    named.say((1, message(2, b"", 1)))
    named.sample(("a", 5, 0), ("b", 4, 1))
    assert named.found() == {"a": (1, "movement"), "b": (2, "movement")}


def test_while_frames_pass_a_sample_tells_names_and_bounds():
    named = Named(quiet=3)
    named.say((0, flow_of(7, 10)))
    named.sample(("a", 10, 0), quiet=0)
    assert named.found() == {"a": (7, "address")}
    last = named.stats[-1]
    assert (last["permits_min"], last["permits_max"]) == (10, 20)


def test_a_sample_from_before_the_capture_tells_names_and_no_permits():
    named = Named()
    named.say((0, flow_of(7, 10)))
    named._run()
    named.naming.sample(ConsumerSample([told("a", 10, 0, START_NS - SECOND)], complete=True))
    named.talk.wait(3)
    named._read()
    assert named.found() == {"a": (7, "address")}
    assert named.stats[-1]["permits"] is None


def test_one_whose_subscribe_was_seen_is_known_by_name():
    named = Named(joined=False)
    named.say((0, flow_of(1, 5)))
    named.talk.wait(3)
    named.sample(("a", 5, 0))
    assert named.found() == {"a": (1, "name")}


OTHER = "persistent://public/default/other"


def test_a_likely_name_is_taken_back_where_its_numbers_move_otherwise():
    named = Named(quiet=3)
    named.say((0, flow_of(7, 10)))
    named.sample(("a", 10, 0), complete=False)
    named.say((0, flow_of(7, 10)))
    named.sample(("a", 10, 0), complete=False)
    assert named.story[-2:] == [("a", 7, "mistaken"), ("a", None, "address")]
    assert named.story[0] == ("a", 7, "likely")
    assert named.naming.mistaken == 1


def test_a_likely_name_is_taken_back_where_another_turns_up_who_may_have_that_number():
    named = Named()
    named.say((0, flow_of(7, 10)))
    named.sample(("a", 10, 0), topic=TOPIC)
    named.sample(("b", 10, 0), topic=OTHER)
    assert named.story == [("a", 7, "likely"), ("a", 7, "mistaken")]


def test_a_name_that_was_proven_is_not_taken_back_because_another_turns_up():
    named = Named(quiet=3)
    named.say((0, flow_of(7, 10)))
    named.sample(("a", 10, 0))
    named.sample(("b", 0, 0), topic=OTHER)
    assert named.naming.mistaken == 0
    assert named.found() == {"a": (7, "address"), "b": (None, "address")}


def test_ledgers_tell_consumers_of_two_topics_apart():
    named = Named()
    named.say((1, message(1, b"", 1)), (0, ack_of(2, ledger=90)))
    named.sample(("a", 10, 0), topic=TOPIC, ledgers=(MESSAGE_LEDGER,))
    named.sample(("b", 10, 0), topic=OTHER, ledgers=(89, 90))
    assert named.found() == {"a": (1, "ledger"), "b": (2, "ledger")}
    assert named.naming.mistaken == 0


def test_a_likely_name_is_taken_back_where_its_messages_are_of_another_topics_ledger():
    named = Named()
    named.say((1, message(1, b"", 1)))
    named.sample(("a", 10, 0), topic=TOPIC)
    named.sample(("b", 10, 0), topic=OTHER, ledgers=(MESSAGE_LEDGER,))
    assert named.story == [("a", 1, "likely"), ("a", 1, "mistaken"), ("b", 1, "ledger")]


def test_two_consumers_of_one_topic_are_not_told_apart_by_its_ledgers():
    named = Named()
    named.say((1, message(1, b"", 1)))
    named.sample(("a", 10, 0), ("b", 10, 0), topic=TOPIC, ledgers=(MESSAGE_LEDGER,))
    assert named.story == []


def test_a_sample_of_no_moment_names_those_who_speak_later():
    named = Named()
    kept = told("a", None, 0, 0)
    named.naming.sample(ConsumerSample([kept], complete=False, standing=True))
    named.talk.wait(3)
    named._run()
    named._read()
    assert named.story == [("a", None, "address")]
    named.say((0, flow_of(7, 10)))
    named._run()
    named.talk.wait(3)
    named._read()
    assert named.story[1:] == [("a", 7, "likely")]
    named.talk.wait(3)
    named._read()
    assert len(named.stats) == 2


def test_where_the_consumers_of_a_topic_are_is_read_from_broker_stats():
    one, other = ({"consumers": [{"address": f"/10.0.0.{n}:4{n}"}, {}]} for n in (7, 8))
    stats = {"subscriptions": {"s": one, "t": other}}
    assert _addresses_in(stats) == {"10.0.0.7:47", "10.0.0.8:48"}


@pytest.mark.parametrize(
    "stats",
    [
        None,
        [],
        {},
        {"subscriptions": []},
        {"subscriptions": {"s": None}},
        {"subscriptions": {"s": {"consumers": {}}}},
        {"subscriptions": {"s": {"consumers": [None, {"address": 7}]}}},
    ],
    ids=str,
)
def test_broker_stats_of_another_shape_name_no_consumer(stats):
    assert _addresses_in(stats) == frozenset()
