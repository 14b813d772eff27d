"""Starts the Java in which Spark runs, and ends it.

spark-submit starts a shell, then a Java that only prints a command, then the Java of that command,
which reads all settings again. Where nobody has set anything of Spark the command is known, and
that Java is started at once; for a small trace also before all is known that Spark is for.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pulsar_doctor.parts.analyze.configuration import FEW_JAVA, JAVA_OPTIONS, is_ours
from pulsar_doctor.parts.analyze.java import spark_java_home
from pulsar_doctor.parts.analyze.masters import is_local

if TYPE_CHECKING:
    from pyspark import SparkContext

END_SECONDS = 10.0
ARCHIVE_SECONDS = 600.0  # of a Java that makes an archive while it ends, on a busy machine
LOOK_SECONDS = 0.02
MAIN = "org.apache.spark.api.python.PythonGatewayServer"
# Variables that Spark's scripts and its launcher read, but for those that change nothing here.
READ_BY_SCRIPTS = ("SPARK_", "PYSPARK_SUBMIT_ARGS", "HADOOP_CONF_DIR", "YARN_CONF_DIR")
KNOWN = {"SPARK_HOME", "SPARK_LOCAL_IP", "SPARK_LAUNCHER_OPTS", "SPARK_REMOTE"}
# As org.apache.spark.launcher.JavaModuleOptions has them, but for a module that only functions for
# machine learning use.
PACKAGES = (
    "java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio",
    "java.util", "java.util.concurrent", "java.util.concurrent.atomic", "jdk.internal.ref",
    "sun.nio.ch", "sun.nio.cs", "sun.security.action", "sun.util.calendar",
)  # fmt: skip
OPTIONS = (
    "-XX:+IgnoreUnrecognizedVMOptions",
    *(f"--add-opens=java.base/{each}=ALL-UNNAMED" for each in PACKAGES),
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.allocator.type=pooled",
    "--sun-misc-unsafe-memory-access=allow",
    "--enable-native-access=ALL-UNNAMED",
)


def command_of(settings: Mapping[str, str], home: Path) -> list[str] | None:
    """The command of Spark's Java; None where somebody has set more than we know.

    home: where Spark is installed. Of a pyspark that pip has installed there is no folder `conf`.
    """
    options = settings.get(JAVA_OPTIONS, "")
    read = [name for name in os.environ if name.startswith(READ_BY_SCRIPTS) and name not in KNOWN]
    there = {each.name for each in home.iterdir()}
    if read or not is_ours(options) or "conf" in there or "jars" not in there:
        return None
    memory = f"-Xmx{settings['spark.driver.memory']}"
    java = str(spark_java_home() / "bin" / "java")
    return [java, "-cp", _class_path(home), memory, *shlex.split(options), *OPTIONS, MAIN]


def _class_path(home: Path) -> str:
    """The class path as Spark's launcher writes it, or Java refuses an archive of the other."""
    jars = home / "jars"
    return ":".join(map(str, (home / "conf", *jars.glob("slf4j-api-*"), jars / "*")))


@contextlib.contextmanager
def begun(command: list[str], says: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Starts Java, which says to a file what it says, and where it listens to the file beside it.

    Nobody waits for it here; afterwards it is gone.
    """
    environ = {"SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(_address(says))}
    with says.open("wb") as file, environment(local=True):
        java = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, **environ},
            preexec_fn=_deaf_to_sigint,  # noqa: PLW1509 - pyspark starts its Java so, too
        )
    try:
        yield java
    finally:
        _end(java, 0)


def _address(says: Path) -> Path:
    return says.with_name("java.address")


def _deaf_to_sigint() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def reached(java: subprocess.Popen[bytes], says: Path) -> Any:
    """pyspark's gateway to that Java, once it listens."""
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.serializers import UTF8Deserializer, read_int

    address = _address(says)
    while java.poll() is None and not address.exists():
        time.sleep(LOOK_SECONDS)
    if not address.exists():
        raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})
    with address.open("rb") as file, environment(local=True):
        os.environ["PYSPARK_GATEWAY_PORT"] = str(read_int(file))
        os.environ["PYSPARK_GATEWAY_SECRET"] = UTF8Deserializer().loads(file)
        gateway = launch_gateway()
    gateway.proc = java
    return gateway


