"""`python -m pulsar_doctor.spark` is `pulsar-doctor analyze`, and what spark-submit takes.

    spark-submit --master yarn "$(python -m pulsar_doctor.spark --path)" hdfs:///traces

The driver needs pulsar-doctor, the executors do not.
"""

import sys

from pulsar_doctor.cli import run

if __name__ == "__main__":
    if sys.argv[1:] == ["--path"]:
        sys.exit(print(__file__))
    sys.exit(run(["analyze", *sys.argv[1:]]))
