"""The manual pages, made from the command line, the table of columns and docs/trace.md.

`python -m tests.generate` writes man/.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import click

from pulsar_doctor import __version__
from pulsar_doctor.broker.settings import PREFIX
from pulsar_doctor.cli import cli
from pulsar_doctor.cli._commands import ConnectionOption
from pulsar_doctor.wire.columns import COLUMNS, SCHEMA_VERSION, Column

FOLDER = Path(__file__).parent.parent / "man"
CHANGELOG = FOLDER.parent / "CHANGELOG.md"
PROGRAM = "pulsar-doctor"
WIDTH = 78
# Who knows it: an option, a subcommand, or None for all; the variable or file; what it is.
ENVIRONMENT = (
    ("context", "PULSAR_DOCTOR_CONTEXT", "The current context; set to nothing: none."),
    ("client_conf", "PULSAR_CLIENT_CONF", "Pulsar's own variable for --client-conf."),
    ("sandbox", "PULSAR_DOCTOR_CACHE", "The folder that Apache Pulsar is downloaded to."),
    (None, "NO_COLOR", "The same as --no-color."),
    (None, "LC_ALL", "Set to C, what is printed has characters of ASCII only."),
    (None, "PULSAR_DOCTOR_TRACEBACK", "Set to 1, a mistake in the program itself shows its stack."),
)
FILES = (
    ("context", "$XDG_CONFIG_HOME/pulsar-doctor/contexts.toml",
     "Contexts; without the variable in ~/.config/pulsar-doctor."),
    ("context", "$XDG_CONFIG_HOME/pulsar-doctor/current-context",
     "What `context use` has chosen."),
    ("context", "~/.config/pulsar/config", "Contexts of pulsarctl."),
    ("listen", "$XDG_STATE_HOME/pulsar-doctor/taps",
     "Temporary traces; without the variable in ~/.local/state/pulsar-doctor/taps."),
    ("trace_dir", "DIR", "A trace, as pulsar-doctor-trace(5) describes it."),
    ("folder", "DIR", "A trace, as pulsar-doctor-trace(5) describes it."),
    ("traces", "DIR", "A trace, as pulsar-doctor-trace(5) describes it."),
    ("keep", "DIR", "Records of a watch, as docs/fleet.md describes them."),
    ("folders", "DIR", "Records of a watch, as docs/fleet.md describes them."),
    ("sources", "DIR", "A trace, as pulsar-doctor-trace(5) describes it."),
    ("sandbox", "$XDG_CACHE_HOME/pulsar-doctor",
     "Apache Pulsar and the data of the sandbox; without the variable in ~/.cache/pulsar-doctor."),
)  # fmt: skip
EXITS = (
    "0 done; 2 wrong usage or input that cannot be read; 3 it could not be done; 130 interrupted "
    "with Ctrl-C."
)
HEADINGS = ("Example:", "Examples:")  # of examples, inside of a help text
TRACE = FOLDER.parent / "docs" / "trace.md"  # what the page of section 5 tells in words
LISTED = re.compile(r"^- `([^`]+)`: (.*?)(?=\n- |\Z)", re.M | re.S)


def pages() -> dict[str, str]:
    """File name -> its text, of all pages."""
    root = click.Context(cli, info_name=PROGRAM, **cli.context_settings)
    made = {f"{PROGRAM}.1": _program(root)}
    for name in cli.list_commands(root):
        made[f"{PROGRAM}-{name}.1"] = _subcommand(_child(root, name))
    made[f"{PROGRAM}-trace.5"] = _trace_format()
    return made


def _child(parent: click.Context, name: str) -> click.Context:
    assert isinstance(parent.command, click.Group)
    command = parent.command.get_command(parent, name)
    assert command is not None
    return click.Context(command, info_name=name, parent=parent)


def _children(context: click.Context) -> list[click.Context]:
    command = context.command
    if not isinstance(command, click.Group):
        return []
    return [_child(context, name) for name in command.list_commands(context)]


# --- a page ---


def _program(root: click.Context) -> str:
    sections = _Sections(root.command)
    commands = [
        line
        for child in _children(root)
        for line in _entry(rf"\fB{_code(_page_name(child)[0])}\fR(1)", _first(child.command))
    ]
    names = [_page_name(child) for child in _children(root)]
    return _page(
        _head(PROGRAM, 1, _first(root.command)),
        _section("SYNOPSIS", _synopsis(root)),
        _section("DESCRIPTION", sections.text),
        _section("SUBCOMMANDS", commands),
        _section("OPTIONS", _options(root)),
        _section("EXIT STATUS", sections.exits),
        *_outside(root),
        _section("EXAMPLES", sections.examples),
        _section("SEE ALSO", _references([*names, (f"{PROGRAM}-trace", 5)])),
    )


def _subcommand(context: click.Context) -> str:
    sections = _Sections(context.command)
    children = _children(context)
    name, number = _page_name(context)
    inner = [line for child in children for line in _inner(child)]
    synopsis = [line for each in children or [context] for line in _synopsis(each)]
    see = [(PROGRAM, 1)]
    if any(parameter.name == "trace" for parameter in context.command.params) or name.endswith(
        "trace"
    ):
        see.append((f"{PROGRAM}-trace", 5))
    return _page(
        _head(name, number, _first(context.command)),
        _section("SYNOPSIS", synopsis),
        _section("DESCRIPTION", sections.text or _wrapped(_first(context.command))),
        _section("COMMANDS", inner),
        _section("OPTIONS", _options(context)),
        _section("EXIT STATUS", sections.exits or _wrapped(EXITS)),
        *_outside(context),
        _section("EXAMPLES", sections.examples),
        _section("SEE ALSO", _references(see)),
    )


def _outside(context: click.Context) -> Iterator[list[str]]:
    """What it reads beside its arguments: the environment, and files."""
    known = {p.name: p for each in [context, *_children(context)] for p in each.command.params}
    for child in _children(context):
        known |= {p.name: p for each in _children(child) for p in each.command.params}
    lines = [
        line
        for name, option in known.items()
        if isinstance(option, ConnectionOption) and name != "context"
        for line in _entry(rf"\fB{PREFIX}{str(name).upper()}\fR", f"The same as {option.opts[-1]}.")
    ]
    for title, style, table in (("ENVIRONMENT", "B", ENVIRONMENT), ("FILES", "I", FILES)):
        for reader, what, text in table:
            if reader in (None, context.info_name, *known):
                lines += _entry(rf"\f{style}{_code(what)}\fR", text)
        yield _section(title, lines)
        lines = []


def _inner(context: click.Context) -> Iterator[str]:
    sections = _Sections(context.command)
    yield f".SS {_code(context.info_name or '')}"
    yield from _wrapped(_first(context.command))
    for part in (sections.text, sections.exits, sections.examples):
        if part:
            yield from [".PP", *part]
    yield from _options(context)


def _trace_format() -> str:
    name = f"{PROGRAM}-trace"
    told = _chapters(TRACE.read_text("utf-8"))
    files = [
        line
        for name, text in LISTED.findall(told["Files"])
        for line in _entry(rf"\fI{_code(name)}\fR", text)
    ]
    columns = [line for column in COLUMNS for line in _entry(_column_head(column), column.meaning)]
    return _page(
        _head(name, 5, "what pulsar-doctor records of the wire"),
        _section("DESCRIPTION", _paragraphs(told["Description"])),
        _section("FILES", files),
        _section("COLUMNS", [*_wrapped(f"Version {SCHEMA_VERSION} of the schema."), *columns]),
        _section("LEDGER", _paragraphs(told["Ledger"])),
        _section("WRITING", _paragraphs(told["Writing"])),
        _section("RECOVERY", _paragraphs(told["Recovery"])),
        _section("EXAMPLES", _verbatim(told["Examples"].splitlines()[1:-1])),
        _section("SEE ALSO", _references([(PROGRAM, 1), (f"{PROGRAM}-tap", 1), (name, 1)])),
    )


def _chapters(markdown: str) -> dict[str, str]:
    """Title -> text, of what begins with ##."""
    begun = [part.partition("\n") for part in markdown.split("\n## ")[1:]]
    return {title: text.strip() for title, _, text in begun}


