"""The counters of the relay, beside those of its journal."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class RelayCounters:
    """Counts over all connections since the relay began; it changes in place."""

    connections_opened: int = 0
    connections_open: int = 0
    connections_refused: int = 0
    connections_silent: int = 0
    targets_refused: int = 0
    unreachable: int = 0
    tls_failed: int = 0
    client_tls_failed: int = 0
    redirects_followed: int = 0
    redirects_failed: int = 0
    unparsed: int = 0
    read_bytes: list[int] = field(default_factory=lambda: [0, 0])  # by direction, of ended sides
