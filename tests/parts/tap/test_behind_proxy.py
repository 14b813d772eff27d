"""The tap in front of Apache Pulsar's own proxy: brokers are reached through it and not past it."""

from __future__ import annotations

import runpy
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_doctor.parts.tap.options import RelayOptions
from pulsar_doctor.parts.tap.relaying import Relay, relaying
from tests.parts.tap.talking import SUCCESS, connecting, looked_up, subscribed, talking
from tests.parts.tap.tapped import rows_in
from tests.support import eventually

pytestmark = [pytest.mark.broker, pytest.mark.slow, pytest.mark.timeout(240)]
PROXY = runpy.run_path(str(Path(__file__).parents[3] / "bench" / "pulsar_proxy.py"))["proxy"]
CONSUMES = """
import sys, pulsar
client = pulsar.Client(sys.argv[1])
consumer = client.subscribe(sys.argv[2], "s")
producer = client.create_producer(sys.argv[2])
for number in range(20):
    producer.send(b"%d" % number)
for number in range(20):
    message = consumer.receive(20000)
    assert message.data() == b"%d" % number
    consumer.acknowledge(message)
client.close()
"""


@pytest.fixture
def through_proxy(broker, tmp_path) -> Iterator[tuple[Relay, int]]:
    with PROXY(0, broker.service_url, broker.admin_url) as proxy:
        url = f"pulsar://127.0.0.1:{proxy.port}"
        with relaying(url, tmp_path / "t.ptrace", RelayOptions(probe=True)) as relay:
            yield relay, proxy.port


def brokers_in(relay: Relay) -> set[str | None]:
    """Whom the tap has dialled, as the trace tells."""
    relay.flush()
    return {row.broker_addr for row in rows_in(relay.trace_dir) if row.command == "OPEN"}


def test_a_client_works_and_the_tap_dials_nobody_but_the_proxy(through_proxy, topic):
    relay, port = through_proxy
    command = [sys.executable, "-c", CONSUMES, relay.service_url, topic]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    assert brokers_in(relay) == {f"127.0.0.1:{port}"}
    counted = relay.counters()
    assert (counted["unreachable"], counted["targets_refused"]) == (0, 0)
    commands = [row.command for row in rows_in(relay.trace_dir)]
    assert commands.count("MESSAGE") == 20


def test_a_client_that_knows_nothing_of_proxies_gets_through_too(through_proxy, topic):
    relay, port = through_proxy
    answer = eventually(lambda: looked_up(relay.service_url, topic, connecting()))
    assert answer.proxy_through_service_url
    with talking(answer.broker_service_url, connecting()) as (sock, commands):
        sock.sendall(subscribed(topic))
        assert next(commands).type == SUCCESS
    assert brokers_in(relay) == {f"127.0.0.1:{port}"}
