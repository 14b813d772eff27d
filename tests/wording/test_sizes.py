"""Amounts of bytes as people write them."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from pulsar_doctor.cli import cli
from pulsar_doctor.wording.sizes import DOWNLOAD_BYTES, UNPACKED_BYTES, bytes_of, megabytes


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("65536", 65536),
        ("512MB", 512_000_000),
        ("2GiB", 2 * 1024**3),
        ("1.5 kib", 1536),
        (" 1TB ", 10**12),
        ("3b", 3),
        ("", None),
        ("GB", None),
        ("-1MB", None),
        ("5x", None),
        ("1_000", None),
    ],
)
def test_a_size_has_a_number_and_perhaps_a_unit(text: str, count: int | None) -> None:
    assert bytes_of(text) == count


def test_every_text_names_the_same_download() -> None:
    download, unpacked = megabytes(DOWNLOAD_BYTES), megabytes(UNPACKED_BYTES)
    assert (download, unpacked) == ("245 MB", "264 MB")
    readme = " ".join((Path(__file__).parents[2] / "README.md").read_text().split())
    assert f"fetches Apache Pulsar, {download}" in readme
    assert f"{download} to download, {unpacked} unpacked" in readme
    for subcommand in ("demo", "sandbox"):
        command = cli.get_command(click.Context(cli), subcommand)
        assert command is not None
        assert re.findall(r"\d+ MB", command.help or "") == [download]
