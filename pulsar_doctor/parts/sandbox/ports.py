"""Chooses the ports of a sandbox: requested, used last time, or free.

A setting with which it could not become healthy is refused by name.
"""

from __future__ import annotations

import contextlib
import errno
import json
import socket
from collections.abc import Mapping
from pathlib import Path

from pulsar_doctor.errors import DoctorError, InputError

HOST = "127.0.0.1"
REMEMBERED = "ports.json"  # in the folder of its data
# Each port: its setting, and the option of `sandbox start` that sets it.
PORTS = {"broker": ("brokerServicePort", "--port"), "web": ("webServicePort", "--admin-port")}
# With these the health check cannot succeed, or checks another address.
UNHEALTHY = frozenset(
    {"authenticationEnabled", "authorizationEnabled", "enablePersistentTopics"}
    | {"bindAddress", "bindAddresses", "advertisedAddress", "advertisedListeners"}
    | {"internalListenerName", "listeningInterface"}
)


def require_settable(conf: Mapping[str, str]) -> None:
    """Raises InputError where a setting of standalone.conf is not for the user to change."""
    for setting, option in PORTS.values():
        if setting in conf:
            raise InputError(f"--conf {setting}: use {option} {conf[setting]}".rstrip())
    if refused := sorted(UNHEALTHY & conf.keys()):
        raise InputError(
            f"--conf {refused[0]} is not possible: the sandbox would not pass its health check"
        )


def require_free(conf: Mapping[str, str]) -> dict[str, int]:
    """The ports that were requested. Raises DoctorError where one of them is in use."""
    requested = {}
    for name, (setting, option) in PORTS.items():
        if setting in conf:
            requested[name] = port = int(conf[setting])
            if error := _cannot_listen(port):
                used = error.errno == errno.EADDRINUSE
                why = "is in use" if used else f"cannot be used ({error.strerror})"
                way = f"give another {option}, or leave it out"
                raise DoctorError(f"port {port} of {HOST} {why}: {way}")
    return requested


def of(data: Path, conf: Mapping[str, str]) -> dict[str, int]:
    """The requested ports; else those of the last time, if they are free; else free ones."""
    remembered = data / REMEMBERED
    requested = require_free(conf)
    ports: dict[str, int] = {}
    if remembered.exists():
        ports = json.loads(remembered.read_text("utf-8")) | requested
    if len(set(ports.values())) < len(PORTS) or any(map(_cannot_listen, ports.values())):
        ports = _free_ports(set(requested.values())) | requested
    remembered.write_text(json.dumps(ports), "utf-8")
    return ports


def _free_ports(others: set[int]) -> dict[str, int]:
    """A free port for each purpose, different from the others."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in (*PORTS, *others)]
        for one in sockets:
            one.bind((HOST, 0))
        free = [port for one in sockets if (port := one.getsockname()[1]) not in others]
    return dict(zip(PORTS, free, strict=False))


def _cannot_listen(port: int) -> OSError | None:
    with socket.socket() as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((HOST, port))
        except OSError as error:
            return error
    return None


def forget(data: Path) -> None:
    """The next start on these data takes other free ports."""
    (data / REMEMBERED).unlink(missing_ok=True)


def were_taken(log: Path) -> bool:
    """Whether the broker says that somebody else had one of its ports."""
    text = log.read_text("utf-8", "replace")
    return "Address already in use" in text or "BindException" in text
