"""`pulsar-doctor schema`: prints the JSON Schema of each document."""

from __future__ import annotations

import click

from pulsar_doctor.cli._commands import Sections
from pulsar_doctor.cli._completing import offering
from pulsar_doctor.cli._options import talk_options
from pulsar_doctor.errors import InputError
from pulsar_doctor.wording.gate import tell, tell_json
from pulsar_doctor.wording.spelling import near

GROUP = "setup"


@offering
def _names(ctx: click.Context, typed: str) -> list[str]:
    from pulsar_doctor.report.schemas import names

    return names()


@click.command(cls=Sections)
@click.argument("name", required=False, shell_complete=_names)
@talk_options
def command(name: str | None) -> None:
    """Prints the JSON Schema of a document.

    Without NAME it lists the names. NAME is what a document has in its field `schema`, without the
    version. Fields may be added within a version, so a program has to ignore what it does not know.

    \b
    pulsar-doctor schema
    pulsar-doctor schema stall-check
    pulsar-doctor schema holes > holes.schema.json
    """
    from pulsar_doctor.report.schemas import names, schema_of

    if name is None:
        tell(*names())
        return
    if name not in names():
        raise InputError(f"there is no document {name!r}; {near(name, names())}")
    tell_json(schema_of(name), indent=2)
