"""What to do with one consumer: dump its threads, restart it, give it a smaller queue.

Of one that is slow, less may wait in its queue, or more workers are needed. Of one that hangs, a
thread dump shows why, and only a new process helps. One that keeps what it takes has to
acknowledge. Where the view does not tell which it is, the dump comes first: it harms nothing.

No line of pulsar-admin closes one consumer. Its process can be restarted, or the topic unloaded,
which disconnects everybody.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from pulsar_doctor.diagnosis.actions.activity import activity_of
from pulsar_doctor.diagnosis.actions.commands import admin, check, restarted, subscription_admin
from pulsar_doctor.diagnosis.actions.processes import (
    examined_by,
    others,
    place,
    restarted_with,
    threads_seen,
)
from pulsar_doctor.diagnosis.actions.settings import likely_clients, setting
from pulsar_doctor.diagnosis.answers import WHENS, Action, Urgency
from pulsar_doctor.diagnosis.pace import pace_of
from pulsar_doctor.evidence.balance import balance_of
from pulsar_doctor.evidence.consumer import ConsumerView
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.clients import ACK_TIMEOUT, RECEIVER_QUEUE
from pulsar_doctor.wording.durations import per_second

SET_BACK = "set it back, and restart the consumer"
TAKE_OUT = "take the setting out, and restart the consumer"


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting of a consumer that is changed."""

    name: str  # in the table of clients
    value: int | str
    text: str  # what the change brings, without a full stop
    side_effect: str  # in a few words; details follow a colon
    expect: str  # what our own check prints if it worked
    undo: str = SET_BACK

    def on(self, view: SubscriptionView, client: str | None) -> Iterator[Action]:
        """The change as this client writes it; nothing where it has no such setting."""
        known = setting(client, self.name, self.value)
        if known is not None:
            what = f"{self.name} {self.value}" if ", " in known else known
            yield Action(
                "today",
                f"{self.text}: {known}.",
                side_effect=self.side_effect,
                undo=self.undo,
                check=check(view, self.expect),
                brief=f"Restart it with {what}; {self.side_effect.partition(': ')[0]}",
            )


AN_HOUR = SettingChange(
    ACK_TIMEOUT,
    3600,
    "Set an ack timeout of one hour, so that it gives back what it does not acknowledge",
    "a message that takes longer is delivered twice: keep it well above the longest message",
    "it acknowledges at least once an hour",
    TAKE_OUT,
)
PORT = re.compile(r":(\d{1,5})$")
AGAIN = "its unacknowledged messages are delivered again, including those that it has finished"
ALL_STOP, COMES_AGAIN = "its other consumers stop too", "what it holds is delivered again"
UNREACHABLE = "If that process cannot be reached, unload"
BEFORE_OTHERS = "Before others join: "
NO_MORE = "this finding is gone"
WITH_KEY = ", with the key or the schema that its log names"
CURED = "cured: acks arrive, the backlog falls"
ITS_SHARE = "this finding is gone, or it has reconnected and holds only its share"


def treatment(view: SubscriptionView, consumer: ConsumerView) -> tuple[Action, ...]:
    """Every action in order: for a slow one, a hang, one that keeps all, or an unclear case."""
    return tuple(TREATMENTS[activity_of(consumer)](view, consumer))


def slow(view: SubscriptionView, consumer: ConsumerView) -> Iterator[Action]:
    """Actions for a consumer that acknowledges at long intervals.

    A smaller queue only shares the work anew: of one that has no neighbour it changes no pace.
    """
    alone = view.consumers is not None and len(view.consumers) == 1
    share = tuple(smaller_queue(view, consumer, BEFORE_OTHERS if alone else ""))
    yield from (more_workers(view, "today"), *share) if alone else (*share, more_workers(view))


def hangs(view: SubscriptionView, consumer: ConsumerView) -> Iterator[Action]:
    """Actions for a consumer that sends nothing."""
    yield dump_threads(view, consumer)
    yield restart(view, consumer)
    yield unload(view)
    # What lets messages go on without it; nothing where its client has no such setting.
    yield from AN_HOUR.on(view, consumer.client)
    yield Action(
        "later",
        "Give each step of the work a time limit of its own, so that it fails instead of hanging.",
        check=check(view, NO_MORE),
    )


