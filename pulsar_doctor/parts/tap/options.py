"""How a relay is run: where it listens, where it may connect, how much it writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pulsar_doctor.errors import InputError

if TYPE_CHECKING:
    from pulsar_doctor.broker.settings import Settings
    from pulsar_doctor.trace.ring import RingLimits

CONNECTIONS_MOST = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class RelayOptions:
    """One relay, as it was requested. Raises InputError for a certificate without its key."""

    listen: str = "127.0.0.1:0"  # host:port; port 0 takes a free one
    allow_remote: bool = False  # False: only an address on loopback is accepted
    listen_tls_cert: Path | None = None  # shown to clients; None: clients connect without TLS
    listen_tls_key: Path | None = None
    allow_brokers: tuple[str, ...] = ()  # host:port that may be dialled though no lookup names it
    max_connections: int = CONNECTIONS_MOST
    limits: RingLimits | None = None  # of the journals; None: those of a trace that is no ring
    settings: Settings | None = None  # for TLS to brokers and the REST API; None: it is not used
    given: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # by consumer name
    probe: bool = False  # a broker has to answer before the relay starts
    say: Callable[[str], object] | None = None  # takes its stderr; None: that is ours
    lasting: bool = False  # it outlives this process, and can be started again

    def __post_init__(self) -> None:
        if (self.listen_tls_cert is None) != (self.listen_tls_key is None):
            raise InputError("--listen-tls-cert and --listen-tls-key go together; give both")
