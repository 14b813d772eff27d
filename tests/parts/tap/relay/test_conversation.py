"""What passes between a client and its broker, what is changed and what is written down."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.parts.tap.relay.addresses import NOT_NAMED
from pulsar_doctor.parts.tap.relay.connection_journal import ConnectionJournal, Unmasked
from pulsar_doctor.parts.tap.relay.conversation import FRAME_BYTES_MOST
from pulsar_doctor.parts.tap.relay.errands import Dial, Name, SayAloud
from pulsar_doctor.parts.tap.relay.first_words import CONNECT_BYTES_MOST
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from pulsar_doctor.wire.masking import Mask
from tests.parts.tap.relay.traffic import frames
from tests.parts.tap.relay.transcripts import CLIENT, Kept, Talk, connected
from tests.parts.tap.tapped import (
    AUTH,
    CONNECT,
    CONNECTED,
    FUTURE,
    SECRET,
    command_frame,
    connect_frame,
    flow,
    frame,
    message,
)

URL = "10.9.9.9:6650"
NAMED = ("10.9.9.9", 6650)
BEGUN = ["OPEN", "CONNECT", "CONNECTED"]
HTTP = b"GET /admin/v2/brokers HTTP/1.1\r\nHost: localhost\r\n\r\n"
GARBAGE = b"\xff" * 1000


# What passes.


def answered(**more: Any) -> bytes:
    """As brokers answer a lookup."""
    answer = wire.LookupResponse(
        broker_service_url=f"pulsar://{URL}", response=1, request_id=9, **more
    )
    return wire.BaseCommand(type=24, lookup_response=answer).SerializeToString()


def kept(**more: Any) -> bytes:
    """As the client gets it: whichever URL it reads, it comes back to the tap."""
    return answered(
        proxy_through_service_url=True, broker_service_url_tls=f"pulsar+ssl://{URL}", **more
    )


SAID = (
    flow(7), message(1, b"x" * 30), frame(b"\x08\x5a\xd2\x05\x01x"), frame(b"\x08\x7f"),
    frame(b"", b"no type"), frame(b"\x08\xe3\x07", b"behind"), command_frame(13, "success"),
    message(1, b""), frame(b"\x08"), frame(b"\x08\x90\x80\x01"),
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    up=st.lists(st.sampled_from([*SAID, command_frame(23, "lookup", topic="t", request_id=1)])),
    down=st.lists(
        st.sampled_from(
            [(one, one) for one in SAID]
            + [(frame(answered(), b"behind"), frame(kept(), b"behind"))]
            + [(command_frame(16, "close_consumer", request_id=2),) * 2]
        )
    ),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_streams_cut_anywhere_pass_both_ways(up, down, cuts):
    talk = connected()
    said, through = b"".join(one for one, _ in down), b"".join(one for _, one in down)
    talk.client.says(b"".join(up), pieces=sorted(cut for cut in cuts if cut < len(b"".join(up))))
    talk.broker.says(said, pieces=sorted(cut for cut in cuts if cut < len(said)))
    assert talk.broker.hears() == b"".join(up)
    assert talk.client.hears() == through
    assert len(talk.rows()) == len(BEGUN) + len(up) + len(down)


@pytest.mark.parametrize("pieces", [5, 997, 65_536])
def test_frames_of_every_kind_pass_in_pieces_of_any_length(pieces):
    stream = frames(pieces, 50_000)
    talk = connected()
    for here, there in ((talk.client, talk.broker), (talk.broker, talk.client)):
        here.says(stream.data, pieces=pieces)
        assert there.hears() == stream.data
    codes = [row.command_code for row in talk.rows()[3:]]
    assert codes == stream.codes * 2


def test_what_is_no_held_frame_is_passed_on_at_once():
    talk = connected()
    for here, there in ((talk.client, talk.broker), (talk.broker, talk.client)):
        for said in (flow(1)[:11], flow(1)[11:] + message(1, b"x" * 50)[:30]):
            here.says(said)
            assert there.hears() == said


def test_an_unknown_command_passes_untouched_and_is_written_down_blanked():
    talk = connected()
    unknown = frame(b"\x08\x5a\xd2\x05\x1e" + SECRET[:30].ljust(30, b"!"))
    talk.client.says(unknown)
    assert talk.broker.hears() == unknown
    row = talk.rows()[-1]
    assert (row.command, row.command_code) == ("COMMAND_90", 90)
    assert row.raw is not None
    assert len(row.raw) == len(unknown) - 8
    assert SECRET not in b"".join(talk.kept.blocks)


# What keeps a client on the tap.


@pytest.mark.parametrize("pieces", [0, 7])
def test_a_lookup_answer_says_that_the_client_should_come_back_to_the_tap(pieces):
    talk = connected()
    before, behind = message(1, b"before"), message(1, b"behind")
    plain = answered() + FUTURE
    changed = wire.BaseCommand.FromString(plain)
    changed.lookup_response.proxy_through_service_url = True
    changed.lookup_response.broker_service_url_tls = f"pulsar+ssl://{URL}"
    expected = frame(changed.SerializeToString())
    assert FUTURE in expected
    talk.broker.says(before + frame(plain) + behind, pieces=pieces)
    assert talk.client.hears() == before + expected + behind
    assert talk.asked() == [Name(NAMED)]
    assert talk.commands()[-3:] == ["MESSAGE", "LOOKUP_RESPONSE", "MESSAGE"]


def test_a_tls_address_of_another_port_is_not_told():
    talk = connected()
    talk.broker.says(frame(answered(broker_service_url_tls="pulsar+ssl://b:6651")))
    assert talk.client.hears() == frame(kept())


def test_what_stands_behind_a_rewritten_command_stays_there():
    talk = connected()
    talk.broker.says(frame(answered(), b"of a protocol that is newer") + flow(1))
    assert talk.client.hears() == frame(kept(), b"of a protocol that is newer") + flow(1)


def test_a_failed_lookup_passes_untouched():
    talk = connected()
    failed = command_frame(24, "lookup_response", response=2, request_id=9, error=11)
    talk.broker.says(failed)
    assert talk.client.hears() == failed
    assert talk.asked() == []


def test_an_answer_that_does_not_say_what_it_is_passes_untouched():
    talk = connected()
    talk.broker.says(command_frame(24, "lookup_response", request_id=9))
    assert talk.client.hears() == command_frame(24, "lookup_response", request_id=9)
    assert talk.asked() == []


@pytest.mark.parametrize(("code", "field"), [(16, "close_consumer"), (15, "close_producer")])
def test_a_close_does_not_send_the_client_past_the_tap(code, field):
    talk = connected()
    for named, errands in (
        ({"assigned_broker_service_url": f"pulsar://{URL}"}, [Name(NAMED)]),
        ({"assigned_broker_service_url_tls": "pulsar+ssl://elsewhere:6651"}, []),
    ):
        talk.broker.says(command_frame(code, field, request_id=2, **named))
        assert talk.client.hears() == command_frame(code, field, request_id=2)
        assert talk.asked() == errands
    plain = command_frame(code, field, request_id=3)[8:]
    for unlike_ours in (frame(plain + FUTURE), frame(plain[:2] + FUTURE + plain[2:])):
        talk.broker.says(unlike_ours)
        assert talk.client.hears() == unlike_ours


@pytest.mark.parametrize("code", [2, 15, 16, 23, 24, 37, 68])
def test_a_held_frame_that_cannot_be_parsed_passes_untouched(code):
    talk = connected()
    number = bytes([code])
    broken = frame(b"\x08" + number + b"\xff\xff\xff broken", b"and more behind it")
    talk.broker.says(broken)
    assert talk.client.hears() == broken
    talk.client.says(broken)
    assert talk.broker.hears() == broken


def moved(**urls: str) -> bytes:
    return command_frame(68, "topic_migrated", resource_id=3, resource_type=1, **urls)


def test_a_topic_that_moves_to_another_cluster_stays_on_the_tap():
    asked = []

    def migrate(brokers: tuple[tuple[str, int], ...]) -> tuple[str, int]:
        asked.append(brokers)
        return "127.0.0.1", 7000

    talk = connected(migrate=migrate)
    talk.broker.says(moved(broker_service_url="pulsar://b:1,c:2"))
    assert talk.client.hears() == moved(
        broker_service_url="pulsar://127.0.0.1:7000",
        broker_service_url_tls="pulsar+ssl://127.0.0.1:7000",
    )
    assert asked == [(("b", 1), ("c", 2))]


@pytest.mark.parametrize("url", ["", "http://a:8080", "pulsar://nonsense"])
def test_a_move_to_nowhere_passes_untouched(url):
    talk = connected(migrate=lambda _: ("127.0.0.1", 7000))
    talk.broker.says(moved(broker_service_url=url))
    assert talk.client.hears() == moved(broker_service_url=url)


@pytest.mark.parametrize("migrate", [None, lambda _: None])
def test_a_move_that_the_tap_has_no_place_for_passes_untouched(migrate):
    talk = connected(migrate=migrate)
    talk.broker.says(moved(broker_service_url="pulsar://b:1"))
    assert talk.client.hears() == moved(broker_service_url="pulsar://b:1")


# Which broker the client is taken to.


@pytest.mark.parametrize("pieces", [0, 1])
def test_a_connect_without_a_target_goes_to_the_service_url_untouched(pieces):
    talk = Talk()
    talk.client.says(CONNECT, pieces=pieces)
    assert talk.asked() == [Dial(None)]
    talk.broker_comes()
    assert talk.broker.hears() == CONNECT


@pytest.mark.parametrize("pieces", [0, 1])
def test_a_connect_with_a_target_goes_there_without_it(pieces):
    talk = Talk()
    talk.client.says(connect_frame(URL) + flow(3), pieces=pieces)
    assert talk.asked() == [Dial(NAMED)]
    talk.broker_comes()
    stripped = wire.BaseCommand.FromString(connect_frame(URL)[8:])
    stripped.connect.ClearField("proxy_to_broker_url")
    expected = frame(stripped.SerializeToString()) + flow(3)
    assert talk.broker.hears() == expected
    assert AUTH in expected
    assert expected.count(FUTURE) == 2
    assert URL.encode() not in expected
    talk.broker.says(CONNECTED)
    assert talk.client.hears() == CONNECTED
    assert talk.commands() == ["OPEN", "CONNECT", "FLOW", "CONNECTED"]


def test_a_v5_client_that_wants_any_broker_behind_a_proxy_gets_the_service_url():
    talk = Talk()
    talk.client.says(connect_frame(""))  # the field is there and empty
    assert talk.asked() == [Dial(None)]
    talk.broker_comes()
    stripped = wire.BaseCommand.FromString(connect_frame("")[8:])
    assert stripped.connect.HasField("proxy_to_broker_url")
    stripped.connect.ClearField("proxy_to_broker_url")
    assert talk.broker.hears() == frame(stripped.SerializeToString())


def test_nobody_is_dialled_before_the_client_has_shown_a_frame_and_then_once():
    talk = Talk()
    for at in range(len(CONNECT) - 1):
        talk.client.says(CONNECT[at : at + 1])
        assert talk.asked() == []
    talk.client.says(CONNECT[-1:])
    assert talk.asked() == [Dial(None)]
    talk.client.says(flow(1) + flow(2)[:5])
    talk.client.ends()
    assert talk.asked() == []
    assert (talk.broker.hears(), talk.broker.heard_end) == (b"", False)
    talk.broker_comes()
    assert talk.broker.hears() == CONNECT + flow(1) + flow(2)[:5]
    assert talk.broker.heard_end


SEVERAL = CONNECT + flow(1) + message(1, b"x") + flow(2)


@pytest.mark.parametrize("cut", range(1, len(SEVERAL), 3))
@pytest.mark.parametrize("there_after", [1, 2])
def test_frames_right_behind_a_connect_in_two_pieces(cut, there_after):
    talk = Talk()
    talk.client.says(SEVERAL[:cut])
    if there_after == 1 and talk.asked():
        talk.broker_comes()
    talk.client.says(SEVERAL[cut:])
    if not talk.conversation.open:
        talk.broker_comes()
    assert talk.broker.hears() == SEVERAL
    assert talk.commands() == ["OPEN", "CONNECT", "FLOW", "MESSAGE", "FLOW"]


def test_a_frame_that_is_too_long_to_wait_for_is_for_the_broker_to_judge():
    talk = Talk()
    long = message(1, bytes(CONNECT_BYTES_MOST))
    held = frame(CONNECT[8:], bytes(CONNECT_BYTES_MOST))
    talk.client.says(held[:CONNECT_BYTES_MOST])
    assert talk.asked() == []
    talk.client.says(held[CONNECT_BYTES_MOST : CONNECT_BYTES_MOST + 1])
    assert talk.asked() == [Dial(None)]
    talk.broker_comes()
    talk.client.says(held[CONNECT_BYTES_MOST + 1 :] + long)
    assert talk.broker.hears() == held + long


def test_a_connect_that_is_nonsense_is_for_the_broker_to_judge():
    nonsense = frame(b"\x08\x02\x12\x7f\xff")
    talk = Talk()
    talk.client.says(nonsense)
    assert talk.asked() == [Dial(None)]
    talk.broker_comes()
    assert talk.broker.hears() == nonsense
    assert talk.commands() == ["OPEN", "CONNECT"]


@pytest.mark.parametrize(
    "target", ["nonsense", "a:99999", ":1", "user:secret@a:1", "My-Secret", "secret:word:1"]
)
def test_a_target_that_is_no_address_is_refused(target):
    talk = Talk()
    talk.client.says(connect_frame(target))
    assert talk.asked() == []
    assert talk.client.over == "closed"
    assert talk.counters.targets_refused == 1
    assert talk.commands() == ["OPEN", "CONNECT", "CLOSE"]
    why = talk.why()
    assert why is not None
    assert why == f"refused: {NOT_NAMED}"  # and not what was asked for


def test_a_broker_that_may_not_be_dialled():
    talk = Talk()
    talk.client.says(connect_frame(URL))
    assert talk.asked() == [Dial(NAMED)]
    talk.conversation.refused("no lookup of this cluster named the broker", (1, 1))
    talk.carry_out()
    assert (talk.client.over, talk.counters.targets_refused) == ("closed", 1)
    assert talk.why() == "refused: no lookup of this cluster named the broker"


@pytest.mark.parametrize("of_tls", [False, True])
def test_a_client_that_finds_no_broker_is_on_record_with_what_it_said(of_tls):
    talk = Talk()
    talk.client.says(CONNECT + flow(1))
    assert talk.conversation.dialling
    talk.conversation.unreachable("the broker b:1 cannot be reached", (1, 1), of_tls=of_tls)
    talk.carry_out()
    assert not talk.conversation.dialling
    assert talk.asked() == [Dial(None), SayAloud("the broker b:1 cannot be reached")]
    assert talk.client.over == "closed"
    assert (talk.counters.unreachable, talk.counters.tls_failed) == (1, int(of_tls))
    assert talk.commands() == ["OPEN", "CONNECT", "FLOW", "CLOSE"]
    assert talk.rows()[0].broker_addr is None
    assert talk.why() == "the broker b:1 cannot be reached"


def test_a_broker_that_refuses_our_certificate_says_so_before_it_has_greeted_only():
    talk = Talk()
    talk.client.says(CONNECT)
    talk.broker_comes()
    talk.conversation.tls_failed("it wants a certificate", (1, 1))
    talk.carry_out()
    assert (talk.client.over, talk.counters.tls_failed) == ("closed", 1)
    assert talk.asked()[1:] == [SayAloud("it wants a certificate")]
    greeted = connected()
    greeted.conversation.tls_failed("bad record", (1, 1))
    greeted.carry_out()
    assert (greeted.client.over, greeted.counters.tls_failed) == (None, 0)


# What cannot be observed.


@pytest.mark.parametrize("pieces", [0, 1])
def test_what_is_no_pulsar_passes_with_one_unparsed(pieces):
    talk = Talk()
    talk.client.says(HTTP, pieces=pieces)
    assert talk.asked() == [Dial(None)]
    talk.broker_comes()
    assert talk.broker.hears() == HTTP
    for said in (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 100_000, b"no", b"\0"):
        talk.broker.says(said)
        assert talk.client.hears() == said
    talk.client.says(HTTP * 3)
    assert talk.broker.hears() == HTTP * 3
    rows = talk.rows()
    assert [row.command for row in rows] == ["OPEN", "UNPARSED"]
    assert "longer than the 5253120" in (rows[1].error_message or "")
    assert talk.counters.unparsed == 1


def test_nothing_is_cut_behind_first_words_that_are_nonsense():
    talk = Talk()
    talk.client.says(HTTP)
    talk.client.says(flow(1))
    talk.broker_comes()
    assert talk.broker.hears() == HTTP + flow(1)
    assert talk.commands() == ["OPEN", "UNPARSED"]


def test_a_broker_that_speaks_first_is_heard():
    talk = Talk()
    talk.client.says(HTTP)
    talk.broker_comes()
    talk.broker.says(b"\xff\xff\xff\xff 220 ready")
    assert talk.client.hears() == b"\xff\xff\xff\xff 220 ready"


def test_frames_before_nonsense_are_written_down_and_the_nonsense_passes():
    talk = connected()
    talk.client.says(flow(1) + flow(2) + GARBAGE)
    assert talk.broker.hears() == flow(1) + flow(2) + GARBAGE
    talk.client.says(flow(3))
    assert talk.broker.hears() == flow(3)
    talk.broker.says(GARBAGE + CONNECTED)
    assert talk.client.hears() == GARBAGE + CONNECTED
    assert talk.commands() == [*BEGUN, "FLOW", "FLOW", "UNPARSED"]


@pytest.mark.parametrize("by_client", [True, False])
def test_nonsense_ends_the_observing_of_both_ways_once(by_client):
    talk = connected()
    here, there = (talk.client, talk.broker) if by_client else (talk.broker, talk.client)
    for said in (flow(1) + HTTP, flow(1), HTTP, b"x"):
        here.says(said)
        assert there.hears() == said
    there.says(flow(1) + HTTP)
    assert here.hears() == flow(1) + HTTP
    talk.client.goes()
    assert talk.commands() == [*BEGUN, "FLOW", "UNPARSED", "CLOSE"]
    assert talk.counters.unparsed == 1


def test_what_was_kept_back_goes_when_the_rest_is_nonsense():
    talk = connected()
    talk.broker.says(frame(answered())[:9])
    assert talk.client.hears() == b""
    talk.broker.says(b"\xff\xff" + HTTP)
    assert talk.client.hears() == frame(answered())[:9] + b"\xff\xff" + HTTP


def test_a_client_that_can_no_longer_be_parsed_stays_on_the_tap():
    talk = connected()
    talk.client.says(HTTP)
    assert talk.broker.hears() == HTTP
    talk.broker.says(frame(answered()) + HTTP)
    assert talk.client.hears() == frame(kept()) + HTTP


def test_nothing_is_kept_back_of_a_conversation_that_is_not_pulsar():
    talk = Talk()
    talk.client.says(CONNECT)
    talk.broker_comes()
    talk.broker.says(b"\0\0\0")  # it might be the beginning of a frame
    assert talk.client.hears() == b""
    talk.client.says(HTTP)
    assert talk.broker.hears() == CONNECT + HTTP
    assert talk.client.hears() == b"\0\0\0"


def test_what_was_kept_back_goes_once():
    talk = Talk()
    talk.client.says(CONNECT)
    talk.broker_comes()
    talk.broker.says(b"\0\0\0")
    talk.broker.ends()
    assert talk.client.hears() == b"\0\0\0"
    talk.client.says(HTTP)
    assert talk.client.hears() == b""


def test_nonsense_of_a_client_does_not_end_what_its_broker_is_about_to_say():
    talk = connected()
    talk.broker.says(frame(answered())[:20])
    talk.client.says(HTTP)
    assert talk.client.hears() == b""  # it is Pulsar: the rest of the answer is waited for
    talk.broker.says(frame(answered())[20:])
    assert talk.client.hears() == frame(kept())


def test_a_connected_that_is_nonsense_does_no_harm():
    nonsense = frame(b"\x08\x03\x1a\x7f\xff")
    talk = Talk()
    talk.client.says(CONNECT)
    talk.broker_comes()
    talk.broker.says(nonsense + flow(1))
    assert talk.client.hears() == nonsense + flow(1)
    assert talk.commands() == [*BEGUN, "FLOW"]


def test_the_broker_says_how_long_a_message_may_be():
    talk = Talk()
    talk.client.says(CONNECT)
    talk.broker_comes()
    talk.broker.says(command_frame(3, "connected", max_message_size=8_000_000))
    for here in (talk.broker, talk.client):
        here.says(message(1, bytes(7_000_000)) + flow(1))
    assert "UNPARSED" not in talk.commands()
    talk.client.says(message(1, bytes(8_020_000)))
    assert talk.commands()[-1] == "UNPARSED"


def test_no_message_may_be_longer_than_a_trace_can_say():
    talk = Talk()
    talk.client.says(CONNECT)
    talk.broker_comes()
    talk.broker.says(command_frame(3, "connected", max_message_size=2**31 - 1))
    talk.broker.says(b"\x80\x00\x00\x00\0\0\0\x05\x08\x09")
    assert talk.commands()[-1] == "UNPARSED"
    assert str(FRAME_BYTES_MOST) in (talk.why() or "")


def test_what_a_connected_of_the_client_says_is_not_believed():
    talk = Talk()
    talk.client.says(CONNECT)
    talk.broker_comes()
    talk.client.says(command_frame(3, "connected", max_message_size=100))
    talk.client.says(message(1, bytes(1000)))
    talk.client.says(HTTP)
    assert talk.commands() == ["OPEN", "CONNECT", "CONNECTED", "MESSAGE", "UNPARSED"]
    assert not talk.conversation.greeted


def test_a_journal_that_raises_is_told_of_and_costs_no_traffic():
    class Broken(Kept):
        def add(self, *_: object, **__: object) -> None:
            raise RuntimeError("a mistake of ours")

    talk = Talk(kept=Broken())
    talk.client.says(CONNECT)
    assert talk.asked() == [Dial(None)]
    talk.broker_comes()
    assert talk.asked() == [SayAloud("something could not be written down: RuntimeError")]
    assert talk.broker.hears() == CONNECT
    talk.client.goes()
    assert talk.broker.over == "closed"


def test_frames_that_cannot_be_written_down_pass():
    class Broken(ConnectionJournal):
        def frames(self, *_: object) -> None:
            raise RuntimeError("a mistake of ours")

    talk = Talk()
    kept_rows = Kept()
    talk.conversation.client_came(Broken(kept_rows, Unmasked(kept_rows, Mask(b"x")), 0), CLIENT)
    talk.client.says(CONNECT)
    talk.broker_comes()
    talk.client.says(flow(1))
    assert talk.broker.hears() == CONNECT + flow(1)
    assert talk.asked()[1:] == [SayAloud("something could not be written down: RuntimeError")] * 2


# How connections end.


@pytest.mark.parametrize("size", [1, 9, len(CONNECT) - 1, len(CONNECT), len(CONNECT + flow(1)) - 1])
def test_whatever_a_client_says_before_it_hangs_up_arrives(size):
    said = (CONNECT + flow(1))[:size]
    talk = Talk()
    talk.client.says(said)
    talk.client.ends()
    assert talk.asked() == [Dial(None)]
    talk.broker_comes()
    assert talk.broker.hears() == said
    assert talk.broker.heard_end
    talk.broker.says(b"bye")
    talk.broker.ends()
    assert talk.client.hears() == b"bye"
    assert talk.client.over == "closed"


def test_a_client_that_says_nothing_is_taken_nowhere():
    talk = Talk()
    talk.client.ends()
    assert not talk.conversation.dialling
    assert talk.asked() == []
    talk.client.goes()
    assert talk.commands() == ["OPEN", "CLOSE"]
    assert talk.rows()[0].broker_addr is None
    assert talk.why() == "closed by the client"


@pytest.mark.parametrize("first", ["client", "broker"])
@pytest.mark.parametrize("kept_back", [b"", b"\0\0"])
def test_a_half_close_is_carried_over_and_the_other_direction_goes_on(first, kept_back):
    talk = connected()
    here, there = (talk.client, talk.broker)[:: 1 if first == "client" else -1]
    here.says(flow(1) + kept_back)  # the beginning of a frame that never ends
    assert there.hears() == flow(1)
    here.ends()
    assert (there.hears(), there.heard_end, there.over) == (kept_back, True, None)
    there.says(message(1, b"x" * 1000))
    assert here.hears() == message(1, b"x" * 1000)
    assert not here.heard_end
    there.ends()
    assert here.heard_end
    assert (here.over, there.over) == ("closed", "closed")
    assert talk.why() == f"closed by the {first}"
    assert talk.commands().count("CLOSE") == 1


@pytest.mark.parametrize("who", ["client", "broker"])
@pytest.mark.parametrize("reset", [True, False])
def test_the_end_of_one_socket_is_the_end_of_both(who, reset):
    talk = connected()
    getattr(talk, who).goes(reset=reset)
    how = "reset" if reset else "closed"
    assert (talk.client.over, talk.broker.over) == (how, how)
    assert talk.why() == f"{how} by the {who}"
    talk.client.over = None
    talk.broker.goes(reset=True)
    talk.conversation.close("the tap ends", (1, 1))
    talk.carry_out()
    assert talk.client.over is None, "an end is told once"
    assert talk.commands().count("CLOSE") == 1


def test_a_client_that_may_not_stay_is_heard_no_more():
    talk = Talk()
    talk.conversation.client_came(None, CLIENT)
    talk.client.says(CONNECT)
    talk.client.goes()
    assert talk.asked() == []
    assert talk.rows() == []


def test_connections_that_share_a_journal_keep_their_rows_apart():
    shared = Kept()
    first, second = (connected(kept=shared) for _ in range(2))
    first.client.says(flow(1))
    second.broker.says(message(1, b"x"))
    first.client.says(flow(2))
    assert first.commands() == [*BEGUN, "FLOW", "FLOW"]
    assert second.commands() == [*BEGUN, "MESSAGE"]
    times = [row.mono_ns for row in shared.read()]
    assert times == sorted(times)
