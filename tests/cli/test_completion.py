"""What Tab offers, asked of the program as a shell asks it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.broker.http_broker import Asked, Reply, serving
from tests.support import eventually
from tests.support.command_line import environment, pulsar_doctor
from tests.support.wanting import wanting

NAMED = ("orders", "other", "orders-partition-0", "orders-partition-1")


def offered(*words: str, home: Path | None = None) -> list[str]:
    """What is offered for the last of these words."""
    asked = {
        "_PULSAR_DOCTOR_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(["pulsar-doctor", *words]),
        "COMP_CWORD": str(len(words)),
    }
    ran = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'pulsar-doctor'\n"
         "from pulsar_doctor.__main__ import main; main()"],
        env=environment() | asked | ({"HOME": str(home)} if home else {}),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    return [line.partition(",")[2] for line in ran.stdout.splitlines() if line]


def of_namespace(asked: Asked) -> Reply:
    if "/partitioned" in asked.path:
        return Reply(document=["persistent://public/default/orders"])
    if "/persistent/public/default" in asked.path:
        return Reply(document=[f"persistent://public/default/{name}" for name in NAMED])
    return Reply(document=[])


def test_codes_and_thresholds_are_offered() -> None:
    assert offered("explain", "permits-") == ["permits-differ", "permits-exhausted"]
    assert offered("stall-check", "--skip", "permits-e") == ["permits-exhausted"]
    assert "healthy.first_ack_within=" in offered("stall-check", "--set", "healthy.")


def test_contexts_are_offered(tmp_path: Path) -> None:
    file = tmp_path / ".config" / "pulsar-doctor" / "contexts.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[prod]\n[preview]\n[dev]\n")
    assert offered("stall-check", "--context", "pr", home=tmp_path) == ["preview", "prod"]
    assert offered("context", "use", "d", home=tmp_path) == ["dev"]


def test_topics_are_offered_in_the_way_they_are_typed() -> None:
    with serving(of_namespace) as web:
        before = ("--admin-url", web.url, "stall-check")
        eventually(lambda: offered(*before, "or") == ["orders"])  # this machine may be busy
        whole = ["public/default/orders", "public/default/other"]
        eventually(lambda: offered(*before, "public/default/o") == whole)
        assert not [each for each in web.asked if "stats" in each.path], "nothing is loaded"


def test_a_slow_broker_and_none_at_all_offer_nothing_and_say_nothing() -> None:
    def slow(asked: Asked) -> Reply:
        time.sleep(3)
        return of_namespace(asked)

    with serving(slow) as web:
        assert offered("--admin-url", web.url, "stall-check", "or") == []
    assert offered("--admin-url", "http://127.0.0.1:1", "stall-check", "or") == []
    assert "stall-check" in offered("no-such-subcommand", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_can_read(shell: str) -> None:
    script = pulsar_doctor("completion", shell).stdout
    assert "_PULSAR_DOCTOR_COMPLETE" in script
    if shutil.which(shell) is None:
        pytest.skip(wanting(shell))
    read = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")
