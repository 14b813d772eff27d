"""What others wrote is obeyed by no terminal: all text that is printed goes through one gate."""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pulsar_doctor import cli
from pulsar_doctor.parts.tap.events import Listening
from pulsar_doctor.parts.tap.report.screens import JsonLines, Lines
from pulsar_doctor.wording.consoles import GatedConsole
from pulsar_doctor.wording.gate import complain, gated, stdout, tell, tell_json, warn
from tests.made.traces import write_trace
from tests.made.wire import Wire
from tests.trace.readers import ALL

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "pulsar_doctor"

# ESC and BEL, a line that says it is ours, C1's own ESC [, an override of the direction, DEL,
# a line end of Unicode, and markup of the library that draws.
EVIL = (
    "\x1b]0;PWN\a\x1b[31m\x9b2J\r\npulsar-doctor: all is well\u202e\u2066\x7f\x85\u2028\u200b"
    "[link=file:///etc/passwd]x[/link][/nothing]"
)
STREAMS = {"stdout", "stderr", "__stdout__", "__stderr__"}
# How to ask a stream what it is, or give it to a process of somebody else, is no printing.
GATE = {"wording/gate.py", "wording/consoles.py"}
ALLOWED = {("parts/tap/running.py", "sys.stderr"), ("parts/tap/own_trace.py", "sys.stderr")}


def ways_past(module: Path) -> Iterator[str]:
    """What would print, of a module."""
    for node in ast.walk(ast.parse(module.read_text("utf-8"))):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called in ("print", "click.echo", "click.secho", "Console", "rich.print"):
                yield called
        elif isinstance(node, ast.Attribute) and node.attr in STREAMS:
            if ast.unparse(node.value) == "sys":
                yield ast.unparse(node)
        elif isinstance(node, ast.ImportFrom) and node.module in ("rich", "click", "sys"):
            names = {alias.name for alias in node.names} & {"print", "echo", "secho", *STREAMS}
            yield from sorted(names)


def test_nothing_is_printed_past_the_gate() -> None:
    past = [
        (path, way)
        for module in sorted(PACKAGE.rglob("*.py"))
        if (path := str(module.relative_to(PACKAGE))) not in GATE
        for way in ways_past(module)
    ]
    assert set(past) - ALLOWED == set()


def clean(text: str) -> str:
    """Nothing in it acts on a terminal, and no line is another's."""
    assert all(line.isprintable() for line in text.split("\n")), text
    assert not [line for line in text.split("\n") if line.startswith("pulsar-doctor: all is")]
    return text


def test_a_line_is_one_line_whatever_is_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    tell(EVIL)
    warn(EVIL)
    complain(EVIL)
    said = capsys.readouterr()
    assert clean(said.out).count("\n") == 1
    assert clean(said.err).count("\n") == 3
    assert said.err.split("\n")[2].startswith("  pulsar-doctor: all is well")


def test_json_keeps_every_character(capsys: pytest.CaptureFixture[str]) -> None:
    tell_json({EVIL: [EVIL, "\ud800"]}, indent=1)
    out = clean(capsys.readouterr().out)
    assert json.loads(out) == {EVIL: [EVIL, "\ud800"]}


def test_a_stream_behind_the_gate_is_gated_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert gated(stdout()) is not None
    assert type(gated(stdout()).behind) is not type(stdout())  # type: ignore[attr-defined]
    gated(stdout()).writelines(["one\n", f"two{EVIL}\n"])
    assert clean(capsys.readouterr().out.replace("\npulsar", " pulsar"))


@pytest.mark.parametrize("terminal", [False, True])
def test_what_is_drawn_has_its_own_colours_and_no_others(terminal: bool) -> None:
    out = io.StringIO()
    name = EVIL.replace("\n", "")
    colours: Any = "standard" if terminal else None
    console = GatedConsole(file=out, force_terminal=terminal, color_system=colours, width=400)
    table = Table()
    table.add_column(Text(name, style="red"))
    table.add_row(Text(name))
    console.print(table)
    console.print(Text(name, style="bold red"))
    with Live(Text(name), console=console, auto_refresh=False):
        pass
    told = out.getvalue()
    assert ("\x1b[1;31m" in told) == terminal
    theirs = ("\x1b]", "\x1b[31m\ufffd", *"\a\x9b\u202e\u2066\x7f\x85\u2028")
    assert not [obeyed for obeyed in theirs if obeyed in told]


def test_a_tap_in_a_pipe_is_gated_too(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w+") as out:
        for screen in (Lines(out, out, warn, warn), JsonLines(out, warn, warn)):
            screen.show(Listening(1, EVIL.replace("\n", ""), EVIL, None))
        out.seek(0)
        lines = clean(out.read()).splitlines()
    assert len(lines) == 2
    assert json.loads(lines[1])["upstream"] == EVIL


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    said = Wire().open().attached(1, EVIL, subscription=EVIL, topic=f"persistent://a/b/{EVIL}")
    said.flow(5).pushed(range(5)).wait(400)
    return write_trace(tmp_path / "t.ptrace", said.blocks)


@pytest.fixture
def run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str]]:
    def run(*arguments: object) -> tuple[int, str]:
        code = cli.run([str(argument) for argument in arguments])
        said = capsys.readouterr()
        clean(said.err)
        return code, clean(said.out)

    return run


COMMANDS = [*ALL, ("stall-check", "--consumers", "--trace"), ("stall-check", "-v", "--trace")]


@pytest.mark.parametrize("width", ["60", "300"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_every_reader_of_a_trace_shows_names_and_obeys_none(
    command: tuple[str, ...], width: str, trace: Path, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    code, out = run(*command, trace)
    assert code in (0, 1, 2)  # 2 is what nagios calls critical
    assert out
    if "verify" not in command and "holes" not in command and "prometheus" not in command:
        assert "PWN" in out, "the name is told"
    if "json" in command and "show" in command:
        assert json.loads(out)[2]["consumer_name"] == EVIL


def test_a_name_that_is_not_there_is_said_with_those_that_are(trace: Path, run: Any) -> None:
    for option in ("--consumer", "--topic", "--subscription"):
        assert run("trace", "show", trace, option, f"no{EVIL}")[0] == 2
    assert run("trace", "show", f"{trace}{EVIL}")[0] == 2
    assert run("explain", EVIL)[0] == 2
    assert run(EVIL)[0] == 2
    assert run("stall-check", f"--{EVIL}")[0] == 2
