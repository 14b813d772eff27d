"""What `simulate` prints, every key and every figure."""

from __future__ import annotations

import json
from typing import Any

from tests.support.command_line import answered
from tests.support.documented import NOT_TOLD

STOPPED = (
    "--backlog", "24", "--batch-size", "2", "--receiver-queue-size", "4",
    "--receiver-queue-size", "0", "--process-time", "300ms", "--process-time", "200ms",
    "--consumers", "2", "--attach-every", "600ms", "--duration", "2500ms",
    "--receiver-delay", "700ms", "--receiver-delay", "200ms", "--seed", "3",
)  # fmt: skip
DONE = ("--backlog", "5", "--receiver-queue-size", "2", "--receiver-queue-size", "1",
        "--process-time", "2s")  # fmt: skip


def flows(*sent: tuple[float, int, int]) -> list[dict[str, Any]]:
    return [{"seconds": at, "permits": permits, "taken": taken} for at, permits, taken in sent]


WHOLE = {
    "schema": "pulsar-doctor/simulate/2",
    "seed": 3,
    "receiver_queue_size": 4,
    "scenario": {
        "messages": 24, "entries": 12, "consumers": 2, "type": "shared",
        "client": "pulsar-client", "process_seconds": [0.3, 0.2],
        "receiver_delay_seconds": [0.7, 0.2], "delay_from": "publish",
        "round_trip_seconds": 0.001, "stopped_after_seconds": 2.5,
    },
    "formulas": {
        "flow_gap_seconds": 0.6, "receipt_cap_per_second": None,
        "late_most_seconds": 0.49999999999999994, "queue_for_delays": None,
    },
    "runs": [
        {
            "receiver_queue_size": 4, "refill_threshold": 2, "seconds": 2.5, "finished": 15,
            "per_second": 6.0, "flow_gap_seconds": 1.0,
            # 0.999 + 2 x 0.599 + 0.299 of the first, 0.299 + 4 x 0.399 of the second, of 2.5 + 1.9
            "without_permits_seconds": 4.391, "longest_without_permits_seconds": 0.999,
            "without_permits_share": 0.9979545454545454,
            "stall_seconds": 0.3, "wait_seconds": 1.599, "wait_beside_idle_seconds": 0.001,
            "queued_most": 4, "backlog": 2,
            "late": {
                "median_seconds": 1.1, "p99_seconds": 2.0, "most_seconds": 2.3, "messages": 15,
            },
            "consumers": [
                {
                    "name": "consumer-1", "received": 7, "finished": 6, "queued": 3,
                    "queued_most": 4, "available_permits": 0, "unsent_permits": 1,
                    "flow_count": 4,
                    "flows": flows((0.0, 4, 0), (1.0, 2, 2), (1.6, 2, 4), (2.2, 2, 6)),
                    "without_permits_seconds": 2.496, "longest_without_permits_seconds": 0.999,
                    "without_permits_share": 0.9984,
                    "stall_seconds": 0.3, "wait_seconds": 1.599,
                    "wait_beside_idle_seconds": 0.001, "next_flow_after": 1,
                    "next_flow_seconds": 0.4165,
                },
                {
                    "name": "consumer-2", "received": 10, "finished": 9, "queued": 2,
                    "queued_most": 4, "available_permits": 2, "unsent_permits": 0,
                    "flow_count": 6,
                    "flows": flows((0.6, 4, 0), (0.9, 2, 2), (1.3, 2, 4), (1.7, 2, 6), (2.1, 2, 8),
                                   (2.5, 2, 10)),
                    "without_permits_seconds": 1.895, "longest_without_permits_seconds": 0.399,
                    "without_permits_share": 0.9973684210526316,
                    "stall_seconds": 0.2, "wait_seconds": 0.799,
                    "wait_beside_idle_seconds": 0.0, "next_flow_after": 2,
                    "next_flow_seconds": 0.422,
                },
            ],
        }
    ],
    "refused": [
        {
            "receiver_queue_size": 0,
            "reason": "a zero queue of pulsar-client loses or refuses batches",
        }
    ],
    "recommendation": {
        "receiver_queue_size": 4, "reason": "6 messages/s; it sends a FLOW after 2 messages",
    },
    "verdict": {
        "topic": "persistent://public/default/simulated", "partition": None,
        "subscription": "simulated", "type": "Shared", "status": "healthy", "backlog": None,
        "findings": [], "suspects": [], "ruled_out": [], "not_told": NOT_TOLD,
        "known_issues": [],
    },
    "notes": [],
}  # fmt: skip
TABLE = """\
24 messages, 2 consumers (shared, pulsar-client), stopped after 2.5 s; seed 3
longest longest without of its longest longest wait beside an
queue messages/s FLOW after FLOW gap stall permits time without in a queue idle one most queued \
backlog latest late
* 4 6 2 1 s 300 ms 4.39 s >99 % 999 ms 1.6 s 1 ms 4 2 2.3 s 15
0: not possible, a zero queue of pulsar-client loses or refuses batches
at 4, in the end:
consumer-1: finished 6, 3 in its queue, permits 0, 4 FLOWs; next FLOW after 1 more message, in \
about 416 ms at 416 ms each
consumer-2: finished 9, 2 in its queue, permits 2, 6 FLOWs; next FLOW after 2 more messages, in \
about 422 ms at 211 ms each
formula: next FLOW after 2 x 300 ms = 600 ms
formula: at most 500 ms late, while the pace is kept
recommended: 4
6 messages/s; it sends a FLOW after 2 messages
✔ HEALTHY simulated (Shared) on persistent://public/default/simulated: 2 consumers with 2 \
permits and 8 unacknowledged messages, last ack 0 ms ago
"""


def simulated(*arguments: str) -> str:
    run = answered("simulate", *arguments)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_whole_document_of_a_run_that_was_stopped() -> None:
    whole = json.loads(simulated(*STOPPED, "-o", "json"))
    consumers = whole["verdict"].pop("consumers")
    assert [each["label"] for each in consumers] == ["consumer-1", "consumer-2"]
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
        {
            "flow_gap_seconds": 2.0, "receipt_cap_per_second": None, "late_most_seconds": None,
            "queue_for_delays": None,
        },
        [],
        {
            "receiver_queue_size": 1,
            "reason": "0.5 messages/s, as with 2; it sends a FLOW after each message",
        },
        None,
    ]  # fmt: skip
    scenario = document["scenario"]
    assert (scenario["delay_from"], scenario["stopped_after_seconds"]) == (None, None)
    assert (one["receiver_queue_size"], two["receiver_queue_size"]) == (1, 2)
    assert (one["late"], two["late"]) == (None, None)
    assert (one["seconds"], one["finished"], one["backlog"]) == (10.001, 5, 0)
