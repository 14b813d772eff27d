"""Measures every behaviour of every client that is here and prints the table.

    python -m tests.conformance [--client NAME] [--only PREFIX] [-o markdown]

A broker of its own is started (batch-index acknowledgement on), or the sandbox that stays is used.
Each row is measured from what a relay recorded. A client that is not here is said to be so.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

from pulsar_doctor.parts.sandbox.lifetime import BATCH_INDEX_ACKS, Sandbox, running
from tests.conformance import go_driver, java_driver, tools
from tests.conformance.behaviours import in_order
from tests.conformance.driver import Client
from tests.conformance.published import publish
from tests.conformance.python_driver import PythonClient
from tests.conformance.report import Table
from tests.conformance.stage import staging
from tests.conformance.table import Measured, measure

CLIENTS = ("python", "java", "go", "tools")


def missing(name: str) -> str | None:
    """Why this client cannot be measured here."""
    reasons: dict[str, Callable[[], str | None]] = {
        "java": java_driver.missing,
        "go": go_driver.missing,
    }
    return reasons[name]() if name in reasons else None


@contextlib.contextmanager
def connected(name: str, broker: Sandbox, service_url: str) -> Iterator[Client]:
    """A client of that kind; ended with whatever it needed."""
    with contextlib.ExitStack() as stack:
        if name == "java":
            java = java_driver.Java(broker.home, broker.java_home)
            stack.callback(java.close)
            client: Client = java_driver.JavaClient(service_url, java)
        elif name == "go":
            client = go_driver.GoClient(service_url)
        else:
            client = PythonClient(service_url)
        stack.callback(client.close)
        yield client


def tried(what: Callable[[], Measured]) -> Measured:
    """The measurement; where it failed, what went wrong, as a text."""
    try:
        return what()
    except Exception as error:
        return Measured(f"failed: {type(error).__name__}: {str(error)[:120]}", {"failed": True})


def fill(table: Table, name: str, broker: Sandbox, only: tuple[str, ...]) -> None:
    """Measures one client."""
    with staging(broker) as stage:
        if name == "tools":
            table.tools = {
                command: tried(partial(tools.measure, stage, command)) for command in tools.COMMANDS
            }
            return
        with connected(name, broker, stage.service_url) as client:
            for each in chosen(only):
                began = time.monotonic()
                table.add(each, name, tried(partial(measure, each, stage, client)))
                took = time.monotonic() - began
                print(f"{name}: {each}, {took:.1f} s", file=sys.stderr, flush=True)
            told = [*sorted(stage.versions), f"({client.package})" if client.package else ""]
        table.versions[name] = " ".join(told).strip()


def chosen(only: tuple[str, ...]) -> list[str]:
    return [name for name in in_order() if not only or name.startswith(only)]


def main(arguments: list[str]) -> int:
    """Prints the table; 1 where a measurement has failed."""
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    parser.add_argument("--client", action="append", choices=CLIENTS)
    parser.add_argument("--only", action="append", default=[], metavar="PREFIX")
    parser.add_argument("-o", "--output", choices=["text", "markdown", "json"], default="text")
    parser.add_argument(
        "--publish", action="store_true", help="put it into measured.json and docs/clients.md, too"
    )
    options = parser.parse_args(arguments)
    table = Table()
    with running(conf=BATCH_INDEX_ACKS) as broker:
        for name in options.client or CLIENTS:
            if reason := missing(name):
                table.not_here[name] = reason
            else:
                fill(table, name, broker, tuple(options.only))
    print({"text": table.text, "markdown": table.markdown, "json": table.json}[options.output]())
    if options.publish and not table.failed:
        publish(table)
    return int(table.failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
