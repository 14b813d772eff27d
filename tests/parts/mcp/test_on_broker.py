"""What an assistant is told of real subscriptions: one that is stuck, and one that is not."""

from __future__ import annotations

import secrets
from pathlib import Path

from mcp import Client

from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from tests.parts.mcp.test_server import ask, contexts, talk
from tests.scenarios import SCENARIOS, stage


def test_a_stall_and_a_healthy_subscription(broker: Sandbox, tmp_path: Path) -> None:
    tail = secrets.token_hex(4)
    ill, well = (f"persistent://public/default/agents-{name}-{tail}" for name in ("ill", "well"))

    async def calls(client: Client) -> None:
        told = await ask(client, "check", topic=ill)
        assert (told["exit_code"], told["data"]["status"]) == (1, "stalled")
        assert told["data"]["subscriptions"][0]["cause"].startswith("prefetch-hogging")
        told = await ask(client, "check", topic=well)
        assert (told["exit_code"], told["data"]["status"]) == (0, "healthy")
        told = await ask(client, "check", topic=f"{well}-none")
        assert (told["exit_code"], told["data"]["status"]) == (3, "unknown")
        told = await ask(client, "holes", topic=ill)
        assert told["exit_code"] == 0

    at = broker.service_url, broker.admin_url
    hogging, idle = SCENARIOS["prefetch-hogging"], SCENARIOS["healthy-idle"]
    with stage(hogging, *at, ill), stage(idle, *at, well):
        talk(calls, contexts(tmp_path, live=broker.admin_url), "live")
