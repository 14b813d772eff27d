"""What is to say of topics as a whole: that nobody has subscribed, and where dead letters wait.

Clients call a topic of dead letters TOPIC-SUBSCRIPTION-DLQ and one of retries
TOPIC-SUBSCRIPTION-RETRY, unless they are given another name (RetryMessageUtil of the Java client).
TOPIC-DLQ and TOPIC-RETRY belong to the only subscription of a topic. Where one of these was read
beside its subscription, a note on that subscription names what waits, or what is lost. So it does
of a topic with DLQ, DLT or dead in its name, and that of one subscription or topic of the same
namespace: that is likely, and the note says so.

What no cursor needs is deleted with its ledger, unless retention keeps it, and a topic without
subscription and producers is deleted after a minute by default, with all that it holds (seen on
4.0.8).

Source: ManagedLedgerImpl.internalTrimConsumedLedgers; PersistentTopic.checkGC,
brokerDeleteInactiveTopicsEnabled.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pulsar_doctor.broker.stats.observed import TopicWindow
from pulsar_doctor.broker.stats.topic import TopicStats
from pulsar_doctor.wording.printable import listed
from pulsar_doctor.wording.sentences import say
from pulsar_doctor.wording.sizes import in_words

NAMED_MOST = 5
LETTERS = {"-DLQ": "its dead letters", "-RETRY": "its messages to be tried again"}
DEAD = re.compile(r"dlq|dlt|dead(?!line)", re.IGNORECASE)
WORD = re.compile(r"[^\W_]+")
CHECK = "check the names of the topic and of the subscription"


@dataclass(slots=True)
class TopicNotes:
    """Gathers them, window by window. Changes in place."""

    subscriptions: set[tuple[str, str]] = field(default_factory=set)
    letters: dict[str, list[TopicStats]] = field(default_factory=dict)
    unused: dict[str, list[TopicStats]] = field(default_factory=dict)

    def add(self, window: TopicWindow) -> None:
        """One topic or partition."""
        topic = window.window.last.topic
        self.subscriptions.update((window.topic, name) for name in topic.subscriptions or {})
        if window.topic.endswith((*LETTERS,)) or DEAD.search(_local(window.topic)):
            self.letters.setdefault(window.topic, []).append(topic)
        if not any(True for _ in window.judged()):
            self.unused.setdefault(window.topic, []).append(topic)

    def of_letters(self, only: str | None) -> Iterator[tuple[str, str]]:
        """On each subscription with dead letters or retries that wait: the topic, and a sentence.

        only: of this name.
        """
        for topic, name, there, what in sorted(self._letters()) if self.letters else ():
            text = _waiting(self.letters.get(there, ()), f"{there} ({what})")
            if text and only in (None, name):
                yield topic, f"{name} on {topic}: {text}"

    def _letters(self) -> Iterator[tuple[str, str, str, str]]:
        """For each subscription: its topic, its name, the topic of its letters, what they are."""
        count = Counter(topic for topic, _ in self.subscriptions)
        own = {f"{topic}-{name}" for topic, name in self.subscriptions}
        for topic, name in self.subscriptions:
            for ending, what in LETTERS.items():
                yield topic, name, f"{topic}-{name}{ending}", what
                if count[topic] == 1 and topic not in own:
                    yield topic, name, f"{topic}{ending}", what
        usual = {f"{topic}{ending}" for topic in (*own, *count) for ending in LETTERS}
        owners: dict[str, set[tuple[str, str]]] = {}  # by the first words of their names
        for owner in self.subscriptions:
            for word in (*WORD.findall(_local(owner[0]))[:1], *WORD.findall(owner[1])[:1]):
                owners.setdefault(word.lower(), set()).add(owner)
        for there in self.letters.keys() - usual:
            of = (owners.get(word.lower(), set()) for word in WORD.findall(_local(there)))
            if likely := _likely_owner(there, set().union(*of)):
                yield *likely, there, "by its name its dead letters"

    def of_unused(self) -> Iterator[tuple[str, str]]:
        """In a sweep: topics that nobody has subscribed to, though messages come in."""
        used = {topic for topic, _ in self.subscriptions}
        used |= {there for _, _, there, _ in self._letters()}
        names = [
            name
            for name, topics in self.unused.items()
            if name not in used and _came(topics) and not name.rpartition("/")[2].startswith("__")
        ]
        if names:
            text = "nobody has subscribed to {:topics}, though messages came in: {}; what came {}"
            gone = "is deleted unless retention keeps it"
            yield names[0], say(text, len(names), listed(sorted(names), NAMED_MOST), gone)


def _likely_owner(there: str, owners: Iterable[tuple[str, str]]) -> tuple[str, str] | None:
    """The subscription that the name of a topic of dead letters names best; None: not one.

    TOPIC-OTHER-DLQ is that of another subscription of a topic, which was not read.
    """
    space, _, local = there.rpartition("/")
    found: list[tuple[int, tuple[str, str]]] = []
    for topic, name in owners:
        by_name = 2 * _names(local, name)
        usual = not by_name and there.startswith(f"{topic}-") and there.endswith("-DLQ")
        score = by_name + (0 if usual else _names(local, _local(topic)))
        here = topic.rpartition("/")[0] == space and topic != there
        found += [(score, (topic, name))] if score and here else []
    most = max((score for score, _ in found), default=0)
    best = [owner for score, owner in found if score == most]
    return best[0] if len(best) == 1 else None


def _local(topic: str) -> str:
    return topic.rpartition("/")[2]


def _names(local: str, name: str) -> int:
    """1 where a name has another one in it as a whole word."""
    at = local.lower().find(name.lower()) if name else -1
    ends = local[max(0, at - 1) : at] + local[at + len(name) : at + len(name) + 1]
    return int(at >= 0 and not any(map(str.isalnum, ends)))


def topic_notes(windows: Iterable[TopicWindow]) -> TopicNotes:
    """The notes on all these topics."""
    gathered = TopicNotes()
    for each in windows:
        gathered.add(each)
    return gathered


def without_subscription(windows: Iterable[TopicWindow]) -> str | None:
    """What became of the messages of a topic that nobody has subscribed to; None: not reported."""
    topics = [each.window.last.topic for each in windows]
    came, stored = _came(topics), [each.storage_size for each in topics]
    if came is None:
        return None
    if came == 0:
        return f"no message has come in since it was loaded; {CHECK}"
    text = say("{:messages} came in since it was loaded", came)
    if rate := sum(each.msg_rate_in or 0 for each in topics):
        text = say("{} ({} a second)", text, f"{rate:.3g}")
    if None in stored:
        return f"{text}; {CHECK}"
    size = sum(each or 0 for each in stored)
    if size <= 0:
        gone = "none of them is stored: who subscribes now gets later ones only"
        return f"{text}, and {gone}; {CHECK}"
    kept = (
        "who subscribes from the earliest on gets them until the broker deletes them, or the topic "
        "as inactive (retention prevents both)"
    )
    return say("{}, and {} are stored: {}; {}", text, in_words(size), kept, CHECK)


def _came(topics: Sequence[TopicStats]) -> int | None:
    counters = [each.msg_in_counter for each in topics]
    return None if None in counters or not counters else sum(each or 0 for each in counters)


def _waiting(topics: Sequence[TopicStats], where: str) -> str | None:
    """What waits in a topic of dead letters or retries; None: nothing, as far as reported."""
    subscriptions = [one for each in topics for one in (each.subscriptions or {}).values()]
    if not subscriptions:
        lost = "and nobody has subscribed: unless retention keeps them they are lost"
        return (
            say(f"{{:messages}} went to {{}}, {lost}", came, where)
            if (came := _came(topics))
            else None
        )
    waits = sum(max(0, one.msg_backlog or 0) for one in subscriptions)
    unread = all(one.consumers == () for one in subscriptions)
    nobody = ", and nobody reads them" if unread else ""
    return say("{:entries} wait in {}{}", waits, where, nobody) if waits else None
