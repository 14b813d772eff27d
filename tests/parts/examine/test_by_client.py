"""Which process of this machine a client's address, or a consumer's name, leads to."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.evidence.numbers import ReportedConsumer
from pulsar_doctor.evidence.process_report import Address
from pulsar_doctor.parts.examine.by_client import (
    address_of,
    addresses_here,
    at_address,
    of_consumer,
)
from pulsar_doctor.wording.addresses import shown
from tests.support.command_line import answered
from tests.support.wanting import wanting

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc"))
HOLDS = """
import os, socket, sys
connection = socket.create_connection((sys.argv[1], int(sys.argv[2])))
os.set_inheritable(connection.fileno(), True)
if not (sys.argv[3:] and os.fork() == 0):
    print(os.getpid(), *connection.getsockname()[:2], flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:58758", ("127.0.0.1", 58758)),
        ("/10.0.3.7:51494", ("10.0.3.7", 51494)),
        ("worker-3.local/10.0.3.7:51494", ("10.0.3.7", 51494)),
        ("[::1]:58758", ("::1", 58758)),
        ("/[0:0:0:0:0:0:0:1]:58758", ("::1", 58758)),
        ("/0:0:0:0:0:0:0:1:58758", ("::1", 58758)),  # as Java wrote it before 14
        ("[::ffff:10.0.3.7]:51494", ("10.0.3.7", 51494)),
        ("billing:1", None),
        ("127.0.0.1", None),
        ("127.0.0.1:0", None),
        ("127.0.0.1:65536", None),
        ("worker-3", None),
    ],
)
def test_an_address_is_read_as_brokers_of_every_java_write_it(text, address):
    assert address_of(text) == address


@pytest.fixture(params=["127.0.0.1", "::1"])
def server(request: pytest.FixtureRequest) -> Iterator[Address]:
    family = socket.AF_INET6 if ":" in request.param else socket.AF_INET
    with socket.create_server((request.param, 0), family=family) as listening:
        yield listening.getsockname()[:2]


@pytest.fixture
def ipv4() -> Iterator[Address]:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening.getsockname()


def holding(to: Address, *more: str) -> tuple[subprocess.Popen[str], int, Address]:
    """A process with a connection to there, its PID and its own end; more: its child has it too."""
    held = subprocess.Popen(
        [sys.executable, "-c", HOLDS, to[0], str(to[1]), *more],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert held.stdout is not None
    pid, host, port = held.stdout.readline().split()
    return held, int(pid), (host, int(port))


def test_the_process_at_an_address_is_found(server):
    held, pid, at = holding(server)
    with held:
        assert f"/{shown(at)}" in addresses_here()
        assert at_address(at) == pid
        ((worker,),) = [[consumer("worker", at)]]
        others = [consumer("worker", ("192.0.2.1", 5)), consumer("other", at)]
        assert of_consumer("worker", [worker, *others]) == pid
        held.communicate("")
    with pytest.raises(InputError, match="no connection of this machine has the address"):
        at_address(at)


def consumer(name: str, at: Address) -> ReportedConsumer:
    return ReportedConsumer(label=name, name=name, address=f"/{shown(at)}")


def test_of_several_processes_with_one_connection_a_pid_is_asked_for(ipv4):
    held, pid, at = holding(ipv4, "and its child")
    with held:
        with pytest.raises(InputError, match=rf"several processes have \S+, give a PID: .*{pid} "):
            at_address(at)
        held.communicate("")


@pytest.mark.skipif(os.geteuid() != 0, reason=wanting("root"))
def test_who_may_not_see_the_process_is_told_whose_it_is(ipv4):
    held, _, at = holding(ipv4)
    with held:
        child = os.fork()
        if child == 0:
            os.setresuid(65534, 65534, 65534)
            try:
                at_address(at)
            except DoctorError as error:
                seen = "it is of user 0; run this as that user, or as root" in str(error)
                os._exit(0 if seen else 1)
            os._exit(2)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        held.communicate("")


def test_two_processes_with_consumers_of_one_name_are_listed(ipv4):
    (first, pid, at), (second, other, there) = holding(ipv4), holding(ipv4)
    with first, second:
        with pytest.raises(InputError, match="several processes have a consumer 'w'") as raised:
            of_consumer("w", [consumer("w", at), consumer("w", there)])
        assert {f"{pid} ({shown(at)})", f"{other} ({shown(there)})"} <= set(
            str(raised.value).partition("give a PID: ")[2].split(", ")
        )
        for each in (first, second):
            each.communicate("")


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("w", "consumer 'w' is at 192.0.2.1:5, which is not on this machine"),
        ("x", "'x' is not a PID or an address, and no consumer has this name; there are: w"),
    ],
)
def test_a_name_that_leads_nowhere_is_told_with_what_is_known(name, says):
    with pytest.raises(InputError) as raised:
        of_consumer(name, [consumer("w", ("192.0.2.1", 5))])
    assert says in str(raised.value)


def test_where_the_broker_knows_of_no_consumer_that_is_said():
    with pytest.raises(InputError, match="there is none at all"):
        of_consumer("w", [])


def test_a_name_needs_a_broker_and_an_address_does_not():
    where = ("--admin-url", "http://127.0.0.1:1")
    named = answered("examine", "worker", *where)
    assert (named.returncode, named.stdout) == (3, "")
    assert "'worker' is not a PID or an address, and no consumer's name is known" in named.stderr
    assert answered("examine", "127.0.0.1:9", *where).stderr.startswith(
        "pulsar-doctor: no connection of this machine has the address 127.0.0.1:9"
    )
