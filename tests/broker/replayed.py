"""A cluster on the loopback that tells recorded states, one after the other, by a clock of its own.

Each reading of a topic is a second later than the one before it, however fast they come.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from typing import Any
from urllib.parse import unquote

from pulsar_doctor.broker.admin.live_metrics import LIVE
from tests.broker.http_broker import Asked, HttpBroker, Reply, serving
from tests.broker.recorded import recording

HOME = "persistent://public/default/"
GONE = Reply(404, {"reason": "Topic not found"})
HEALTHY = "4.0.8-never-subscribed"
STUCK = "4.0.8-shared-stuck"
BLOCKED = "4.0.8-unacked-limit"
MOVING = "4.0.8-shared-moving"

Step = Reply | Mapping[str, Any]


def states(name: str, *, later_seconds: int = 0) -> list[Step]:
    """The samples of a recording. later_seconds: after the moment at which it was recorded."""
    return [
        {**each, "date_ms": each["date_ms"] + 1000 * later_seconds}
        for each in recording(name)["samples"]
    ]


def stuck() -> list[Step]:
    """A consumer that holds all that it was sent, an hour later."""
    return states(STUCK, later_seconds=3600)


@dataclass
class Replay:
    """topics: local name -> steps in public/default, the last again and again. A name with
    `-partition-N` is one partition of its topic; `listed` of a step is what broker-stats have of
    it, where that is something else. replies: path -> what is told there, instead.

    stored: names that exist and that no broker has loaded. since: those of `topics` that were
    loaded after broker-stats were renewed.
    """

    topics: Mapping[str, Sequence[Step]]
    replies: Mapping[str, Reply] = field(default_factory=dict)
    stored: Sequence[str] = ()
    since: Sequence[str] = ()
    _reads: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, asked: Asked) -> Reply:
        path = unquote(asked.path.partition("?")[0].removeprefix("/admin/v2/"))
        told = self.replies.get(path)
        if told is not None:
            return told
        if path == "/metrics/":
            named = (f'pulsar_subscriptions_count{{topic="{HOME}{name}"}}' for name in self.topics)
            text = "".join(f"{each} 1\n" for each in named)
            return Reply(body=text.encode(), content_type="text/plain")
        name, _, kind = path.removeprefix("persistent/public/default/").rpartition("/")
        if path.startswith("persistent/public/default/") and kind in KINDS:
            return KINDS[kind](self, name)
        return self._of_cluster(path, asked.headers["host"])

    def _of_cluster(self, path: str, host: str) -> Reply:
        told: Mapping[str, Any] = {
            "brokers": [host],
            "brokers/configuration/runtime": LIVE,
            "tenants": ["public"],
            "namespaces/public": ["public/default"],
            "persistent/public/default": [HOME + name for name in (*self.topics, *self.stored)],
            "persistent/public/default/partitioned": [],
            "non-persistent/public/default": [],
            "non-persistent/public/default/partitioned": [],
            "broker-stats/topics": {"public/default": {"0x0_0x4": {"persistent": self._loaded()}}},
        }
        return Reply(document=told[path]) if path in told else GONE

    def _loaded(self) -> dict[str, Any]:
        return {
            HOME + name: next(
                step.get("listed", step["stats"]) for step in steps if not isinstance(step, Reply)
            )
            for name, steps in self.topics.items()
            if name not in self.since
        }

    def partitions(self, name: str) -> Reply:
        count = sum(topic.startswith(f"{name}-partition-") for topic in self.topics)
        return Reply(document={"partitions": count})

    def stats(self, name: str) -> Reply:
        if name not in self.topics:
            return GONE
        with self._lock:
            read = self._reads[name]
            self._reads[name] += 1
        return self._at(name, read, "stats")

    def internal(self, name: str) -> Reply:
        return self._at(name, max(0, self._reads[name] - 1), "internal")

    def partitioned(self, name: str) -> Reply:
        parts = [topic for topic in self.topics if topic.startswith(f"{name}-partition-")]
        replies = {HOME + part: self.stats(part) for part in parts}
        last = next(reversed(replies.values()))
        each = {full: reply.document for full, reply in replies.items() if reply.status == 200}
        told = {"metadata": {"partitions": len(parts)}, "partitions": each}
        return replace(last, document=told)

    def _at(self, name: str, read: int, part: str) -> Reply:
        steps = self.topics[name]
        step = steps[min(read, len(steps) - 1)]
        if isinstance(step, Reply):
            return step
        first_ms = min(each["date_ms"] for each in steps if not isinstance(each, Reply))
        now_ms = max(step["date_ms"], first_ms + 1000 * read)
        date = {"Date": formatdate(now_ms / 1000, usegmt=True)}
        return Reply(document=step[part], headers=date) if step[part] is not None else GONE


KINDS: dict[str, Callable[[Replay, str], Reply]] = {
    "partitions": Replay.partitions,
    "stats": Replay.stats,
    "internalStats": Replay.internal,
    "partitioned-stats": Replay.partitioned,
    "partitioned-internalStats": lambda self, name: GONE,
}


@contextmanager
def cluster(topics: Mapping[str, Sequence[Step]], **more: Any) -> Iterator[HttpBroker]:
    """Serves them; nothing but GET may have been asked in the end."""
    with serving(Replay(topics, **more)) as broker:
        yield broker
    assert {asked.method for asked in broker.asked} <= {"GET"}
