"""What a run of test consumers leaves on the cluster: removed if temporary, else listed.

The broker is read again at the end: what is there now and was not before is ours. A subscription
is removed by a consumer that attaches for that alone and asks for no message, so it does not matter
how the run ended, or what became of its consumers. Topics are only named: nothing but the REST API
removes them, and that is only read here.
"""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from pulsar_doctor.broker.admin import topic_name
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.consume import receiver
from pulsar_doctor.parts.consume.engines import Closed, Plan
from pulsar_doctor.parts.consume.visiting.presence import Present, look

GONE_SECONDS = 3.0  # the broker may not yet have noticed that our consumers are gone
AGAIN_SECONDS = 0.2
PERHAPS = "if it was not there before"
BY_ITSELF = "brokers that delete inactive topics do so by themselves"


@dataclass(frozen=True, slots=True)
class Left:
    """Something that stays."""

    topic: str
    subscription: str | None = None  # None: the topic with all that it has
    partitioned: bool = False  # the topic has partitions
    why: str = ""  # what to know about it

    @property
    def command(self) -> str:
        """What removes it."""
        if self.subscription is not None:
            words = ["unsubscribe", "-s", self.subscription, self.topic]
        else:
            words = ["delete-partitioned-topic" if self.partitioned else "delete", self.topic]
        return shlex.join(["pulsar-admin", "topics", *words])

    @property
    def sentence(self) -> str:
        """What a person reads."""
        what = f"topic {self.topic}"
        if self.subscription is not None:
            what = f"subscription {self.subscription} on {self.topic}"
        why = f" ({self.why})" if self.why else ""
        return f"left behind: {what}{why}; remove it with: {self.command}"

    @property
    def document(self) -> dict[str, Any]:
        """The same for a program."""
        return {
            "topic": self.topic,
            "subscription": self.subscription,
            "why": self.why or None,
            "remove": self.command,
        }


@dataclass(frozen=True, slots=True)
class Visit:
    """One run."""

    plan: Plan
    before: Present | None  # what was there; None: not known
    thrown_away: bool = True  # the subscription is deleted in the end
    create: bool = False  # a topic may have been created

    def tidy(self, settings: Settings, left: list[Left]) -> None:
        """Removes what is thrown away; what stays is in `left`, also where this is interrupted."""
        left[:] = self._made(None)
        now = _now(settings, self.plan)
        stays = list(self._made(now))
        if self.thrown_away:
            stays = [each for each in stays if each.subscription is None]
            stays += remove(settings, self.plan, self._attached_to(now))
        left[:] = stays

    def _made(self, now: Present | None) -> Iterator[Left]:
        """What was not there before; all that may be there where `now` is not known."""
        if self.before is None:
            yield from self._perhaps_made()
            return
        before, topic = self.before, now or self.before
        if not before.exists:
            if topic.exists or now is None:
                why = BY_ITSELF if self.thrown_away else ""
                yield Left(topic.topic, None, topic.partitions > 0, why)
            return
        there = topic.parts if now is None else topic.held
        yield from self._subscribed(topic, set(there) - set(before.held))

    def _perhaps_made(self) -> Iterator[Left]:
        topic, plan = str(topic_name(self.plan.topic)), self.plan
        if self.create:
            yield Left(topic, why=PERHAPS)
        yield Left(topic, plan.subscription, why="" if self.thrown_away else PERHAPS)

    def _subscribed(self, topic: Present, parts: set[str]) -> Iterator[Left]:
        whole = parts == set(topic.parts)
        for name in [topic.topic] if whole else sorted(parts):
            yield Left(name, self.plan.subscription)

    def _attached_to(self, now: Present | None) -> list[str]:
        """Where a subscription of our own is."""
        if now is not None:
            return [now.topic] if now.held else []
        return [self.before.topic if self.before else self.plan.topic]


def of_own_topic(plan: Plan) -> Visit:
    """A run on a topic that nobody else knows: its subscription is removed in the end."""
    return Visit(plan, Present(plan.topic, False, 0, {}))


def remove(settings: Settings, plan: Plan, topics: Iterable[str]) -> list[Left]:
    """Removes the subscription of the plan from these topics; what is left of it."""
    bare = Plan("pulsar-doctor", plan.topic, plan.subscription, type=plan.type, permits="manual")
    left = []
    with receiver.connected(settings.service_url, settings) as engine:
        for topic in topics:
            try:
                _unsubscribe(engine, replace(bare, topic=topic))
            except (DoctorError, Closed) as error:
                left.append(Left(topic, plan.subscription, why=f"it cannot be removed: {error}"))
    return left


def _unsubscribe(engine: receiver.Receiver, plan: Plan) -> None:
    until = time.monotonic() + GONE_SECONDS
    while True:
        try:
            consumer = engine.subscribe(plan)
            try:
                return consumer.unsubscribe()
            finally:
                consumer.close()
        except DoctorError:
            if time.monotonic() > until:
                raise
        time.sleep(AGAIN_SECONDS)


def _now(settings: Settings, plan: Plan) -> Present | None:
    try:
        return look(settings, plan)
    except DoctorError:
        return None
