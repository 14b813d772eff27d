"""The entry point of `pulsar-doctor` and `python -m pulsar_doctor`, where Ctrl-C ends quietly.

While the program is read in, nothing has begun, so SIGINT ends it as it ends any program: at once,
without a word. So it does when the exit code is known. Between them it is a KeyboardInterrupt.
What comes before is the interpreter's own start, where nobody can catch it. So nothing is read
from the disk before: `signal` without its enumerations is built in.
"""

import _signal as signal  # type: ignore[import-not-found]
import sys

AGAIN_SECONDS = 0.05


def main() -> None:
    """The entry point of the program."""
    heeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored
    if heeded:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from pulsar_doctor.cli import run

    code = 130
    sys.unraisablehook = _not_lost
    try:
        if heeded:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        code = run()
    except KeyboardInterrupt:  # outside of what `run` watches
        pass
    finally:
        if heeded:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(code)


def _not_lost(raised: "sys.UnraisableHookArgs") -> None:
    """Python drops what is raised where nobody can catch it, as in the callbacks of an import.

    A Ctrl-C would be lost there, with a traceback for a farewell: it is sent again.
    """
    if raised.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(raised)
        return
    import _thread
    import threading

    again = threading.Timer(AGAIN_SECONDS, _thread.interrupt_main)
    again.daemon = True
    again.start()


if __name__ == "__main__":
    main()
