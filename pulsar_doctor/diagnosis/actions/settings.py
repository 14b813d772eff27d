"""The name of a setting in each client library that may report a version: see ledger/clients.

A client that has no such setting has no name for it, and advice leaves it out.
"""

from __future__ import annotations

from pulsar_doctor.ledger.clients import CLIENTS, JAVA, ClientLibrary, clients_of


def likely_clients(version: str | None) -> tuple[ClientLibrary, ...]:
    """The clients that may report this version; Java where it is not reported or not known."""
    return clients_of(version) or (JAVA,)


def setting(version: str | None, name: str, value: int | str = "") -> str | None:
    """The setting as this client writes it, `receiver_queue_size=1 (Python)`; None: none."""
    return _spelled(name, value, likely_clients(version))


def setting_of_any(name: str, value: int | str = "") -> str:
    """For each client that has it, where nothing tells which client it is."""
    return _spelled(name, value, CLIENTS) or ""


def _spelled(name: str, value: int | str, clients: tuple[ClientLibrary, ...]) -> str | None:
    having = (each for each in clients if name in each.settings)
    spelled = (f"{each.settings[name].format(value)} ({each.name})" for each in having)
    return ", ".join(spelled) or None
