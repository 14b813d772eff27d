"""Where a token comes from: what a command prints is used, kept, renewed, and never shown."""

from __future__ import annotations

import base64
import json
import sys
import time
from pathlib import Path

import pytest

from pulsar_doctor.broker import tokens
from pulsar_doctor.broker.settings import load
from pulsar_doctor.broker.tokens import token_source
from pulsar_doctor.errors import DoctorError, InputError

SECRET = "s3cr3t"


def counting(folder: Path, lives_seconds: float | None) -> str:
    """A command that counts its runs in a file, and prints a new token each time."""
    claims = {} if lives_seconds is None else {"exp": time.time() + lives_seconds}
    body = base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip("=")
    script = folder / "login.py"
    script.write_text(
        f"open({str(folder / 'runs')!r}, 'a').write('x')\n"
        f"print('e30.{body}.' + open({str(folder / 'runs')!r}).read())\n"
    )
    return f"exec:{sys.executable} {script}"


@pytest.mark.parametrize(("lives_seconds", "runs"), [(3600, 1), (10, 3), (None, 1)])
def test_a_command_runs_again_when_its_token_is_about_to_expire(
    outside: None, tmp_path: Path, lives_seconds: float | None, runs: int
) -> None:
    read = token_source(counting(tmp_path, lives_seconds))
    told = [read() for _ in range(3)]
    assert (tmp_path / "runs").read_text() == "x" * runs
    assert told[-1].endswith("x" * runs)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("/nothing/here --x", "the command here of exec: cannot be run: No such file"),
        ("false", "the command false of exec: ended with 1; run it by itself to see why"),
        (f"sh -c 'echo {SECRET}; exit 3'", "the command sh of exec: ended with 3; run it"),
        (f"sh -c 'echo {SECRET}; sleep 60'", "did not end within 0.3 s"),
        (f"sh -c 'echo {SECRET} >&2; exit 1'", "the command sh of exec: ended with 1"),
        ("true", "token that the command true of exec: prints is empty"),
        (f"printf '{SECRET} x'", "prints holds characters that no token has"),
        ("head -c 70000 /dev/zero", "prints holds characters that no token has"),
        ("yes x", "prints holds characters that no token has"),
    ],
)
def test_a_command_that_fails_is_one_sentence_without_what_it_said(
    outside: None, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str],
    command: str, says: str,
) -> None:  # fmt: skip
    monkeypatch.setattr(tokens, "COMMAND_SECONDS", 0.3)
    with pytest.raises(DoctorError, match=says) as error:
        token_source(f"exec:{command}")()
    assert SECRET not in str(error.value)
    assert capfd.readouterr() == ("", "")


def test_no_shell_reads_the_command(outside: None, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds characters that no token has"):
        token_source(f"exec:echo x > {tmp_path}/made; echo y")()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("params", [f"exec:echo {SECRET}", f"header:X-Role=exec:echo {SECRET}"])
def test_a_command_of_client_conf_is_refused_and_one_of_ours_is_not(
    tmp_path: Path, params: str
) -> None:
    conf = tmp_path / "client.conf"
    conf.write_text(f"authParams={params}\n")
    with pytest.raises(InputError, match="names a command, which is not run from there") as error:
        load({"client_conf": str(conf)}, {})
    assert SECRET not in str(error.value)
    plugin = "header" if params.startswith("header") else "token"
    assert load({"auth_params": params}, {}).auth_plugin == plugin
    assert load({}, {"PULSAR_DOCTOR_AUTH_PARAMS": params}).auth_plugin == plugin
