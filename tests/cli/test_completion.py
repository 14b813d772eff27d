"""What Tab offers, asked of the program as a shell asks it."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click
import pytest

from pulsar_doctor.cli import cli
from tests.broker.http_broker import Asked, Reply, serving
from tests.support import eventually
from tests.support.command_line import environment, pulsar_doctor
from tests.support.shells import SHELLS, shell
from tests.support.wanting import wanting

NAMED = ("orders", "other", "orders-partition-0", "orders-partition-1")
# What runs, redirects, expands, forges an answer or acts on the terminal, unquoted or raw.
HOSTILE = (
    "$(touch pwned)", ";touch pwned", " > pwned", "`touch pwned`", "|touch pwned",
    "\x1b]0;PWN\a", '"><img src=x>', "\nfile,x", "\nplain,forged", "\nplain\nforged\n_", " x y",
    ",forged", "*", "é",
)  # fmt: skip
PIECES = (
    *HOSTILE, "&touch pwned&", "<(touch pwned)", "\r", "\t", "\x9b31mPWN", "\x01", "\x7f", "'", '"',
    "\\", "!", "!!", "?", "[a]", "{a,b}", "~", "#", "%", "^", "(", ")", "$HOME", "\u202e", "\u2028",
)  # fmt: skip
RAW = [each.encode() for each in ("\x1b]0;PWN", "\x9b31mPWN", "\u202e", "\u2028")]


def beside_normal(endings: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """What is typed, the name that ends with this, and a normal name that begins as it does."""
    letters = map("".join, itertools.product("abcdefgh", repeat=3))
    for typed, end in zip(letters, endings, strict=False):
        yield typed, typed + end, f"{typed}-normal"


def generated(seed: int, count: int) -> list[str]:
    """Ends of names, each of some pieces."""
    draw = random.Random(seed)
    return ["".join(draw.choices(PIECES, k=draw.randint(1, 4))) for _ in range(count)]


def write_contexts(home: Path, names: Iterable[str]) -> None:
    """The file of contexts in this home folder."""
    file = home / ".config" / "pulsar-doctor" / "contexts.toml"
    file.parent.mkdir(parents=True)
    file.write_text("".join(f"[{json.dumps(name)}]\n" for name in names).replace("\x7f", "\\u007f"))


def printed(shell: str, *words: str, home: Path | None = None) -> str:
    """The answer to the script of this shell, for the last of these words."""
    asked = {
        "_PULSAR_DOCTOR_COMPLETE": f"{shell}_complete",
        "COMP_WORDS": " ".join(["pulsar-doctor", *words]),
        "COMP_CWORD": words[-1] if shell == "fish" else str(len(words)),
    }
    ran = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv[0] = 'pulsar-doctor'\n"
         "from pulsar_doctor.__main__ import main; main()"],
        env=environment() | asked | ({"HOME": str(home)} if home else {}),
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stderr) == (0, "")
    return ran.stdout


def offered(*words: str, home: Path | None = None) -> list[str]:
    """What bash offers for the last of these words."""
    lines = printed("bash", *words, home=home).splitlines()
    return [line.partition(",")[2] for line in lines if line]


def of_namespace(asked: Asked) -> Reply:
    if "/partitioned" in asked.path:
        return Reply(document=["persistent://public/default/orders"])
    if "/persistent/public/default" in asked.path:
        return Reply(document=[f"persistent://public/default/{name}" for name in NAMED])
    return Reply(document=[])


def test_codes_and_thresholds_are_offered() -> None:
    assert offered("explain", "permits-") == ["permits-differ", "permits-exhausted"]
    assert offered("stall-check", "--skip", "permits-e") == ["permits-exhausted"]
    assert "healthy.first_ack_within=" in offered("stall-check", "--set", "healthy.")


def test_contexts_are_offered(tmp_path: Path) -> None:
    write_contexts(tmp_path, ["prod", "preview", "dev"])
    assert offered("stall-check", "--context", "pr", home=tmp_path) == ["preview", "prod"]
    assert offered("context", "use", "d", home=tmp_path) == ["dev"]


@pytest.mark.parametrize(
    "text",
    ["a = " + "[" * 20_000, "[prod", "\xff", "[prod]\n" * 2],
    ids=["deep", "cut", "no text", "twice"],
)
def test_a_file_of_contexts_that_cannot_be_read_offers_nothing(tmp_path: Path, text: str) -> None:
    write_contexts(tmp_path, ["prod"])
    file = tmp_path / ".config" / "pulsar-doctor" / "contexts.toml"
    file.write_bytes(text.encode("latin-1"))
    assert offered("stall-check", "--context", "pr", home=tmp_path) == []
    assert offered("--context", "prod", "stall-check", "or", home=tmp_path) == []


@pytest.mark.parametrize(
    ("shell", "given"),
    [
        ("bash", {}),
        ("bash", {"COMP_WORDS": "pulsar-doctor o", "COMP_CWORD": "x"}),
        ("zsh", {"COMP_WORDS": "pulsar-doctor o"}),
        ("fish", {"COMP_WORDS": "pulsar-doctor o", "COMP_CWORD": " "}),
    ],
)
def test_what_no_script_of_ours_sets_is_wrong_usage(shell: str, given: dict[str, str]) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "pulsar_doctor"],
        env=environment() | {"_PULSAR_DOCTOR_COMPLETE": f"{shell}_complete"} | given,
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", "")


def test_topics_are_offered_in_the_way_they_are_typed() -> None:
    with serving(of_namespace) as web:
        before = ("--admin-url", web.url, "stall-check")
        eventually(lambda: offered(*before, "or") == ["orders"])  # this machine may be busy
        whole = ["public/default/orders", "public/default/other"]
        eventually(lambda: offered(*before, "public/default/o") == whole)
        assert not [each for each in web.asked if "stats" in each.path], "nothing is loaded"


def test_a_slow_broker_and_none_at_all_offer_nothing_and_say_nothing() -> None:
    def slow(asked: Asked) -> Reply:
        time.sleep(3)
        return of_namespace(asked)

    with serving(slow) as web:
        assert offered("--admin-url", web.url, "stall-check", "or") == []
    assert offered("--admin-url", "http://127.0.0.1:1", "stall-check", "or") == []
    assert "stall-check" in offered("no-such-subcommand", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_is_one_that_the_shell_can_read(shell: str) -> None:
    script = pulsar_doctor("completion", shell).stdout
    assert "_PULSAR_DOCTOR_COMPLETE" in script
    if shutil.which(shell) is None:
        pytest.skip(wanting(shell))
    read = subprocess.run([shell, "-n"], input=script, text=True, capture_output=True, check=False)
    assert (read.returncode, read.stderr) == (0, "")


@pytest.mark.parametrize(
    ("name", "answer"),
    [("bash", "plain,{}\n"), ("zsh", "plain\n{}\n_\n"), ("fish", "plain,{}\n")],
)
def test_only_names_without_a_meaning_are_answered(name: str, answer: str, tmp_path: Path) -> None:
    normal = ["x-normal", "x.y/z:1@2+3=4_5"]
    hostile = [f"x{end}" for end in generated(53, 200)]
    write_contexts(tmp_path, {*normal, *hostile, "-x", f"x{'y' * 500}"})
    told = printed(name, "context", "use", "x", home=tmp_path)
    assert told == "".join(map(answer.format, normal))
    assert "-x" not in printed(name, "context", "use", '""', home=tmp_path)


def _always(document: Any, _: Asked) -> Reply:
    return Reply(document=document)


def test_an_answer_that_lists_no_topics_offers_nothing() -> None:
    answers: list[Any] = [[1, None, {}], {"x": 1}, "x", [["persistent://public/default/orders"]]]
    for each in answers:
        with serving(partial(_always, each)) as web:
            assert offered("--admin-url", web.url, "stall-check", "or") == []


def test_every_value_is_offered_in_the_same_way() -> None:
    def parameters(command: click.Command) -> Iterator[click.Parameter]:
        yield from command.params
        if isinstance(command, click.Group):
            context = click.Context(command)
            for name in command.list_commands(context):
                yield from parameters(command.get_command(context, name))  # type: ignore[arg-type]

    found = {getattr(each._custom_shell_complete, "__qualname__", "") for each in parameters(cli)}
    assert found == {"", "offering.<locals>.complete"}


@pytest.mark.parametrize("name", SHELLS)
def test_no_name_of_a_topic_runs_in_a_shell(name: str, tmp_path: Path) -> None:
    tried = [*beside_normal(HOSTILE[:6])]
    names = [f"persistent://public/default/{each}" for _, *both in tried for each in both]
    (files := tmp_path / "files").mkdir()
    with (
        serving(lambda asked: Reply(document=[] if "partitioned" in asked.path else names)) as web,
        shell(name, tmp_path / "home", files, PULSAR_DOCTOR_ADMIN_URL=web.url) as opened,
    ):
        for typed, _, normal in tried:
            assert opened.completed("stall-check", typed)[1] in (normal, typed)
        whole = [words for words in opened.started if words[1].endswith("-normal")]
    assert len(whole) > len(tried) / 2, "the answers came too late"
    assert not [*files.iterdir()]
    assert not [raw for raw in RAW if raw in opened.shown]


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", SHELLS)
def test_of_50_generated_names_none_runs_in_a_shell(name: str, seed: int, tmp_path: Path) -> None:
    tried = [*beside_normal(generated(seed, 50))]
    write_contexts(tmp_path / "home", [each for _, *both in tried for each in both])
    (files := tmp_path / "files").mkdir()
    with shell(name, tmp_path / "home", files) as opened:
        for typed, _, normal in tried:
            assert opened.completed("context", "use", typed) == ["context", "use", normal]
    assert not [*files.iterdir()]
    assert not [raw for raw in RAW if raw in opened.shown]


@pytest.mark.parametrize("name", SHELLS)
def test_signs_that_are_let_through_stay_as_they_are(name: str, tmp_path: Path) -> None:
    odd = ["a=/bin/ls", "b@x", "c+x", "d.e/f:g_h", "_i"]
    write_contexts(tmp_path / "home", odd)
    (files := tmp_path / "files").mkdir()
    with shell(name, tmp_path / "home", files) as opened:
        for each in odd:
            assert opened.completed("context", "use", each[0])[2] == each


@pytest.mark.parametrize("name", SHELLS)
def test_the_shell_quotes_names_of_files(name: str, tmp_path: Path) -> None:
    (files := tmp_path / "files").mkdir()
    tried = [file for _, file, _ in beside_normal(HOSTILE[:6])]
    for file in tried:
        (files / file).touch()
    with shell(name, tmp_path / "home", files) as opened:
        for file in tried:
            assert opened.completed("capture", file[:3]) == ["capture", file]
    assert {each.name for each in files.iterdir()} == set(tried)
    assert not [raw for raw in RAW if raw in opened.shown]
