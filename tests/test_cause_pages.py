"""Each cause has a page: what it looks like, why, what to do first, and what its limits are."""

from __future__ import annotations

import re

import pytest

from pulsar_doctor.diagnosis.cause import SYMPTOMS
from pulsar_doctor.diagnosis.causes import load
from tests.cause_pages import FOLDER, INDEX

LINK = re.compile(r"\]\((?!https://github\.com/)([^)#]*)(?:#([^)]*))?\)")


@pytest.mark.parametrize("cause", load(), ids=lambda cause: cause.code)
def test_a_page_says_what_it_looks_like_why_and_what_to_do(cause) -> None:
    page = (FOLDER / f"{cause.code}.md").read_text("utf-8")
    heads = [line for line in page.splitlines() if line.startswith("## ")]
    assert heads[:3] == ["## What it looks like", "## Why", "## What to do first"]
    assert re.search(r"```text\n[✖▲✔?].*\n", page)
    assert "\n- Risk: " in page
    assert "\n- It worked if: `pulsar-" in page
    assert all(f"`{cause.code}.{each.name}`" in page for each in cause.thresholds)


def test_each_cause_is_listed_once_and_its_symptom_is_known() -> None:
    listed = re.findall(r"\| \[(.*?)\]", (FOLDER / INDEX).read_text("utf-8"))
    assert sorted(listed) == sorted(path.stem for path in FOLDER.glob("[a-z]*.md"))
    assert {cause.symptom for cause in load()} == {*SYMPTOMS}


def test_links_between_pages_lead_somewhere() -> None:
    anchors = {
        re.sub(r"[^a-z -]", "", each.lower()).replace(" ", "-") for each in SYMPTOMS.values()
    }
    for page in FOLDER.iterdir():
        for name, anchor in LINK.findall(page.read_text("utf-8")):
            assert (FOLDER / name).is_file(), (page, name)
            assert not anchor or anchor in anchors, (page, anchor)
