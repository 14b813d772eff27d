"""Whatever is wrong is one sentence on stderr that says what, where and what next."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from pulsar_doctor.cli import cli, run
from tests.broker.recorded import stats_of

SAID = {
    "nope": "there is no subcommand nope; there are analyze, bundle",
    "stall-chek": "there is no subcommand stall-chek; did you mean stall-check? See `pulsar-doctor "
    "--help`",
    "trace shoe": "there is no subcommand shoe; did you mean show? See `pulsar-doctor trace",
    "stall-check --xyz": "no such option '--xyz'; see `pulsar-doctor stall-check --help`",
    "stall-check o --window x": "invalid value for '--window': 'x' is not a duration; write",
    "stall-check --worst x": "invalid value for '--worst': 'x' is not a whole number; see",
    "known-issues show nosuch": "there is no issue 'nosuch'; there are apache/pulsar#10920, "
    "apache/pulsar#15679, apache/pulsar#15705 and ",
    "fleet {file}": "{file} is not a folder; expected is a folder of `stall-check --watch --keep`",
    "fleet /nope": "/nope does not exist; expected is a folder of `stall-check --watch --keep`",
    "produce": "missing argument 'TOPIC'; see `pulsar-doctor produce --help`",
    "completion": "missing argument '{{bash|zsh|fish}}'. Choose from: bash, zsh, fish; see",
    "examine": "give a PID, a client's address, a consumer's name, or --container; see "
    "`pulsar-doctor examine --help`",
    "holes": "name a TOPIC",
    "stall-check o --client-conf /nope": "cannot read client.conf /nope: No such file or directory",
    "stall-check --stats /nope": "cannot read /nope: No such file or directory",
    "trace summary {file}": "{file} is not a trace of pulsar-doctor: it is not a folder",
    "trace verify {file}": "{file} is not a trace of pulsar-doctor: it is not a folder",
    "stall-check --trace {file}": "{file} is not a trace of pulsar-doctor: it is not a folder",
    "holes --trace {file}": "{file} is not a trace of pulsar-doctor: it is not a folder",
}


@pytest.mark.parametrize("typed", SAID)
def test_an_error_is_one_sentence(
    typed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "file"
    file.write_text("no trace")
    assert run(typed.format(file=file).split()) == 2
    told = capsys.readouterr()
    assert told.err.startswith(f"pulsar-doctor: {SAID[typed].format(file=file)}"), told.err
    assert (told.out, len(told.err.splitlines())) == ("", 1)
    assert "Errno" not in told.err


def test_a_full_disk_is_no_mistake_of_ours(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(cli, "main", full)
    assert run(["explain"]) == 3
    told = capsys.readouterr().err
    assert told == f"pulsar-doctor: cannot read or write: {os.strerror(errno.ENOSPC)}\n"


def test_a_group_alone_shows_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["trace"]) == 2
    assert capsys.readouterr().err.startswith("Usage: pulsar-doctor trace ")


def test_a_list_of_one_document_and_typographic_quotes_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stats = stats_of("4.0.8-shared-moving")
    (tmp_path / "list.json").write_text(json.dumps([stats]))
    (tmp_path / "mail.json").write_text(json.dumps(stats).replace('"', "”"))
    (tmp_path / "plain.json").write_text(json.dumps(stats))
    verdicts = []
    for name in ("plain", "list", "mail"):
        run(["stall-check", "--stats", str(tmp_path / f"{name}.json"), "-o", "json"])
        document = json.loads(capsys.readouterr().out)
        verdicts.append([each["status"] for each in document["subscriptions"]])
    assert verdicts[0]
    assert verdicts[0] == verdicts[1] == verdicts[2]
