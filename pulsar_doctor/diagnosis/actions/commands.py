"""Complete command lines to paste into a shell, of pulsar-admin and pulsar-doctor.

Topics and subscriptions are named by others. A name is quoted so that a shell takes it for
one word, whatever is in it; what cannot be seen is written as $'\033', as bash and zsh read it.
Where a file does not name its topic there is no line.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from pulsar_doctor.broker.stats.functions import FunctionInstance
from pulsar_doctor.evidence.subscription import SubscriptionView
from pulsar_doctor.ledger.topics import split_segment


def admin(view: SubscriptionView, subcommand: str, *options: str) -> str | None:
    """A pulsar-admin line on the topic, or on the partition. subcommand: `topics unload`.

    None on a segment: pulsar-admin 5.0.0-M1 takes none.
    """
    if "://" not in view.topic or is_segment(view):
        return None
    return _line(["pulsar-admin", *subcommand.split(), *options, view.full_topic])


def split(view: SubscriptionView) -> str | None:
    """A pulsar-admin line that splits the segment in two; None where it is no segment."""
    topic, segment = split_segment(view.topic)
    name = topic.partition("://")[2]
    if segment is None or name.startswith("-"):
        return None
    return _line(["pulsar-admin", "scalable-topics", "split-segment", "-s", str(segment), name])


def subscription_admin(view: SubscriptionView, subcommand: str, *options: str) -> str | None:
    """The same on its subscription; none where pulsar-admin takes the name for an option."""
    name = view.subscription
    return None if name.startswith("-") else admin(view, subcommand, *options, "-s", name)


def policy_admin(view: SubscriptionView, subcommand: str, *options: str) -> str | None:
    """The same on the whole topic: a partition has no policies of its own."""
    if "://" not in view.topic or is_segment(view):
        return None
    return _line(["pulsar-admin", "topicPolicies", *subcommand.split(), *options, view.topic])


def namespace_admin(view: SubscriptionView, subcommand: str, *options: str) -> str | None:
    """A pulsar-admin line on the topic's namespace."""
    namespace = namespace_of(view)
    if namespace is None:
        return None
    return _line(["pulsar-admin", "namespaces", *subcommand.split(), *options, namespace])


def cluster_admin(subcommand: str, cluster: str) -> str | None:
    """A pulsar-admin line on a cluster; none where its name is not known or resembles an option."""
    unnamed = not cluster or cluster.startswith("-")
    return None if unnamed else _line(["pulsar-admin", "clusters", subcommand, cluster])


def cluster_line(subcommand: str, *options: str) -> str:
    """A pulsar-admin line that names no topic. subcommand: `transactions slow-transactions`."""
    return _line(["pulsar-admin", *subcommand.split(), *options])


def restarted(instance: FunctionInstance) -> str:
    """Restarts one instance of a function or sink, which Pulsar itself runs."""
    if instance.kind == "function":
        which = ["functions", "restart", "--fqfn", instance.name]
    else:
        tenant, namespace, name = instance.name.split("/")
        which = ["sinks", "restart", "--tenant", tenant, "--namespace", namespace, "--name", name]
    return _line(["pulsar-admin", *which, "--instance-id", str(instance.number)])


def check(view: SubscriptionView, expect: str) -> str | None:
    """Our own line that checks again, and what it prints where the remedy worked."""
    return checked(stall_check(*view.key), expect)


def watch(view: SubscriptionView, seconds: int) -> str | None:
    """Our own line that watches for so long."""
    line = stall_check(*view.key)
    return None if line is None else f"{line} --window {seconds}s"


def holes(view: SubscriptionView) -> str | None:
    """Our own line that shows what lies behind mark-delete."""
    return _doctor("holes", view.full_topic, view.subscription)


def examine(view: SubscriptionView, address: str) -> str | None:
    """Our own line that examines a client on this machine. address: as brokers report it."""
    if "://" not in view.topic:
        return None
    return _line(["pulsar-doctor", "examine", address.lstrip("/"), view.full_topic, "--attach"])


def stall_check(topic: str, subscription: str) -> str | None:
    """Our own line that asks the broker. topic: its full name, with the partition."""
    return _doctor("stall-check", topic, subscription)


def checked(line: str | None, expect: str) -> str | None:
    """Another line that checks, and what it prints then."""
    return None if line is None else f"{line}  # {expect}"


def namespace_of(view: SubscriptionView) -> str | None:
    """`tenant/namespace`, or with a cluster between them; None where the topic is not named."""
    _, named, rest = view.topic.partition("://")
    parts = rest.split("/", 3)
    return "/".join(parts[:-1]) if named and len(parts) > 2 else None


def quoted(word: str) -> str:
    """One word of a shell, and one visible line."""
    if word.isprintable():
        return shlex.quote(word)
    return f"$'{''.join(map(_escaped, word))}'"


def is_segment(view: SubscriptionView) -> bool:
    """Whether its topic is a segment of a scalable topic."""
    return split_segment(view.topic)[1] is not None


def _doctor(subcommand: str, topic: str, subscription: str) -> str | None:
    if "://" not in topic:
        return None
    return _line(["pulsar-doctor", subcommand, topic, "-s", subscription])


def _escaped(char: str) -> str:
    if char in "'\\":
        return f"\\{char}"
    if char.isprintable():
        return char
    return "".join(f"\\{byte:03o}" for byte in char.encode("utf-8", "surrogatepass"))


def _line(words: Iterable[str]) -> str:
    return " ".join(map(quoted, words))
