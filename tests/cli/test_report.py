"""`pulsar-doctor report`, as a user types it."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode, b64encode
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.samples.bundled import SAMPLES, packed
from pulsar_doctor.diagnosis.known.issue import load
from pulsar_doctor.report.incident.charts import for_html
from tests.broker.replayed import cluster, stuck
from tests.made.traces import write_trace
from tests.made.wire import Wire, slow_consumer

STATES = Path(__file__).parents[1] / "states" / "4.0.8"
LARGEST = 2_000_000
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&\x1b[31m\u202e"
VOID = {"meta", "br", "img", "input"}

# A place of an account: on the page how many are there, and when it last moved, are cells.
IN_CELLS = re.compile(r": (\d.*), (?=(?:last|nothing) (?:sent|taken|moved)|mark-delete )")


class Page(HTMLParser):
    """What a browser without JavaScript shows, and the scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "script" in self.open:
            self.scripts.append(data)
        elif "style" not in self.open:
            self.texts.append(data)

    @property
    def case(self) -> Any:
        (packed,) = (
            script
            for script in self.scripts
            if script.startswith(b64encode(b"\x1f\x8b\x08").decode())
        )
        return json.loads(gzip.decompress(b64decode(packed)))

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


@pytest.fixture
def made(run: Any, tmp_path: Path) -> Any:
    def made(*arguments: object) -> str:
        file = tmp_path / "page.html"
        code, _, err = run("report", *arguments, "-o", file)
        assert code == 0, err
        return file.read_text(encoding="utf-8")

    return made


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "t.ptrace", slow_consumer().wait(400).blocks, parts=2)


def said_on_the_terminal(run: Any, *arguments: object) -> list[str]:
    """The words of each line, without names of rows and what is only said there."""
    _, out, _ = run("-v", "stall-check", *arguments)
    lines = (line.strip() for line in out.splitlines())
    texts = (line.partition("  ")[2].strip() or line for line in lines if line)
    return [IN_CELLS.sub(r" \1 ", text) for text in texts]


@pytest.mark.parametrize(
    ("state", "title"),
    [
        ("prefetch-hogging", "STALLED"),
        ("slow-but-progressing", "WARNING"),
        ("negative-permits", ""),
        ("healthy-busy", "HEALTHY"),
    ],
)
def test_a_page_says_what_the_terminal_says(run: Any, made: Any, state: str, title: str) -> None:
    file = STATES / f"{state}.jsonl.gz"
    page = Page(made(file))
    assert page.text.startswith(title)
    for words in said_on_the_terminal(run, "--stats", file):
        assert " ".join(words.split()).replace(f"{STATES}/", "") in page.text


def test_a_page_of_a_trace_says_what_the_terminal_says(run: Any, made: Any, trace: Path) -> None:
    page = Page(made(trace))
    for words in said_on_the_terminal(run, "--trace", trace):
        assert " ".join(words.split()).replace(f"{trace.parent}/", "") in page.text
    assert "the backlog is not drawn: it is not part of a trace" in page.text
    assert "Hatched: without permits, " in page.text


