"""Options of `consume` that do not go together: one sentence that says what to do."""

from __future__ import annotations

import click
import pytest

from pulsar_doctor.cli import run
from pulsar_doctor.cli._options import connection_options
from pulsar_doctor.parts.consume.command import command
from pulsar_doctor.parts.consume.command.options import SECTIONS

WRONG = {
    "--ack none --ack-every 3": "leave --ack-every out",
    "--ack cumulative --type failover --nack-rate 5%": "--nack-rate goes with --ack individual",
    "--nack-rate 150%": "not a share",
    "--delay-from receipt": "--receiver-delay",
    "--permits manual": "--engine wire",
    "--permits manual --engine wire --receiver-queue-size 5": "you grant",
    "--permits manual --engine wire --consumers 2": "one consumer",
}


@pytest.mark.parametrize("arguments", WRONG)
def test_what_does_not_go_together_is_said_before_anything_starts(arguments, capsys):
    assert run(["consume", *arguments.split()]) == 2
    said = capsys.readouterr()
    assert WRONG[arguments] in said.err
    assert said.out == ""


def test_each_option_of_a_heading_exists_and_only_those_of_the_connection_are_left():
    named = {param.name for param in command.params}
    under = [name for names in SECTIONS.values() for name in names]
    assert len(under) == len(set(under))
    assert set(under) <= named
    connection = click.command(connection_options(lambda: None))
    assert named - set(under) == {"topic"} | {param.name for param in connection.params}
