"""What is captured has the second of the shared brokers: one process has this, one the first."""

from __future__ import annotations

import pytest

from pulsar_doctor.parts.sandbox.lifetime import Sandbox


@pytest.fixture(scope="session")
def broker(default_broker: Sandbox) -> Sandbox:
    return default_broker