def test_a_page_is_one_small_file_that_asks_no_network(made: Any, trace: Path) -> None:
    text = made(trace)
    assert len(text.encode()) <= LARGEST
    page = Page(text)
    assert not [attrs for _, attrs in page.tags if attrs.keys() & {"src", "srcset"}]
    assert {tag for tag, attrs in page.tags if "href" in attrs} <= {"a"}  # loaded by a click only
    (policy,) = (attrs["content"] for _, attrs in page.tags if attrs.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "connect-src" not in policy


def test_the_same_input_makes_the_same_page(made: Any, trace: Path) -> None:
    assert made(trace) == made(trace)


@pytest.mark.parametrize("option", ["--trace", "--stats"])
def test_a_page_gives_the_same_document_again(
    run: Any, made: Any, trace: Path, tmp_path: Path, option: str
) -> None:
    source = trace if option == "--trace" else STATES / "prefetch-hogging.jsonl.gz"
    changes = ("--set", "prefetch-hogging.refill_wait=3m")
    made(source, *changes)
    before, after = (
        run("stall-check", *arguments, "-o", "json")
        for arguments in ((option, source, *changes), ("--case", tmp_path / "page.html"))
    )
    assert after[0] == before[0]
    times = re.compile(r'"checked_at": "[^"]*"')
    assert times.sub("", after[1]) == times.sub("", before[1])


def test_a_bundle_is_a_source(made: Any, tmp_path: Path) -> None:
    bundle, samples = tmp_path / "incident.tar.gz", STATES / "prefetch-hogging.jsonl.gz"
    bundle.write_bytes(packed({SAMPLES: samples.read_bytes()}))
    assert Page(made(bundle)).text.startswith("STALLED")


@pytest.mark.parametrize("source", ["trace", "file"])
def test_a_redacted_page_has_the_same_verdict_and_no_name(
    run: Any, made: Any, trace: Path, tmp_path: Path, source: str
) -> None:
    file = trace if source == "trace" else STATES / "prefetch-hogging.jsonl.gz"
    page = tmp_path / "page.html"
    named, redacted = made(file), made(file, "--redact")
    _, before, _ = run("stall-check", "--trace" if file is trace else "--stats", file, "-o", "json")
    made(file, "--redact")
    _, after, _ = run("stall-check", "--case", page, "-o", "json")
    (one,), (other,) = (json.loads(text)["subscriptions"] for text in (before, after))
    assert [each["code"] for each in one["findings"]] == [e["code"] for e in other["findings"]]
    names = {one["topic"].rpartition("/")[2], *(each["label"] for each in one["consumers"])}
    addresses = {each["address"] for each in one["consumers"]} - {None}
    whole = named + json.dumps(Page(named).case)
    assert [each for each in names | addresses if each not in whole] == []
    seen = Page(redacted)
    scripts = [script for script in seen.scripts if script.startswith("{")]
    ours = seen.text.partition("What the causes mean")[0]  # the rest is what `explain` prints
    text = "\n".join((ours, after, json.dumps(seen.case), *scripts))
    assert [each for each in names | addresses if re.search(rf"\b{re.escape(each)}\b", text)] == []


def test_a_case_that_is_too_large_is_left_out(
    run: Any, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsar_doctor.cli.report.PAGE_BYTES", 100)
    code, _, err = run("report", trace, "-o", tmp_path / "page.html")
    assert (code, "does not carry its case" in err) == (0, True)
    code, _, err = run("stall-check", "--case", tmp_path / "page.html")
    assert (code, "is a page without a case" in err) == (2, True)


def many_subscriptions(folder: Path, number: int) -> Path:
    """A file of --save in which a recorded subscription is there so many times."""
    lines = gzip.decompress((STATES / "prefetch-hogging.jsonl.gz").read_bytes()).splitlines()
    documents = [json.loads(line) for line in lines]
    for document in documents:
        stats, internal = document.get("stats"), document.get("internal")
        for those in (stats and stats["subscriptions"], internal and internal["cursors"]):
            for name, one in list((those or {}).items()):
                those.update((f"{name}-{n}", one) for n in range(number - 1))
    path = folder / "many.jsonl"
    path.write_text("\n".join(map(json.dumps, documents)))
    return path


def test_a_large_case_is_carried_and_gives_the_same_document(
    run: Any, made: Any, tmp_path: Path
) -> None:
    file = many_subscriptions(tmp_path, 41)
    text = made(file)
    assert len(text.encode()) <= LARGEST
    assert len(json.dumps(Page(text).case)) > 300_000
    before = run("stall-check", "--stats", file, "-o", "json")[1]
    after = run("stall-check", "--case", tmp_path / "page.html", "-o", "json")[1]
    times = re.compile(r'"checked_at": "[^"]*"')
    assert times.sub("", after) == times.sub("", before).replace(f"{tmp_path}/", "")


def test_nothing_that_is_not_there_is_drawn(made: Any) -> None:
    page = Page(made(STATES / "prefetch-hogging.jsonl.gz"))
    charts = [attrs["id"] for _, attrs in page.tags if attrs.get("class") == "chart"]
    assert charts == ["subscription-1", "consumer-1"]
    assert page.text.count("Never without permits. Nothing was delivered.") == 3
    flat = "All the time: 10 available permits, 0 messages held. Never without permits."
    assert page.text.count(flat) == 2


def test_a_verdict_links_to_its_cause_and_to_known_issues(made: Any) -> None:
    file = Path(__file__).parents[1] / "known" / "recorded" / "look-ahead-limit.gz"
    page = Page(made(file, "--broker-version", "4.0.8"))
    links = [attrs["href"] or "" for tag, attrs in page.tags if tag == "a"]
    ids = {attrs.get("id") for _, attrs in page.tags}
    assert [link for link in links if link.startswith("#cause-")]
    assert {link.removeprefix("#") for link in links if link.startswith("#")} <= ids
    issues = {issue.url: issue.id for issue in load()}
    assert [link for link in links if link in issues]
    assert all(link in issues or link.startswith("#") for link in links)


@pytest.mark.parametrize(
    ("state", "status"),
    [
        ("prefetch-hogging", "stalled"), ("slow-but-progressing", "warning"),
        ("negative-permits", "unknown"), ("healthy-busy", "healthy"),
    ],
)  # fmt: skip
def test_each_status_has_a_colour_and_a_shape_of_its_own(
    made: Any, state: str, status: str
) -> None:
    text = made(STATES / f"{state}.jsonl.gz")
    assert f'<header class="{status} single">' in text
    assert f'<section class="verdict {status}" aria-labelledby="verdict-1">' in text
    rules = [line for line in text.partition("</style>")[0].splitlines() if f".{status}" in line]
    assert any(f"--status: var(--{status})" in rule for rule in rules)
    shapes = ("clip-path", "dashed", "border-radius")  # that of a stall is a plain box
    assert any(shape in rule for shape in shapes for rule in rules) is (status != "stalled")


def test_a_line_with_gaps_is_drawn_above_one_without(made: Any) -> None:
    page = Page(made(STATES / "healthy-busy.jsonl.gz"))  # its backlog is what is not acknowledged
    (charts,) = (json.loads(script) for script in page.scripts if script.startswith("{"))
    drawn = [
        [each["attributes"]["glyph"]["attributes"] for each in root["attributes"]["renderers"]
         if each["attributes"].get("glyph", {}).get("name") == "Step"]
        for root in charts["document"]["roots"]
    ]  # fmt: skip
    gaps = [["line_dash" in glyph for glyph in glyphs] for glyphs in drawn if glyphs]
    assert gaps == [[False, True], [False, True]]


def test_consumers_that_are_compared_have_one_scale(made: Any, tmp_path: Path) -> None:
    said = Wire().open().attached(1, "c-1").flow(500, 1).attached(2, "c-2").flow(5, 2)
    said.pushed(range(10, 15), 1).pushed(range(20, 23), 2).wait(400)
    page = Page(made(write_trace(tmp_path / "two.ptrace", said.blocks)))
    (charts,) = (json.loads(script) for script in page.scripts if script.startswith("{"))
    ends = [
        root["attributes"]["y_range"]["attributes"]["end"]
        for root in charts["document"]["roots"]
        if root["attributes"].get("y_range", {}).get("name") == "Range1d"
    ]
    assert len([end for end in ends if end > 500]) == 2


def test_holes_are_drawn_as_by_holes(
    run: Any, made: Any, trace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "76")
    said = Wire().open().attached(1, "worker").flow(30).pushed(range(30)).acked([3, 4, 8])
    holed = write_trace(trace.parent / "holed.ptrace", said.acked(range(12, 20)).wait(60).blocks)
    for option, source in (
        ("--trace", holed),
        ("--stats", STATES / "ack-hole.jsonl.gz"),
        ("--stats", STATES / "holes-over-limit.jsonl.gz"),
    ):
        _, out, _ = run("holes", option, source)
        blocks, letters = drawing_in(out)
        text = made(source)
        assert f"<pre>{blocks}\n{letters}" in text, source
        assert "u in a hole" in Page(text).text.casefold()
        for line in (each for each in out.splitlines() if "behind mark-delete" in each):
            assert line.partition("acknowledged ")[2].strip() in Page(text).text
        assert f"<pre>{blocks}\n{letters}" in made(source, "--redact")


def drawing_in(out: str) -> tuple[str, str]:
    """The blocks and the letters below them, as `holes` prints them."""
    lines = out.splitlines()
    (at,) = (at for at, line in enumerate(lines) if re.fullmatch("  [\u2581-\u2588·]+", line))
    return lines[at][2:], lines[at + 1][2:]


def test_where_holes_are_not_known_the_page_says_why(made: Any, tmp_path: Path) -> None:
    file = tmp_path / "stats.json"
    stats: Any = stuck()[0]["stats"]  # type: ignore[index]
    stats["subscriptions"]["billing"]["nonContiguousDeletedMessagesRanges"] = 5
    file.write_text(json.dumps(stats))
    page = Page(made(file))
    why = "the holes of 1 subscription are not drawn: where they are is not reported"
    assert why in page.text
    assert "Holes between" not in page.text
    assert "Holes between" not in Page(made(STATES / "healthy-idle.jsonl.gz")).text


def test_headings_and_tables_are_marked_as_such(made: Any, trace: Path) -> None:
    tags = [tag for tag, _ in Page(made(trace)).tags]
    assert tags.count("h1") == tags.count("main") == 1
    assert tags.count("table") == tags.count("caption") == 2
    assert {"h2", "h3", "figure", "figcaption", "noscript"} <= set(tags)


def test_hostile_names_stay_text(made: Any, tmp_path: Path) -> None:
    said = Wire().open().attached(1, HOSTILE, topic=f"persistent://public/default/{HOSTILE}")
    said.flow(5).pushed(range(5)).wait(400)
    text = made(write_trace(tmp_path / "t.ptrace", said.blocks))
    page = Page(text)
    assert not [tag for tag, _ in page.tags if tag == "img"]
    assert "\x1b" not in text
    assert "\u202e" not in text
    (charts,) = (json.loads(script) for script in page.scripts if script.startswith("{"))
    assert set(charts) == {"document", "roots"}
    assert HOSTILE in page.case["subscriptions"][0]["view"]["topic"]
    assert "</script><img" in page.text  # as text


def test_json_in_a_page_cannot_end_its_element() -> None:
    document = {"name": "</script><!--&"}
    text = for_html(document)
    assert not re.search("[<>&]", text)
    assert json.loads(text) == document


def test_a_page_replaces_a_page_and_no_other_file(run: Any, made: Any, trace: Path) -> None:
    other = trace.parent / "notes.txt"
    other.write_text("mine")
    code, _, err = run("report", trace, "-o", other)
    assert (code, other.read_text()) == (2, "mine")
    assert "is there and is not a page" in err
    made(trace)
    made(trace)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "missing argument 'SOURCE...'"),
        (["nosuch.gz"], "nosuch.gz"),
        (["{trace}", "{trace}"], "a page is of one trace, and 2 are given"),
        (["{page}"], "is a page of `report`; `stall-check --case "),
        (["gone.ptrace"], "cannot read gone.ptrace: No such file"),
        (["{trace}", "-s", "nosuch"], "has no subscription 'nosuch'"),
        (["{trace}", "--topic", "nosuch"], "has no topic 'nosuch'"),
    ],
)
def test_what_cannot_be_read_is_said(
    run: Any, trace: Path, arguments: list[str], said: str
) -> None:
    output, page = trace.parent / "page.html", trace.parent / "other.html"
    run("report", trace, "-o", page)
    given = (each.format(trace=trace, page=page) for each in arguments)
    code, out, err = run("report", *given, "-o", output)
    assert code in (2, 3)
    assert (said in err, out, output.exists()) == (True, "", False)


