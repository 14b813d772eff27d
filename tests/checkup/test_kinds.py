"""What people bring together: a broker's statistics, and dumps of the threads of their clients.

incidents/ has what real clients and a real broker (4.0.8) have printed: Java 11 to 25, py-spy,
faulthandler, Go; of Java's dumps the threads of the JVM itself are left out. java11-* and
java21-* are of one program on both versions, by jstack, `jcmd -l` and SIGQUIT in its log.
"""

from __future__ import annotations

import gzip
import json
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.checkup.kinds import recognise
from pulsar_doctor.errors import InputError
from pulsar_doctor.evidence.dumps.thread_dump import dumps
from tests.support.command_line import answered

INCIDENTS = Path(__file__).parent / "incidents"
DUMPS = sorted(each for each in INCIDENTS.glob("*/*") if not each.name.startswith("stats"))
EACH = ("-q", "stall-check", "-o", "json")
LISTENER, SLEEPS = "pulsar-external-listener-5-1", "java.lang.Thread.sleep under com.acme.App"
OF_EACH_JAVA = [
    ("hang", ["jstack1.txt", "jstack2.txt"], (), "warning", "nobody-receives", ["main", SLEEPS]),
    ("deadlock", ["app.log"], (), "stalled", "receive-deadlock",
     ["bookkeeper", LISTENER, "wait for each other"]),
    ("pool", ["jcmd1.txt", "jcmd2.txt"], (), "warning", "nobody-receives",
     ["main", "Semaphore.acquire", "a pool of 4 threads; pool-2-thread-1 has been in " + SLEEPS]),
    ("io", ["app.log"], (), "warning", "nobody-receives",
     ["pulsar-client-internal-7-1", "the client's own thread", SLEEPS]),
]  # fmt: skip


def judged(*files: Path, more: tuple[str, ...] = ()) -> tuple[int, dict[str, Any]]:
    options = [word for file in files for word in ("--stats", str(file))]
    done = answered(*EACH, *options, *more)
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


def stats2(incident: str) -> str:
    return (INCIDENTS / incident / "stats2.json").read_text()


def of(incident: str, *names: str) -> list[Path]:
    return [INCIDENTS / incident / name for name in names]


@pytest.mark.parametrize(
    ("incident", "brought", "more", "status", "code", "shows"),
    [
        ("java-lock", ["jstack1.txt", "jstack2.txt"], (), "warning", "listener-stuck",
         [LISTENER, "which writer holds", SLEEPS, "24 s"]),
        ("java-deadlock", ["jcmd2.txt"], (), "stalled", "receive-deadlock",
         ["bookkeeper", LISTENER, "wait for each other"]),
        ("java-hang", ["jstack1.txt", "jstack2.txt"], (), "warning", "nobody-receives",
         ["main", SLEEPS]),
        ("java-io", ["app.log"], (), "warning", "nobody-receives",
         ["pulsar-client-io-1-1", "an I/O thread of the client", SLEEPS]),
        ("java25-virtual", ["tofile1.json", "tofile2.json"], (), "warning", "nobody-receives",
         ["thread 21", "VirtualThread.parkNanos under com.acme.App.charge"]),
        ("java25-virtual", ["tofile1.plain", "tofile2.plain"], (), "warning", "nobody-receives",
         ["thread 21", "VirtualThread.parkNanos under com.acme.App.charge"]),
        ("python-listener", ["pyspy1.txt", "pyspy2.txt"], ("--interval", "20s"), "warning",
         "listener-stuck", ["charge (app.py:6) for 20 s"]),
        ("pyspy-hang", ["pyspy1.json", "pyspy2.json"], ("--interval", "20s"), "warning",
         "nobody-receives", ["MainThread has been in charge (app.py:5) for 20 s"]),
        ("pyspy-listener", ["pyspy1.json", "pyspy2.json"], ("--interval", "20s"), "warning",
         "listener-stuck", ["charge (app.py:5) for 20 s"]),
        ("go-hang", ["goroutine1.txt", "goroutine2.txt"], ("--interval", "20s"), "warning",
         "nobody-receives", ["goroutine 1", "time.Sleep under main.charge"]),
        *((f"java{version}-{each[0]}", *each[1:]) for version in (11, 21) for each in OF_EACH_JAVA),
    ],
)  # fmt: skip
def test_the_dump_names_the_thread_that_statistics_alone_cannot(
    incident: str, brought: list[str], more: tuple[str, ...], status: str, code: str,
    shows: list[str],
) -> None:  # fmt: skip
    rc, document = judged(*of(incident, "stats2.json"))
    assert (rc, document["subscriptions"][0]["status"]) == (3, "unknown")
    rc, document = judged(*of(incident, "stats2.json", *brought), more=more)
    (verdict,) = document["subscriptions"]
    assert (verdict["status"], verdict["findings"][0]["code"]) == (status, code)
    assert [each for each in shows if each not in verdict["findings"][0]["summary"]] == []
    assert rc == (1 if status == "stalled" else 3)
    assert f'"consumerName":"{verdict["findings"][0]["consumer"]}"' in stats2(incident)
    assert "process" in document["sources"]


