"""`python -m pulsar_doctor.parts.analyze` runs `pulsar-doctor analyze`, also for spark-submit.

    spark-submit --master yarn "$(python -m pulsar_doctor.parts.analyze --path)" hdfs:///traces

The driver needs pulsar-doctor, the executors do not.
"""

import sys

from pulsar_doctor.cli import run
from pulsar_doctor.wording.gate import tell

if __name__ == "__main__":
    if sys.argv[1:] == ["--path"]:
        tell(__file__)
        sys.exit()
    sys.exit(run(["analyze", *sys.argv[1:]]))