def _column_head(column: Column) -> str:
    never = "" if column.nullable else ", never null"
    return rf"\fB{column.name}\fR  {_code(column.type)}{never}"


class _Sections:
    """The help text of a command and its epilog, by what they are. The first sentence is apart."""

    def __init__(self, command: click.Command) -> None:
        self.text: list[str] = []
        self.exits: list[str] = []
        self.examples: list[str] = []
        given = f"{command.help or ''}\n\n{command.epilog or ''}"
        for number, paragraph in enumerate(re.split(r"\n\s*\n", _unindented(given).strip())):
            if number:
                self._add(paragraph.splitlines())

    def _add(self, lines: list[str]) -> None:
        if lines[0].strip() == "\b":
            lines = [line.strip() for line in lines[1:] if line.strip() not in HEADINGS]
            if lines and lines[0].startswith("Exit codes:"):
                self._add(lines)
                return
            examples = sum(f"{PROGRAM} " in line for line in lines) >= len(lines) - 1
            self._append(self.examples if examples else self.text, _verbatim(lines))
            return
        text = " ".join(lines)
        if text.startswith("Exit codes:"):
            self._append(self.exits, _wrapped(text.removeprefix("Exit codes:").strip()))
        else:
            self._append(self.text, _wrapped(text))

    @staticmethod
    def _append(section: list[str], lines: list[str]) -> None:
        section.extend([".PP", *lines] if section else lines)


