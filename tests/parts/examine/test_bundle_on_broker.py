"""A bundle with a JVM client in it, read from inside, on a real broker."""

from __future__ import annotations

import gzip
import json
import re
import sys
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.parts.examine.java_client import JavaApplication, running
from tests.support.command_line import pulsar_doctor
from tests.support.wanting import wanting

pytestmark = [
    pytest.mark.broker,
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc")),
]
NAMES = re.compile(r"zebra|com\.acme|Billing|Client\.java|127\.0\.0\.1|public/default", re.I)
CANARY = re.compile(r"canary", re.I)


@pytest.fixture
def stuck(broker: Any, client: Any, topic: str) -> Iterator[JavaApplication]:
    """A consumer that hangs with messages in its queue that hold canaries."""
    producer = client.create_producer(topic)
    for _ in range(40):
        producer.send(
            b"canary-payload", partition_key="canary-key", properties={"canary": "canary"}
        )
    with running(broker.service_url, options=("-Dpassword=canary-property",)) as application:
        application.order("subscribe", "zebra", 20, "plain", topic)
        application.order("take", "zebra", 7)
        application.order("hang", "zebra")
        time.sleep(2)
        yield application


def files_of(path: Path) -> dict[str, str]:
    with tarfile.open(path) as archive:
        found = {each.name: archive.extractfile(each).read() for each in archive}  # type: ignore[union-attr]
    return {
        name: (gzip.decompress(content) if name.endswith(".gz") else content).decode()
        for name, content in found.items()
    }


def document(path: Path) -> dict[str, Any]:
    """What `stall-check --case` makes of it, with a threshold that a short test can reach."""
    soon = ("--set", "nobody-receives.stuck_for=1s")
    return dict(
        json.loads(pulsar_doctor("stall-check", "--case", str(path), *soon, "-o", "json").stdout)
    )


def test_a_bundle_shows_where_a_jvm_client_hangs_and_redacted_no_name(
    broker: Any, topic: str, stuck: JavaApplication, tmp_path: Path
) -> None:
    paths = tmp_path / "named.tar.gz", tmp_path / "redacted.tar.gz"
    for path, more in zip(paths, ((), ("--redact",)), strict=True):
        what = ("--examine", str(stuck.pid), "--attach", "--window", "2s", "--interval", "500ms")
        made = pulsar_doctor("bundle", topic, *what, *more, "-o", str(path), broker=broker)
        assert made.returncode == 0, made.stderr
        assert "loads an agent" in made.stderr
        assert f"with what was seen of process {stuck.pid}" in made.stdout
    named, redacted = map(files_of, paths)
    assert next(iter(named)) == "README.txt"
    assert f"with what was seen of process {stuck.pid}" in named["README.txt"]
    assert not CANARY.search("".join((*named.values(), *redacted.values())))
    assert NAMES.search("".join(redacted.values())) is None
    assert topic.rpartition("/")[2] not in "".join(redacted.values())
    for path in paths:
        told = document(path)
        (found,) = [
            each for one in told["subscriptions"] for each in one["findings"]
            if each["code"] == "nobody-receives"
        ]  # fmt: skip
        numbers = {each["name"]: each["value"] for each in found["evidence"]}
        assert (numbers["unsent_permits"], numbers["queued"]) == (7, 13)
        assert {"stats", "process"} <= set(told["sources"])
        assert ("com.acme.Client$Billing.charge" in found["summary"]) is (path == paths[0])
