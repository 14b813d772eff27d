"""`python -m pulsar_doctor.observer DIR`."""

import sys

from pulsar_doctor.observer.following import main

sys.exit(main(sys.argv[1:]))