@pytest.mark.parametrize(
    ("incident", "brought", "shows"),
    [
        ("java-pool", "jcmd2.txt", "all 4 threads of a pool have work"),
        ("python-pool", "faulthandler.txt", "all 4 threads of a pool have work"),
        ("java-deadlock", "jcmd2.txt", f"deadlock, bookkeeper and {LISTENER} wait for each other"),
        ("java-io", "app.log", "pulsar-client-io-1-1"),
        ("go-deadlock", "app.log", "no thread calls receive"),
        ("java-healthy", "jstack2.txt", "receiving: main"),
    ],
)
def test_a_dump_alone_is_no_verdict(incident: str, brought: str, shows: str) -> None:
    rc, document = judged(*of(incident, brought))
    assert (rc, document["subscriptions"]) == (3, [])
    assert any(shows in each["note"] for each in document["notes"]), document["notes"]
    assert "topics stats" in document["unreachable"][0]["reason"]


@pytest.mark.parametrize(
    ("incident", "brought"),
    [("java-healthy", "jstack2.txt"), ("java11-healthy", "jstack2.txt"),
     ("java21-healthy", "jstack2.txt"), ("python-healthy", "pyspy2.txt"),
     ("pyspy-healthy", "pyspy2.json"), ("go-healthy", "goroutine2.txt")],
)  # fmt: skip
def test_a_client_that_works_stays_healthy_beside_its_dump(incident: str, brought: str) -> None:
    files = of(incident, "stats1.json", "stats2.json")
    moments = map(int, re.findall(r"\b1[0-9]{12}\b", files[1].read_text()))
    at = ("--at", str(max(moments) + 100), "--interval", "20s")
    alone = judged(*files, more=at)
    rc, document = judged(*files, *of(incident, brought), more=at)
    assert (alone[0], rc) == (0, 0)
    assert document["subscriptions"][0]["status"] == "healthy"


def test_what_would_decide_is_one_sentence_for_the_dumps_that_are_there() -> None:
    stats, first, second = of("java-hang", "stats2.json", "jstack1.txt", "jstack2.txt")
    _, document = judged(stats, first, second)
    (reason,) = (each["reason"] for each in document["unreachable"])
    assert " apart, and it counts as a stall from 5 min on" in reason


def test_a_thread_that_is_in_a_dump_twice_is_no_mistake_of_ours(tmp_path: Path) -> None:
    """As where two dumps of a log run into each other."""
    file, text = tmp_path / "twice.txt", of("java11-hang", "jstack1.txt")[0].read_text()
    again = text[text.index('"main"') :].replace("cpu=", "cpu=1", 1)
    file.write_text(text[: text.index('"pulsar-')] + again)
    assert judged(file)[0] == 3


def test_a_thread_in_its_own_function_is_named_before_the_main_one(tmp_path: Path) -> None:
    file = tmp_path / "spy.txt"
    file.write_text(
        'Thread 1 (idle): "MainThread"\n    <module> (app.py:23)\n'
        'Thread 2 (idle): "worker"\n    charge (app.py:7)\n    work (app.py:16)\n'
    )
    notes = [each["note"] for each in judged(file)[1]["notes"]]
    assert "worker is in charge (app.py:7), and 1 more" in notes[0]


