"""Finds the Pulsar function or sink that a consumer belongs to, from its metadata.

Pulsar's own framework sets `application`, `id` (tenant/namespace/name) and `instance_id` on every
consumer of a function or sink. What anybody else attaches is looked at no further, and not kept.

Source: InstanceUtils.getProperties of pulsar-functions-instance.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Framework = Literal["function", "sink"]
KINDS: Mapping[str, Framework] = {"pulsar-function": "function", "pulsar-sink": "sink"}
FULL_NAME = re.compile(r"[\w.=:-]{1,100}/[\w.=:-]{1,100}/[\w.=:-]{1,100}")
INSTANCE = re.compile(r"\d{1,6}", re.ASCII)


@dataclass(frozen=True, slots=True)
class FunctionInstance:
    """One instance. name: `tenant/namespace/name`. number: from 0 on."""

    kind: Framework
    name: str
    number: int

    def __str__(self) -> str:
        """The function instance in words."""
        return f"instance {self.number} of the {self.kind} {self.name}"

    @property
    def metadata(self) -> dict[str, str]:
        """The metadata as the framework writes it."""
        application = f"pulsar-{self.kind}"
        return {"application": application, "id": self.name, "instance_id": str(self.number)}


def function_of(metadata: Any) -> FunctionInstance | None:
    """None where it is not exactly what the framework writes."""
    if not isinstance(metadata, Mapping):
        return None
    kind = KINDS.get(str(metadata.get("application")))
    name, number = str(metadata.get("id")), str(metadata.get("instance_id"))
    if kind is None or not FULL_NAME.fullmatch(name) or not INSTANCE.fullmatch(number):
        return None
    return FunctionInstance(kind, name, int(number))