def _unindented(text: str) -> str:
    return "\n".join(line.strip(" ") for line in text.splitlines())


def _first(command: click.Command) -> str:
    text = _unindented(command.help or "").strip().split("\n\n")[0]
    return " ".join(text.split()).rstrip(".")


def _page_name(context: click.Context) -> tuple[str, int]:
    return f"{PROGRAM}-{context.info_name}", 1


def _synopsis(context: click.Context) -> list[str]:
    names = _path_of(context)
    rest = " ".join(rf"\fI{_code(piece)}\fR" for piece in _pieces(context))
    return [rf"\fB{_code(names)}\fR {rest}", ".br"]


def _path_of(context: click.Context) -> str:
    before = _path_of(context.parent) if context.parent else ""
    return f"{before} {context.info_name}".strip()


def _pieces(context: click.Context) -> Iterator[str]:
    yield "[OPTIONS]"
    for parameter in context.command.params:
        if isinstance(parameter, click.Argument):
            name = parameter.metavar or (parameter.name or "").upper()
            name = name.strip("[].")
            name = name if parameter.required else f"[{name}]"
            yield name + ("..." if parameter.nargs == -1 else "")
    if isinstance(context.command, click.Group):
        yield "SUBCOMMAND"
        yield "[ARGUMENTS]..."


# --- options ---


def _options(context: click.Context) -> list[str]:
    lines = []
    for parameter in context.command.get_params(context):
        if isinstance(parameter, click.Option) and not parameter.hidden:
            lines += _entry(_option_names(parameter), _option_help(parameter))
    return lines


def _option_names(option: click.Option) -> str:
    names = ", ".join(
        rf"\fB{_code(name)}\fR" for name in (*sorted(option.opts, key=len), *option.secondary_opts)
    )
    return names if option.is_flag or option.count else rf"{names} \fI{_code(_metavar(option))}\fR"


def _metavar(option: click.Option) -> str:
    if option.metavar:
        return option.metavar
    if isinstance(option.type, click.Choice):
        return "|".join(map(str, option.type.choices))
    names = {"integer": "N", "integer range": "N", "path": "PATH"}
    return names.get(option.type.name, option.type.name.upper())