def test_a_listener_that_hangs_beside_healthy_statistics_is_exit_3(tmp_path: Path) -> None:
    stats, *dumped = of("python-listener", "stats2.json", "pyspy1.txt", "pyspy2.txt")
    document = json.loads(stats.read_text())
    subscription = document["subscriptions"]["s"]
    subscription |= {"msgBacklog": 0, "msgBacklogNoDelayed": 0, "unackedMessages": 0}
    subscription["consumers"][0] |= {"unackedMessages": 0, "availablePermits": 500}
    file = tmp_path / "earlier.json"
    file.write_text(json.dumps(document))
    assert judged(file)[0] == 0
    rc, shown = judged(file, *dumped, more=("--interval", "90s"))
    assert (rc, shown["subscriptions"][0]["status"]) == (3, "healthy")
    (reason,) = (each["reason"] for each in shown["unreachable"])
    assert "charge (app.py:6) for 90 s" in reason
    assert "take both at the same time" in reason


@pytest.mark.parametrize(
    ("incident", "name", "names"),
    [("python-listener", "pyspy1.txt", "MainThread"),
     ("java-lock", "jstack1.txt", "writer"),
     ("java-deadlock", "jcmd2.txt", "bookkeeper")],
)  # fmt: skip
def test_the_name_of_a_thread_shows_no_credential(
    incident: str, name: str, names: str, tmp_path: Path
) -> None:
    stats, dumped = of(incident, "stats2.json", name)
    file = tmp_path / "dump.txt"
    file.write_text(
        re.sub(
            f'"({names})"', r'"\1 password=hunter2 eyJhbGciOiJIUzI1NiJ9.e30.x"', dumped.read_text()
        )
    )
    assert "hunter2" in file.read_text()
    for files in ([stats, file], [file]):
        text = json.dumps(judged(*files)[1])
        assert "[redacted]" in text
        assert "hunter2" not in text
        assert "eyJhb" not in text


def test_each_file_is_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    files = of("java-lock", "stats2.json", "jstack1.txt")
    found = recognise(SampleFiles(list(map(str, files))))
    assert [each.partition("java-lock/")[2] for each in found.lines] == [
        "stats2.json: statistics of 1 topic",
        "jstack1.txt: a thread dump of Java with 11 threads",
    ]
    assert not [*recognise(SampleFiles([str(files[0])])).lines]


def test_what_is_no_kind_is_wrong_usage_and_says_what_is(tmp_path: Path) -> None:
    text = tmp_path / "mail.txt"
    text.write_text("Hello, our consumer is stuck.\n")
    done = answered("stall-check", "--stats", str(text))
    assert done.returncode == 2
    assert "thread dumps (jstack" in done.stderr.partition("`stall-check --stats` also takes ")[2]
    text.write_text("Full thread dump OpenJDK 64-Bit Server VM:\n\n")
    with pytest.raises(InputError, match="holds no thread"):
        recognise(SampleFiles([str(text)]))


def test_known_issues_need_statistics_beside_a_dump() -> None:
    (dump,) = of("java-deadlock", "jcmd2.txt")
    done = answered("known-issues", "match", str(dump))
    assert (done.returncode, done.stdout) == (3, "")
    assert "a thread dump of Java with 11 threads: no statistics" in done.stderr


@pytest.mark.parametrize("redact", [(), ("--redact",)])
def test_a_bundle_of_files_gives_the_same_verdict_and_holds_no_file(
    redact: tuple[str, ...], tmp_path: Path
) -> None:
    files, bundle = of("java11-deadlock", "stats2.json", "app.log"), tmp_path / "b.tar.gz"
    given = [word for file in files for word in ("--stats", str(file))]
    done = answered("bundle", *given, *redact, "-o", str(bundle))
    assert done.returncode == 0, done.stderr
    assert "stalled receive-deadlock" in done.stdout
    again = answered("stall-check", "--case", str(bundle), "-o", "json")
    assert again.returncode == 1
    (verdict,) = json.loads(again.stdout)["subscriptions"]
    assert verdict["findings"][0]["code"] == "receive-deadlock"
    packed = gzip.decompress(bundle.read_bytes())
    assert b"samples.jsonl" not in packed
    assert (b"bookkeeper" in packed) != bool(redact)
    assert answered("bundle", "-o", str(tmp_path / "c")).returncode == 2


def test_known_issues_of_several_files_are_no_comfort_where_one_is_partial(tmp_path: Path) -> None:
    stats, log = of("java11-io", "stats2.json", "app.log")
    assert answered("known-issues", "match", str(stats), str(log)).returncode == 0
    cut = tmp_path / "cut.log"
    cut.write_text(log.read_text()[:-1200])
    done = answered("known-issues", "match", str(stats), str(cut))
    assert done.returncode == 3
    assert f"{cut} has a thread dump that is cut off" in done.stderr


