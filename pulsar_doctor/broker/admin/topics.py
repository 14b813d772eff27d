"""Parses topic names as people write them, and writes them as the REST API needs them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from pulsar_doctor.errors import InputError

DOMAINS = ("persistent", "non-persistent")
SCALABLE, SEGMENT = "topic", "segment"  # Pulsar 5: a scalable topic, and one segment of it
PARTITION = re.compile(r"-partition-[0-9]{1,9}\Z")


@dataclass(frozen=True, slots=True)
class TopicName:
    """One topic, or one partition or segment; `local` is the name inside the namespace.

    It is not encoded. A segment's is that of the scalable topic, `/`, hash range and number.
    """

    domain: str
    namespace: str
    local: str

    def __str__(self) -> str:
        return f"{self.domain}://{self.namespace}/{self.local}"

    @property
    def path(self) -> str:
        """The topic's path in the REST API. The broker decodes the name once: `+` is a space."""
        return f"{self.domain}/{namespace_path(self.namespace)}/{encoded(self.local)}"

    @property
    def of_all_segments(self) -> TopicName:
        """The scalable topic that this is a segment of; itself where it is none."""
        if self.domain != SEGMENT:
            return self
        return TopicName(SCALABLE, self.namespace, self.local.rpartition("/")[0])

    @property
    def of_all_partitions(self) -> TopicName:
        """The topic that this is a partition of; itself where it is none."""
        return TopicName(self.domain, self.namespace, PARTITION.sub("", self.local))


def topic_name(text: str) -> TopicName:
    """`orders`, `tenant/namespace/orders` or the full name. Raises InputError.

    What follows the namespace is the local name, slashes included: the broker (4.0.8) finds a
    topic of four parts (tenant, cluster, namespace, name: Pulsar 1) under that address too.
    """
    domain, separator, rest = text.partition("://")
    if not separator:
        domain, rest = DOMAINS[0], text if "/" in text else f"public/default/{text}"
    parts = rest.split("/", 2)
    known = domain in (*DOMAINS, SCALABLE) or (domain == SEGMENT and "/" in parts[-1])
    if not known or len(parts) != 3 or not all(parts):
        raise InputError(
            f"{text!r} is not a topic; write orders, tenant/namespace/orders "
            "or persistent://tenant/namespace/orders; a scalable topic: topic://tenant/namespace/orders"
        )
    return TopicName(domain, f"{parts[0]}/{parts[1]}", parts[2])


def namespace_path(namespace: str) -> str:
    """`tenant/namespace`, encoded. Raises InputError."""
    parts = namespace.split("/")
    if len(parts) not in (2, 3) or not all(parts):  # three: Pulsar 1, with the cluster
        raise InputError(f"{namespace!r} is not a namespace; write tenant/namespace")
    return "/".join(encoded(part) for part in parts)


def encoded(part: str) -> str:
    """One part of a path, so that nothing in it is read as syntax."""
    # A dot alone is a step in a path and would be taken out on the way, encoded or not.
    if part in (".", ".."):
        raise InputError(f"{part!r} cannot be asked for over the REST API")
    return quote(part, safe="")
