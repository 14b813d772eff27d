"""Acks of parts of batches: what a broker that keeps them has of them, and one that drops them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pulsar
import pytest

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.ledger.acks.doubts import INDEX_ACKS
from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from pulsar_doctor.trace.folder import read_meta
from tests.checkup.holes.holed import position
from tests.ledger.acks.lives import SUBSCRIPTION, tapped
from tests.ledger.test_permits_on_broker import send_batches
from tests.support.command_line import answered, pulsar_doctor

BATCHES, SIZE = 4, 3
IN_PARTS, WHOLE = (0, 2), 3  # entries; of the first two the last message as it came first
NUMBERS = ("ranges", "acknowledged_entries", "holes", "hole_entries")
ALL = ("mark_delete", *NUMBERS, "oldest_hole")


@pytest.fixture
def trace(either_broker: Sandbox, topic: str, tmp_path: Path) -> Path:
    """Two of four batches come twice and are acknowledged in two parts, one of each delivery."""
    folder = tmp_path / "t.ptrace"
    asked = Settings(service_url=either_broker.service_url, admin_url=either_broker.admin_url)
    with tapped(either_broker, folder, asked) as (client, _):
        consumer = client.subscribe(
            topic, SUBSCRIPTION, pulsar.ConsumerType.Shared, batch_index_ack_enabled=True
        )
        send_batches(client, topic, batches=BATCHES, size=SIZE)
        once = [consumer.receive(10_000) for _ in range(BATCHES * SIZE)]
        consumer.redeliver_unacknowledged_messages()
        again = [consumer.receive(10_000) for _ in range(BATCHES * SIZE)]
        for last, messages in ((True, once), (False, again)):
            for message in messages:
                if is_part(message, last=last) or (last and position(message)[1] == WHOLE):
                    consumer.acknowledge(message)
        consumer.close()
    return folder


def is_part(message: pulsar.Message, *, last: bool) -> bool:
    is_last = message.message_id().batch_index() == SIZE - 1
    return position(message)[1] in IN_PARTS and is_last == last


def holes(*arguments: str, broker: Sandbox | None = None) -> dict[str, Any]:
    done = answered("holes", "-s", SUBSCRIPTION, "-o", "json", *arguments, broker=broker)
    assert done.returncode == 0, done.stderr
    (found,) = json.loads(done.stdout)["subscriptions"]
    return dict(found)


def numbers(document: dict[str, Any]) -> list[Any]:
    return [document[name] for name in ALL]


def test_a_trace_says_what_the_broker_has(either_broker, topic, trace):
    live, told = holes(topic, broker=either_broker), holes("--trace", str(trace))
    keeps = read_meta(trace).storing.batch_index_acks
    assert numbers(told) == numbers(live)
    assert [live[name] for name in NUMBERS] == ([1, 2, 1, 1] if keeps else [1, 1, 1, 3])
    assert (told["not_told"], told["ranges_least"], told["ranges_most"]) == ([], 1, 1)
    storing = ("persisted_limit", "persisted_limit_assumed", "stored_as")
    assert [told[name] for name in storing] == [live[name] for name in storing]
    assert told["persisted_limit_assumed"] is False


def test_a_trace_that_does_not_know_the_setting_tells_bounds_and_a_doubt(
    either_broker, topic, trace
):
    live = holes(topic, broker=either_broker)
    keeps = read_meta(trace).storing.batch_index_acks
    without_the_setting(trace)
    told = holes("--trace", str(trace))
    ledger = live["mark_delete"].partition(":")[0]
    assert told["not_told"] == [INDEX_ACKS]
    assert (told["mark_delete"], told["acknowledged_entries"], told["oldest_hole"]) == (None,) * 3
    assert (told["ranges"], told["holes"]) == (1, None)
    bounds = [(told[f"{name}_least"], told[f"{name}_most"]) for name in ("mark_delete", *NUMBERS)]
    assert bounds == [(f"{ledger}:-1", f"{ledger}:0"), (1, 1), (1, 2), (1, 1), (1, 3)]
    assert told["status"] == "healthy"
    drawn = answered("holes", "-s", SUBSCRIPTION, "--trace", str(trace)).stdout
    assert f"{ledger}:-1 to {ledger}:0; since when" in drawn
    assert "1 range with 1 to 2 entries behind mark-delete" in drawn
    assert "1 hole with 1 to 3 entries" in drawn
    said = holes("--trace", str(trace), "--batch-index-acks", "yes" if keeps else "no")
    assert (numbers(said), said["not_told"]) == (numbers(live), [])


def without_the_setting(trace: Path) -> None:
    """As of a tap that was refused, or of an older one."""
    path = trace / "_meta.json"
    kept = {name: value for name, value in json.loads(path.read_text()).items() if name != "broker"}
    path.write_text(json.dumps(kept))


def test_tap_records_the_setting(either_broker: Sandbox, tmp_path: Path) -> None:
    trace = tmp_path / "t.ptrace"
    run = ("--listen", "127.0.0.1:0", "--trace", str(trace), "--expect-consumers", "0")
    done = pulsar_doctor("tap", *run, "--", "true", broker=either_broker)
    assert done.returncode == 0, done.stderr
    storing = read_meta(trace).storing
    assert storing.version == (4, 0, 8)
    assert None not in (storing.batch_index_acks, storing.max_ranges, storing.bit_arrays)