def test_a_dump_that_is_cut_off_is_never_whole(tmp_path: Path) -> None:
    cut, (stats, whole) = tmp_path / "cut.txt", of("java-healthy", "stats2.json", "jstack2.txt")
    cut.write_text(whole.read_text()[:-1200])
    rc, document = judged(*of("java-healthy", "stats1.json"), stats, cut)
    assert rc == 3
    assert "cut off" in document["unreachable"][0]["reason"]


@pytest.mark.parametrize(
    ("incident", "name", "between"),
    [("python-healthy", "pyspy2.txt", False), ("python-pool", "faulthandler.txt", True),
     ("pyspy-healthy", "pyspy2.json", True)],
)  # fmt: skip
def test_a_dump_of_python_whose_end_is_cut_is_partial(
    incident: str, name: str, *, between: bool
) -> None:
    """Within its last line always; between two lines where the program prints an end."""
    text = of(incident, name)[0].read_text().rstrip("\n")
    assert dumps(f"{text}\n")[-1].whole
    begins = text.rindex("\n") + 5
    ends = [*range(begins + 1, len(text) - 1)] if not text.endswith("]") else []
    ends += [match.start() for match in re.finditer("\n", text)] if between else []
    first = text.find("most recent call first", 30)
    for end in (each for each in ends if each > first):
        read = dumps(text[:end])
        assert not read or not read[-1].whole or len(read) < len(dumps(text)), text[:end][-80:]


