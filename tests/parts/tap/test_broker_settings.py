"""What the tap asks the broker at its start, and what becomes of the traffic meanwhile: nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from pulsar_doctor.broker.settings import DEFAULTS, Settings
from pulsar_doctor.errors import TraceError
from pulsar_doctor.ledger.acks.persisting import Storing
from pulsar_doctor.parts.tap import broker_settings
from pulsar_doctor.trace.folder import META, Meta, read_meta
from tests.broker.http_broker import Asked, Reply, serving
from tests.parts.tap.tapped import flow, tapping
from tests.support import eventually

RUNTIME = "/admin/v2/brokers/configuration/runtime"
VERSION = "/admin/v2/brokers/version"
CONFIGURATION = {
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "managedLedgerMaxUnackedRangesToPersist": "100",
    "brokerClientAuthenticationParameters": "token:canary",
}


def told(asked: Asked) -> Reply:
    return Reply(body=b"4.0.8") if asked.path == VERSION else Reply(document=CONFIGURATION)


def test_the_trace_knows_how_the_broker_keeps_acknowledgements_and_nothing_else_of_it(tmp_path):
    with serving(told) as rest, tapping(tmp_path / "t", settings=Settings(admin_url=rest.url)) as t:
        client, broker = t.connected()
        eventually(lambda: read_meta(tmp_path / "t").broker)
        client.send(flow(3))
        assert broker.read(len(flow(3))) == flow(3)
        assert {each.path for each in rest.asked} == {RUNTIME, VERSION}
    meta = read_meta(tmp_path / "t")
    assert meta.storing == Storing((4, 0, 8), 100, batch_index_acks=True)
    assert meta.tap_address
    assert "canary" not in (tmp_path / "t" / META).read_text()
    assert (tmp_path / "t" / META).stat().st_mode & 0o777 == 0o600


def test_a_tap_that_is_short_waits_for_the_answer_at_its_end(tmp_path):
    with serving(told) as rest, tapping(tmp_path / "t", settings=Settings(admin_url=rest.url)):
        pass
    assert read_meta(tmp_path / "t").storing.batch_index_acks is True


@pytest.mark.parametrize("status", [401, 403, 404, 500])
def test_who_is_refused_has_a_trace_that_does_not_know(tmp_path, status, capfd):
    with serving(lambda asked: Reply(status, document={"reason": "no"})) as rest:
        settings = Settings(admin_url=rest.url)
        with tapping(tmp_path / "t", settings=settings) as tapped:
            tapped.connected()
    assert rest.asked
    assert read_meta(tmp_path / "t").broker == {}
    assert read_meta(tmp_path / "t").storing == Storing()
    assert capfd.readouterr().err == ""


def test_who_gets_no_answer_taps_all_the_same(tmp_path: Path, monkeypatch, capfd):
    monkeypatch.setattr(broker_settings, "ANSWER_SECONDS", 0.3)
    forever = threading.Event()

    def silent(asked: Asked) -> Reply:
        forever.wait(20)
        return told(asked)

    with serving(silent) as rest:
        with tapping(tmp_path / "t", settings=Settings(admin_url=rest.url)) as tapped:
            client, broker = tapped.connected()
            client.send(flow(3))
            assert broker.read(len(flow(3))) == flow(3)
        forever.set()
    assert read_meta(tmp_path / "t").broker == {}
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "http://no such host", "ftp://x"])
def test_a_rest_api_that_is_not_there_is_no_matter(tmp_path, url, capfd):
    with tapping(tmp_path / "t", settings=Settings(admin_url=url)) as tapped:
        tapped.connected()
    assert read_meta(tmp_path / "t").broker == {}
    assert capfd.readouterr().err == ""


def test_the_default_rest_api_is_not_asked_about_another_broker(tmp_path, monkeypatch):
    with serving(told) as rest:
        monkeypatch.setitem(DEFAULTS, "admin_url", rest.url)
        elsewhere = Settings(service_url="pulsar://elsewhere:6650", admin_url=rest.url)
        with tapping(tmp_path / "a", settings=elsewhere):
            pass
        assert rest.asked == []
        with tapping(tmp_path / "b", settings=Settings(admin_url=rest.url)):
            pass
        assert rest.asked


@pytest.mark.parametrize("broker", [{"configuration": 3, "version": []}, {"other": 1}, {}])
def test_strange_descriptions_tell_nothing(tmp_path, broker):
    Meta("x", broker=broker).write(tmp_path)
    assert read_meta(tmp_path).storing == Storing()


def test_a_description_whose_broker_is_no_object_is_damaged(tmp_path):
    Meta("x", broker=[1]).write(tmp_path)  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="damaged"):
        read_meta(tmp_path)
