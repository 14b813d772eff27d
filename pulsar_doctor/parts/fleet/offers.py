"""What this part adds to `stall-check`: --usual, and to its watch --keep, and how much is kept."""

from pulsar_doctor.cli._types import DURATION, SIZE

VERDICT = {
    "--usual": {
        "metavar": "DIR",
        "help": "Also say what is normal for each subscription at this hour, from what --keep "
        "recorded in this folder. It changes no verdict.",
    },
}
WATCH = {
    "--keep": {
        "metavar": "DIR",
        "help": "With --watch: record verdicts and numbers as Parquet in this folder, for `fleet`.",
    },
    "--keep-for": {
        "needs": ("keep",),
        "metavar": "DURATION",
        "type": DURATION,
        "help": "With --keep: delete what is older; default: 90d.",
    },
    "--keep-size": {
        "needs": ("keep",),
        "metavar": "SIZE",
        "type": SIZE,
        "help": "With --keep: delete the oldest beyond so many bytes; default: 10GiB.",
    },
    "--keep-hosts": {
        "needs": ("keep",),
        "is_flag": True,
        "default": None,
        "help": "With --keep: record hosts of consumers as they are, not as pseudonyms.",
    },
}