def test_a_dump_of_py_spy_in_json_that_is_cut_is_never_whole() -> None:
    text = of("pyspy-healthy", "pyspy2.json")[0].read_text()
    assert [each.whole for each in dumps(text + text[: len(text) // 2])] == [False]


def two_consumers(incident: str, address: str, folder: Path) -> Path:
    """The statistics of an incident with another Java consumer that holds messages as well."""
    document = json.loads((INCIDENTS / incident / "stats2.json").read_text())
    consumers = document["subscriptions"]["s"]["consumers"]
    consumers.append(consumers[0] | {"consumerName": "other", "address": address})
    file = folder / "two.json"
    file.write_text(json.dumps(document))
    return file


def test_a_dump_that_may_be_of_two_processes_is_a_note_unless_its_log_names_one(
    tmp_path: Path,
) -> None:
    stats = two_consumers("java-io", "/127.0.0.1:2", tmp_path)
    (log,) = of("java-io", "app.log")
    bare = tmp_path / "bare.txt"
    bare.write_text(log.read_text().replace("L:/127.0.0.1:", "L:/10.0.0.1:"))
    rc, document = judged(stats, bare)
    assert (rc, document["subscriptions"][0]["findings"]) == (3, [])
    assert any("pulsar-client-io-1-1" in each["note"] for each in document["notes"])
    assert any("may be of java-io on" in each["note"] for each in document["notes"])
    rc, document = judged(stats, log)
    assert document["subscriptions"][0]["findings"][0]["consumer"] == "java-io"


@pytest.mark.parametrize("incident", ["java-hang", "java-lock", "java-io", "go-hang"])
def test_dumps_of_processes_that_receive_take_nothing_from_what_another_one_shows(
    incident: str,
) -> None:
    works = INCIDENTS / f"{incident.partition('-')[0]}-healthy"
    besides = [each for each in sorted(works.iterdir()) if not each.name.startswith("stats")]
    dumped = [each for each in DUMPS if each.parent.name == incident]
    stats, more = of(incident, "stats2.json"), ("--interval", "60s")
    alone = judged(*stats, *dumped, more=more)[1]["subscriptions"][0]
    beside = judged(*stats, *besides, *dumped, more=more)[1]["subscriptions"][0]
    assert beside["findings"] == alone["findings"] != []


def test_a_dump_is_of_one_address_over_all_topics_or_of_none(tmp_path: Path) -> None:
    (stats,), dumped = of("java-hang", "stats2.json"), of("java-hang", "jstack1.txt", "jstack2.txt")
    _, document = judged(stats, *dumped)
    assert any("is taken to be of" in each["note"] for each in document["notes"])
    alone = json.loads(stats.read_text())
    other = json.loads(stats.read_text())
    other["subscriptions"]["s"]["consumers"][0]["address"] = "/127.0.0.1:2"
    file = tmp_path / "topics.jsonl"
    lines: list[dict[str, Any]] = [
        {"schema": "pulsar-doctor/samples/1", "program_version": "0.2.0"}
    ]
    lines += [
        {"topic": f"persistent://public/default/{name}", "taken_ms": None, "stats": answer}
        for name, answer in (("a", alone), ("b", other))
    ]
    file.write_text("".join(f"{json.dumps(each)}\n" for each in lines))
    _, document = judged(file, *dumped)
    found = [each["code"] for one in document["subscriptions"] for each in one["findings"]]
    assert "nobody-receives" not in found
    (note,) = (each["note"] for each in document["notes"] if "may be of" in each["note"])
    _, document = judged(file, *dumped, more=("persistent://public/default/a",))
    assert not any("taken to be" in each["note"] for each in document["notes"])
    assert [one for one in ("default/a", "default/b") if one not in note] == []


@pytest.mark.parametrize("prefix", ["billing-1  | ", "2026-11-29T13:22:47.123456789Z stdout F ",
                                    "[pod/billing-0/app] ", "> "])  # fmt: skip
def test_what_other_programs_put_before_lines_is_left_out(prefix: str) -> None:
    for file in DUMPS:
        text = file.read_text()
        led = "".join(f"{prefix}{line}\n" for line in text.splitlines())
        if file.suffix != ".json":
            assert [each.threads for each in dumps(led)] == [each.threads for each in dumps(text)]


def mutated(text: str, other: str, chance: random.Random) -> bytes:
    """A text as it may arrive: cut, doubled, mixed with another, in another encoding."""
    at, to = sorted(chance.randrange(len(text) + 1) for _ in range(2))
    kinds = (
        lambda: text[at:to], lambda: text[:at], lambda: text[at:], lambda: text + text,
        lambda: text[:at] + other + text[at:], lambda: text[:at] + text[to:],
        lambda: text.replace("\n", "\r\n"), lambda: text.replace("\n", " "),
        lambda: text[:to] + "\0\x1b[31m\u202e" + text[to:], lambda: other + text[at:],
    )  # fmt: skip
    made = chance.choice(kinds)()
    encoding = chance.choice(["utf-8", "utf-8", "utf-16", "utf-16-le", "utf-8-sig"])
    return made.encode(encoding, "replace")


def recognised_or_refused(texts: list[str], chance: random.Random, file: Path) -> None:
    """Writes 500 mutations to a file: each brings something, or is refused in one sentence."""
    for _ in range(500):
        file.write_bytes(mutated(chance.choice(texts), chance.choice(texts), chance) or b" ")
        try:
            found = recognise(SampleFiles([str(file)]))
        except InputError:
            continue
        assert found.brought


@pytest.mark.parametrize("part", range(4))
def test_no_mutation_is_a_traceback_or_a_comfort(part: int, tmp_path: Path) -> None:
    """500 each; what is unreadable is one sentence."""
    chance, file = random.Random(6200 + part), tmp_path / "brought"
    texts = [each.read_text() for each in DUMPS]
    (stats,) = of("java-lock", "stats2.json")
    texts.append(stats.read_text())
    recognised_or_refused(texts, chance, file)
    for _ in range(10):
        file.write_bytes(mutated(chance.choice(texts[:-1]), chance.choice(texts[:-1]), chance))
        done = answered(*EACH, "--stats", str(stats), "--stats", str(file))
        assert done.returncode in (1, 2, 3), done


@pytest.mark.parametrize("unit", [
    '"a" #1 nid=0x1 ', '"' * 40 + ' #1 "', "   java.lang.Thread.State: X\n", "goroutine 1 [a",
    "goroutine 1 [a]:\nmain.f()\n\t/a.go:1\n\n", "    a (b (c:1 (",
    "Thread 1 (idle)\n    a (b:1)\n",
    '  File "a", line 1 in ', "\tat a.b.c(", "- locked <0x1", '#1 "a"\n', "x | " * 9,
    '{"threadDump":{',
    "Found one Java-level deadlock:\n", "Full thread dump \n",
])  # fmt: skip
def test_a_reader_takes_time_that_grows_with_the_length_only(unit: str) -> None:
    """A quarter of 1 MB, for which 3 s of a processor are more than enough."""
    began = time.process_time()
    dumps(f"{unit}\n" * ((1 << 18) // len(unit)))
    assert time.process_time() - began < 3
