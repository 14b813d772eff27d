"""One real broker for the whole run, started by the first test that asks for it."""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import re
import secrets
import signal
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import httpx2
import pytest
from hypothesis import settings

from tests import lanes
from tests.support import eventually, schemas
from tests.support.certificates import certified
from tests.support.slowest import slowest
from tests.support.wanting import skipped, untested

if TYPE_CHECKING:
    import pulsar
    from pyspark.sql import SparkSession

    from pulsar_doctor.parts.sandbox.lifetime import Sandbox


FEW_RANGES = {  # so that a test reaches the limits, and does not wait for what is done each minute
    "managedLedgerCursorPositionFlushSeconds": "1",
    "managedLedgerMaxUnackedRangesToPersist": "100",
    "managedLedgerMaxUnackedRangesToPersistInMetadataStore": "200",
    "managedLedgerPersistIndividualAckAsLongArray": "true",
    "statsUpdateFrequencyInSecs": "1",
    "statsUpdateInitialDelayInSecs": "1",
}

GUARD = lanes.Guard()

# A busy machine breaks no property. All else stays as Hypothesis has it, here or in CI.
settings.register_profile("untimed", settings(), deadline=None)
settings.load_profile("untimed")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--pulsar-version", help="the shared brokers' version; see sandbox versions")


def pytest_configure() -> None:
    """A run in the background may begin with SIGINT ignored, and what it starts inherits that.

    So it does the size of a screen, which a process among several is told and has not.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("COLUMNS", "LINES"):
        os.environ.pop(name, None)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # a command is compiled once, and run often
    sys.dont_write_bytecode = False  # nor is a test file compiled by each process of a run
    schemas.watch()


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """Nearly everything that is made here stays, so that looking for garbage finds none."""
    gc.disable()
    try:
        if session.config.args_source is pytest.Config.ArgsSource.TESTPATHS:
            import_in_turns()
        return (yield)
    finally:
        gc.enable()


def import_in_turns() -> None:
    """Each process of a whole run begins with other test files, and finds the rest compiled.

    To rewrite their assertions takes longer than all the rest of collecting them. pytest reports
    what cannot be imported when it comes to that file.
    """
    if not (name := os.environ.get("PYTEST_XDIST_WORKER")):
        return
    files = sorted(Path(lanes.TESTS).rglob("test_*.py"))
    share = len(files) / int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    first = round(share * int(name.removeprefix("gw")))
    for file in files[first:] + files[:first]:
        module = file.relative_to(Path(lanes.TESTS).parent).with_suffix("")
        with contextlib.suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(module.parts))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever uses the broker carries the mark `broker`; each test that of its lane."""
    for item in items:
        if lanes.brokers_of(item):
            item.add_marker("broker")
        if lane := lanes.lane_of(item):
            item.add_marker(lane)
        item.add_marker(pytest.mark.xdist_group(lanes.together(item)))
    items.sort(key=lanes.turn)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Iterator[None]:
    with GUARD.over(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    with GUARD.over(item):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """A thread that is still in a call of pulsar-client when Python ends aborts the process.

    So nobody stays in one when a module has had its last test, with its fixtures; a pure one has
    had no client.
    """
    try:
        return (yield)
    finally:
        at_its_end = nextitem is None or nextitem.path != item.path
        if at_its_end and item.get_closest_marker("pure") is None and "pulsar" in sys.modules:
            gc.collect()  # clients that nobody has any more end now and not with Python
            eventually(lambda: not _in_pulsar_client(), 30)


def pytest_collection_finish() -> None:
    """Half a million objects that stay: no garbage is looked for among them while tests run."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    gc.unfreeze()  # what others have made in C ends with Python, or complains that it leaked


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line each: what this machine lacks for some tests, and which tests took longest."""
    if line := untested(skipped(terminalreporter.stats.get("skipped", []))):
        terminalreporter.write_line(line)
    if line := slowest(chain(*terminalreporter.stats.values())):
        terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def outside() -> None:
    """Of a test that goes outside where lanes.py cannot read that it does."""


@pytest.fixture(scope="session")
def broker(outside: None, pytestconfig: pytest.Config) -> Iterator[Sandbox]:
    from pulsar_doctor.parts.sandbox.lifetime import BATCH_INDEX_ACKS, running

    version = pytestconfig.getoption("--pulsar-version")
    with running(conf=BATCH_INDEX_ACKS, reuse=False, version=version) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def default_broker(outside: None, pytestconfig: pytest.Config) -> Iterator[Sandbox]:
    """It drops acks of parts of batches, as a broker does by default, and persists few ranges."""
    from pulsar_doctor.parts.sandbox.lifetime import running

    version = pytestconfig.getoption("--pulsar-version")
    with running(reuse=False, conf=FEW_RANGES, version=version) as sandbox:
        yield sandbox


@pytest.fixture(params=sorted(lanes.BROKERS))
def either_broker(request: pytest.FixtureRequest, outside: None) -> Sandbox:
    """One that keeps acks of parts of batches, and one that drops them."""
    sandbox: Sandbox = request.getfixturevalue(request.param)
    return sandbox


def _in_pulsar_client() -> list[str]:
    frames = sys._current_frames()
    return [
        thread.name
        for thread in threading.enumerate()
        if (frame := frames.get(thread.ident or 0)) is not None
        and frame.f_globals.get("__name__", "").partition(".")[0] == "pulsar"
    ]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., tuple[int, str, str]]:
    """Runs a command line within this process; gives its exit code, stdout and stderr."""
    from pulsar_doctor import cli

    def run(*arguments: object) -> tuple[int, str, str]:
        code = cli.run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def topic(request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name).strip("-")
    return f"persistent://public/default/{name}-{secrets.token_hex(4)}"


@pytest.fixture
def client(broker: Sandbox) -> Iterator[pulsar.Client]:
    yield from connected_to(broker)


@pytest.fixture
def default_client(default_broker: Sandbox) -> Iterator[pulsar.Client]:
    yield from connected_to(default_broker)


@pytest.fixture
def either_client(either_broker: Sandbox) -> Iterator[pulsar.Client]:
    yield from connected_to(either_broker)


def connected_to(broker: Sandbox) -> Iterator[pulsar.Client]:
    import pulsar

    quiet = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)
    client = pulsar.Client(broker.service_url, logger=quiet)
    try:
        yield client
    finally:
        client.close()


@pytest.fixture
def admin(broker: Sandbox) -> Iterator[httpx2.Client]:
    """The broker's REST API, for tests that set the scene: they may write."""
    with httpx2.Client(base_url=broker.admin_url, timeout=30, trust_env=False) as admin:
        yield admin


@pytest.fixture(scope="session")
def spark(outside: None) -> Iterator[SparkSession]:
    """One local Spark for the whole run, started by the first test that asks for it."""
    from pulsar_doctor.parts.analyze.session import Where, session

    small = {  # and no code is generated and compiled for a handful of rows
        "spark.driver.memory": "1g",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    }
    with session(Where(master="local[2]", conf=small)) as spark:
        yield spark


@pytest.fixture(scope="session")
def pem(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for 127.0.0.1 and its key, in one folder: see certificates.certified."""
    return certified(tmp_path_factory.mktemp("tls"), "127.0.0.1")


@pytest.fixture
def server_side(pem: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem / "cert.pem", pem / "key.pem")
    return context
