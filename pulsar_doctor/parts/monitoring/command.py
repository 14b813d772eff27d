"""`pulsar-doctor monitoring`: prints alert rules for Prometheus, or a dashboard for Grafana."""

from __future__ import annotations

from importlib.resources import files

import click

from pulsar_doctor.cli._commands import Sections
from pulsar_doctor.cli._options import talk_options
from pulsar_doctor.wording.gate import stdout

GROUP = "setup"
FILES = {"rules": "rules.yml", "dashboard": "dashboard.json"}
EPILOG = """\b
Examples:
  pulsar-doctor monitoring rules > /etc/prometheus/pulsar-doctor.yml
  pulsar-doctor monitoring dashboard > dashboard.json
  pulsar-doctor monitoring rules | promtool check rules /dev/stdin

Exit codes: 0 printed; 2 wrong usage.
"""


@click.command(cls=Sections, epilog=EPILOG)
@click.argument("what", type=click.Choice([*FILES]))
@talk_options
def command(what: str) -> int:
    """Prints alert rules (Prometheus) or a dashboard (Grafana).

    They are made for what `stall-check --watch --listen` answers. Each alert names the page of the
    cause, and waits as long as the thresholds of that cause suggest.
    """
    out = stdout()
    out.write(files(__package__).joinpath(FILES[what]).read_text("utf-8"))
    out.flush()
    return 0
