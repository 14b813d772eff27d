"""Which brokers the relay connects to: those it was told of, those the cluster named, no others.

Where a forbidden connection would arrive on this machine, a listener of ours waits for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.tap.relay.addresses import NOT_NAMED, address_of, addresses_of, normalised
from pulsar_doctor.parts.tap.relay.connection import accept
from pulsar_doctor.parts.tap.relay.connections import Connections
from pulsar_doctor.parts.tap.relay.dialling import Dialler
from pulsar_doctor.parts.tap.relay.journal_file import JournalFile
from pulsar_doctor.parts.tap.relay.targets import TargetRefused, Targets, may_be_dialled
from pulsar_doctor.parts.tap.upstream import broker_of, listen_address
from pulsar_doctor.trace.folder import JournalLimits
from tests.parts.tap.relay.named import Names
from tests.parts.tap.tapped import (
    CONNECT,
    CONNECTED,
    Peer,
    Tapped,
    command_frame,
    connect_frame,
    rows_in,
    tapping,
)


def lookup_answer(*, request_id: int = 9, **urls: str) -> bytes:
    return command_frame(24, "lookup_response", response=1, request_id=request_id, **urls)


@contextlib.contextmanager
def everywhere() -> Iterator[tuple[int, list[socket.socket]]]:
    """A port on which all addresses of this machine are listened to, of both kinds."""
    with socket.create_server(("0.0.0.0", 0)) as four:
        port = four.getsockname()[1]
        listening = [four]
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            six = socket.create_server(("::", port), family=socket.AF_INET6)
            listening.append(stack.enter_context(six))
            yield port, listening
            return
        yield port, listening


def nobody_came(listening: Sequence[socket.socket]) -> bool:
    return not select.select(listening, [], [], 0.05)[0]


# Of named.HOSTILE those that would reach a listener of this machine.
ARRIVING = (
    "127.0.0.1:{other}", "127.0.0.2:{named}", "127.1:{named}", "2130706433:{named}",
    "0x7f000001:{named}", "0.0.0.0:{named}", "localhost:{named}", "[::1]:{named}",
    "[::ffff:127.0.0.1]:{named}",
)  # fmt: skip


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Tapped, int, int, list]]:
    folder = tmp_path_factory.mktemp("relay")
    with (
        tapping(folder / "t") as tapped,
        everywhere() as (named, first),
        everywhere() as (other, second),
    ):
        client, broker = tapped.connected()
        broker.send(lookup_answer(broker_service_url=f"pulsar://127.0.0.1:{named}"))
        assert client.sock.recv(1000)
        yield tapped, named, other, first + second


@pytest.mark.parametrize("target", ARRIVING)
def test_no_connection_is_made_to_a_hostile_target(shared, target):
    tapped, named, other, listening = shared
    before = tapped.relay.counters()
    wanted = target.format(named=named, other=other)
    client = tapped.client().send(connect_frame(wanted))
    assert client.rest() == b""
    assert nobody_came([*listening, tapped.server])
    after = tapped.relay.counters()
    assert after["targets_refused"] == before["targets_refused"] + 1
    assert after["unreachable"] == before["unreachable"]  # it was not even tried
    tapped.relay.flush()
    last = [row for row in rows_in(tapped.relay.trace_dir) if row.command == "CLOSE"][-1]
    assert last.error_message == f"refused: {NOT_NAMED}"  # and not what was asked for


@pytest.mark.parametrize("target", ["127.0.0.1:{named}", "pulsar://127.0.0.1:{named}/"])
def test_a_broker_that_the_cluster_named_is_connected_to(shared, target):
    tapped, named, _, (named_server, *_) = shared
    named_server.settimeout(10)
    client = tapped.client().send(connect_frame(target.format(named=named)))
    arrived, _ = named_server.accept()
    with arrived:
        arrived.sendall(CONNECTED)
        assert client.read(len(CONNECTED)) == CONNECTED


@pytest.mark.parametrize("named", ["2852039166", "[::ffff:0.0.0.0]", "0.0.0.0"])
def test_even_the_cluster_cannot_name_an_address_where_no_broker_can_be(shared, named):
    tapped, port, _, listening = shared
    target = f"{named}:{port}"
    client, broker = tapped.connected()
    broker.send(lookup_answer(broker_service_url=f"pulsar://{target}"))
    assert client.sock.recv(1000)
    before = tapped.relay.counters()
    refused = tapped.client().send(connect_frame(target))
    assert refused.rest() == b""
    assert nobody_came(listening)
    after = tapped.relay.counters()
    assert after["targets_refused"] == before["targets_refused"] + 1
    assert after["unreachable"] == before["unreachable"]


def test_what_the_user_allows_may_be_connected_to_on_that_port(tmp_path):
    with (
        everywhere() as (port, (server, *_)),
        everywhere() as (other, others),
        tapping(tmp_path / "t", allow_brokers=(f"127.0.0.1:{port}",)) as tapped,
    ):
        server.settimeout(10)
        tapped.client().send(connect_frame(f"127.0.0.1:{port}"))
        server.accept()[0].close()
        assert tapped.client().send(connect_frame(f"127.0.0.1:{other}")).rest() == b""
        assert nobody_came(others)


@pytest.mark.parametrize("text", ["", "broker", "broker:", ":6650", "a:99999", "a b:1", "u@a:1"])
def test_allowed_brokers_are_named_in_full(text):
    with pytest.raises(InputError, match="--allow-broker takes HOST:PORT"):
        broker_of(text)


# Names that change their answer.


@contextlib.asynccontextmanager
async def relay_of(targets: Targets, folder: Path):
    """A relay in this process; where it listens."""
    folder.mkdir()
    with JournalFile(str(folder), JournalLimits()) as journal:
        connections = Connections(journal)
        dialler = Dialler(targets, None)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: accept(connections, dialler), "127.0.0.1", 0)
        yield server.sockets[0].getsockname()[:2]
        server.close()
        await connections.close()


async def asks_for(where: tuple[str, int], target: str) -> bytes:
    """What a client hears that wants that broker, until the relay hangs up."""
    reader, writer = await asyncio.open_connection(*where)
    writer.write(connect_frame(target))
    heard = await asyncio.wait_for(reader.read(), 10)
    writer.close()
    return heard


def test_a_name_that_changes_its_answer_gets_no_connection(tmp_path):
    async def run(inside: socket.socket) -> None:
        port = inside.getsockname()[1]
        arrived = []

        async def broker(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            arrived.append(writer.get_extra_info("sockname"))
            await reader.read(1000)
            writer.close()

        legitimate = await asyncio.start_server(broker, "127.0.0.3", port)
        names = Names(service=["127.0.0.1"], broker=["127.0.0.3"])
        targets = Targets([("service", 1)], resolve=names)
        await targets.learn()
        async with relay_of(targets, tmp_path / "t") as where:
            targets.name(("broker", port))
            await asyncio.sleep(0.05)
            names.answers["broker"] = ["127.0.0.1"]
            assert await asks_for(where, f"broker:{port}") == b""
            assert arrived == [("127.0.0.3", port)]  # where it was when it was named
            assert names.asked.count("broker") == 1
        legitimate.close()

    with socket.create_server(("127.0.0.1", 0)) as inside:
        asyncio.run(run(inside))
        assert nobody_came([inside])


def test_a_broker_that_is_named_again_is_where_it_is_then(monkeypatch):
    async def run() -> None:
        monkeypatch.setattr("pulsar_doctor.parts.tap.relay.targets.NAMED_AGAIN_SECONDS", 0.0)
        names = Names(broker=["10.0.0.1"])
        targets = Targets([("10.0.0.9", 6650)], resolve=names)
        targets.name(("broker", 6650))
        assert await addresses(targets, ("broker", 6650)) == ["10.0.0.1"]
        names.answers["broker"] = ["10.0.0.2", "10.0.0.3"]
        assert await addresses(targets, ("broker", 6650)) == ["10.0.0.1"]
        targets.name(("broker", 6650))
        assert await addresses(targets, ("broker", 6650)) == ["10.0.0.2", "10.0.0.3"]
        del names.answers["broker"]  # its name server rests: where it was last is good enough
        targets.name(("broker", 6650))
        assert await addresses(targets, ("broker", 6650)) == ["10.0.0.2", "10.0.0.3"]

    asyncio.run(run())


async def addresses(targets: Targets, broker: tuple[str, int] | None) -> list[str]:
    return [route.address for route in await targets.routes(broker)]


def test_a_thousand_lookups_ask_the_resolver_once():
    async def run() -> None:
        names = Names(broker=["10.0.0.1"])
        targets = Targets([("10.0.0.9", 6650)], resolve=names)
        for _ in range(1000):
            targets.name(("broker", 6650))
        await addresses(targets, ("broker", 6650))
        assert names.asked == ["broker"]

    asyncio.run(run())


def test_brokers_on_this_machine_are_for_a_cluster_on_this_machine():
    async def run() -> None:
        names = Names(
            far=["10.0.0.9"], near=["127.0.0.1"], six=["::1"], mixed=["127.0.0.1", "10.1.1.1"]
        )
        remote = Targets([("far", 6650)], resolve=names)
        await remote.learn()
        for name in ("near", "six"):
            remote.name((name, 6650))
            with pytest.raises(TargetRefused, match="where no broker can be"):
                await remote.routes((name, 6650))
        remote.name(("mixed", 6650))
        assert await addresses(remote, ("mixed", 6650)) == ["10.1.1.1"]
        for told in (
            {"service": [("near", 1)]},
            {"service": [("far", 1)], "allowed": [("six", 1)]},
        ):
            local = Targets(**told, resolve=names)
            await local.learn()
            local.name(("near", 6650))
            assert await addresses(local, ("near", 6650)) == ["127.0.0.1"]

    asyncio.run(run())


def test_a_migrated_cluster_is_named_by_the_cluster_and_not_by_the_user():
    async def run() -> None:
        names = Names(far=["10.0.0.9"], near=["127.0.0.1"], other=["10.0.0.2"])
        first = Targets([("far", 6650)], resolve=names)
        await addresses(first, None)
        near = Targets([("near", 6650)], migrated_from=first)
        await near.learn()
        with pytest.raises(TargetRefused):
            await near.routes(None)
        other = Targets([("other", 6650)], migrated_from=first)
        assert await addresses(other, None) == ["10.0.0.2"]
        names.answers["other"] = ["10.0.0.3"]
        assert await addresses(other, None) == ["10.0.0.2"]
        with pytest.raises(TargetRefused):
            await other.routes(("far", 6650))

    asyncio.run(run())


def test_a_name_that_leads_nowhere_is_not_known():
    async def run() -> None:
        targets = Targets([("nowhere", 6650)], resolve=Names())
        with pytest.raises(
            DoctorError, match="the broker nowhere:6650 cannot be reached: its name"
        ):
            await targets.routes(None)

    asyncio.run(run())


def test_what_the_cluster_names_is_bounded(monkeypatch):
    async def run() -> None:
        monkeypatch.setattr("pulsar_doctor.parts.tap.relay.targets.NAMED_MOST", 100)
        targets = Targets([("10.0.0.9", 6650)], resolve=Names())
        for number in range(1000):
            targets.name((f"10.1.{number >> 8}.{number & 255}", 6650))
        assert len(targets._pins) == 100
        assert await addresses(targets, ("10.1.3.231", 6650)) == ["10.1.3.231"]
        with pytest.raises(TargetRefused):
            await targets.routes(("10.1.0.1", 6650))

    asyncio.run(run())


@pytest.mark.parametrize(
    ("address", "with_loopback", "without"),
    [
        ("10.0.0.1", True, True),
        ("fd12::1", True, True),
        ("2001:db8::1", True, True),
        ("127.0.0.1", True, False),
        ("127.9.9.9", True, False),
        ("::1", True, False),
        ("::ffff:127.0.0.1", True, False),
        ("::ffff:10.0.0.1", True, True),
        ("fe80::1%eth0", False, False),
        ("169.254.0.1", False, False),
        ("::ffff:169.254.169.254", False, False),
        ("::", False, False),
        ("0.0.0.0", False, False),
        ("fd00:ec2::254", False, False),  # metadata: Amazon, Google, Alibaba, Oracle
        ("fd20:ce::254", False, False),
        ("100.100.100.200", False, False),
        ("192.0.0.192", False, False),
    ],
)
def test_where_a_broker_can_be(address, with_loopback, without):
    assert may_be_dialled(address, loopback=True) == with_loopback
    assert may_be_dialled(address, loopback=False) == without


# How brokers are named.


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("pulsar://Broker-1.Example.:6650", ("broker-1.example", 6650)),
        ("pulsar+ssl://b:6651/", ("b", 6651)),
        ("b_1:1", ("b_1", 1)),
        ("[2001:DB8:0::1]:6650", ("2001:db8::1", 6650)),
        ("[not-six]:6650", None),
        (".:6650", None),
        ("b:0", None),
        ("b:65536", None),
        ("b:٦٦٥٠", None),
    ],
)
def test_an_address_has_one_spelling(url, address):
    assert address_of(url) == address


def test_several_addresses_are_read_where_they_can_be():
    assert addresses_of("pulsar://a:1,b:2/") == (("a", 1), ("b", 2))
    assert addresses_of("pulsar+ssl://a:1,nonsense,b:2") == (("a", 1), ("b", 2))
    assert addresses_of("http://a:1") == ()
    # Python 3.13 writes the last part in another way than 3.11, and both mean this.
    assert normalised("[::FFFF:127.0.0.1]") == normalised("::ffff:7f00:1")
    assert normalised("[::FFFF:127.0.0.1]") in ("::ffff:7f00:1", "::ffff:127.0.0.1")


# Where the tap listens.


@pytest.mark.parametrize(
    "listen", ["0.0.0.0:0", "[::]:0", "10.0.0.1:6651", "example.org:6651", ":1", "6651", "a:b"]
)
def test_nothing_listens_beyond_loopback_unless_the_user_says_so(listen):
    with pytest.raises(InputError, match=r"not on loopback|takes HOST:PORT"):
        listen_address(listen)


def test_others_are_let_in_where_the_user_says_so(tmp_path):
    assert listen_address("0.0.0.0:6651", allow_remote=True) == ("0.0.0.0", 6651)
    with tapping(tmp_path / "t", listen="0.0.0.0:0", allow_remote=True) as tapped:
        port = tapped.relay.service_url.rpartition(":")[2]
        client = tapped.client(f"127.0.0.2:{port}").send(CONNECT)
        broker = tapped.accept()
        assert broker.read(len(CONNECT)) == CONNECT
        # A cluster that a topic moves to is reached where this client has reached the tap.
        broker.send(command_frame(68, "topic_migrated", broker_service_url="pulsar://127.0.0.1:1"))
        told = Peer(client.sock).read(4)
        assert b"pulsar://127.0.0.2:" in client.read(int.from_bytes(told, "big"))
