"""Runs a command line that ends with the server that started it, even if the server is killed.

Its first argument is a descriptor: a pipe that the server holds open.
"""

import os
import signal
import sys
from runpy import run_module
from threading import Thread


def _end_with(pipe: int) -> None:
    os.read(pipe, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    Thread(target=_end_with, args=(int(sys.argv.pop(1)),), daemon=True).start()
    run_module("pulsar_doctor", run_name="__main__", alter_sys=True)
