"""A recorded cluster is read as fast as a test likes."""

from __future__ import annotations

import pytest

from pulsar_doctor.broker.admin import segments


@pytest.fixture
def each_reading_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "NOW_SECONDS", 0.5)  # segments at one beat share it
    monkeypatch.setattr(segments, "LIST_SECONDS", 0.0)
