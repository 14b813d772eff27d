"""Every subcommand takes what was typed as one value, of the types that click really gives."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import click
import pytest

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.cli import cli, run
from pulsar_doctor.cli._commands import DependentOption
from pulsar_doctor.diagnosis import status as diagnosis
from pulsar_doctor.trace.ring import RingLimits


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(commands(cli))
# As in use: a command keeps its help option as the first context that it is given names it.
PROGRAM = click.Context(cli, **cli.context_settings)
NEEDED = {
    "bundle": ["orders", "-o", "FILE"],
    "report": ["orders.ptrace"],
    "analyze": ["DIR"],
    "fleet": ["DIR"],
    "trace show": ["DIR"],
    "trace summary": ["DIR"],
    "trace verify": ["DIR"],
    "capture": ["--trace", "DIR"],
    "examine": ["1", "orders"],
    "produce": ["orders"],
    "known-issues show": ["26454"],
    "known-issues match": ["FILE"],
    "context use": ["NAME"],
    "completion": ["bash"],
    "monitoring": ["rules"],
}

SAMPLES = {  # of what an option takes, by the name of its type
    "integer range": "3",
    "integer": "3",
    "duration": "5s",
    "size": "2GiB",
    "share": "5%",
    "rate": "100/s",
    "messages": "all",
    "spread": "20%",
    "time": "2026-08-01T12:00:00Z",
}
CHECKED = {"only": "stalled"}  # texts that are checked as they are typed


def typed(name: str, *arguments: str) -> dict[str, Any]:
    """What the subcommand takes from these arguments, and from those that it needs."""
    given = [*NEEDED.get(name, []), *arguments]
    return COMMANDS[name].make_context(name, given, parent=PROGRAM).params


def options(command: click.Command) -> list[click.Option]:
    return [p for p in command.params if p.expose_value and isinstance(p, click.Option)]


def takes(command: click.Command) -> dict[str, Any]:
    """Name -> type of what its function takes, be it one value or, of few options, each alone."""
    assert command.callback is not None
    function = inspect.unwrap(command.callback)
    assert not any(p.kind is p.VAR_KEYWORD for p in inspect.signature(function).parameters.values())
    hints = get_type_hints(function)
    hints.pop("return")
    request = next(iter(hints.values()), None)
    if len(hints) != 1 or not is_dataclass(request):
        return hints
    assert request.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert not hasattr(object.__new__(request), "__dict__"), "it has slots"  # type: ignore[type-var]
    named = {param.name for param in command.params}
    taken: dict[str, Any] = {}
    for field, hint in hints_of(request).items():
        if field in named or not is_dataclass(hint):
            taken[field] = hint
        else:  # passed on whole: some of its fields are options, the others have a default
            part = hints_of(hint)
            needed = {f.name for f in fields(hint) if (f.default, f.default_factory) == NO_DEFAULT}
            taken |= {name: part[name] for name in part if name in named | needed}
    return taken


NO_DEFAULT = (MISSING, MISSING)


def hints_of(request: type) -> dict[str, Any]:
    names = {**vars(diagnosis), "Settings": Settings, "RingLimits": RingLimits}
    hints = get_type_hints(request, localns=names)
    return {field.name: hints[field.name] for field in fields(request)}


def fits(value: object, hint: Any) -> bool:
    kind, inside = get_origin(hint), get_args(hint)
    if kind in (Union, UnionType):
        return any(fits(value, one) for one in inside)
    if kind is Literal:
        return value in inside
    if kind in (tuple, dict, Sequence):
        parts = value if isinstance(value, tuple) else ()
        return isinstance(value, kind) and all(fits(part, inside[0]) for part in parts)
    return type(value) is hint or (hint not in (bool, int, float) and isinstance(value, hint))


@pytest.mark.parametrize("name", COMMANDS)
def test_there_is_a_field_for_each_option_and_no_other(name: str) -> None:
    command = COMMANDS[name]
    exposed = {param.name for param in command.params if param.expose_value}
    assert set(takes(command)) == exposed


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_not_typed_has_the_type_of_its_field(name: str) -> None:
    hints = takes(COMMANDS[name])
    wrong = {key: value for key, value in typed(name).items() if not fits(value, hints[key])}
    assert wrong == {}


def as_typed(option: click.Option) -> list[str]:
    """The option with a value that it takes."""
    sample = SAMPLES.get(option.type.name, CHECKED.get(option.name or "", "a=b"))
    if isinstance(option.type, click.Choice):
        sample = option.type.choices[-1]
    return [option.opts[-1], *([] if option.is_flag else [sample])]


@pytest.mark.parametrize("name", COMMANDS)
def test_what_is_typed_has_the_type_of_its_field(name: str) -> None:
    hints = takes(COMMANDS[name])
    named = {option.name: option for option in options(COMMANDS[name])}
    for option in named.values():
        beside = option.needs[:1] if isinstance(option, DependentOption) else ()
        words = [word for each in beside for word in as_typed(named[each])]
        given = typed(name, *words, *as_typed(option))
        assert fits(given[option.name or ""], hints[option.name or ""]), option.name


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_that_would_change_nothing_is_refused(name: str) -> None:
    given = [word for each in NEEDED.get(name, []) for word in each.split("=")]
    named = {each.name: each for each in COMMANDS[name].params}
    for option in named.values():
        if not isinstance(option, DependentOption):
            continue
        needed = [max(named[each].opts, key=len) for each in option.needs]
        if not {*needed}.isdisjoint(given):
            continue
        with pytest.raises(click.UsageError) as refused:
            typed(name, *as_typed(option))
        said = refused.value.format_message()
        assert said.startswith(f"{max(option.opts, key=len)} needs {needed[0]}")
        assert all(each in said for each in needed)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("stall-check --stats f --window 5s", "--window needs a broker"),
        ("stall-check --stats f --concurrency 2", "--concurrency needs a broker"),
        ("report tests/states/4.0.8/ack-hole.jsonl.gz --for 2s", "--for has no effect on a rec"),
        ("report orders --topic other", "--topic has no effect on a live topic"),
        ("report orders --proven-only", "--proven-only has no effect on a live topic"),
        ("bundle --stats f --interval 2s -o new.tar.gz", "--interval is of a live broker"),
        ("bundle --stats f --examine 1 -o new.tar.gz", "--examine is of a live broker"),
    ],
)
def test_what_has_no_effect_on_this_source_is_refused(
    capsys: pytest.CaptureFixture[str], words: str, says: str
) -> None:
    assert run(words.split()) == 2
    assert f"pulsar-doctor: {says}" in capsys.readouterr().err


@pytest.mark.parametrize("name", COMMANDS)
def test_a_field_knows_all_choices_of_its_option(name: str) -> None:
    hints = takes(COMMANDS[name])
    for option in options(COMMANDS[name]):
        hint = hints[option.name or ""]
        known = [one for one in (hint, *get_args(hint)) if get_origin(one) is Literal]
        if known and isinstance(option.type, click.Choice):
            assert set(get_args(known[0])) == set(option.type.choices), option.name


@pytest.mark.parametrize("name", COMMANDS)
def test_what_asks_for_help_is_the_same_everywhere(name: str) -> None:
    COMMANDS[name]._help_option = None  # click keeps what it made first, in whatever context
    option = COMMANDS[name].get_help_option(PROGRAM)
    assert option is not None
    assert option.opts == ["-h", "--help"]
