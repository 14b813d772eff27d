"""How to change the brokers' limits: unacknowledged messages, rates, automatic unblocking."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pulsar_doctor.diagnosis.actions.commands import check, checked, namespace_admin, policy_admin
from pulsar_doctor.diagnosis.answers import Action
from pulsar_doctor.evidence.subscription import UNACKED_DEFAULTS, SubscriptionView

ONLY_IF = "only if that many messages are really in progress at once"
RATES = {"subscription": "subscription-dispatch-rate", "topic": "dispatch-rate"}
BROKER_RATES = ("dispatchThrottlingRateInMsg", "dispatchThrottlingRateInByte")
UNBLOCK = "unblockStuckSubscriptionEnabled"
LOOK_AHEAD = "keySharedLookAheadMsgInReplayThresholdPer"
LOOK_AHEAD_PER_SUBSCRIPTION = 20_000  # by default, up to 4.2
DYNAMIC = "pulsar-admin brokers {}-dynamic-config --config {}"


def raised_limit(
    view: SubscriptionView,
    of: Literal["consumer", "subscription"],
    limit: int | None,
    held: int | None = None,
) -> Action:
    """Twice the limit of unacknowledged messages.

    limit: of now; None: not reported, and that of broker.conf unless what is held at it is less.
    """
    name, default = f"max-unacked-messages-per-{of}", UNACKED_DEFAULTS[of]
    below = limit is None and held is not None and 0 < held < default
    now = held if below and held else limit or default
    today = f"about {now}, judging by what is held" if below else f"{now} today"
    get = namespace_admin(view, f"get-{name}")
    remove = namespace_admin(view, f"remove-{name}")
    return Action(
        "today",
        f"Raise the limit, {today}, {ONLY_IF}.",
        command=namespace_admin(view, f"set-{name}", "-c", str(2 * now)),
        side_effect=f"it applies to every {of} of the namespace, and if one disconnects, that "
        "many more messages are delivered again",
        undo=f"{remove}, or set the previous number" if remove else None,
        check=checked(get, f"it prints {2 * now}"),
    )


def raised_rate(view: SubscriptionView, owner: str) -> Iterator[Action]:
    """What the dispatch rate limit is and how it is lifted. owner: subscription, topic, broker."""
    if owner == "broker":
        yield from _raised_rate_of_brokers(view)
        return
    name = RATES[owner]
    yield Action(
        "now",
        f"Find out which limit of the {owner} delays reads, and who set it.",
        command=policy_admin(view, f"get-{name}", "-ap"),
    )
    yield Action(
        "today",
        "If nobody needs the limit, lift it for this topic.",
        command=policy_admin(view, f"set-{name}", "-md", "-1", "-bd", "-1"),
        side_effect="consumers that catch up may use all of the broker's read and send capacity",
        undo=policy_admin(view, f"remove-{name}"),
        check=check(view, "healthy, and the backlog falls"),
    )


def _raised_rate_of_brokers(view: SubscriptionView) -> Iterator[Action]:
    for name in BROKER_RATES:
        yield Action(
            "today",
            f"If nobody needs the brokers' limit {name}, lift it.",
            command=f"{DYNAMIC.format('update', name)} --value 0",
            side_effect="it applies to all topics of the cluster, at once",
            undo=f"{DYNAMIC.format('delete', name)}, and broker.conf applies again",
            check=check(view, "healthy, and the backlog falls"),
        )


def healing(view: SubscriptionView) -> Action:
    """The broker's own remedy for a dispatcher that does not read."""
    return Action(
        "today",
        "Let brokers unblock such a subscription by themselves when no read is pending.",
        command=f"{DYNAMIC.format('update', UNBLOCK)} --value true",
        side_effect="brokers check all subscriptions every few minutes",
        undo=DYNAMIC.format("delete", UNBLOCK),
        check=checked(
            "pulsar-admin brokers get-all-dynamic-config", f"it lists {UNBLOCK} with true"
        ),
    )


def further_ahead(view: SubscriptionView, waiting: int) -> Action:
    """How the broker reads on for other keys. waiting: entries that it keeps for later now."""
    whole = waiting >= LOOK_AHEAD_PER_SUBSCRIPTION
    name = f"{LOOK_AHEAD}{'Subscription' if whole else 'Consumer'}"
    value = 2 * -(-waiting // (1 if whole else max(1, len(view.consumers or ()))))
    return Action(
        "today",
        "Let the broker read further ahead, so that the other consumers go on meanwhile.",
        command=f"{DYNAMIC.format('update', name)} --value {value}",
        side_effect="it keeps as many entries of each Key_Shared subscription in memory, with "
        "more acknowledged ranges behind them",
        undo=DYNAMIC.format("delete", name),
        check=check(view, "the other consumers are sent messages"),
    )
