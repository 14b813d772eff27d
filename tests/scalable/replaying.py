"""A cluster on the loopback that reports one recorded scalable topic, reading by reading."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from typing import Any

from pulsar_doctor.broker.admin.live_metrics import LIVE
from tests.broker.http_broker import Asked, HttpBroker, Reply, serving

STATES = Path(__file__).parent / "states"
GONE = Reply(404, {"reason": "Topic not found"})


def recorded(state: str) -> dict[str, Any]:
    told: dict[str, Any] = json.loads((STATES / f"{state}.json").read_text("utf-8"))
    return told


class Replay:
    """Each request of the metrics takes the next reading, and the last again and again."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.told = told
        self.read = 0

    @property
    def now(self) -> dict[str, Any]:
        readings = self.told["readings"]
        reading: dict[str, Any] = readings[min(max(self.read - 1, 0), len(readings) - 1)]
        return reading

    def __call__(self, asked: Asked) -> Reply:
        path = asked.path.partition("?")[0].removeprefix("/admin/v2/")
        if path == "/metrics/":
            self.read += 1
            text = "".join(f"{line}\n" for line in self.now["metrics"])
            return self.dated(Reply(body=text.encode(), content_type="text/plain"))
        host, topic = asked.headers["host"], self.told["topic"]
        bundle = {"0x0_0x4": {"persistent": self.now["listed"]}}
        documents = {
            "brokers": [host],
            "brokers/version": "5.0.0-M1",
            "brokers/configuration/runtime": LIVE | self.told["configuration"],
            f"scalable/public/default/{topic}": self.now["metadata"],
            "scalable/public/default": [f"topic://public/default/{topic}"],
            "broker-stats/topics": {"public/default": bundle},
            "namespaces/public/default/maxUnackedMessagesPerConsumer": None,
            "namespaces/public/default/maxUnackedMessagesPerSubscription": None,
            "persistent/public/default": [],
            "persistent/public/default/partitioned": [],
            "non-persistent/public/default": [],
            "non-persistent/public/default/partitioned": [],
        }
        return self.dated(Reply(document=documents[path])) if path in documents else GONE

    def dated(self, reply: Reply) -> Reply:
        date = formatdate(self.now["date_ms"] / 1000, usegmt=True)
        return Reply(
            document=reply.document, body=reply.body, content_type=reply.content_type,
            headers={"Date": date},
        )  # fmt: skip


@contextmanager
def replayed(state: str) -> Iterator[HttpBroker]:
    with serving(Replay(recorded(state))) as broker:
        yield broker