def _option_help(option: click.Option) -> str:
    notes = []
    if option.show_default:
        default = option.default
        notes.append(f"default: {default() if callable(default) else default}")
    if isinstance(option.type, click.IntRange) and not option.count:
        bounds = (("at least", option.type.min), ("at most", option.type.max))
        notes += [f"{word} {bound}" for word, bound in bounds if bound is not None]
    text = " ".join((option.help or "").split())
    return f"{text} [{'; '.join(notes)}]" if notes else text


# --- roff ---


def _page(*parts: list[str]) -> str:
    return "\n".join(line for part in parts for line in part) + "\n"


def _head(name: str, number: int, summary: str) -> list[str]:
    return [
        r".\" made by tests/manpages.py: do not edit",
        f'.TH {name.upper()} {number} "{released()}" "{PROGRAM} {__version__}"'
        ' "pulsar-doctor manual"',
        ".SH NAME",
        *_filled(rf"{_code(name)} \- {_plain(summary)}"),
    ]


def released() -> str:
    """The date of the newest version with one: pages bear it, whenever they are made."""
    found = re.search(r"^## \[.+\] - (\d{4}-\d\d-\d\d)$", CHANGELOG.read_text(), re.M)
    assert found, "CHANGELOG.md has no dated section"
    return found[1]


def _section(title: str, lines: Iterable[str]) -> list[str]:
    body = list(lines)
    while body and body[-1] == ".br":
        body.pop()
    return [f".SH {title}", *body] if body else []


def _references(names: Iterable[tuple[str, int]]) -> list[str]:
    listed = [rf"\fB{_code(name)}\fR({number})" for name, number in names]
    return [f"{each}," for each in listed[:-1]] + listed[-1:]


def _entry(term: str, text: str) -> list[str]:
    return [".TP", term, *_wrapped(text)]


def _paragraphs(text: str) -> list[str]:
    made: list[str] = []
    for paragraph in text.strip().split("\n\n"):
        made += [*([".PP"] if made else []), *_wrapped(paragraph)]
    return made


def _wrapped(text: str) -> list[str]:
    return _filled(_plain(" ".join(text.split())))


def _filled(roff: str) -> list[str]:
    lines = textwrap.wrap(roff, WIDTH, break_long_words=False, break_on_hyphens=False)
    return [_guarded(line) for line in lines]


def _verbatim(lines: Iterable[str]) -> list[str]:
    return [".nf", *(_guarded(_code(line)) for line in lines), ".fi"]


def _guarded(line: str) -> str:
    return rf"\&{line}" if line.startswith((".", "'")) else line


def _plain(text: str) -> str:
    """Running text: options and what stands in backquotes are bold."""
    pieces = re.split(r"`([^`]+)`|((?<![\w-])--?[a-z][\w-]*)", text)
    made = []
    for number in range(0, len(pieces), 3):
        made.append(_escaped(pieces[number]))
        shown = [piece for piece in pieces[number + 1 : number + 3] if piece]
        made += [rf"\fB{_code(piece)}\fR" for piece in shown]
    return "".join(made)


def _code(text: str) -> str:
    """What a user types: a hyphen is a minus."""
    return _escaped(text).replace("-", r"\-")


def _escaped(text: str) -> str:
    text = text.replace("\\", r"\e").replace("~", r"\(ti").replace("^", r"\(ha")
    text = text.replace("'", r"\(aq")
    return "".join(each if each.isascii() else rf"\[u{ord(each):04X}]" for each in text)


def path_of(name: str) -> Path:
    """The file of a page, in the folder of its section: installed as it lies here."""
    return FOLDER / f"man{name[-1]}" / name


def files() -> Iterator[tuple[Path, str]]:
    """The file of each page, and its text."""
    for name, text in pages().items():
        yield path_of(name), text
