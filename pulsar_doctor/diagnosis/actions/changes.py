"""A setting to change in the client at hand, as something to do: with its cost, undo and check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pulsar_doctor.diagnosis.actions.commands import check
from pulsar_doctor.diagnosis.actions.settings import setting
from pulsar_doctor.diagnosis.answers import Action
from pulsar_doctor.evidence.subscription import SubscriptionView

SET_BACK = "set it back, and restart the consumer"
TAKE_OUT = "take the setting out, and restart the consumer"


@dataclass(frozen=True, slots=True)
class SettingChange:
    """One setting, by its name in `settings`. text: what it brings, without its stop.

    expect: what our own check prints where it worked.
    """

    name: str
    value: int | str
    text: str
    side_effect: str
    expect: str
    undo: str = SET_BACK

    def on(self, view: SubscriptionView, client: str | None) -> Iterator[Action]:
        """As this client writes it; nothing where it has no such setting."""
        known = setting(client, self.name, self.value)
        if known is not None:
            yield Action(
                "today",
                f"{self.text}: {known}.",
                side_effect=self.side_effect,
                undo=self.undo,
                check=check(view, self.expect),
            )
