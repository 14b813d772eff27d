"""What subcommands print keeps the laws of a screen: at any width, in any locale, in a pipe."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import chdir
from dataclasses import dataclass
from pathlib import Path

import pytest
from rich.cells import cell_len

from pulsar_doctor.report.paper import PIPE_TEXT_WIDTH
from tests.cli.test_help import LEAVES
from tests.made.traces import write_trace
from tests.made.wire import slow_consumer
from tests.support.command_line import on_terminal

ROOT = Path(__file__).parents[2]
STATES = "tests/states/4.0.8"
RECORDED = "tests/parts/capture/recorded/tcpdump-lo.pcap.gz"
WIDTHS = (60, 80, 100, 120)
USUAL = 80
LINES_MOST = 14  # of a verdict that is not healthy
COLOURS = re.compile(r"\x1b\[[\d;]*m")
ESCAPED = re.compile(r"\\u[0-9a-f]{4}|\\x[0-9a-f]{2}")
COMMANDS = ("pulsar-doctor ", "pulsar-admin ", "ss -")  # what people paste
ROWS = ("but", "where", "waits", "fix", "decide", "check", "run", "more")  # of a verdict, in order
TRACE, CASE, NEW = "TRACE", "CASE", "NEW"  # a trace, a page with a case, a new folder
STALLED = {
    "a hog": f"stall-check --stats {STATES}/prefetch-hogging.jsonl.gz",
    "a stuck consumer": "stall-check --set permits-exhausted.refill_wait=5s"
    f" --stats {STATES}/permits-exhausted-shared-hung.jsonl.gz",
    "a stuck key": "stall-check --set key-shared-blocked.refill_wait=5s"
    f" --stats {STATES}/key-shared-blocked.jsonl.gz",
    "a trace": f"stall-check --trace {TRACE}",
    "a case": f"stall-check --case {CASE}",
}
SCREENS: Mapping[str, str] = STALLED | {
    "details": f"stall-check -v --stats {STATES}/prefetch-hogging.jsonl.gz",
    "details of a healthy one": f"stall-check -v --stats {STATES}/healthy-busy.jsonl.gz",
    "details of a trace": f"stall-check -v --consumers --trace {TRACE}",
    "consumers": "stall-check --set key-shared-blocked.refill_wait=5s"
    f" --consumers --stats {STATES}/key-shared-blocked.jsonl.gz",
    "healthy": f"stall-check --consumers --stats {STATES}/healthy-busy.jsonl.gz",
    "holes": f"holes --stats {STATES}/ack-hole.jsonl.gz",
    "many holes": f"holes --stats {STATES}/holes-over-limit.jsonl.gz",
    "holes of a trace": f"holes --trace {TRACE}",
    "simulate": "simulate --rate 100/s --process-time 2s --duration 5s",
    "simulate a trace": f"simulate --from-trace {TRACE}",
    "trace show": f"trace show {TRACE}",
    "trace summary": f"trace summary {TRACE}",
    "trace verify": f"trace verify {TRACE}",
    "explain": "explain",
    "explain a cause": "explain broker-read-stuck",
    "known issues": "known-issues list --component broker",
    "a known issue": "known-issues show apache/pulsar#26454",
    "known issues of a version": "known-issues check --broker-version 4.0.8"
    f" --stats {STATES}/healthy-busy.jsonl.gz",
    "known issues that fit": "known-issues match tests/known/recorded/look-ahead-limit.gz",
    "contexts": "context list",
    "a context": "context show production",
    "documents": "schema",
    "a schema": "schema trace-verify",
    "versions": "sandbox versions",
    "capture": f"capture {RECORDED} --port 46557 --trace {NEW}",
    "help": "--help",
    "help of stall-check": "stall-check --help",
}

ELSEWHERE = {  # subcommands that are not here, and why
    "analyze": "Spark; see test_analysis", "demo": "a broker of its own",
    "fleet": "Spark; see test_fleet",
    **dict.fromkeys(("bundle", "consume", "examine", "produce", "tap"), "test_screens_on_broker"),
    "sandbox start": "a broker", "sandbox stop": "a broker",
    "sandbox status": "prints addresses, of a broker",
    "completion": "a script, and asks the shell for its version", "context use": "prints nothing",
    "report": "writes a page, and prints its name", "monitoring": "files for other programs",
    "mcp": "a server",
}  # fmt: skip
AS_IT_IS = ("a schema", "help", "help of stall-check")  # at any width
# A row of these stays one line in a pipe, to be searched, however long it is.
LISTS = {
    "trace show", "trace verify", "explain", "explain a cause", "capture",
    *(name for name in SCREENS if "known issue" in name),
}  # fmt: skip


@dataclass(frozen=True)
class Screens:
    """Prints command lines, with files of their own."""

    folder: Path

    def printed(self, line: str, width: int, **variables: str) -> list[str]:
        """The lines on a terminal; width 0: in a pipe, which has none."""
        number = len([*self.folder.iterdir()])
        names = {TRACE: "a.ptrace", CASE: "a.html", NEW: f"new-{number}"}
        words = [str(self.folder / names[each]) if each in names else each
                 for each in shlex.split(line)]  # fmt: skip
        told = {"XDG_CONFIG_HOME": str(self.folder), "NO_COLOR": "1"} | variables
        with chdir(ROOT):
            text = on_terminal(*words, width=width, **told)
        return text.replace(names[NEW], "new").replace(str(self.folder), "/folder").splitlines()


@pytest.fixture(scope="module")
def screens(tmp_path_factory: pytest.TempPathFactory) -> Screens:
    made = Screens(tmp_path_factory.mktemp("screens"))
    said = slow_consumer(entries=20).wait(400)
    write_trace(made.folder / "a.ptrace", said.blocks, parts=2)
    ours = made.folder / "pulsar-doctor"
    ours.mkdir()
    (ours / "contexts.toml").write_text(
        "[production]\n"
        'service-url = "pulsar+ssl://a-broker.production.example.com:6651"\n'
        'admin-url = "https://a-broker.production.example.com:8443"\n'
    )
    made.printed(f"report {STATES}/prefetch-hogging.jsonl.gz -o {CASE}", 0)
    return made


def may_be_long(line: str, width: int) -> bool:
    """A command to paste, or a name that is as long as the terminal is wide."""
    longest = max(map(cell_len, line.split()))
    set_in = len(line) - len(line.lstrip())
    return set_in + longest >= width or any(each in line for each in COMMANDS)


def names_in(lines: list[str]) -> set[str]:
    """Words that nobody may break: addresses, topics, codes, versions, settings."""
    words = {word.strip("(),;:'`") for line in lines for word in line.split()}
    return {word for word in words if re.search(r"[\w][-./:_=#][\w]", word)}


def broken(lines: list[str], names: set[str]) -> Iterator[str]:
    """Pieces of names at the end of a line, or of a cell of a table."""
    words = {word.strip("(),;:'`") for line in lines for word in line.split()}
    for word in words - names:
        if len(word) > 3 and not word.endswith("...") and re.search(r"[-./:_=#\d]", word):
            yield from (f"{word} of {name}" for name in names if name.startswith(word))


def test_each_subcommand_is_here_or_has_a_reason() -> None:
    lines = SCREENS.values()
    missing = {name for name in LEAVES if not any(f"{each} ".startswith(f"{name} ")
                                                  for each in lines)}  # fmt: skip
    assert missing == ELSEWHERE.keys()


@pytest.mark.parametrize("name", SCREENS)
def test_a_screen_keeps_its_laws(screens: Screens, name: str) -> None:
    line = SCREENS[name]
    in_a_pipe = screens.printed(line, 0)
    assert in_a_pipe
    assert [each for each in in_a_pipe if "\x1b" in each or each != each.rstrip()] == []
    if name not in {*LISTS, *AS_IT_IS}:
        limit = PIPE_TEXT_WIDTH
        assert [each for each in in_a_pipe
                if cell_len(each) > limit and not may_be_long(each, limit)] == []  # fmt: skip
    names = names_in(in_a_pipe)
    for width in WIDTHS if name not in AS_IT_IS else ():
        lines = screens.printed(line, width)
        assert [each for each in lines if "\x1b" in each] == []
        assert [each for each in lines
                if cell_len(each) > width and not may_be_long(each, width)] == []  # fmt: skip
        assert [*broken(lines, names)] == [], width


@pytest.mark.parametrize("name", SCREENS)
def test_colours_change_no_letter_and_the_c_locale_has_ascii_only(
    screens: Screens, name: str
) -> None:
    line = SCREENS[name]
    plain = screens.printed(line, USUAL)
    coloured = screens.printed(line, USUAL, NO_COLOR="")
    assert [COLOURS.sub("", each) for each in coloured] == plain
    in_ascii = "\n".join(screens.printed(line, USUAL, LC_ALL="C"))
    assert in_ascii.isascii()
    assert ESCAPED.search(in_ascii) is None


@pytest.mark.parametrize("name", STALLED)
def test_a_verdict_takes_a_dozen_lines_with_the_first_action_among_them(
    screens: Screens, name: str
) -> None:
    lines = screens.printed(STALLED[name], USUAL)
    first = next(at for at, each in enumerate(lines) if each.startswith(("✖ STALLED", "▲ WARN")))
    block = lines[first : lines.index("", first)]
    assert len(block) <= LINES_MOST
    rows = [each.split()[0] for each in block if each.split()[0] in ROWS]
    assert rows == sorted(rows, key=ROWS.index)
    assert {"where", "fix", "check", "more"} <= {*rows}
