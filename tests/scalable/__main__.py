"""Records what a broker reports of a scalable topic, for the tests, which need no broker.

`python -m tests.scalable ADMIN_URL TOPIC STATE [SECONDS]`: twice, SECONDS apart, into
`states/STATE.json`. How each state was brought about is in `test_states.py`.
"""

from __future__ import annotations

import json
import re
import sys
import time
from email.utils import parsedate_to_datetime
from typing import Any

import httpx2

from pulsar_doctor.broker.stats.metrics import OF_SUBSCRIPTION
from tests.scalable.replaying import STATES

WANTED = (
    "scalableTopicsEnabled",
    "statsUpdateFrequencyInSecs",
    "maxUnackedMessagesPerConsumer",
    "maxUnackedMessagesPerSubscription",
)


def reading(admin: httpx2.Client, topic: str) -> dict[str, Any]:
    listed = admin.get("/admin/v2/broker-stats/topics").json()
    metrics = admin.get("/metrics/")
    name = "|".join((*(each for each in OF_SUBSCRIPTION if "/" not in each), "subscriptions_count"))
    line = re.compile(rf'pulsar_({name})\{{.*topic="segment://public/default/{topic}/.*')
    return {
        "date_ms": int(parsedate_to_datetime(metrics.headers["Date"]).timestamp() * 1000),
        "metadata": admin.get(f"/admin/v2/scalable/public/default/{topic}").json(),
        "listed": {
            full: stats
            for bundles in listed.values()
            for kinds in bundles.values()
            for topics in kinds.values()
            for full, stats in topics.items()
            if full.startswith(f"segment://public/default/{topic}/")
        },
        "metrics": [each for each in metrics.text.splitlines() if line.match(each)],
    }


def record(url: str, topic: str, state: str, seconds: str = "6") -> None:
    with httpx2.Client(base_url=url) as admin:
        told = admin.get("/admin/v2/brokers/configuration/runtime").json()
        first = reading(admin, topic)
        time.sleep(float(seconds))
        recorded = {
            "topic": topic,
            "configuration": {name: told[name] for name in WANTED},
            "readings": [first, reading(admin, topic)],
        }
    text = json.dumps(recorded, indent=1)
    (STATES / f"{state}.json").write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    record(*sys.argv[1:])
