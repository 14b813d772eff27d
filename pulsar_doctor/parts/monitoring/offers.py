"""What this part adds to `stall-check --watch`: the option --listen."""

WATCH = {
    "--listen": {
        "metavar": "HOST:PORT",
        "help": "With --watch: answer Prometheus at this address, such as 127.0.0.1:9464, from "
        "the last round that has ended. /metrics, /ready (the age of that round), /health.",
    },
}
