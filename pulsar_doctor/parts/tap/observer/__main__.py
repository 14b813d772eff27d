"""The entry point of the observer: `python -m pulsar_doctor.parts.tap.observer DIR`."""

import sys

from pulsar_doctor.parts.tap.observer.following import main

sys.exit(main(sys.argv[1:]))
