"""What a person reads on the page of an incident, as elements of HTML: texts cannot become tags."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from string import Template
from typing import TypeAlias
from xml.etree import ElementTree

from pulsar_doctor import __version__
from pulsar_doctor.diagnosis.cause import Cause
from pulsar_doctor.diagnosis.known.matching import KnownIssue
from pulsar_doctor.diagnosis.status import Status
from pulsar_doctor.report.account import AccountTable
from pulsar_doctor.report.known_issues import GRADES
from pulsar_doctor.report.paper import PARAGRAPH
from pulsar_doctor.report.stall_check.pen import ScreenRow

Element: TypeAlias = ElementTree.Element
Child: TypeAlias = "Element | str | None"

TEMPLATE = Path(__file__).with_name("page.html")
READ_CHARTS = (
    "All charts have the same axis of time, in UTC. Point at a chart to read its numbers. To zoom "
    "all of them, turn the wheel while Ctrl is pressed, or choose a tool above a chart."
)
NO_SCRIPTS = "The charts need JavaScript, which is off. The table below them has their numbers."
ON_HOLES = "Everything up to mark-delete is acknowledged. What lies behind it is drawn as by "
COLUMNS = (
    "", "consumer", "subscription", "from (UTC)", "to (UTC)", "delivered", "acknowledged",
    "without permits",
)  # fmt: skip
OF_TABLE = "Consumers: the worst verdicts, then who was longest without permits"
NUMBERS = (0, 5, 6)  # columns that are aligned to the right


@dataclass(frozen=True, slots=True)
class PageVerdict:
    """One verdict: in short, where the messages are, and all that is known."""

    status: Status
    badge: str
    headline: str
    rows: Sequence[ScreenRow]
    codes: Sequence[str] = ()  # of its findings
    issues: Sequence[KnownIssue] = ()
    account: AccountTable | None = None
    heading: str = ""
    details: Sequence[ScreenRow] = ()


def e(tag: str, *children: Child, **attributes: str | None) -> Element:
    """An element. children: elements and texts; None is left out, as an attribute is."""
    names = {name.rstrip("_").replace("_", "-"): text for name, text in attributes.items()}
    made = ElementTree.Element(
        tag, {name: text for name, text in names.items() if text is not None}
    )
    for child in children:
        if isinstance(child, str):
            last = made[-1] if len(made) else None
            if last is None:
                made.text = (made.text or "") + child
            else:
                last.tail = (last.tail or "") + child
        elif child is not None:
            made.append(child)
    return made


def framed(title: str, parts: Iterable[Element], scripts: Iterable[str] = ()) -> str:
    """A whole file of these elements and scripts."""
    return Template(TEMPLATE.read_text("utf-8")).substitute(
        title=escape(title),
        body=html(parts),
        version=__version__,
        scripts="\n".join(scripts),
    )


def html(elements: Iterable[Element]) -> str:
    """Their text, one below the other."""
    return "\n".join(
        ElementTree.tostring(each, encoding="unicode", method="html") for each in elements
    )


def section(name: str, title: str, *children: Child) -> Element:
    """A part of the page under its heading."""
    return e("section", e("h2", title, id=name), *children, aria_labelledby=name)


def verdicts(those: Iterable[PageVerdict]) -> Iterator[Element]:
    """Each verdict: what people see at once, and folded all that is known."""
    for number, each in enumerate(those, start=1):
        name = f"verdict-{number}"
        more: list[Child] = [*_places(each.account), _rows(each.details)]
        heading = e("p", each.heading) if each.heading else None
        folded = e("details", e("summary", "All that is known"), heading, *more)
        yield e(
            "section",
            e("h2", e("span", each.badge, class_="badge"), f" {each.headline}", id=name),
            _rows(each.rows),
            *_links(each),
            *_bar(each.account),
            folded if any(child is not None for child in more) else None,
            class_=f"verdict {each.status}",
            aria_labelledby=name,
        )


def _rows(rows: Sequence[ScreenRow]) -> Element | None:
    listed: list[Element] = []
    for row in rows:
        text = str(row.shown)
        listed += [e("dt", row.name), e("dd", e("code", text) if row.to_paste else text)]
        listed += [e("dt"), e("dd", f"# {row.remark}")] if row.comment else []
    return e("dl", *listed) if listed else None


def _links(of: PageVerdict) -> Iterator[Element]:
    """What its causes mean, further down, and the issues that it may be."""
    for code in of.codes:
        yield e("p", e("a", f"What {code} means", href=f"#cause-{code}"))
    for known in of.issues:
        issue = known.issue
        link = e("a", issue.id, href=issue.url, rel="noreferrer")
        yield e("p", f"{GRADES[known.grade]} ", link, f": {issue.title}")


def _bar(account: AccountTable | None) -> Iterator[Element]:
    """Where the messages are, each place as wide as it has messages."""
    if account is None or not any(account.sizes):
        return
    parts, legend = [], []
    for number, (row, size) in enumerate(zip(account.rows, account.sizes, strict=True)):
        if size:
            parts.append(e("span", class_=f"part-{number % 8}", style=f"flex-grow: {size}"))
        mark = e("span", class_=f"mark part-{number % 8}") if size else None
        legend.append(e("li", mark, f"{row[0]}: {row[1]}"))
    yield e("p", f"Where its messages are: {account.title}", class_="name")
    yield e("div", *parts, class_="bar", role="presentation")
    yield e("ul", *legend, class_="legend")


def _places(account: AccountTable | None) -> Iterator[Element]:
    if account is None:
        return
    head = e("tr", *(e("th", name, scope="col") for name in ("place", "how many", "last moved")))
    rows = (
        e("tr", e("th", name, scope="row"), e("td", count), e("td", moved))
        for name, count, moved in account.rows
    )
    table = e(
        "table",
        e("caption", f"Where its messages are: {account.title}"),
        e("thead", head) if account.rows else None,
        e("tbody", *rows) if account.rows else None,
    )
    yield wide("Where its messages are", table)
    yield from (e("div", line, class_="soft") for line in account.below)


def wide(label: str, child: Element) -> Element:
    """Something that can be scrolled where it has no room, also by keys."""
    return e("div", child, class_="wide", tabindex="0", role="region", aria_label=label)


def missing(sentences: Sequence[str]) -> Iterator[Element]:
    """What was not read, recorded or drawn."""
    if sentences:
        yield section("missing", "What is missing", e("ul", *(e("li", s) for s in sentences)))


def charts(those: Sequence[tuple[str, str, Collection[str]]]) -> Iterator[Element]:
    """Title and caption of each chart, and the ids of what is drawn below; none of a flat one."""
    if not those:
        return
    figures: list[Element] = []
    for number, (title, caption, places) in enumerate(those, start=1):
        name = f"chart-{number}"
        drawn = (e("div", id=place, class_="chart") for place in places)
        head = e("h3", title, id=name), e("figcaption", caption)
        figures.append(e("figure", *head, *drawn, aria_labelledby=name))
    are_drawn = any(places for *_, places in those)
    how = [e("p", READ_CHARTS, class_="screen"), e("noscript", e("p", NO_SCRIPTS))]
    yield section("timelines", "Timelines", *(how if are_drawn else ()), *figures)


def holes(those: Sequence[tuple[str, str, str, Sequence[ScreenRow]]]) -> Iterator[Element]:
    """Holes between acknowledged messages: title, drawing, legend and numbers of each."""
    figures: list[Element] = []
    for number, (title, drawing, legend, numbers) in enumerate(those, start=1):
        name = f"holes-{number}"
        drawn: list[Child] = []
        if drawing:
            label = "Acknowledged entries and holes; the numbers are below"
            drawn = [wide(label, e("pre", drawing)), e("figcaption", legend)]
        figures.append(
            e("figure", e("h3", title, id=name), *drawn, _rows(numbers), aria_labelledby=name)
        )
    if figures:
        how = e("p", ON_HOLES, e("code", "pulsar-doctor holes"), ".")
        yield section("holes", "Holes between acknowledged messages", how, *figures)


def consumers(rows: Sequence[Sequence[str]]) -> Iterator[Element]:
    """The numbers of the charts as a table."""
    if not rows:
        return
    table = e(
        "table",
        e("caption", OF_TABLE),
        e(
            "thead",
            e("tr", *(e("th" if n else "td", n, scope="col" if n else None) for n in COLUMNS)),
        ),
        e("tbody", *(e("tr", *map(_cell, range(len(cells)), cells)) for cells in rows)),
    )
    yield e("section", wide("Consumers", table))


def _cell(column: int, text: str) -> Element:
    if column == 1:
        return e("th", text, scope="row")
    kind = "number" if column in NUMBERS else "time" if column in (3, 4) else None
    return e("td", text, class_=kind)


def causes(those: Sequence[Cause]) -> Iterator[Element]:
    """What `explain` says of each."""
    if those:
        yield section("causes", "What the causes mean", *map(_cause, those))


def _cause(cause: Cause) -> Element:
    paragraphs = re.split(r"\n\n", PARAGRAPH.sub(" ", cause.text.strip()))
    where = e("a", cause.page, href=cause.page) if "://" in cause.page else e("code", cause.page)
    body = [e("p", text, class_="lines") for text in paragraphs[1:]]
    page = e("p", "With an example and what to do: ", where)
    name = f"cause-{cause.code}"
    summary = e("summary", e("b", cause.code), f": {cause.title}")
    return e("details", summary, e("div", *body, page, id=name))
