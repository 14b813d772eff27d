"""What a relay is told first, and what it says where that is nonsense."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from pulsar_doctor.parts.tap.relay.events import ANSWERS, CannotStart, Config
from pulsar_doctor.wording.typed_json import of_json, to_json


def test_a_relay_that_is_told_nonsense_says_so(tmp_path: Path) -> None:
    config = Config("127.0.0.1", 0, (("127.0.0.1", 1),), str(tmp_path), 60.0)
    for told, why in [
        ({**to_json(config), "upstream": [["127.0.0.1"]]}, "has no such list in upstream"),
        ({}, "has no listen_host"),
        ([], "is no object"),
    ]:
        ran = subprocess.run(
            [sys.executable, "-m", "pulsar_doctor.parts.tap.relay"],
            input=f"{json.dumps(told)}\n".encode(),
            capture_output=True, timeout=20, check=False,
        )  # fmt: skip
        assert (ran.returncode, ran.stderr) == (1, b"")
        assert ANSWERS.of_line(ran.stdout) == CannotStart(f"its instruction {why}")
    assert of_json(Config, json.loads(json.dumps(to_json(config)))) == config
