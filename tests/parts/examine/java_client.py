"""A real Java client in a process of its own, unprepared, that does what a test orders."""

from __future__ import annotations

import atexit
import contextlib
import functools
import shutil
import subprocess
import tempfile
import threading
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from pulsar_doctor.parts.sandbox import distribution, versions
from tests.support.maven import compiled, jar

CLIENTS = Path(__file__).parent / "clients"
SOURCES = (CLIENTS / "Client.java", CLIENTS / "Waits.java")
BOOT = """\
Manifest-Version: 1.0
Main-Class: org.springframework.boot.loader.launch.JarLauncher
Start-Class: com.acme.Client
Spring-Boot-Classes: BOOT-INF/classes/
Spring-Boot-Lib: BOOT-INF/lib/

"""
SHADED = ("pulsar-client", "pulsar-client-api", "pulsar-client-admin-api")
BESIDE = (  # what they do not bring
    "org.slf4j:slf4j-api:1.7.36",
    "io.opentelemetry:opentelemetry-api:1.45.0",
    "io.opentelemetry:opentelemetry-context:1.45.0",
    "io.opentelemetry:opentelemetry-api-incubator:1.45.0-alpha",
    "com.fasterxml.jackson.core:jackson-annotations:2.17.2",
)
SECONDS = 60.0
QUICK = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")  # half the processor time of a short life


class JavaApplication:
    """The process; see Client.java for its orders."""

    def __init__(self, process: subprocess.Popen[str], errors: IO[bytes]) -> None:
        self._process = process
        self._errors = errors
        self.pid = process.pid
        self._answer()

    def order(self, *words: object) -> str:
        """Has it done; an error in there is an AssertionError here."""
        assert self._process.stdin is not None
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        answer = self._answer()
        assert not answer.startswith("error"), f"{words}: {answer}"
        return answer

    def consumes(
        self,
        topic: str,
        messages: int,
        name: str,
        queue: int,
        *,
        kind: str = "plain",
        take: int = 0,
    ) -> None:
        """Sends so many, and has a consumer of that kind and queue take some of them."""
        self.order("produce", topic, messages)
        self.order("subscribe", name, queue, kind, topic)
        if take:
            self.order("take", name, take)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        late = threading.Timer(SECONDS, self._process.kill)
        late.start()
        try:
            for line in self._process.stdout:
                if line.startswith("@"):
                    return line[1:].strip()
        finally:
            late.cancel()
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace")[-2000:]
        raise AssertionError(f"the application has ended, or was silent for {SECONDS} s: {said}")


def only_child(pid: int) -> int:
    """The process that this one has started."""
    told = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    assert len(told) == 1
    return int(told[0])


def left_in_tmp(pid: int) -> list[Path]:
    """What there is of us; the JVM's own socket stays, as after any jcmd."""
    ours = Path("/tmp").glob(f".pulsar-doctor-*-{pid}-*")
    return [*ours, *Path("/tmp").glob(f".attach_pid{pid}")]


@contextlib.contextmanager
def container(*folders: Path, net: bool = False) -> Iterator[tuple[list[str], list[Path]]]:
    """What starts a program in namespaces of its own, and where it has these folders in there.

    For pids and files, with a /tmp of its own: what lies below ours is not there by its name. net:
    and for the network.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp") as room:
        there = [Path(room, str(at)) for at, _ in enumerate(folders)]
        for each in there:
            each.mkdir()
        binds = [
            f'mount --bind "{one.resolve()}" {to}' for one, to in zip(folders, there, strict=True)
        ]
        script = " && ".join([*binds, "mount -t tmpfs none /tmp", 'exec "$@"'])
        unshare = ["unshare", "--pid", "--mount", "--fork", "--mount-proc", "--kill-child"]
        unshare += ["--net"] * net
        yield [*unshare, "sh", "-c", script, "sh"], there


@functools.cache
def classes() -> Path:
    """The compiled application, outside of /tmp, which in a container is another one."""
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))
    atexit.register(shutil.rmtree, folder)
    lib, needed = versions.pulsar_home(None) / "lib", ("*pulsar-client*.jar", "*guava-guava-*.jar")
    classpath = ":".join(str(each) for pattern in needed for each in lib.glob(pattern))
    compiled(SOURCES, folder, distribution.java_home() / "bin/java", classpath)
    return folder


def spring_boot_jar(file: Path) -> Path:
    """The test's application as spring-boot-maven-plugin would pack it."""
    jars = [jar(f"org.apache.pulsar:{each}:4.0.8") for each in SHADED]
    jars += [jar(each) for each in BESIDE]
    loader = jar("org.springframework.boot:spring-boot-loader:3.3.5")
    with zipfile.ZipFile(file, "w") as packed, zipfile.ZipFile(loader) as launcher:
        packed.writestr("META-INF/MANIFEST.MF", BOOT)
        for name in launcher.namelist():
            if name.startswith("org/"):
                packed.writestr(name, launcher.read(name))
        for folder in ("BOOT-INF/", "BOOT-INF/classes/", "BOOT-INF/lib/"):  # Spring looks for these
            packed.writestr(folder, b"")
        for each in classes().rglob("*.class"):
            packed.write(each, f"BOOT-INF/classes/{each.relative_to(classes())}")
        for each in jars:
            packed.write(each, f"BOOT-INF/lib/{each.name}")
    return file


@contextlib.contextmanager
def running(
    service_url: str, *,
    java: Path | None = None, classpath: str | None = None, jar: Path | None = None,
    application: Path | None = None,
    options: Sequence[str] = (), before: Sequence[str] = (),
) -> Iterator[JavaApplication]:  # fmt: skip
    """The application, ended with the with-block. before: what starts it. jar: all of it."""
    java = java or distribution.java_home() / "bin/java"
    classpath = classpath or f"{versions.pulsar_home(None)}/lib/*"
    where = (
        ["-cp", f"{application or classes()}:{classpath}", "com.acme.Client"]
        if jar is None
        else ["-jar", jar]
    )
    line = [*before, str(java), "-Xmx256m", *QUICK, *options, *map(str, where)]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            [*line, service_url],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
        )  # fmt: skip
        try:
            yield JavaApplication(process, errors)
        finally:
            process.kill()
            process.wait()
            Path(f"/tmp/.java_pid{process.pid}").unlink(missing_ok=True)  # a killed one leaves it
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(BrokenPipeError):
                        pipe.close()
