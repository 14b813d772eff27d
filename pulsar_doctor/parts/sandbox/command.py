"""`pulsar-doctor sandbox`: runs a real Apache Pulsar on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pulsar_doctor.cli._calls import say, settings
from pulsar_doctor.cli._commands import Suggesting
from pulsar_doctor.cli._options import (
    adding,
    local_options,
    option,
    output_option,
    taking,
    talk_options,
)
from pulsar_doctor.errors import InputError
from pulsar_doctor.wording.gate import tell, tell_json
from pulsar_doctor.wording.sizes import DOWNLOAD_BYTES, VERSION, megabytes

if TYPE_CHECKING:
    from pulsar_doctor.parts.sandbox.lifetime import Sandbox

GROUP = "local"
NOT_RUNNING = 3
PORT = click.IntRange(1, 65535)


# fmt: on


def _pairs(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in value]
    if not all(key and equals for key, equals, _ in pairs):
        raise click.BadParameter("write NAME=VALUE, as in standalone.conf", ctx, param)
    return {key.strip(): setting for key, _, setting in pairs}


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRequest:
    """One call of `sandbox start`, as it was typed. None: not given."""

    # fmt: off
    port: int | None = option(
        "--port", metavar="PORT", type=PORT, help="The broker's port; default: a free one."
    )
    admin_port: int | None = option(
        "--admin-port", metavar="PORT", type=PORT, help="The REST API's port; default: a free one."
    )
    batch_index_acks: bool = option(
        "--batch-index-acks", is_flag=True, help="Let the broker keep acknowledgements of single "
            "messages of a batch."
    )
    conf: dict[str, str] = option(
        "--conf", metavar="NAME=VALUE", multiple=True, callback=_pairs,
        help="A setting of standalone.conf; may be repeated. Ports, addresses, and settings that "
            "would break its health check are refused.",
    )
    data: Path | None = option(
        "--data", metavar="DIR", type=click.Path(path_type=Path, file_okay=False),
        help="Keep the data in this folder; otherwise it is deleted when the sandbox stops.",
    )
    pulsar_version: str | None = option(
        "--pulsar-version", metavar="VERSION",
        help=f"The Apache Pulsar to run instead of {VERSION}; see `sandbox versions`.",
    )
    output: str = output_option("table", "json")


HELP = f"""Starts and stops a real Apache Pulsar on this machine.

The first start downloads Apache Pulsar {VERSION} ({megabytes(DOWNLOAD_BYTES)}), or the version of
--pulsar-version, into the cache folder: PULSAR_DOCTOR_CACHE, else
XDG_CACHE_HOME/pulsar-doctor, else ~/.cache/pulsar-doctor
(~/Library/Caches/pulsar-doctor on macOS). A cache folder to which others may write is not
used. It runs on the Java of JAVA_HOME or PATH where that
is 17 or newer, else on one that comes with pulsar-doctor, and listens on loopback only: on free
ports, or on those that --port and --admin-port name.

\b
Examples:
  pulsar-doctor sandbox start
  pulsar-doctor consume --zero-queue --sandbox
  pulsar-doctor sandbox stop

Other subcommands take --sandbox: they use the one that runs, or start one for themselves and
end it when they end.
"""


@click.group(cls=Suggesting, help=HELP)
def command() -> None:
    """A group of what can be done with it."""


@command.command()
@taking(StartRequest)
@local_options
def start(request: StartRequest) -> None:
    """Starts the sandbox, or finds the one that runs; prints its URLs.

    Takes about ten seconds, 350 MB of memory and 100 MB of disk, plus the messages.

    \b
    pulsar-doctor sandbox start
    pulsar-doctor sandbox start --port 6650 --admin-port 8080
    pulsar-doctor sandbox start --conf maxUnackedMessagesPerConsumer=10
    pulsar-doctor sandbox start --pulsar-version 4.2.4
    pulsar-doctor sandbox start --pulsar-home ~/apache-pulsar-4.0.8 -o json
    """
    from pulsar_doctor.parts.sandbox import lifetime as sandbox

    started = sandbox.start(
        settings().pulsar_home,
        conf=_settings_of(request),
        data=request.data,
        version=request.pulsar_version,
        say=say,
    )
    _show(started, request.output)


def _settings_of(request: StartRequest) -> dict[str, str]:
    """The requested settings of standalone.conf, the ports too."""
    from pulsar_doctor.parts.sandbox import lifetime as sandbox
    from pulsar_doctor.parts.sandbox.ports import PORTS, require_settable

    require_settable(request.conf)
    ports = {"broker": request.port, "web": request.admin_port}
    if request.port is not None and request.port == request.admin_port:
        raise InputError(f"--port and --admin-port are both {request.port}: they must differ")
    named = {PORTS[name][0]: str(port) for name, port in ports.items() if port is not None}
    acks = sandbox.BATCH_INDEX_ACKS if request.batch_index_acks else {}
    return acks | request.conf | named


@command.command()
@talk_options
def stop() -> None:
    """Stops the sandbox, and keeps its log.

    Its data is kept if it was started with --data.

    \b
    pulsar-doctor sandbox stop
    """
    from pulsar_doctor.parts.sandbox import lifetime as sandbox

    say("the sandbox is stopped" if sandbox.stop() else "no sandbox runs")


@command.command()
@adding(output=output_option("table", "json"))
@talk_options
def status(output: str) -> int:
    """Shows whether the sandbox runs, and where.

    The exit code is 0 if it runs, 3 if not.

    \b
    pulsar-doctor sandbox status
    pulsar-doctor sandbox status -o json
    """
    from pulsar_doctor.parts.sandbox import lifetime as sandbox

    found = sandbox.status()
    if found is None:
        say("no sandbox runs; `pulsar-doctor sandbox start` starts one")
    if found or output == "json":
        _show(found, output)
    return 0 if found else NOT_RUNNING


@command.command()
@adding(output=output_option("table", "json"))
@talk_options
def versions(output: str) -> None:
    """Lists the versions of Apache Pulsar that it can run.

    Others can be tried with `start --pulsar-version`, if there is a distribution of them.

    \b
    pulsar-doctor sandbox versions
    pulsar-doctor sandbox versions -o json
    """
    from pulsar_doctor.parts.sandbox.versions import known

    if output == "json":
        tell_json(
            {
                "schema": "pulsar-doctor/sandbox-versions/1",
                "versions": [
                    {
                        "version": each.version,
                        "made_of": each.made_of,
                        "download_bytes": each.size,
                        "downloaded": each.here,
                        "default": each.version == VERSION,
                    }
                    for each in known()
                ],
            }
        )
        return
    for each in known():
        there = "downloaded" if each.here else f"a download of {megabytes(each.size)}"
        default = ", the default" if each.version == VERSION else ""
        tell(f"{each.version:<9} {each.made_of:<13} {there}{default}")


def _show(found: Sandbox | None, output: str) -> None:
    fields = _fields(found)
    if output == "json":
        head = {"schema": "pulsar-doctor/sandbox/1", "running": found is not None}
        tell_json(head | fields)
        return
    for name, value in fields.items():
        tell(f"{name.replace('_', ' '):<12} {value}")


def _fields(found: Sandbox | None) -> dict[str, Any]:
    from dataclasses import asdict

    return {name: str(value) for name, value in asdict(found).items()} if found else {}
