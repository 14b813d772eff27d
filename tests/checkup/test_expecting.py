"""What is expected of the clients of a tap: met, not met, or not to be decided by its trace."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsar_doctor.checkup.expected import AckedWanted, Expectation, Expected
from pulsar_doctor.checkup.expecting import expectations, seen_in
from pulsar_doctor.trace.folder import Meta, journal_name
from tests.made.wire import EXCLUSIVE, SHARED, START_US, TOPIC, Wire

KEEPS = {"version": "4.0.8", "configuration": {"acknowledgmentAtBatchIndexLevelEnabled": "true"}}


def seen(folder: Path, said: Wire, expected: Expected, *, keeps: bool = False) -> Expectation:
    Meta("x", broker=KEEPS if keeps else None).write(folder)
    (folder / journal_name(1)).write_bytes(said.journal)
    (found,) = expectations(expected, seen_in(folder, START_US))
    return found


def ten(*, sub_type: int = SHARED, batch: int = 1) -> Wire:
    return Wire().open().attached(sub_type=sub_type).flow(100).pushed(range(10), batch=batch)


ALL = range(10)
PARTS = ten(batch=2).acked([*ALL], open_bits=0b01).acked([*ALL], open_bits=0b10)


@pytest.mark.parametrize(
    ("said", "met", "told"),
    [
        (ten().acked([*ALL]), True, "10 of 10"),
        (ten(), False, "0 of 10"),
        (ten().acked([*range(9)]), False, "9 of 10"),
        (ten(sub_type=EXCLUSIVE).acked([9], cumulative=True), True, "10 of 10"),
        (ten().acked([9], cumulative=True), False, "0 of 10"),  # a broker drops it on Shared
        (ten().acked([*ALL], transaction=5), None, "0 to 10 of 10"),
        (PARTS, None, "0 to 20 of 20"),
        (ten().lost().acked([*ALL]), None, "0 to 10 of 10"),
        (ten().acked([*range(9)]).lost(), None, "0 to 10 of 10"),
        # What is missing may be a message that nobody acknowledged.
        (Wire().lost().open().attached().flow(9).pushed([0]).acked([0]), None, "1 of 1"),
        (ten().closed(command="UNSUBSCRIBE"), False, "0 of 10"),
        (ten().acked([*ALL]).closed(command="UNSUBSCRIBE"), True, "10 of 10"),
        (ten().seek(20), False, "0 of 10"),  # they were passed over, and not acknowledged
        # Another consumer got what the first one left, and acknowledged it.
        (ten().closed().attached(2, "next").flow(9, 2).pushed(ALL, 2, again=1).acked([*ALL], 2),
         True, "10 of 10"),
        (Wire().open().attached().flow(100), False, "no message was delivered"),
        (Wire(), False, "no message was delivered"),
    ],
)  # fmt: skip
def test_all_is_met_only_where_the_trace_proves_it(tmp_path, said, met, told):
    found = seen(tmp_path, said, Expected(acked="all"))
    assert found.met is met
    assert found.seen.startswith(told)


def test_all_that_is_seen_is_not_all_where_the_tap_knows_of_a_loss(tmp_path):
    Meta("x").write(tmp_path)
    (tmp_path / journal_name(1)).write_bytes(ten().acked([*ALL]).journal)
    for lost, met in ((False, True), (True, None)):
        (found,) = expectations(Expected(acked="all"), seen_in(tmp_path, START_US, lost=lost))
        assert (found.met, found.seen) == (met, "10 of 10 delivered messages acknowledged")


def test_messages_without_ids_of_their_own_cannot_be_decided(tmp_path):
    topic = f"non-{TOPIC}"
    said = Wire().open().attached(topic=topic).flow(9).pushed([0]).pushed([0]).acked([0])
    for acked in ("all", 2):
        found = seen(tmp_path, said, Expected(acked=acked))
        assert (found.met, found.seen.partition(" have")[0]) == (
            None,
            "messages of a non-persistent topic",
        )


def test_a_broker_that_keeps_acks_of_parts_of_batches_has_them_all(tmp_path):
    assert seen(tmp_path, PARTS, Expected(acked="all"), keeps=True).met


@pytest.mark.parametrize(
    ("acked", "met"), [(9, True), (10, None), (11, False)]
)  # the tenth only in a transaction
def test_so_many_are_acknowledged_surely_perhaps_or_not(tmp_path, acked, met):
    said = ten().acked([*range(9)]).acked([9], transaction=5)
    assert seen(tmp_path, said, Expected(acked=acked)).met is met


def test_an_expectation_that_is_not_met_names_the_consumer_its_numbers_and_what_to_do(tmp_path):
    said = ten().attached(2, "other").flow(9, 2).pushed([10], 2).acked([*range(4)])
    found = seen(tmp_path, said, Expected(acked="all"))
    assert found.sentence == (
        "--expect-acked all is not met: 4 of 11 delivered messages acknowledged; "
        f"slow of billing on {TOPIC} holds 6: it hangs in one, or acknowledges none (its first "
        "FLOW was for more than came; more messages, or a smaller receiver queue, show which)"
    )
    assert (found.topic, found.subscription, found.consumer) == (TOPIC, "billing", "slow")
    assert found.action == f"see what each consumer did: pulsar-doctor trace summary {tmp_path}"


@pytest.mark.parametrize(
    ("incident", "how"),
    [
        (ten().given_back([*ALL]), "it gives messages back (1 REDELIVER command)"),
        (ten().flow(8), "it took 8 or more of its messages, and does not acknowledge them"),
        (Wire().open().attached().flow(10).pushed(ALL), "it requests no more messages"),
        (ten(), "it hangs in one, or acknowledges none (its first FLOW was for more than came"),
        (Wire().open().attached(topic=f"{TOPIC}-partition-1").flow(100).pushed(ALL),
         "it hangs in one, or acknowledges none (its first FLOW was for more than came"),
    ],
)  # fmt: skip
def test_who_hangs_who_never_acknowledges_and_who_gives_back_differ(tmp_path, incident, how):
    found = seen(tmp_path, incident, Expected(acked="all"))
    assert f"slow of billing on {found.topic} holds 10: {how}" in found.seen


@pytest.mark.parametrize(
    ("said", "wanted", "met", "told"),
    [
        (ten(), 1, True, "1 consumer came"),
        (ten(), 2, False, "1 of 2 consumers came"),
        (ten().attached(2, "other"), 2, True, "2 consumers came"),
        (ten().closed().attached(2, "other"), 2, False, "1 of 2 consumers came"),
        (ten().attached(2, "slow", topic=f"{TOPIC}-partition-1"), 2, False, "1 of 2"),
        (Wire(), 1, False, "no client connected to the tap"),
        (Wire().open(), 1, False, "1 connection came, and no client subscribed"),
        (Wire().open().asked().refused(), 1, False, "1 connection came, and no client subscribed"),
        (Wire().open().lost(), 1, None, "1 connection came"),
    ],
)  # fmt: skip
def test_consumers_are_counted_that_were_attached_at_one_time(tmp_path, said, wanted, met, told):
    found = seen(tmp_path, said, Expected(consumers=wanted))
    assert found.met is met
    assert found.seen.startswith(told)


LATE = Wire(step_us=3_000_000).open().attached().flow(100).pushed([0, 1]).acked([0]).acked([1])


@pytest.mark.parametrize(
    ("acked", "within", "met"),
    [(2, 21.0, True), (2, 20.0, False), (1, 18.0, True), ("all", 7.0, True), ("all", 5.0, False)],
)
def test_it_has_to_be_so_in_time(tmp_path, acked: AckedWanted, within: float, met: bool):
    """So many since the tap began; all since their delivery."""
    assert seen(tmp_path, LATE, Expected(acked=acked, within_seconds=within)).met is met


def test_a_consumer_that_came_too_late_is_not_counted(tmp_path):
    late = Expected(consumers=1, within_seconds=2.0)
    assert seen(tmp_path, LATE, late).met is False
    assert seen(tmp_path, LATE, Expected(consumers=1, within_seconds=20.0)).met


def test_a_producer_needs_no_consumer(tmp_path):
    found = seen(tmp_path, Wire().open().produced(), Expected(consumers=0))
    assert found.sentence == "--expect-consumers 0 is met: 0 consumers came"
