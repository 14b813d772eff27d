"""Checks the Spark master: whether it is valid, and whether it answers."""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pulsar_doctor.errors import DoctorError, InputError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONNECT_SECONDS = 5.0
CONNECT_PORT = 15002

_COUNT = r"(?:\*|[1-9]\d*)"
_MASTERS = (
    rf"local(?:\[{_COUNT}(?:\s*,\s*[1-9]\d*)?\])?",
    r"local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]",
    r"spark://[^,\s/]+:\d+(?:,[^,\s/]+:\d+)*",
    r"yarn",
    r"k8s://\S+",
)


def is_connect(spark: object) -> bool:
    """Whether this session is that of a Spark Connect server, with files and jobs of its own."""
    return "connect" in type(spark).__module__


def is_local(master: str) -> bool:
    """Whether this master runs Spark within this machine's process."""
    return re.match(r"local(\[|$)", master) is not None


def check_master(master: str) -> None:
    """InputError where Spark would not take this master, DoctorError where nothing listens."""
    if master.startswith("sc://"):
        raise InputError(f"{master} is a Spark Connect server; give it with --remote")
    if not any(re.fullmatch(pattern, master) for pattern in _MASTERS):
        raise InputError(
            f"Spark has no master {master!r}; "
            "it takes local[N], spark://HOST:PORT, yarn or k8s://URL"
        )
    if master.startswith("spark://"):
        _require_listener(master, master.removeprefix("spark://").split(","))


def check_remote(remote: str) -> None:
    """InputError where this is no address of Spark Connect, DoctorError where nothing listens."""
    try:
        parts = urlsplit(remote)
        port = parts.port or CONNECT_PORT
    except ValueError:
        raise InputError(_NOT_CONNECT.format(remote)) from None
    if parts.scheme != "sc" or not parts.hostname or parts.path.partition(";")[0] not in ("", "/"):
        raise InputError(_NOT_CONNECT.format(remote))
    _require_listener(f"sc://{parts.hostname}:{port}", [f"{parts.hostname}:{port}"])


_NOT_CONNECT = "{!r} is no address of a Spark Connect server; it has the form sc://HOST:15002"


def _require_listener(what: str, addresses: list[str]) -> None:
    """DoctorError where none of these HOST:PORT accepts a connection."""
    reasons = [_refusal(address) for address in addresses]
    if all(reasons):
        raise DoctorError(
            f"cannot reach {what}: {reasons[0]}; look whether Spark runs there and can be reached"
        )


def _refusal(address: str) -> str | None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        return getattr(error, "strerror", None) or str(error)
    return None


def is_here(spark: SparkSession) -> bool | None:
    """Whether a session runs on this machine, not on a cluster; None through Spark Connect."""
    if is_connect(spark):
        return None
    return is_local(spark.sparkContext.master or "")
