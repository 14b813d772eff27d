"""Runs `stall-check` in this process, against a broker on the loopback, with a short window."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from pulsar_doctor.cli import run
from tests.broker.http_broker import HttpBroker
from tests.support import schemas

QUICK = ("--window", "200ms", "--interval", "100ms")
SECRET = "eyJhbGciOiJub25lIn0.s3cr3t-part.sig"
TOKEN = ("--auth-plugin", "token", "--auth-params", SECRET)


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of one command line."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        return json.loads(self.out)

    @property
    def statuses(self) -> dict[str, str]:
        """The verdicts, by the last part of the topic's name."""
        return {short(each["topic"]): each["status"] for each in self.document["subscriptions"]}

    @property
    def unreachable(self) -> dict[str, str]:
        return {short(each["topic"]): each["reason"] for each in self.document["unreachable"]}

    def sentence(self) -> str:
        """The only thing on stderr: one line, in the program's own name, that ends well."""
        assert self.err.endswith("\n")
        assert self.err.count("\n") == 1, self.err
        assert self.err.startswith("pulsar-doctor: ")
        assert "Traceback" not in self.err
        assert "mistake in pulsar-doctor" not in self.err
        return self.err.removeprefix("pulsar-doctor: ").rstrip("\n")


Check = Callable[..., Checked]


def short(topic: str) -> str:
    return topic.rpartition("/")[2]


@pytest.fixture
def check(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Check:
    """check(broker or URL or None, *arguments): one command line, with a token as everywhere."""
    for variable in ("SERVICE_URL", "ADMIN_URL", "CLIENT_CONF", "AUTH_PLUGIN", "AUTH_PARAMS"):
        monkeypatch.delenv(f"PULSAR_DOCTOR_{variable}", raising=False)
    monkeypatch.delenv("PULSAR_CLIENT_CONF", raising=False)
    monkeypatch.setenv("COLUMNS", "200")

    def checking(at: HttpBroker | str | None, *arguments: str, credentials: Any = TOKEN) -> Checked:
        live: tuple[str, ...] = ()
        if at is not None:
            url = at if isinstance(at, str) else at.url
            live = ("--admin-url", url, *credentials, *QUICK)
        code = run(["stall-check", *live, *arguments])
        said = capsys.readouterr()
        assert SECRET not in said.out
        assert SECRET not in said.err
        schemas.check_text(said.out)
        return Checked(code, said.out, said.err)

    return checking