def unclear(view: SubscriptionView, consumer: ConsumerView) -> Iterator[Action]:
    """Actions for a consumer that may hang or be slow."""
    yield dump_threads(view, consumer)
    yield restart(view, consumer)
    yield unload(view)
    yield from smaller_queue(view, consumer, "If the dump shows that it is working, but slowly: ")
    yield more_workers(view)


def keeps(view: SubscriptionView, consumer: ConsumerView) -> Iterator[Action]:
    """Actions for a consumer that takes messages and has never acknowledged any."""
    if (inside := inside_action(view, consumer)) is not None:
        yield inside
    yield from acknowledging(view, consumer)
    yield restart(view, consumer)
    yield unload(view)


def withholds(view: SubscriptionView, consumer: ConsumerView) -> Iterator[Action]:
    """Actions for a consumer with a client that keeps what it cannot give to the application."""
    yield restart(view, consumer, WITH_KEY)


def acknowledging(view: SubscriptionView, consumer: ConsumerView) -> Iterator[Action]:
    """The mistake in the application itself, where it has never acknowledged any."""
    if consumer.never_acked:
        batch = " A batch counts when all of it is acknowledged." if consumer.in_batches else ""
        yield Action(
            "now",
            f"Check that the application {place(consumer)} acknowledges each message when its "
            f"work is done, and check its log for failed acks: none has arrived.{batch}",
            check=check(view, "it has acknowledged, and holds fewer"),
        )


def read_oldest(
    view: SubscriptionView, why: str = "to find out who should process it"
) -> Iterator[Action]:
    """Where the position of the oldest message is reported."""
    if view.oldest is not None:
        ledger, _, entry = view.oldest.partition(":")
        yield Action(
            "now",
            f"Read the message that nobody has acknowledged, {why}.",
            command=admin(view, "topics get-message-by-id", "-l", ledger, "-e", entry),
        )


def given_back(view: SubscriptionView, expect: str) -> Action:
    """The reason is in the application, and a restart does not end it."""
    return Action(
        "now",
        "Read a message that comes back, then the application's log for why it gives it back: what "
        "fails there fails at once.",
        command=subscription_admin(view, "topics peek-messages", "-n", "1"),
        check=check(view, expect),
    )


TREATMENTS = {
    "slow": slow, "hangs": hangs, "keeps": keeps, "withholds": withholds, "unclear": unclear,
}  # fmt: skip


def in_order(actions: Iterable[Action]) -> tuple[Action, ...]:
    """What frees it first, then settings, then design."""
    return tuple(sorted(actions, key=lambda action: WHENS.index(action.when)))


def freeing(view: SubscriptionView, consumer: ConsumerView) -> tuple[Action, ...]:
    """What gives its messages to others now; of one that may hang, after a look at it."""
    how = activity_of(consumer)
    if how == "withholds":
        return treatment(view, consumer)
    first = {"slow": (), "keeps": acknowledging(view, consumer)}.get(
        how, (dump_threads(view, consumer),)
    )
    return (*first, restart(view, consumer), unload(view))


def anew(view: SubscriptionView, consumer: ConsumerView) -> tuple[Action, ...]:
    """Actions for a consumer with lost permits: only a new SUBSCRIBE counts from the beginning."""
    version = consumer.client_version
    which = f"its client, {version}, " if version else "its client "
    return (
        restart(view, consumer),
        unload(view),
        Action(
            "later",
            f"Update {which}and if it happens again, report the trace to that client's project.",
            check=check(view, NO_MORE),
        ),
    )


