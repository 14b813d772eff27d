"""Every command in the README and in docs/ is one that the command line accepts."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from pulsar_doctor.cli import cli

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").glob("*.md"))]
# In code blocks the rest of a line, with continuations; in text what stands between backticks.
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.M | re.S)
CALL = re.compile(r"(?:^|[\s|/;])pulsar-doctor(?P<words> .*)")
INLINE = re.compile(r"`([^`]+)`")
DEFAULT = re.compile(r"\$\{\w+:-(\w+)\}")  # of a shell: ${1:-github}
ENDS = {"|", "||", "&&", ">", ">&2", "#", ";"}
SUBCOMMANDS = cli.list_commands(click.Context(cli))
LINK = re.compile(r"\]\((?!https?://)([^)#\s]*)(?:#([^)\s]+))?\)")
HEADING = re.compile(r"^#+ (.*)", re.MULTILINE)


def commands(text: str) -> list[list[str]]:
    """The arguments of each command of a page."""
    blocks = "\n".join(BLOCK.findall(text)).replace("\\\n", " ")
    lines = blocks.splitlines()
    for inline in INLINE.findall(BLOCK.sub("", text)):
        named = inline.split(" ")[0] in SUBCOMMANDS and " " in inline
        lines.append(f"pulsar-doctor {inline}" if named else inline)
    return [
        words for line in lines for words in _called(DEFAULT.sub(r"\1", line.replace("\\|", "|")))
    ]


def _called(line: str) -> list[list[str]]:
    if not (found := CALL.search(line)):
        return []
    words = re.split(r"\s{2,}# | {2}#", found["words"])[0].rstrip("'")
    if words.count('"') % 2:  # a query that is continued on the next lines
        words += '"'
    parts = shlex.split(words, comments=True)
    ends = [at for at, part in enumerate(parts) if part in ENDS or part.endswith((";", ">"))]
    return [parts[: ends[0]] if ends else parts]


CASES = [
    pytest.param(words, id=f"{page.name}: {' '.join(words)}")
    for page in PAGES
    for words in commands(page.read_text("utf-8"))
]


@pytest.mark.parametrize("words", CASES)
def test_the_command_line_accepts_it(words: list[str]) -> None:
    command: click.Command = cli
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(click.Context(command), words[0])
        assert found is not None, f"there is no {words[0]}"
        command, words = found, words[1:]
    context = click.Context(command, **cli.context_settings)  # click keeps what its help is called
    if words and any(words[-1] in each.opts and takes_value(each) for each in command.params):
        words = [*words, "VALUE"]  # the text names the option, without a value
    values, _, _ = command.make_parser(context).parse_args(list(words))
    for option in command.params:
        value = values.get(str(option.name), "VALUE")
        if isinstance(option.type, click.Choice) and value != "VALUE":
            option.type_cast_value(context, value)


def leaves(command: click.Command | None, *names: str) -> list[tuple[str, ...]]:
    """Every subcommand that is not a group, by its words."""
    if not isinstance(command, click.Group):
        return [names]
    context = click.Context(command, **cli.context_settings)  # click keeps what its help is called
    inner = {name: command.get_command(context, name) for name in command.list_commands(context)}
    return [words for name, each in inner.items() for words in leaves(each, *names, name)]


def test_every_subcommand_is_shown_on_a_page() -> None:
    shown = [tuple(words) for page in PAGES for words in commands(page.read_text("utf-8"))]
    shown_words = {words[:length] for words in shown for length in (1, 2)}
    assert [names for names in leaves(cli) if names not in shown_words] == []


def anchors(page: Path) -> set[str]:
    """What GitHub makes of the headings of a page."""
    kept = (
        re.sub(r"[^\w -]", "", each.lower()) for each in HEADING.findall(page.read_text("utf-8"))
    )
    return {each.replace(" ", "-") for each in kept}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_somewhere(page: Path) -> None:
    for target, anchor in LINK.findall(page.read_text("utf-8")):
        path = (page.parent / target) if target else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


def takes_value(option: click.Parameter) -> bool:
    return isinstance(option, click.Option) and not option.is_flag


def test_commands_are_found_on_each_page_that_shows_some() -> None:
    assert len(commands((ROOT / "README.md").read_text("utf-8"))) >= 15
    assert commands("`pulsar-doctor tap --listen 127.0.0.1:6651 -- CMD`") == [
        ["tap", "--listen", "127.0.0.1:6651", "--", "CMD"]
    ]


# In text between backticks: a module, or a name with `_`, which our own have and Pulsar's have not.
FILE = re.compile(r"[\w/]+\.py")
OWN = re.compile(r"(?:[A-Z]\w+\.)?[a-z]+(?:_[a-z]+)+(?:\(\))?")


def test_pages_name_modules_and_names_that_exist() -> None:
    rooms = (ROOT / "pulsar_doctor", ROOT / "tests", ROOT / "bench")
    ends = (".py", ".toml")
    files = [each for room in rooms for each in room.rglob("*.*") if each.suffix in ends]
    modules = [f"/{file.relative_to(ROOT)}" for file in files]
    known = {word for file in files for word in re.findall(r"\w+", file.read_text("utf-8"))}
    for page in (ROOT / "CONTRIBUTING.md", *PAGES):
        for named in INLINE.findall(BLOCK.sub("", page.read_text("utf-8"))):
            if FILE.fullmatch(named):
                assert any(each.endswith(f"/{named}") for each in modules), (page.name, named)
            elif OWN.fullmatch(named):
                words = set(re.findall(r"\w+", named.removeprefix("pulsar_doctor_")))
                assert words <= known, (page.name, named)
