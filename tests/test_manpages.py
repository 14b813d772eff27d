"""The manual pages in man/ are those of this command line, and mandoc finds no fault in them."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from pulsar_doctor.wire.columns import COLUMNS
from tests import manpages
from tests.support.wanting import wanting

MADE = manpages.pages()


def test_every_option_of_every_subcommand_stands_on_its_page() -> None:
    assert r"\fB\-\-zero\-queue\fR" in MADE["pulsar-doctor-consume.1"]
    assert r"\fB\-\-batch\-index\-acks\fR" in MADE["pulsar-doctor-sandbox.1"]
    assert ".SS verify" in MADE["pulsar-doctor-trace.1"]


def test_every_column_stands_in_the_description_of_a_trace() -> None:
    for column in COLUMNS:
        assert rf"\fB{column.name}\fR" in MADE["pulsar-doctor-trace.5"]


def test_every_file_and_column_of_a_trace_is_an_entry_of_its_page() -> None:
    described = manpages.TRACE.read_text("utf-8").count("\n- `")
    assert described > 5
    page = MADE["pulsar-doctor-trace.5"]
    assert page.count("\n.TP\n") == described + len(COLUMNS)


@pytest.mark.skipif(shutil.which("mandoc") is None, reason=wanting("mandoc"))
@pytest.mark.parametrize("name", MADE)
def test_mandoc_has_nothing_to_say(name: str) -> None:
    lint = subprocess.run(
        ["mandoc", "-T", "lint"], input=MADE[name], capture_output=True, text=True, check=False
    )
    assert (lint.returncode, lint.stdout + lint.stderr) == (0, "")