def submitted(settings: Mapping[str, str], says: Path, *, shown: bool) -> Any:
    """pyspark's gateway to a Java that spark-submit starts with these settings.

    shown: Java writes to the terminal, and not to a file.
    """
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    with says.open("wb") as file, environment(local=is_local(settings["spark.master"])):
        output = {} if shown else {"stdout": file, "stderr": subprocess.STDOUT}
        with _sigint_kept() as came:
            gateway = launch_gateway(SparkConf().setAll(list(settings.items())), output)
    if came:
        gateway.close()
        _end(gateway.proc, END_SECONDS)
        raise KeyboardInterrupt
    return gateway


@contextlib.contextmanager
def used(gateway: Any, seconds: float = END_SECONDS) -> Iterator[None]:
    """pyspark speaks to the Java of this gateway, which has so many seconds to end afterwards."""
    from pyspark import SparkContext

    client = gateway._gateway_client
    # Looking whether a value is numpy's, pyspark imports its own tests' tools, and pandas.
    client.converters = [each for each in client.converters if "Numpy" not in type(each).__name__]
    try:
        SparkContext._ensure_initialized(gateway=gateway)
        yield
    finally:
        SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
        gateway.close()
        _end(gateway.proc, seconds)


def ask_less(context: SparkContext) -> None:
    """Remembers functions that pyspark searches before each call, which Java does in 280 jars."""
    from py4j.java_gateway import JavaClass

    class Remembering(JavaClass):  # type: ignore[misc]
        def __getattr__(self, name: str) -> Any:
            found = super().__getattr__(name)
            setattr(self, name, found)
            return found

    java: Any = context._jvm
    for name in ("functions", "PythonUtils", "org.apache.spark.sql.functions"):
        known = getattr(java, name)
        setattr(java, name, Remembering(known._fqn, known._gateway_client))


def _end(java: subprocess.Popen[bytes], seconds: float) -> None:
    """Ends the Java: it does so by itself when nobody holds its stdin any more."""
    assert java.stdin is not None
    java.stdin.close()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            java.wait(seconds)
    finally:
        java.kill()  # which does nothing to one that has ended
        java.wait()


@contextlib.contextmanager
def environment(*, local: bool) -> Iterator[None]:
    """The environment in which Java is started; afterwards all is as it was."""
    before = dict(os.environ)
    os.environ["JAVA_HOME"] = str(spark_java_home())
    os.environ.setdefault("SPARK_HOME", str(spark_home()))  # or a Python is started to find it
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", FEW_JAVA)  # of a Java that prints a command
    os.environ.pop("SPARK_REMOTE", None)
    if local:  # or Spark resolves this machine's name, which need not have an address
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def spark_home() -> Path:
    """Where Spark is installed. Nothing of it is imported."""
    found = find_spec("pyspark")
    if not found or not found.origin:
        raise ModuleNotFoundError("there is no pyspark", name="pyspark")
    return Path(os.environ.get("SPARK_HOME") or Path(found.origin).parent)


@contextlib.contextmanager
def _sigint_kept() -> Iterator[list[int]]:
    """Collects Ctrl-C for afterwards: pyspark that is interrupted here leaves its Java for good."""
    came: list[int] = []
    with python_hears_sigint():
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, lambda number, _: came.append(number))
        yield came


@contextlib.contextmanager
def python_hears_sigint() -> Iterator[None]:
    """Ctrl-C stays what it was: pyspark's own handler would wait for a Java that is busy."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread() and before is not None:
            signal.signal(signal.SIGINT, before)
