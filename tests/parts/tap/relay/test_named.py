"""Which brokers a client is taken to: what it asks for, what the cluster named, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from pulsar_doctor.parts.tap.relay.addresses import NOT_NAMED, Address
from pulsar_doctor.parts.tap.relay.errands import Dial, Errand, Name
from pulsar_doctor.parts.tap.relay.targets import Route, TargetRefused, Targets
from tests.parts.tap.relay.named import HOSTILE, NO_BROKER, Names
from tests.parts.tap.relay.transcripts import Talk, connected
from tests.parts.tap.tapped import command_frame, connect_frame

NAMED, OTHER, SERVICE = 7001, 7002, ("127.0.0.1", 6650)


def lookup_answer(url: str) -> bytes:
    return command_frame(
        24, "lookup_response", response=1, request_id=9, broker_service_url=f"pulsar://{url}"
    )


def dialled(
    asked: Sequence[Errand], named: str | None = None, service: Address = SERVICE, **how: Any
) -> list[Route]:
    """What is dialled for these errands of a client, where the cluster named that broker before.

    Raises TargetRefused.
    """
    (wanted,) = asked
    assert isinstance(wanted, Dial)
    talk = connected()
    talk.broker.says(lookup_answer(named) if named else b"")

    async def routes() -> list[Route]:
        targets = Targets([service], **how)
        await targets.learn()
        for errand in talk.asked():
            assert isinstance(errand, Name)
            targets.name(errand.broker)
        return await targets.routes(wanted.broker)

    return asyncio.run(routes())


def client_that_wants(target: str) -> Talk:
    talk = Talk()
    talk.client.says(connect_frame(target))
    return talk


@pytest.mark.parametrize("target", HOSTILE)
def test_no_connection_is_made_to_a_hostile_target(target):
    names = Names(localhost=["127.0.0.1"])
    talk = client_that_wants(target.format(named=NAMED, other=OTHER))
    asked = talk.asked()
    if asked:  # host and port are well-formed: then the cluster must have named them
        with pytest.raises(TargetRefused, match=f"^{NOT_NAMED}$") as error:
            dialled(asked, f"127.0.0.1:{NAMED}", resolve=names)
        why = str(error.value)
    else:
        assert talk.client.over == "closed"
        assert talk.counters.targets_refused == 1
        why = talk.why() or ""
        assert why == f"refused: {NOT_NAMED}"
    assert "secret" not in why
    assert names.asked == []


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("host", NO_BROKER)
def test_even_the_cluster_cannot_name_an_address_where_no_broker_can_be(host):
    with pytest.raises(TargetRefused, match="where no broker can be"):
        dialled(client_that_wants(f"{host}:{NAMED}").asked(), f"{host}:{NAMED}")


def test_the_service_url_may_be_named_in_its_own_spelling_only():
    url = {"service": ("localhost", 6650), "resolve": Names(localhost=["127.0.0.1"])}
    for own in ("localhost:6650", "LOCALHOST:6650", "pulsar://localhost.:6650"):
        routes = dialled(client_that_wants(own).asked(), **url)
        assert routes == [Route("localhost", "127.0.0.1", 6650)]
    for other in ("127.0.0.1:6650", "[::1]:6650"):
        with pytest.raises(TargetRefused):
            dialled(client_that_wants(other).asked(), **url)
