"""`pulsar-doctor context`: lists the named clusters for --context, and chooses one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import click

from pulsar_doctor.cli import _completing
from pulsar_doctor.cli._calls import say
from pulsar_doctor.cli._commands import Suggesting
from pulsar_doctor.cli._options import adding, output_option, talk_options
from pulsar_doctor.errors import InputError
from pulsar_doctor.wording.addresses import bare
from pulsar_doctor.wording.gate import tell_json

if TYPE_CHECKING:
    from pulsar_doctor.broker.contexts import ClusterContext, Contexts

GROUP = "setup"
SCHEMA = "pulsar-doctor/context/1"
SECRET = "auth_params"


@click.group(cls=Suggesting)
def command() -> None:
    """Lists the named clusters for --context, and chooses one.

    Contexts are read from ~/.config/pulsar-doctor/contexts.toml (or XDG_CONFIG_HOME) and from
    pulsarctl's ~/.config/pulsar/config. A context of contexts.toml is a table with the names of the
    connection options as keys. Tokens are used, and never printed or copied.

    The current context is used if neither an option nor the environment names a cluster. It is the
    one of PULSAR_DOCTOR_CONTEXT, else of `context use`, else the current one of pulsarctl. Set
    PULSAR_DOCTOR_CONTEXT to nothing to use none.

    \b
    Examples:
      pulsar-doctor context list
      pulsar-doctor context use prod
      pulsar-doctor stall-check orders --context prod
    """


@command.command("list")
@adding(output=output_option("table", "json"))
@talk_options
def list_contexts(output: str) -> None:
    """Lists all contexts, a * before the current one.

    \b
    pulsar-doctor context list
    pulsar-doctor context list -o json
    """
    from pulsar_doctor.report.paper import print_page

    known = _known()
    if output == "json":
        found = [_document(each, known) for each in known.by_name.values()]
        tell_json({"schema": SCHEMA, "contexts": found})
        return
    width = max(map(len, known.by_name), default=0)
    for name, each in sorted(known.by_name.items()):
        mark = "*" if name == known.current else " "
        url = each.settings.get("admin_url") or each.settings.get("service_url") or "-"
        print_page(f"{mark} {name:<{width}}  {bare(str(url))}  ({each.file})")
    if not known.by_name:
        say("there is no context; `pulsar-doctor context --help` says where they are written")


@command.command()
@click.argument("name", shell_complete=_completing.contexts)
@talk_options
def use(name: str) -> None:
    """Makes a context the current one.

    \b
    pulsar-doctor context use prod
    """
    from pulsar_doctor.broker import contexts

    _known().named(name)
    contexts.use(name)
    say(f"{name} is the current context")


@command.command()
@click.argument("name", required=False, shell_complete=_completing.contexts)
@adding(output=output_option("table", "json"))
@talk_options
def show(name: str | None, output: str) -> None:
    """Shows the settings of a context, without secrets.

    Without NAME it is the current one.

    \b
    pulsar-doctor context show
    pulsar-doctor context show prod -o json
    """
    from pulsar_doctor.report.paper import print_page

    known = _known()
    if not (name or known.current):
        raise InputError("no context is the current one; `pulsar-doctor context list` lists them")
    found = known.named(name or str(known.current))
    if output == "json":
        tell_json({"schema": SCHEMA, "contexts": [_document(found, known)]})
        return
    for key, value in _document(found, known).items():
        if value is not None:
            print_page(f"{key.replace('_', '-'):<20}  {value}")


def _known() -> Contexts:
    from pulsar_doctor.broker import contexts
    from pulsar_doctor.broker.settings import IN_CONTEXTS

    return contexts.read(os.environ, IN_CONTEXTS)


def _document(context: ClusterContext, known: Contexts) -> dict[str, Any]:
    from pulsar_doctor.broker.settings import IN_CONTEXTS

    settings = {name: context.settings.get(name) for name in sorted(IN_CONTEXTS - {SECRET})}
    return {
        "name": context.name,
        "file": str(context.file),
        "current": context.name == known.current,
        **{name: bare(each) if isinstance(each, str) else each for name, each in settings.items()},
        SECRET: "given" if context.settings.get(SECRET) else None,
    }
