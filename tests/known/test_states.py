"""No known issue matches a recorded state of a real broker, but those of which that is true."""

from __future__ import annotations

import pytest

from pulsar_doctor.diagnosis.known.matching import matching, on_broker
from pulsar_doctor.evidence.by_stats import subscription_view
from tests.checkup.test_recorded_states import RECORDED, recorded

# Before 4.0 a Key_Shared consumer that joined later waits for what was delivered before.
TRUE = {
    (version, name): {"apache/pulsar#15705"}
    for version in ("2.11.0", "3.3.5")
    for name in ("key-shared-blocked", "exclusive-zombie-key-shared")
}


@pytest.mark.parametrize(("version", "name"), RECORDED)
def test_only_what_is_true_matches(version: str, name: str) -> None:
    found = on_broker(matching(subscription_view(recorded(version, name))), version)
    matches = {each.issue.id for each in found if each.grade == "matches"}
    assert matches == TRUE.get((version, name), set())
