"""Reads the broker's version, and its settings for storing acknowledgements."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from pulsar_doctor.broker.admin.client import Admin
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.ledger.acks.persisting import SETTINGS

VALUE_LENGTH_MOST = 40  # of a number or a flag


async def broker_settings(admin: Admin) -> dict[str, Any]:
    """Reads the broker's `version` (None where not reported) and its `configuration`: SETTINGS,
    empty where refused.

    The configuration needs a superuser. Brokers of a cluster may differ: it is that of the one
    that answers. Values are as the broker writes them: see `holes.persisting.storing_of`.
    """
    configuration, version = await asyncio.gather(
        configuration_of(admin, SETTINGS), admin.version()
    )
    return {"version": version and version[:VALUE_LENGTH_MOST], "configuration": configuration}


async def configuration_of(admin: Admin, names: Iterable[str]) -> dict[str, str]:
    """These settings, as far as the broker has them; empty where it refuses."""
    try:
        settings = await admin.configuration()
    except DoctorError:
        return {}
    return {name: str(settings[name])[:VALUE_LENGTH_MOST] for name in names if name in settings}
