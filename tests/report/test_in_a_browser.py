"""The page of an incident in a real browser: drawn, without a message or a request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pulsar_doctor.cli import run
from tests.made.traces import write_trace
from tests.made.wire import Wire
from tests.report.browser import CANVASES, Browser, browsing, program
from tests.support.wanting import wanting

BROWSER = program()
STATES = Path(__file__).parents[1] / "states" / "4.0.8"
COLOURS = {  # of paper and ink
    "dark": ("rgb(20, 22, 25)", "#e6e7e9"),
    "light": ("rgb(255, 255, 255)", "#1c1e21"),
}
CHARTS = {
    "trace": {"starved", "consumer-1", "moved-1", "consumer-2", "moved-2"},
    "statistics": {"subscription-1", "consumer-1", "moved-1"},
}
LABELS = """
  [...Bokeh.documents[0]._all_models.values()].map(each => each.attributes.major_label_text_color)
    .filter(each => each)
"""
WIDTHS = """
  [...Bokeh.documents[0]._all_models.values()].map(each => each.attributes.inner_width)
    .filter(each => each)
"""

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason=wanting("a Chromium (on the PATH, or named by PULSAR_DOCTOR_BROWSER)")
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    assert BROWSER is not None
    with browsing(BROWSER, tmp_path_factory.mktemp("profile")) as tab:
        yield tab


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Of a trace with two consumers, one of which is stuck, and of statistics with holes."""
    folder = tmp_path_factory.mktemp("pages")
    said = Wire().open().attached(1, "c-1").flow(5, 1).attached(2, "c-2").flow(5, 2)
    said.pushed(range(10, 15), 1).pushed(range(20, 23), 2).wait(400)
    sources = {
        "trace": write_trace(folder / "t.ptrace", said.blocks),
        "statistics": STATES / "ack-hole.jsonl.gz",
        "thousands": STATES / "healthy-busy.jsonl.gz",
    }
    for name, source in sources.items():
        assert run(["-q", "report", str(source), "-o", str(folder / f"{name}.html")]) == 0
    return {name: folder / f"{name}.html" for name in sources}


@pytest.mark.parametrize("width", [400, 1000, 1600])
@pytest.mark.parametrize("source", ["trace", pytest.param("statistics", marks=pytest.mark.slow)])
def test_a_page_is_drawn_at_each_width_in_dark_and_light(
    browser: Browser, pages: dict[str, Path], source: str, width: int
) -> None:
    browser.show(pages[source], width)
    drawn = dict(browser.value(CANVASES))
    assert drawn.keys() == CHARTS[source]
    assert [chart for chart, colours in drawn.items() if colours < 10] == []
    assert browser.value("document.documentElement.scrollWidth") <= width
    for scheme, (paper, ink) in COLOURS.items():
        browser.prefer(scheme)
        assert browser.value("getComputedStyle(document.body).backgroundColor") == paper
        assert {*browser.value(LABELS)} == {ink}
    assert browser.messages == []
    local = [each for each in browser.requests if not each.startswith(("data:", "blob:"))]
    assert local == [pages[source].as_uri()]


@pytest.mark.parametrize("width", [400, 1000])
def test_charts_are_one_below_the_other_however_wide_their_labels_are(
    browser: Browser, pages: dict[str, Path], width: int
) -> None:
    browser.show(pages["thousands"], width)
    widths = browser.value(WIDTHS)
    assert len(widths) == 3
    assert len({*widths}) == 1


def test_a_browser_that_complains_is_heard(browser: Browser, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        "<div class=chart></div><script>performance.measure('charts drawn');console.log(1)</script>"
        "<img src=http://127.0.0.1:9/>"
    )
    browser.show(page, 400)
    assert browser.messages
    assert "http://127.0.0.1:9/" in browser.requests
    assert browser.value(CANVASES) == [["", 0]]
