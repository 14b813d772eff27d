"""`fleet -o html`: one page, readable at each width, with headings, table headers and contrast."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.parts.analyze.asking import SqlAnswer
from pulsar_doctor.parts.fleet.report.page import page
from pulsar_doctor.parts.fleet.report.tables import COLUMNS
from tests.report.browser import Browser, browsing, program
from tests.support.wanting import wanting

BROWSER = program()
HOSTILE = "persistent://shop/team/<script>alert(1)</script>-" + "o" * 120
READY = """
  new Promise(resolve => document.readyState === "complete" ? resolve(true)
    : addEventListener("load", () => resolve(true)))
"""
LEVELS = "[...document.querySelectorAll('h1,h2,h3,h4')].map(each => Number(each.tagName[1]))"
LACKING = """
  [...document.querySelectorAll("table")].filter(each => !each.caption
    || [...each.rows[0].cells].some(cell => cell.scope !== "col" || !cell.innerText.trim())
    || [...each.tBodies[0].rows].some(row => row.cells[0].scope !== "row"
      || row.cells.length !== each.rows[0].cells.length)
    || each.closest("[role=region]").tabIndex !== 0
    || !each.closest("[role=region]").ariaLabel).map(each => each.caption?.innerText)
"""
PALE = """
  (() => {
    const numbers = colour => colour.match(/[\\d.]+/g).map(Number)
    const light = colour => numbers(colour).slice(0, 3).map(each => each / 255)
      .map(each => each <= .04045 ? each / 12.92 : ((each + .055) / 1.055) ** 2.4)
      .reduce((sum, each, n) => sum + each * [.2126, .7152, .0722][n], 0)
    const behind = each => { // the nearest background that is not transparent
      for (; each; each = each.parentElement) {
        const colour = getComputedStyle(each).backgroundColor
        if ((numbers(colour)[3] ?? 1) > 0) return colour
      }
      return "rgb(255, 255, 255)"
    }
    const texts = [...document.querySelectorAll("body *")].filter(each =>
      [...each.childNodes].some(node => node.nodeType === 3 && node.textContent.trim()))
    return texts.map(each => [light(getComputedStyle(each).color), light(behind(each))]
      .sort((a, b) => b - a)).map(([high, low]) => (high + .05) / (low + .05))
      .filter(ratio => ratio < 4.5).length
  })()
"""


def row(table: str, **more: Any) -> dict[str, Any]:
    """Of each column some value."""
    moments = dict.fromkeys(("began", "ended", "last_seen", "reached"), "2026-11-29T05:00:00Z")
    numbers = dict.fromkeys(
        (
            "seconds", "times", "longest_seconds", "hour", "depth", "before_stalls", "after_stalls",
            "by_chance", "consumers", "leaking", "lost_a_day", "held_seconds", "days_left", "level",
            "most", "topics", "queue_size", "fits", "rate",
        ), 3,
    )  # fmt: skip
    texts = dict.fromkeys(
        (
            "subscription",
            "cause",
            "ended_by",
            "consumer",
            "what",
            "version",
            "name",
            "outcome",
            "cluster",
        ),
        "x",
    )
    judged = {
        "is_leaky": True,
        "is_hoarding": False,
        "status": "stalled",
        "topic": HOSTILE,
        "cluster": "c",
    }
    return moments | numbers | texts | judged | more


ANSWERS = {
    name: SqlAnswer({}, [row(name), row(name, seconds=None, hour=None)], False) for name in COLUMNS
}


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if BROWSER is None:
        pytest.skip(wanting("a Chromium (on the PATH, or named by PULSAR_DOCTOR_BROWSER)"))
    with browsing(BROWSER, tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.mark.parametrize("width", [400, 1200])
def test_a_page_can_be_read_at_each_width_by_everybody(
    browser: Browser, width: int, tmp_path: Path
) -> None:
    (tmp_path / "fleet.html").write_text(page(ANSWERS), encoding="utf-8")
    browser.show(tmp_path / "fleet.html", width, READY)
    assert browser.value("document.documentElement.scrollWidth") <= width
    levels = browser.value(LEVELS)
    assert levels[0] == 1
    assert set(levels[1:]) == {2}
    assert browser.value("document.querySelectorAll('table').length") == len(COLUMNS)
    assert browser.value(LACKING) == []
    for scheme in ("light", "dark"):
        browser.prefer(scheme)
        assert browser.value(PALE) == 0
    assert browser.value("document.querySelectorAll('script').length") == 0
    assert browser.messages == []
    assert browser.requests == [(tmp_path / "fleet.html").as_uri()]


def test_a_page_says_what_there_is_not_and_what_is_left_out() -> None:
    answers = {name: SqlAnswer({}, [], False) for name in COLUMNS}
    empty = page(answers)
    assert "Every subscription was well whenever it was seen" in empty
    assert empty.count("None.") == len(COLUMNS)
    assert "None. A limit is foretold from 12 hours of records on." in empty
    many = page(answers | {"stalled": SqlAnswer({}, [row("stalled")] * 201, True)})
    assert "201+ in all, the first 200 are here" in many
    assert many.count("&lt;script&gt;alert(1)") == 200
    assert "<h1>Fleet: at least 1 subscription stalled</h1>" in many
