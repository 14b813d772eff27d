"""Whatever the examined process answers costs little, and one sentence where it makes no sense."""

from __future__ import annotations

import json
import time
import tracemalloc

import pytest

from pulsar_doctor.evidence.dumps.answers import Unreadable, parsed
from pulsar_doctor.evidence.dumps.hotspot import LINE_CHARACTERS, THREADS, dump
from pulsar_doctor.evidence.dumps.python import checked_threads
from pulsar_doctor.evidence.process_report import WaitingThread
from pulsar_doctor.parts.examine.child import CannotAttach
from pulsar_doctor.parts.examine.jvm.inspection import CONSUMERS, POOLS, inspection

ONE = {"id": 1, "class": "a.ConsumerImpl", "topic": "t", "availablePermits": 3}
GOOD = {"format": 1, "java": "17", "read_at_ms": 1, "objects": 1, "milliseconds": 1}
CANNOT = "JVM 7 gave an answer that cannot be read: "
MOST_SECONDS, MOST_BYTES = 2.0, 100 << 20


def answer(*consumers: object, **more: object) -> bytes:
    return json.dumps({**GOOD, "consumers": list(consumers), **more}).encode()


def test_an_answer_is_read_and_unknown_fields_are_passed_over():
    told = inspection(answer({**ONE, "new": [{}], "topic": None}, other=1.5), 7)
    assert [(each.id, each.topic, each.unsent_permits) for each in told.consumers] == [(1, None, 3)]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "it is not JSON, or too deep"),
        (b"\xff\xfe{}", "it is not JSON, or too deep"),
        (b"[]", "a list is where an object should be"),
        (b"null", "null is where an object should be"),
        (b"[" * 90_000, "it is not JSON, or too deep"),
        (lambda: b"[" + b"[]," * 15_000_000 + b"[]]", "it has too many values"),
        (b'{"format":' + b"1" * 5000 + b"}", "it has a number with too many digits"),
        (b'{"format":NaN}', "it has NaN, which is not a number"),
        (b'{"format":true}', "format is a boolean"),
        (json.dumps(GOOD).encode(), "it has no consumers"),
        (answer(7), "consumers is a number"),
        (answer(consumers={}), "consumers is an object"),
        (answer({"id": 1}), "it has no class"),
        (answer({**ONE, "availablePermits": "3"}), "availablePermits is a text"),
        (answer({**ONE, "availablePermits": 3.5}), "availablePermits is a number"),
        (answer({**ONE, "children": [[]]}), "children is a list"),
        (answer({**ONE, "topic": "t" * 10_001}), "topic has more than 10000 characters"),
        (answer({**ONE, "localAddress": "10.0.0.1 x"}), "an address is none"),
        (answer(read_at_ms=-1), "its time is none"),
        (answer(*[ONE] * (CONSUMERS + 1)), f"it has more than {CONSUMERS} consumers"),
        (lambda: answer(*[ONE] * 200_000), "it has too many values"),
        (answer(threads=[{"blocked": 1}]), "it has no id"),
        (answer(threads=[{"id": 1}] * (THREADS + 1)), f"it has more than {THREADS} threads"),
        (answer(pools=[{}] * (POOLS + 1)), f"it has more than {POOLS} pools"),
        (answer(pools=[{"waiting": 1}]), "it has no looked"),
    ],
    ids=lambda each: each if isinstance(each, str) else "answer",
)
def test_an_answer_that_makes_no_sense_costs_one_sentence(text, why):
    text = text() if callable(text) else text  # the large ones are made when it is their turn
    began = time.process_time()
    tracemalloc.start()
    try:
        with pytest.raises(CannotAttach) as refused:
            inspection(text, 7)
        assert tracemalloc.get_traced_memory()[1] < MOST_BYTES
    finally:
        tracemalloc.stop()
    assert str(refused.value) == CANNOT + why
    assert time.process_time() - began < MOST_SECONDS