@pytest.mark.parametrize(
    "arguments",
    [
        ["holes", "--stats"],
        ["holes", "--internal-stats"],
        ["capture", "{page}", "--trace", "{trace}.new", "--stats"],
        ["stall-check", "orders", "--after"],
    ],
)
def test_our_own_page_is_named_wherever_statistics_are_taken(
    run: Any, trace: Path, arguments: list[str]
) -> None:
    page = trace.parent / "page.html"
    run("report", trace, "-o", page)
    code, out, err = run(*(each.format(trace=trace, page=page) for each in arguments), page)
    assert (code, out) == (2, "")
    assert f"{page} is a page of `report`; `stall-check --case {page}` gives its verdicts" in err
    assert "here give the file or bundle that it was made of" in err


def test_a_live_topic_is_watched_first_and_the_page_gives_its_verdict_again(
    run: Any, made: Any, tmp_path: Path
) -> None:
    with cluster({"orders": stuck()}) as broker:
        page = Page(made("orders", "--for", "300ms", "--admin-url", broker.url))
        missing = ("report", "nothing-there", "--for", "0s", "-o", tmp_path / "none.html")
        code, _, err = run(*missing, "--admin-url", broker.url)
    assert "permits-exhausted of worker-1" in page.text
    assert broker.url in page.text
    assert page.case["subscriptions"]
    assert run("stall-check", "--case", tmp_path / "page.html")[0] == 1
    assert (code, err.count("nothing-there")) == (3, 1)
    assert not (tmp_path / "none.html").exists()


@pytest.mark.parametrize("source", ["incident.gz", "./orders", "gone.ptrace", "a.html"])
def test_what_is_written_as_a_file_is_none_of_a_brokers_topics(run: Any, source: str) -> None:
    code, _, err = run("report", source, "--admin-url", "http://127.0.0.1:9")
    assert code == 2
    assert "127.0.0.1" not in err


def test_a_topic_and_a_recording_are_two_pages(run: Any) -> None:
    code, _, err = run("report", "orders", STATES / "redelivery-storm.jsonl.gz")
    assert (code, "make two pages" in err) == (2, True)
