"""What cannot be decoded passes, and ends the observing of its own connection, no more."""

from __future__ import annotations

import random

import pytest

from pulsar_doctor.parts.tap.relay.errands import Dial
from tests.parts.tap.relay import faulty
from tests.parts.tap.relay.traffic import CODES, command
from tests.parts.tap.relay.transcripts import Kept, Talk, connected
from tests.parts.tap.tapped import command_frame, connect_frame, flow, frame

BEGUN = ["OPEN", "CONNECT", "CONNECTED"]
MARKED = b"\xf2\x07" + bytes([len(faulty.MARK)]) + faulty.MARK  # a field that nobody knows


def marked(code: int, behind: bytes = b"") -> bytes:
    return frame(command(random.Random(code), code) + MARKED, behind)


@pytest.mark.parametrize("fault", ["cutter", "mask"])
@pytest.mark.parametrize("code", CODES)
def test_a_command_that_breaks_the_decoder_passes_and_so_does_all_behind_it(fault, code):
    said = flow(1) + marked(code) + flow(2) + marked(code, bytes(3000)) + flow(3)
    with faulty.here(fault):
        talk = connected()
        for one, other in ((talk.client, talk.broker), (talk.broker, talk.client)):
            for pieces in (0, 997, 1):
                one.says(said, pieces=pieces)
                assert other.hears() == said
        commands = talk.commands()
        assert commands.count("UNPARSED") == 1, "that it is no longer observed is said once"
        assert commands[-1] == "UNPARSED"
        talk.client.ends()
        assert talk.broker.heard_end
        talk.broker.goes()
        assert talk.commands()[-1] == "CLOSE"


@pytest.mark.parametrize("fault", ["cutter", "mask"])
def test_it_does_not_end_the_observing_of_others(fault):
    kept = Kept()
    with faulty.here(fault):
        broken, whole = connected(kept=kept), connected(kept=kept)
        whole.client.says(flow(4))
        broken.client.says(marked(11))
        whole.client.says(flow(5))
        assert whole.commands() == [*BEGUN, "FLOW", "FLOW"]
        assert broken.commands()[-1] == "UNPARSED"


@pytest.mark.parametrize("fault", ["cutter", "mask"])
@pytest.mark.parametrize("tail", [b"", flow(1)[:9]])
@pytest.mark.parametrize("behind", [b"", b"x" * 100])
def test_first_words_that_break_the_decoder_reach_the_broker(fault, tail, behind):
    with faulty.here(fault):
        talk = Talk()
        talk.client.says(marked(2) + tail)
        talk.client.says(flow(1)[9:] + behind if tail else behind)
        assert talk.asked() == [Dial(None)]
        talk.broker_comes()
        said = talk.broker.hears()
        talk.client.says(b"y" * 2000)
        said += talk.broker.hears()
        assert said == marked(2) + (flow(1) if tail else b"") + behind + b"y" * 2000
        talk.broker.says(flow(1)[:9])
        talk.client.says(flow(1))
        assert talk.broker.hears() == flow(1)
        assert "UNPARSED" in talk.commands()


def test_what_a_broken_cutter_says_is_not_acted_upon():
    answer = command_frame(24, "lookup_response", broker_service_url="pulsar://b:1", response=1)
    with faulty.here("cutter"):
        talk = connected()
        talk.broker.says(answer + marked(11))
        assert talk.client.hears() == answer + marked(11)
        assert talk.asked() == []
        assert talk.commands() == [*BEGUN, "UNPARSED"]


def test_what_it_has_said_of_first_words_is_not_acted_upon_either():
    with faulty.here("cutter"):
        talk = Talk()
        talk.client.says(connect_frame("b:1"))
        talk.client.says(marked(11))
        assert talk.asked() == [Dial(("b", 1))]
        talk.broker_comes()
        assert talk.broker.hears() == connect_frame("b:1") + marked(11)
        assert talk.commands() == ["OPEN", "UNPARSED"]


@pytest.mark.parametrize("held", [b"\0\0\0", flow(1)[:9]])
def test_what_was_kept_back_is_passed_on_with_what_broke_the_cutter(held):
    with faulty.here("cutter"):
        talk = connected()
        talk.broker.says(held)
        assert talk.client.hears() == b""
        talk.broker.says(faulty.MARK)
        assert talk.client.hears() == held + faulty.MARK