def test_what_threads_wait_for_and_which_tasks_wait_for_threads_is_read():
    sync = "java.util.concurrent.locks.ReentrantLock$NonfairSync"
    thread = {"id": 7, "blocked": 1, "waited": 2, "on": sync, "owner": 8}
    pool = {"waiting": 3000, "looked": 200, "holding": 200, "task": "a.B$$Lambda$1"}
    where = {"ledger": 12, "entry": 4, "published_ms": 1000, "topic": "t", "in_order": True}
    told = inspection(answer(threads=[thread], pools=[pool | where | {"listenerThreads": [7]}]), 7)
    assert told.threads == (WaitingThread(7, 1, 2, sync, 8),)
    (found,) = told.pools
    assert (found.threads, found.message) == ((7,), "12:4")
    assert found.text(61_000) == (
        "1 thread, 3,000 tasks wait, each of the first 200 with a message of its clients; the "
        "oldest is 12:4 of t, published 60 s ago"
    )
    assert found.task == "lambda of a.B"
    (unknown,) = inspection(answer(pools=[pool | {"holding": 0, "task": "com.acme.Task"}]), 7).pools
    assert unknown.text(0) == (
        "0 threads, 3,000 tasks wait: the first is a com.acme.Task; whether they hold messages is "
        "not known"
    )


@pytest.mark.parametrize(
    ("virtual", "not_told"),
    [
        (0, ()),
        (3, ("where its virtual threads are (3 or more): a thread dump does not show them",)),
    ],
)
def test_virtual_threads_are_counted_and_what_they_do_is_said_to_be_unknown(virtual, not_told):
    told = inspection(answer(ONE, virtual=virtual), 7)
    assert (told.virtual_threads, told.unknowns) == (virtual, not_told)


def test_a_failure_is_told_in_one_line():
    with pytest.raises(CannotAttach) as refused:
        inspection(json.dumps({"format": 1, "failed": "a\nb" * 1000}).encode(), 7)
    assert len(str(refused.value)) < 500
    assert "\n" not in str(refused.value)


def test_half_a_character_is_replaced():
    told = inspection(answer({**ONE, "topic": "\ud800"}), 7)
    assert told.consumers[0].topic == "\ufffd"


@pytest.mark.parametrize(
    "text",
    [b"{}", b"[1]", b'[{"frames": [1]}]', b'[{"os_thread_id": "1"}]', b"[" * 90_000],
    ids=range(5),
)
def test_stacks_that_make_no_sense_are_misread(text):
    with pytest.raises(Unreadable):
        checked_threads(parsed(text))


@pytest.mark.parametrize(
    "text",
    [
        '"a' + '" #1 ' * 4_000_000,
        '"a" #1 nid=1 x\n' + '\tat a.b(' + "/" * 20_000_000 + "\n",
        '"a" #1 nid=1 x\n' + ("\tat " + "Consumer" * 240 + "-x(A)\n") * 4_000,
        '"a" #1 nid=1 x\n' + ("\tat pulsar.client.impl." + "Consumer" * 240 + "$.x(A)\n") * 4_000,
        '"a" #1 nid=1 x\n\n' * 1_000_000,
        "Found one Java-level deadlock:\n" * 600_000,
        "Found one Java-level deadlock:\n" + '"x":\n' * 600_000,
        "\n" * 2_000_000,
        "\tat a.b(A)\n" * 600_000,
        '"a" #1 nid=1 x\n' + "\tat a.b(A)\n" * 600_000,
    ],
    ids=["names", "slashes", "classes", "client", "threads", "deadlocks", "cycle", "empty", "lost",
         "frames"],
)  # fmt: skip
def test_a_dump_takes_time_that_grows_with_its_size_only(text):
    began = time.process_time()
    told = dump(text)
    roles = {each.role for each in told.threads}
    assert time.process_time() - began < 5 * MOST_SECONDS
    assert roles <= {None, "application", "client"}
    assert len(told.threads) <= THREADS


def test_a_dump_that_is_cut_says_so():
    many = '"a" #1 nid=1 x\n\n' * (THREADS + 1)
    assert not dump(many).whole
    assert dump('"a" #1 nid=1 x\n\n').whole
    assert not dump(f'"{"a" * LINE_CHARACTERS}" #1 nid=1 x\n\n').whole


def test_a_name_that_looks_like_a_head_is_a_name():
    (thread,) = dump('"a" #7 nid=0x9 x" #33 prio=5 nid=0x1f runnable\n').threads
    assert (thread.name, thread.id, thread.nid) == ('a" #7 nid=0x9 x', 33, 0x1F)
