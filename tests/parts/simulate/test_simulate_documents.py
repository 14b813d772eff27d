"""What `simulate` prints, every key and every figure."""

from __future__ import annotations

import json
from typing import Any

from tests.support.command_line import answered
from tests.support.documented import NOT_TOLD

STOPPED = (
    "--backlog", "24", "--receiver-queue-size", "4", "--receiver-queue-size", "4",
    "--process-time", "300ms", "--process-time", "200ms", "--consumers", "2",
    "--duration", "2500ms",
)  # fmt: skip
DONE = ("--backlog", "5", "--receiver-queue-size", "2", "--receiver-queue-size", "1",
        "--process-time", "2s")  # fmt: skip


def flows(*sent: tuple[float, int, int]) -> list[dict[str, Any]]:
    return [{"seconds": at, "permits": permits, "taken": taken} for at, permits, taken in sent]


WHOLE = {
    "schema": "pulsar-doctor/simulate/2",
    "receiver_queue_size": 4,
    "scenario": {
        "messages": 24, "entries": 24, "consumers": 2, "type": "shared",
        "client": "pulsar-client", "process_seconds": [0.3, 0.2],
        "round_trip_seconds": 0.001, "stopped_after_seconds": 2.5,
    },
    "formulas": {"flow_gap_seconds": 0.6},
    "runs": [
        {
            "receiver_queue_size": 4, "refill_threshold": 2, "seconds": 2.5, "finished": 20,
            "per_second": 8.0, "flow_gap_seconds": 0.6,
            # 0.3 + 3 x 0.599 of the first, 0.2 + 5 x 0.399 of the second, of 2 x 2.5
            "without_permits_seconds": 4.292, "longest_without_permits_seconds": 0.599,
            "without_permits_share": 0.8584,
            "stall_seconds": 0.3, "wait_seconds": 1.199, "wait_beside_idle_seconds": 0.0,
            "queued_most": 4, "backlog": 0,
            "consumers": [
                {
                    "name": "consumer-1", "received": 9, "finished": 8, "queued": 1,
                    "queued_most": 4, "available_permits": 2, "unsent_permits": 1,
                    "flow_count": 5,
                    "flows": flows((0.0, 4, 0), (0.301, 2, 2), (0.901, 2, 4), (1.501, 2, 6),
                                   (2.101, 2, 8)),
                    "without_permits_seconds": 2.097, "longest_without_permits_seconds": 0.599,
                    "without_permits_share": 0.8388,
                    "stall_seconds": 0.3, "wait_seconds": 1.199,
                    "wait_beside_idle_seconds": 0.0, "next_flow_after": 1,
                    "next_flow_seconds": 0.3,
                },
                {
                    "name": "consumer-2", "received": 13, "finished": 12, "queued": 1,
                    "queued_most": 4, "available_permits": 2, "unsent_permits": 1,
                    "flow_count": 7,
                    "flows": flows((0.0, 4, 0), (0.201, 2, 2), (0.601, 2, 4), (1.001, 2, 6),
                                   (1.401, 2, 8), (1.801, 2, 10), (2.201, 2, 12)),
                    "without_permits_seconds": 2.195, "longest_without_permits_seconds": 0.399,
                    "without_permits_share": 0.878,
                    "stall_seconds": 0.2, "wait_seconds": 0.799,
                    "wait_beside_idle_seconds": 0.0, "next_flow_after": 1,
                    "next_flow_seconds": 0.2,
                },
            ],
        }
    ],
    "refused": [],
    "recommendation": {
        "receiver_queue_size": 4,
        "reason": "no queue brings more than 8.33/s: the application sets the pace: 240 ms for "
        "each message",
    },
    "levers": [
        {"lever": "consumers", "value": 4, "rate": 16.667, "gain": 2.0,
         "catch_up_seconds": 1.44, "why": None},
        {"lever": "consumers", "value": 6, "rate": 25.0, "gain": 3.0,
         "catch_up_seconds": 0.96, "why": None},
        {"lever": "at once", "value": 2, "rate": 16.667, "gain": 2.0,
         "catch_up_seconds": 1.44, "why": None},
        {"lever": "receiver queue", "value": 10, "rate": 8.3333, "gain": 1.0,
         "catch_up_seconds": 2.88,
         "why": "the application sets the pace: 240 ms for each message"},
    ],
    "verdict": {
        "topic": "persistent://public/default/simulated", "partition": None,
        "subscription": "simulated", "type": "Shared", "status": "healthy", "backlog": None,
        "pace": None, "findings": [], "suspects": [], "ruled_out": [], "not_told": NOT_TOLD,
        "known_issues": [],
    },
    "notes": [],
}  # fmt: skip
TABLE = """\
24 messages, 2 consumers (shared, pulsar-client), stopped after 2.5 s
longest longest without of its longest longest wait beside an
queue messages/s FLOW after FLOW gap stall permits time without in a queue idle one most queued \
backlog
* 4 8 2 600 ms 300 ms 4.29 s 86 % 599 ms 1.2 s 0 4 0
* is the recommended size. A stall: no permits, although the client owed some and its \
application worked. Beside an idle one: a message waited, and another
consumer had nothing to do.
at 4, in the end:
consumer-1: finished 8, 1 in its queue, permits 2, 5 FLOWs; next FLOW after 1 more message, in \
about 300 ms at 300 ms each
consumer-2: finished 12, 1 in its queue, permits 2, 7 FLOWs; next FLOW after 1 more message, in \
about 200 ms at 200 ms each
formula: next FLOW after 2 x 300 ms = 600 ms
recommended: a receiver queue of 4
no queue brings more than 8.33/s: the application sets the pace: 240 ms for each message
helps 4 consumers: 16.7/s, catches up in 1.44 s; 6 consumers: 25/s, catches up in 960 ms; 2 \
messages at once in each consumer: 16.7/s, catches up in 1.44 s
no use a receiver queue of 10: the application sets the pace: 240 ms for each message
✔ HEALTHY simulated (Shared) on persistent://public/default/simulated: 2 consumers with 4 \
permits and 4 unacknowledged messages, last ack 99 ms ago
"""


