"""The Spark settings of pulsar-doctor, and the user's, which have priority."""

from __future__ import annotations

import argparse
import math
import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

MIB = 1024 * 1024
MOST_DRIVER_MIB = 2048
LEAST_DRIVER_MIB = 512
APP = "pulsar-doctor analyze"

# For every Spark, here and on a cluster.
QUIET = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    # Or Python reports its line to Java before each function of a column.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}
# The times of a trace are UTC, whatever a cluster's own settings are.
UTC = {"spark.sql.session.timeZone": "UTC"}
QUERIES = {
    "spark.sql.adaptive.enabled": "true",
    # Aggregates that keep an object per group (percentiles, collected lists) stay in a hash table:
    # from the default of 128 groups on, Spark would sort all rows.
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "65536",
}


# Where there are few rows most of the time is Java's, compiling what runs once, and Spark's, which
# plans anew after each shuffle. 250,000 rows: 74 CPU-seconds without these, 28 with them.
FEW_ROWS = 2_000_000
FEW = {"spark.buffer.pageSize": "1m"}  # of each sort and aggregate: not 32 MiB or more
# Up to here what is left after a scan is so little that one partition holds it: then nothing is
# moved any more, and Spark need not plan anew after each shuffle.
SOME_ROWS = 10_000_000
SOME = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.combineAdjacentAggregation": "true",  # of one partition: in one step
}
# Of many rows what the tables share is kept in columns. To compress these takes longer than all
# that it spares. What memory does not hold is written to disk.
MANY = {"spark.sql.inMemoryColumnarStorage.compressed": "false"}
JAVA_OPTIONS = "spark.driver.defaultJavaOptions"
EXTRA_JAVA_OPTIONS = "spark.driver.extraJavaOptions"
FEW_JAVA = " -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:MetaspaceSize=256m"
# Of many, this collector adds least to each row, and nothing to what Java must compile. Java's
# second compiler takes what runs 30 times as often as by default: what runs for each row, and not
# what plans and generates code (10 million rows: 13 CPU-seconds of that compiler, 33 without). Nor
# does it take the classes that compiler.json names, which run often and soon no more. Java says on
# its output that it has read this file.
MANY_JAVA = (
    " -XX:+UseParallelGC -XX:Tier4InvocationThreshold=150000 -XX:Tier4MinInvocationThreshold=20000"
    " -XX:Tier4CompileThreshold=400000 -XX:Tier4BackEdgeThreshold=1200000"
    " -XX:+DisplayVMOutputToStderr -XX:+UnlockDiagnosticVMOptions"
    f' -XX:CompilerDirectivesFile="{Path(__file__).with_name("compiler.json")}"'
)
OUR_COLLECTOR = re.compile(r" -XX:\+Use\w+GC")
# For fewer still, Spark interprets its expressions: generating and compiling code for them takes
# longer than the rows do. A partial aggregate and a top-K sort are compiled nevertheless.
INTERPRETED_ROWS = 50_000
INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.execution.bypassPartialAggregation": "true",
    "spark.sql.execution.topKSortFallbackThreshold": "0",
}


def java_options(scratch: Path, more: str = "") -> dict[str, str]:
    """What the Java of the driver puts into temporary files is put where we remove it."""
    return {JAVA_OPTIONS: f'-Djava.io.tmpdir="{scratch}" -XX:-UsePerfData{more}'}


def of_this_machine(
    scratch: Path, rows: float = math.inf, given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The settings of Spark in this machine's memory, listening on the loopback only.

    rows: how many are to be read. given: the user's settings. Java refuses two garbage collectors.
    """
    cores, few = os.cpu_count() or 1, rows <= FEW_ROWS
    options = (given or {}).get(EXTRA_JAVA_OPTIONS, "") + os.environ.get("JAVA_TOOL_OPTIONS", "")
    java = FEW_JAVA if few else MANY_JAVA
    if "GC" in options:
        java = OUR_COLLECTOR.sub("", java)
    return {
        "spark.driver.memory": f"{driver_mib(memory_bytes())}m",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.sql.shuffle.partitions": str(max(16, 4 * cores)),
        # Functions for machine learning, which Spark finds by reflection while a session starts.
        "spark.sql.extensions.test.loadFromCp": "false",
        **(FEW if few else MANY),
        **(SOME if rows <= SOME_ROWS else {}),
        **(INTERPRETED if rows <= INTERPRETED_ROWS else {}),
        **java_options(scratch, java),
    }


def is_ours(java_options: str) -> bool:
    """Whether these are the options of a Java in this machine's memory, all chosen by us."""
    return FEW_JAVA in java_options or MANY_JAVA in java_options


def driver_mib(machine_bytes: int) -> int:
    """The heap of Spark's Java, in MiB: half of the machine, at most 2 GiB."""
    return max(LEAST_DRIVER_MIB, min(MOST_DRIVER_MIB, machine_bytes // 2 // MIB))


def memory_bytes(root: Path = Path("/")) -> int:
    """The memory that there is: the machine's, or less where a cgroup limits this process."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in _cgroup_limits(root):
        text = file.read_text().strip() if file.is_file() else "max"
        limits += [int(text)] if text.isdigit() else []
    return min(limits)


def _cgroup_limits(root: Path) -> list[Path]:
    """The files that may hold a limit of this process: its cgroups', and those above them."""
    base = root / "sys/fs/cgroup"
    files = [base / "memory.max", base / "memory/memory.limit_in_bytes"]
    groups = root / "proc/self/cgroup"
    for line in groups.read_text().splitlines() if groups.is_file() else []:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, name = base, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = base / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = top / path.lstrip("/")
        files += [folder / name for folder in (group, *group.parents) if top in folder.parents]
    return files


def set_elsewhere(spark_home: Path, environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """What the user's environment tells Spark: spark-defaults.conf, PYSPARK_SUBMIT_ARGS, MASTER."""
    environ = os.environ if environ is None else environ
    arguments = _submit_arguments(environ.get("PYSPARK_SUBMIT_ARGS", ""))
    conf_dir = Path(environ.get("SPARK_CONF_DIR") or spark_home / "conf")
    settings = {"spark.master": environ.get("MASTER"), "spark.driver.memory": None}
    settings["spark.driver.memory"] = environ.get("SPARK_DRIVER_MEMORY")
    settings |= _properties(Path(arguments.properties_file or conf_dir / "spark-defaults.conf"))
    settings |= dict(pair.split("=", 1) for pair in arguments.conf if "=" in pair)
    settings["spark.master"] = arguments.master or settings["spark.master"]
    settings["spark.driver.memory"] = arguments.driver_memory or settings["spark.driver.memory"]
    return {key: value for key, value in settings.items() if value}


def _submit_arguments(text: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--master")
    parser.add_argument("--driver-memory")
    parser.add_argument("--properties-file")
    parser.add_argument("--conf", "-c", action="append", default=[])
    return parser.parse_known_args(shlex.split(text))[0]


def _properties(file: Path) -> dict[str, str]:
    """The settings in a spark-defaults.conf: `key value`, `key=value`, `#` before a comment."""
    if not file.is_file():
        return {}
    lines = re.findall(r"^[ \t]*(spark[^\s=:]+)[ \t]*[=: \t](.*)", file.read_text(), re.M)
    return {name: value.strip() for name, value in lines}
