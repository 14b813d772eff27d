"""Why clients were refused: each reason once, how often, and for whom first.

What a broker refuses for want of a right, and connections that ended before any broker had let the
client in, unless one of the two just hung up.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pulsar_doctor.wire.columns import CLOSE, Row

REASONS_MOST = 64  # others are counted together
OTHERS = "others, of more reasons than are kept"
RIGHTS = frozenset({"AuthenticationError", "AuthorizationError"})
HUNG_UP = frozenset(
    {f"{how} by the {who}" for how in ("closed", "reset") for who in ("client", "broker")}
    | {"the tap ends"}
)


@dataclass(slots=True)
class Refusal:
    """One reason."""

    reason: str
    count: int  # commands or connections
    first_us: int  # of the first, which the addresses below belong to
    client_addr: str | None
    client_version: str | None


@dataclass(slots=True)
class Refusals:
    """The refusals of one trace, by their reasons, in their order. Changes in place."""

    by_reason: dict[str, Refusal] = field(default_factory=dict)

    def apply(self, row: Row, *, greeted: bool) -> None:
        """An error, or the end of a connection. greeted: the broker had let the client in."""
        reason = reason_of(row, greeted=greeted)
        if reason is None:
            return
        known = self.by_reason
        if reason not in known and len(known) >= REASONS_MOST:
            reason = OTHERS
        if reason in known:
            known[reason].count += 1
        else:
            known[reason] = Refusal(reason, 1, row.ts, row.client_addr, row.client_version)


def reason_of(row: Row, *, greeted: bool) -> str | None:
    """Why this is a refusal, in words; None where it is none."""
    if row.command == CLOSE:
        return None if greeted or row.error_message in HUNG_UP else row.error_message
    if row.error_code in RIGHTS:
        return ": ".join(filter(None, (row.error_code, row.error_message)))
    return None
