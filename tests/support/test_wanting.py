"""What cannot be tested here is said in one line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support.wanting import untested, wanting

HERE = Path(__file__).parents[1]
MODULE = "could not import 'duckdb': No module named 'duckdb'"


def test_what_is_wanting_is_counted_by_its_name():
    skipped = [("", wanting("go"))] * 10 + [("", wanting("mandoc"))] * 3
    assert untested(skipped) == "not tested here: 10 for want of go, 3 for want of mandoc"


def test_other_reasons_stand_as_they_are_and_a_whole_file_is_named():
    skipped = [("", "it redirects nobody"), ("all of tests/test_x.py", MODULE)]
    assert untested(skipped) == (
        "not tested here: 1 since it redirects nobody, all of tests/test_x.py for want of duckdb"
    )


def test_nothing_is_said_where_nothing_was_skipped():
    assert untested([]) == ""


def test_the_line_stands_at_the_end_of_a_run_and_no_list_of_skips():
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
         "-m", "", str(HERE / "test_manpages.py"), "-k", "mandoc"],
        cwd=HERE.parent, env=os.environ | {"PATH": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    lines = run.stdout.splitlines()
    (said,) = [line for line in lines if "not tested here" in line]
    assert said.endswith(" for want of mandoc")
    assert "SKIPPED" not in run.stdout
