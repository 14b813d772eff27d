"""Conversations torn in the middle of payloads, and what of them may be told.

Every true frame is another one, and every frame within a payload is marked, so that a single
invented, repeated or forgotten one is seen.
"""

from __future__ import annotations

from collections.abc import Sequence

from pulsar_doctor.parts.capture.connections import TO_CLIENT
from pulsar_doctor.parts.capture.files import Packet
from pulsar_doctor.wire import pulsar_wire_pb2 as wire
from tests.parts.capture.packing import Talk
from tests.parts.capture.talks import BEGINNING, accounted, checked, frames_in_stream, heard
from tests.parts.tap.tapped import command_frame, flow, frame, message

MARK = 66


def marked(way: int, number: int) -> bytes:
    """A frame that only a payload holds; its checksum is right."""
    if way == TO_CLIENT:
        return checked(message(MARK, bytes(number % 5), number))
    return command_frame(11, "flow", consumer_id=MARK, message_permits=number + 1)


def true(way: int, number: int, held: bytes | None) -> bytes:
    """A frame that is said once. held: what its payload holds."""
    if way == TO_CLIENT:
        return checked(message(1, held or b"", number))
    if held is None:
        return flow(1000 + number)
    inner = wire.Send(producer_id=1, sequence_id=number)
    command = wire.BaseCommand(type=6, send=inner).SerializeToString()
    return checked(frame(command, b"\x0e\x01\0\0\0\1\0\0\0\0" + held))


class Torn:
    """A conversation with pauses in the middle of frames."""

    def __init__(self, segment_bytes: int = 1448) -> None:
        self.talk = Talk(segment_bytes=segment_bytes).open()
        self.streams = [b"", b""]
        for way, data, _ in BEGINNING:
            self.say(way, data)
        self.begins = len(self.talk.packets)

    def say(self, way: int, data: bytes, pause: str = "none", seconds: float = 0.0) -> Torn:
        """Bytes, and then a pause: none, short, closed, unacked or honest; see PAUSES."""
        self.streams[way] += data
        self.talk.say(way, data, acked=pause != "unacked")
        if pause == "closed":
            self.talk.hear(way, 0).wait(seconds).hear(way)
        elif pause == "unacked":
            self.talk.wait(seconds).hear(way)
        elif pause != "none":
            self.talk.wait(seconds)
        return self

    @property
    def truth(self) -> list[list[tuple[object, ...]]]:
        return [frames_in_stream(stream) for stream in self.streams]


# Those that a sender in the middle of a frame may make as often as it likes, and their seconds.
PAUSES = {"short": 0.95, "closed": 4.0, "unacked": 4.0}


def check(torn: Torn, packets: Sequence[Packet], most: int = 5 << 20) -> list[int]:
    """What is told was said, in one piece from each UNPARSED to the next; how much of it.

    What is likely since it began with a segment is not told here: see packing.Heard.
    """
    out, following = heard(packets, most)
    assert accounted(following)
    assert all(len(set(frames)) == len(frames) for frames in torn.truth)
    places = [{frame: n for n, frame in enumerate(frames)} for frames in torn.truth]
    count = [0, 0]
    last: list[int | None] = [None, None]
    frames = [iter(each) for each in (out.both)]
    for told in out.told:
        if told[0] == "UNPARSED":
            last = [None, None]
        elif told[0] not in ("OPEN", "CLOSE"):
            way = int(str(told[2]))
            said = next(frames[way])
            assert said in places[way], f"invented: {said}"
            at = places[way][said]
            assert last[way] in (None, at - 1), f"forgotten before {said}"
            last[way] = at
            count[way] += 1
    return count
