"""Finds the parts that are installed, each a folder of parts/, and what they offer to the core.

The core imports no part. It searches the folder of each part for modules and files of these names:

    command         its subcommand: `command`, and `GROUP`, below which --help lists it
    offers          read at the start, so it imports nothing heavy; its table CONNECTION has options
                    of all subcommands that connect, VERDICT those of `stall-check`, WATCH those of
                    `stall-check --watch`, with what click needs
    usual           `read(options)`: what says of a verdict what is normal for its subscription
    rounds          `beside(options, named, every)`: what the verdicts of each round of a watch pass
                    through, where one of these options is given
    schemas         its table SCHEMAS has JSON documents, and functions that make their schemas
    documents.json  the schemas of other documents in short, see report/schemas.py

Where the core uses one part by its name, as bundle does for --capture, and that is not installed,
the command line says so in one sentence.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).with_name("parts")
PACKAGE = "pulsar_doctor.parts"


@cache
def parts() -> list[str]:
    """The names of all parts that are there, as modules spell them, in alphabetical order."""
    return sorted(found.name for found in pkgutil.iter_modules([str(FOLDER)]))


@cache
def having(module: str) -> list[str]:
    """The parts that have this module; it is not imported."""
    return [part for part in parts() if find_spec(f"{PACKAGE}.{part}.{module}")]


def offered(module: str, table: str, of: Sequence[str] = ()) -> dict[str, Any]:
    """The rows of this table of these parts, or all that have it in a module of this name."""
    rows: dict[str, Any] = {}
    for part in of or having(module):
        rows |= getattr(load(part, module), table, {})
    return rows


def load(part: str, module: str) -> Any:
    """A module of a part. Raises ModuleNotFoundError where the part is not installed."""
    return importlib.import_module(f"{PACKAGE}.{part}.{module}")


def missing_part(error: Exception) -> str:
    """The part that is not installed, if this error comes from that; otherwise nothing."""
    name = (isinstance(error, ModuleNotFoundError) and error.name) or ""
    part = name.removeprefix(f"{PACKAGE}.").partition(".")[0]
    return part if name.startswith(f"{PACKAGE}.") and part not in parts() else ""