def simulated(*arguments: str) -> str:
    run = answered("simulate", *arguments)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_whole_document_of_a_run_that_was_stopped() -> None:
    whole = json.loads(simulated(*STOPPED, "-o", "json"))
    verdict = whole["verdict"]
    consumers, account, balance = map(verdict.pop, ("consumers", "account", "balance"))
    assert [each["label"] for each in consumers] == ["consumer-1", "consumer-2"]
    assert "held" in {each["place"] for each in account["places"]}
    assert balance["pace"] == "not-known"
    assert whole == WHOLE


def test_the_whole_table() -> None:
    lines = [" ".join(line.split()) for line in simulated(*STOPPED).splitlines()]
    assert [line for line in lines if set(line) != {"─"}] == TABLE.splitlines()


def test_what_a_run_to_the_last_message_says_otherwise() -> None:
    document = json.loads(simulated(*DONE, "-o", "json"))
    one, two = document.pop("runs")
    told = ("schema", "receiver_queue_size", "formulas", "refused", "recommendation", "verdict")
    assert [document[name] for name in told] == [
        "pulsar-doctor/simulate/2",
        2,
        {"flow_gap_seconds": 2.0},
        [],
        {
            "receiver_queue_size": 1,
            "reason": "no queue brings more than 0.5/s: the application sets the pace: 2 s for "
            "each message",
        },
        None,
    ]  # fmt: skip
    assert document["scenario"]["stopped_after_seconds"] is None
    assert (one["receiver_queue_size"], two["receiver_queue_size"]) == (1, 2)
    assert (one["seconds"], one["finished"], one["backlog"]) == (10.001, 5, 0)
