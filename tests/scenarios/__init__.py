"""States of a real broker: one for each cause of a standstill, and healthy ones that look alike.

Not among them, because no healthy broker with real clients can be brought there:
- broker-read-stuck: the broker would have to lose a read of its own;
- permit-leak: the stats do not show what the application has taken.
Hand-made documents (tests/causes/*.yaml) stand for these.
"""

from tests.scenarios import (
    acks,
    encrypted,
    entry_filter,
    healthy,
    key_shared,
    limits,
    lives,
    miscounting,
    queues,
    transactions,
)
from tests.scenarios.scene import Scene
from tests.scenarios.table import SCENARIOS, Scenario, stage

__all__ = [
    "SCENARIOS",
    "Scenario",
    "Scene",
    "acks",
    "encrypted",
    "entry_filter",
    "healthy",
    "key_shared",
    "limits",
    "lives",
    "miscounting",
    "queues",
    "stage",
    "transactions",
]