def dump_threads(view: SubscriptionView, consumer: ConsumerView) -> Action:
    """Finds its process; says how its threads are dumped, or what a dump has shown already."""
    if seen := threads_seen(consumer):
        return Action(
            "now",
            f"Find out why the application {place(consumer)} does not go on: {seen}.",
            check=check(view, CURED),
        )
    if (inside := inside_action(view, consumer)) is not None:
        return inside
    port = PORT.search(consumer.address or "")
    tool, dump = likely_clients(consumer.client)[0].dump
    where = "; on that host, this command shows which process it is" if port else ""
    host = (consumer.address or "").lstrip("/").rpartition(":")[0]
    return Action(
        "now",
        f"Dump the threads of the process {place(consumer)} to see what it does ({dump}){where}.",
        command=f"ss -tnp 'sport = :{port[1]}'" if port else None,
        check=check(view, CURED),
        brief=f"On {host}: dump its threads, restart it" if port else f"Dump its threads ({tool})",
    )


def inside_action(view: SubscriptionView, consumer: ConsumerView) -> Action | None:
    """Examines its process; None where that cannot be done from this machine."""
    if (line := examined_by(view, consumer)) is None:
        return None
    return Action(
        "now",
        f"Look inside the process {place(consumer)}, which is on this machine: that shows whether "
        "the consumer is paused, and where its threads are.",
        command=line,
        check=check(view, CURED),
        brief="Look inside it: is it paused, where does it hang; then restart it",
    )


def restart(
    view: SubscriptionView, consumer: ConsumerView, how: str = "", how_brief: str = ""
) -> Action:
    """What frees it; there is a line for it only where Pulsar itself runs it. how: `, with …`."""
    taken = others(view, consumer)
    risk = ALL_STOP if restarted_with(view, consumer) else COMES_AGAIN
    return Action(
        "now",
        f"Restart the process {place(consumer)}{how}: {taken}.",
        command=None if consumer.function is None else restarted(consumer.function),
        side_effect=AGAIN,
        check=check(view, NO_MORE),
        brief=f"Restart its process{how_brief or how}; {risk}",
    )


def save_state(view: SubscriptionView) -> Action:
    """What the broker knows of it and an unload erases."""
    text = "Save the broker's current state for a bug report: an unload erases it."
    return Action("now", text, admin(view, "topics stats-internal"))


def unload(view: SubscriptionView, why: str = UNREACHABLE, expect: str = ITS_SHARE) -> Action:
    """Disconnects everybody; with a line."""
    return Action(
        "now",
        f"{why} the topic: all its consumers and producers are disconnected, and reconnect.",
        command=admin(view, "topics unload"),
        side_effect="the unacknowledged messages of all its consumers are delivered again, and a "
        "client that reconnects unchanged takes its share of them again",
        check=check(view, expect),
        brief="Disconnects all its clients for a moment",
    )


def smaller_queue(
    view: SubscriptionView, consumer: ConsumerView, condition: str = ""
) -> Iterator[Action]:
    """A queue of 1, which takes batches too; nothing where it has that, or no such setting."""
    if consumer.asks_singly:
        return
    give = "give" if condition else "Give"
    text = f"{condition}{give} this consumer a receiver queue of 1, so that little waits behind it"
    effect = "costs a round trip for each message: too slow for messages that take milliseconds"
    if unbound := likely_clients(consumer.client)[0].queue_of_one:
        effect += f"; {unbound}"
    expect = "it holds few messages, and no other consumer is idle"
    yield from SettingChange(RECEIVER_QUEUE, 1, text, effect, expect).on(view, consumer.client)


def more_workers(view: SubscriptionView, when: Urgency = "later") -> Action:
    """Where the work itself takes so long."""
    found = pace_of(view, balance_of(view))
    levers = found.levers if found else ()
    more = next((each for each in levers if each.lever == "consumers"), None)
    queued = not found and view.nothing_left and len(view.served) > 1 and view.type == "Shared"
    text = "Make the work on one message faster"
    text += "" if queued else ", or add consumers until they keep up"
    if more is not None and more.why is None and more.rate < inf:
        text += f" ({more.changes}: {per_second(more.rate)})"
    elif more is not None and more.why is not None:
        text = f"Make the work on one message faster; {more.changes} bring nothing: {more.why}"
    elif view.type in ("Exclusive", "Failover"):
        text = (
            "Make the work on one message faster: with this type, one consumer does all of it; "
            "with Shared or Key_Shared, or with more partitions, several do"
        )
    return Action(when, f"{text}.", check=check(view, "the backlog falls"))
