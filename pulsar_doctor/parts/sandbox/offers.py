"""What the sandbox adds to the core: the options that name it in place of a broker."""

from pathlib import Path

import click

CONNECTION = {
    "--sandbox": {
        "is_flag": True,
        "default": None,
        "help": "Use a real Pulsar here, started if necessary.",
    },
    "--pulsar-home": {
        "metavar": "DIR",
        "type": click.Path(path_type=Path),
        "help": "An unpacked Pulsar distribution to use.",
    },
}
