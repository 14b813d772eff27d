"""`pulsar-doctor known-issues`: lists known bugs of Pulsar, and which ones you may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from pulsar_doctor.cli import _completing
from pulsar_doctor.cli._calls import connected, settings
from pulsar_doctor.cli._commands import Suggesting
from pulsar_doctor.cli._options import (
    adding,
    broker_version_option,
    connection_options,
    output_option,
    talk_options,
)
from pulsar_doctor.errors import InputError
from pulsar_doctor.wording.gate import tell_json
from pulsar_doctor.wording.printable import NAMED_MOST
from pulsar_doctor.wording.spelling import near

if TYPE_CHECKING:
    from pulsar_doctor.checkup.versions import InUse
    from pulsar_doctor.diagnosis.known.issue import Issue

GROUP = "diagnose"
SCHEMA = "pulsar-doctor/known-issues/1"
SHOWN_MOST = 3  # subscriptions beside an issue


@click.group(cls=Suggesting)
def command() -> None:
    """Lists known bugs of Pulsar, and which ones you may have.

    The list is part of pulsar-doctor; only `check` asks a broker, and only reads. stall-check
    names what fits beside each verdict.

    \b
    Examples:
      pulsar-doctor known-issues list --component broker --version 4.0.8
      pulsar-doctor known-issues show apache/pulsar#26454
      pulsar-doctor known-issues check --admin-url http://broker:8080
      pulsar-doctor known-issues match incident.gz --broker-version 4.0.8
    """


@command.command("list")
@click.option(
    "--component", metavar="NAME", help="broker, java, go, cpp, node, rust, dotnet, spring."
)
@click.option("--version", "text", metavar="VERSION", help="Only the issues of this version.")
@adding(output=output_option("table", "json"))
@talk_options
def list_issues(component: str | None, text: str | None, output: str) -> None:
    """Lists the issues, of a component or of one of its versions.

    \b
    pulsar-doctor known-issues list
    pulsar-doctor known-issues list --component go
    pulsar-doctor known-issues list --component broker --version 4.0.8 -o json
    """
    from pulsar_doctor.diagnosis.known.issue import load
    from pulsar_doctor.diagnosis.known.matching import fix_of, is_affected
    from pulsar_doctor.diagnosis.known.versions import version_of
    from pulsar_doctor.report.paper import print_page

    components = dict.fromkeys(issue.component for issue in load())
    if component is not None and component not in components:
        raise InputError(f"there is no component {component!r}; {near(component, components)}")
    version = None if text is None else version_of(text)
    if text is not None and version is None:
        raise InputError(f"{text!r} is not a version, such as 4.0.8")
    found = [
        issue
        for issue in load()
        if component in (None, issue.component) and (version is None or is_affected(issue, version))
    ]
    if output == "json":
        tell_json({"schema": SCHEMA, "issues": [_document(issue) for issue in found]})
        return
    widest = max((len(issue.id) for issue in found), default=0)
    fixes = {each.id: fix_of(each, version) or "-" for each in found}
    room = max(map(len, ("fixed in", *fixes.values())))
    print_page(
        f"{'issue':<{widest}}  {'fixed in':<{room}}  title",
        *(f"{each.id:<{widest}}  {fixes[each.id]:<{room}}  {each.title}" for each in found),
        *(() if version else ("+: on more release lines; --version names the fix for yours",)),
    )


@command.command()
@click.argument("name", metavar="ID")
@adding(output=output_option("table", "json"))
@talk_options
def show(name: str, output: str) -> None:
    """Shows all that is known of one issue. The number alone is enough where only one has it.

    \b
    pulsar-doctor known-issues show apache/pulsar#26454
    pulsar-doctor known-issues show 26454 -o json
    """
    from pulsar_doctor.diagnosis.known.issue import load
    from pulsar_doctor.report.known_issues import in_full
    from pulsar_doctor.report.paper import print_page

    ids = [issue.id for issue in load()]
    found = [issue for issue in load() if name in (issue.id, issue.id.rpartition("#")[2])]
    if len(found) != 1:
        several = " or ".join(issue.id for issue in found)
        raise InputError(
            f"there is no issue {name!r}; {several or near(name, ids, most=NAMED_MOST)}"
        )
    if output == "json":
        tell_json({"schema": SCHEMA, "issues": [_document(found[0])]})
        return
    print_page(*in_full(found[0]))


@command.command()
@click.argument("topics", metavar="[TOPIC]...", nargs=-1, shell_complete=_completing.topics)
@click.option(
    "--stats", "files", metavar="FILE", multiple=True,
    help="Read clients from statistics in this file, and ask no broker.",
)  # fmt: skip
@adding(
    broker_version=broker_version_option(needs=("files",)), output=output_option("table", "json")
)
@connection_options
def check(
    topics: tuple[str, ...], files: tuple[str, ...], broker_version: str | None, output: str
) -> None:
    """Shows known issues of the versions in use.

    The answer ends with the smallest upgrade that mends them.

    Without TOPIC or --stats, all topics that the brokers have loaded are read, which needs a
    superuser.

    \b
    pulsar-doctor known-issues check --admin-url http://broker:8080
    pulsar-doctor known-issues check orders -o json
    pulsar-doctor known-issues check --stats incident.gz --broker-version 4.0.8
    """
    from dataclasses import asdict

    from pulsar_doctor.checkup.versions import of_broker, of_files
    from pulsar_doctor.report.paper import print_page
    from pulsar_doctor.report.stall_check.header import cluster_words

    if files and topics:
        raise InputError("name topics, or give --stats; not both")
    if files:
        cluster, used = None, of_files(files, broker_version)
    else:
        with connected(settings(headed=True)) as where:
            cluster, used = of_broker(where, topics)
    if output == "json":
        named = None if cluster is None else asdict(cluster)
        versions = [_used(each) for each in used]
        tell_json({"schema": SCHEMA, "cluster": named, "versions": versions})
        return
    if cluster is not None:
        print_page(cluster_words(cluster))
    for each in used:
        print_page(*_used_lines(each))


@command.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True)
@click.option("-s", "--subscription", metavar="SUB", help="Only this subscription.")
@adding(broker_version=broker_version_option(), output=output_option("table", "json"))
@talk_options
def match(
    files: tuple[str, ...], subscription: str | None, broker_version: str | None, output: str
) -> None:
    """Names the issues whose fingerprint files or a page fit.

    That does not depend on the verdict.

    FILE is what `stall-check --stats` takes, such as what `pulsar-admin topics stats` printed; or
    one page of an incident.

    \b
    pulsar-doctor known-issues match incident.gz --broker-version 4.0.8
    pulsar-doctor known-issues match stats.json -s billing -o json
    """
    from pulsar_doctor.checkup.versions import fits_of
    from pulsar_doctor.report.known_issues import GRADES, sentence_of
    from pulsar_doctor.report.paper import print_page
    from pulsar_doctor.report.stall_check.document import as_json

    fits = fits_of(files, broker_version)
    found = [(view, known) for view, known in fits if subscription in (None, view.subscription)]
    if output == "json":
        documents = [
            {"topic": view.topic, "partition": view.partition, "subscription": view.subscription,
             "known_issues": as_json(known)}
            for view, known in found
        ]  # fmt: skip
        tell_json({"schema": SCHEMA, "subscriptions": documents})
        return
    for view, known in found:
        for each in known:
            print_page(f"{GRADES[each.grade]:<9}  {view.subscription}: {sentence_of(each)}")
    if not any(known for _, known in found):
        print_page("no known issue fits")


def _document(issue: Issue) -> dict[str, Any]:
    from dataclasses import asdict

    return asdict(issue) | {"url": issue.url}


def _used(each: InUse) -> dict[str, Any]:
    from dataclasses import asdict

    from pulsar_doctor.checkup.versions import upgrades

    return {
        "component": each.component,
        "version": each.version.text,
        "consumers": each.consumers,
        "issues": [issue.id for issue in each.issues],
        "shown": [
            {"id": issue.id, "subscriptions": [*each.shown[issue.id]]}
            for issue in each.issues
            if issue.id in each.shown
        ],
        "upgrades": [asdict(better) for better in upgrades(each)],
    }


def _used_lines(each: InUse) -> list[str]:
    from pulsar_doctor.checkup.versions import upgrades
    from pulsar_doctor.wording.printable import listed, many, printable

    count = f", {many(each.consumers, 'consumer')}" if each.consumers else ""
    known = many(len(each.issues), "known issue")
    shown = sum(issue.id in each.shown for issue in each.issues)
    known += f", {shown} of them shown by its statistics" if shown else ""
    lines = [f"{each.component} {each.version.text}{count}: {known}"]
    widest = max((len(issue.id) for issue in each.issues), default=0)
    for issue in sorted(each.issues, key=lambda issue: issue.id not in each.shown):
        lines.append(f"  {issue.id:<{widest}}  {issue.title}")
        if by := each.shown.get(issue.id):
            lines.append(f"    shown by {listed([*map(printable, by)], SHOWN_MOST)}")
    for better in upgrades(each):
        left = many(len(better.left), "known issue")
        lines.append(f"  {better.to} fixes {better.removes} of these; it has {left} itself")
    return lines
