"""Amounts of bytes as people write them."""

from __future__ import annotations

import pytest

from pulsar_doctor.sizes import bytes_of


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
