"""Options of `consume` that do not go together: one sentence that says what to do."""

from __future__ import annotations

import click
import pytest

from pulsar_doctor.cli import run
from pulsar_doctor.cli._options import connection_options
from pulsar_doctor.cli.consume import command
from pulsar_doctor.cli.consume.options import SECTIONS

WRONG = {
    "--ack none --ack-every 3": "leave --ack-every out",
    "--ack cumulative --type failover --nack-rate 5%": "--nack-rate goes with --ack individual",
    "--nack-rate 150%": "not a share",
    "--ack-corrupt": "--engine wire",
    "--dead-letter-after 2 --nack-rate 1": "needs a TOPIC",
    "t -s s --dead-letter-after 2": "add --nack-rate",
    "t -s s --dead-letter-after 2 --nack-rate 1 --type failover": "shared and key_shared",
    "t -s s --dead-letter-after 2 --nack-rate 1 --engine wire": "--engine pulsar-client",
    "--dead-letter-topic t": "--dead-letter-after",
    "--pause-after 3": "--receive listener",
    "--receive listener --pause-for 3s": "--pause-after",
    "--receive batch --zero-queue": "--engine wire",
    "--receive batch --receiver-delay 5s": "--receive call or listener",
    "--delay-from receipt": "--receiver-delay",
    "--pattern": "needs a TOPIC",
    "t.* --pattern --create": "leave --create out",
    "non-persistent://public/default/t.* --pattern": "persistent topics only",
    "t[ --pattern": "unterminated",
    "(?i)t --pattern": "does not read '(?i'",
    "t[[:digit:]]* --pattern -s s": "does not read '[[:'",
    "t.* -s s --pattern --engine wire": "--engine pulsar-client",
    "t.* -s s --pattern --receiver-delay 5s": "takes one topic",
    "t.* -s s --pattern --zero-queue": "attach to one of them",
    "--permits manual": "--engine wire",
    "--permits manual --engine wire --receiver-queue-size 5": "you grant",
    "--permits manual --engine wire --consumers 2": "one consumer",
    "--permits manual --engine wire --receive listener": "call or batch",
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
