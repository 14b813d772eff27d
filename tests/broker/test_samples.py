"""Samples in files: what `--save` keeps, and what `--stats` makes of it and of pulsar-admin's."""

from __future__ import annotations

import gzip
import io
import json
import os
import signal
import stat
import subprocess
import sys
import tracemalloc
from bisect import bisect_right
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pulsar_doctor.broker.sample_files import SampleFiles
from pulsar_doctor.broker.samples import ReadSamples, Recorder, StatsAnswer, moment_ms
from pulsar_doctor.broker.samples import read as read_files
from pulsar_doctor.broker.stats.age import Age
from pulsar_doctor.broker.stats.observed import ClusterLimits
from pulsar_doctor.broker.stats.reading import partitioned_stats, topic_stats
from pulsar_doctor.broker.stats.sample import Sample
from pulsar_doctor.errors import DoctorError, InputError
from tests.broker.recorded import NAMES, internal_of, recording, sample_of, stats_of

ORDERS = "persistent://public/default/orders"
AT = 1_795_262_300_000
HEADER = b'{"schema": "pulsar-doctor/samples/1"}\n'
STUCK, FOLDED = "4.0.8-shared-stuck", "4.0.8-partitioned-folded"
APART = "4.0.8-partitioned-per-partition"
BASE = "persistent://public/default/stats-partitioned-e722"
OF_TOPICS = [name for name in NAMES if recording(name)["kind"] == "topic"]
MOVING = "4.0.8-shared-moving"
STATS, INTERNAL = stats_of(STUCK), internal_of(STUCK)
PACKED = gzip.compress(json.dumps(STATS).encode(), mtime=0)


def read(*files: Any, **more: Any) -> ReadSamples:
    return read_files(SampleFiles(*files, **more))


def reading(topic: str = ORDERS, name: str = STUCK, at: int = 0) -> StatsAnswer:
    found = recording(name)["samples"][at]
    return StatsAnswer(topic, found["date_ms"], found["stats"], found["internal"])


def save(path: Path, *readings: StatsAnswer) -> str:
    with Recorder(path) as recorder:
        for each in readings:
            recorder.add(each)
    return str(path)


def mode(path: Path) -> str:
    return stat.filemode(path.stat().st_mode)


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def named(found: ReadSamples) -> list[tuple[str, int | None, int]]:
    return [(each.topic, each.partition, len(each.window.samples)) for each in found.windows]


def refusal(call: Callable[[], object]) -> DoctorError:
    with pytest.raises(DoctorError) as caught:
        call()
    assert "\n" not in str(caught.value)
    return caught.value


def read_or_refused(path: Path) -> ReadSamples | None:
    """None where it is refused, in one line."""
    try:
        return read([str(path)])
    except DoctorError as error:
        refused = str(error)
    assert "\n" not in refused
    return None


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str, object], str]:
    """Puts JSON, text or bytes into a file, and gives its name."""

    def put_down(name: str, content: object) -> str:
        if not isinstance(content, bytes):
            content = (content if isinstance(content, str) else json.dumps(content)).encode()
        (tmp_path / name).write_bytes(content)
        return str(tmp_path / name)

    return put_down


Put = Callable[[str, object], str]


# -- what is kept ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OF_TOPICS)
def test_what_was_saved_is_read_as_the_same_samples(tmp_path: Path, name: str) -> None:
    documents = recording(name)["samples"]
    saved = save(tmp_path / "s", *(reading(name=name, at=at) for at in range(len(documents))))
    found = read([saved])
    assert named(found) == [(ORDERS, None, len(documents))]
    assert found.windows[0].window.samples == tuple(sample_of(each) for each in documents)
    assert (found.samples, found.notes) == (len(documents), ())


def test_a_file_of_samples_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        save(tmp_path / "new", reading())
        assert mode(tmp_path / "new") == "-rw-------"
        (tmp_path / "new").chmod(0o644)
        save(tmp_path / "new", reading())  # replaced: what others may read already stays not so
        assert mode(tmp_path / "new") == "-rw-------"
    finally:
        os.umask(before)


def test_a_pipe_to_save_to_keeps_its_rights(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o622)
    before = mode(tmp_path / "pipe")
    with subprocess.Popen(["cat", str(tmp_path / "pipe")], stdout=subprocess.DEVNULL):
        save(tmp_path / "pipe", reading())
    assert mode(tmp_path / "pipe") == before


def test_the_lines_of_a_file(tmp_path: Path) -> None:
    limits = ClusterLimits(max_unacked_messages_per_consumer=50_000)
    with Recorder(tmp_path / "s") as recorder:
        recorder.limits(ORDERS, limits, "4.0.8")
        recorder.add(StatsAnswer(ORDERS, None, {"msgInCounter": 1}))
    header, first, second = lines(tmp_path / "s")
    assert header["schema"] == "pulsar-doctor/samples/1"
    assert first == {
        "topic": ORDERS,
        "limits": {
            "max_unacked_messages_per_consumer": 50_000,
            "max_unacked_messages_per_subscription": None,
            "max_unacked_ranges_to_persist": None,
            "backlog_quota_bytes": None,
            "backlog_quota_seconds": None,
            "backlog_quota_policy": None,
            "message_ttl_seconds": None,
        },
        "broker_version": "4.0.8",
    }
    assert second == {
        "topic": ORDERS, "taken_ms": None, "stats": {"msgInCounter": 1}, "internal": None,
    }  # fmt: skip
    samples = read([str(tmp_path / "s")])
    assert samples.broker_version == "4.0.8"
    (window,) = samples.windows
    assert window.limits == limits.on("4.0.8")
    assert window.window.last == Sample(None, topic_stats({"msgInCounter": 1}))


def test_limits_of_a_topic_hold_for_its_partitions(tmp_path: Path) -> None:
    of_all, of_one = ClusterLimits(1, 2, 3), ClusterLimits(4, 5, 6)
    with Recorder(tmp_path / "s") as recorder:
        recorder.limits(ORDERS, of_all)
        recorder.limits(f"{ORDERS}-partition-1", of_one)
        for number in (0, 1):
            recorder.add(reading(f"{ORDERS}-partition-{number}"))
    assert [each.limits for each in read([str(tmp_path / "s")]).windows] == [
        of_all,
        of_one,
    ]


SECRET = {"token": "SECRET"}


def test_what_users_attach_is_not_kept(tmp_path: Path) -> None:
    consumer = {"consumerName": "c", "address": "/10.0.0.1:5", "metadata": SECRET}
    subscription = {"subscriptionProperties": SECRET, "consumers": [consumer], "msgBacklog": 5}
    publisher = {"producerName": "p", "metadata": SECRET, "properties": SECRET}
    stats = {"publishers": [publisher], "subscriptions": {"s": subscription}}
    internal = {
        "ledgers": [{"ledgerId": 1, "metadata": "SECRET", "properties": SECRET}],
        "cursors": {
            "s": {"state": "Open", "properties": {"producer-1": 17}, "cursorProperties": SECRET}
        },
        "properties": SECRET,
    }
    save(tmp_path / "s", StatsAnswer(ORDERS, 1, stats, internal))
    (_, kept) = lines(tmp_path / "s")
    assert "SECRET" not in json.dumps(kept)
    assert kept["stats"] == {
        "publishers": [{"producerName": "p"}],
        "subscriptions": {
            "s": {"consumers": [{"consumerName": "c", "address": "/10.0.0.1:5"}], "msgBacklog": 5}
        },
    }
    assert kept["internal"] == {
        "ledgers": [{"ledgerId": 1}],
        "cursors": {"s": {"state": "Open", "properties": {"producer-1": 17}}},
    }


def test_a_version_that_looks_like_a_credential_is_neither_kept_nor_told(tmp_path: Path) -> None:
    consumers = [{"clientVersion": "Pulsar-Java-v4.0.8-token=SECRET"}, {"clientVersion": None}]
    publishers = [{"clientVersion": "token:SECRET"}]
    subscriptions = {"s": {"consumers": consumers}, "clientVersion": {"consumers": []}}
    stats = {"publishers": publishers, "subscriptions": subscriptions}
    (first, _) = topic_stats(stats).subscriptions["s"].consumers
    assert first.client_version == "Pulsar-Java-v4.0.8-[redacted]"
    save(tmp_path / "s", StatsAnswer(ORDERS, 1, stats))
    (_, kept) = lines(tmp_path / "s")
    assert "SECRET" not in json.dumps(kept)
    assert set(kept["stats"]["subscriptions"]) == {"s", "clientVersion"}


@pytest.mark.parametrize("name", ["metadata", "properties", "subscriptions", "cursors"])
def test_a_subscription_may_bear_any_name(tmp_path: Path, name: str) -> None:
    inner = {"msgBacklog": 5, "subscriptionProperties": SECRET, "metadata": SECRET}
    stats = {"msgInCounter": 1, "subscriptions": {name: inner}}
    internal = {"cursors": {name: {"state": "Open", "metadata": SECRET}}}
    saved = save(tmp_path / "s", StatsAnswer(ORDERS, 1, stats, internal))
    (window,) = read([saved]).windows
    assert window.window.last == StatsAnswer(ORDERS, 1, stats, internal).sample()
    assert "SECRET" not in json.dumps(lines(tmp_path / "s"))


def test_no_document_is_too_deep_to_keep(tmp_path: Path) -> None:
    deep: Any = {"msgInCounter": 1}
    for _ in range(900):
        deep = {"msgInCounter": 1, "inner": deep}
    saved = save(tmp_path / "s", StatsAnswer(ORDERS, 1, deep))
    assert read([saved]).windows[0].window.last.topic == topic_stats({"msgInCounter": 1})


def test_writing_needs_no_more_memory_for_more_topics(tmp_path: Path) -> None:
    one = reading()
    with Recorder(tmp_path / "s") as recorder:
        recorder.add(one)
        tracemalloc.start()
        for number in range(2000):
            recorder.add(StatsAnswer(f"{ORDERS}-{number}", 1, one.stats, one.internal))
        peak_bytes = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    kept_bytes = (tmp_path / "s").stat().st_size
    assert peak_bytes < 100_000 < kept_bytes


# -- where it is kept -----------------------------------------------------------------------------


def test_a_file_of_samples_is_replaced(tmp_path: Path) -> None:
    save(tmp_path / "s", reading(), reading(at=1))
    (tmp_path / "plain").write_bytes(HEADER)
    (tmp_path / "empty").touch()
    for name in ("s", "plain", "empty"):
        assert named(read([save(tmp_path / name, reading())])) == [(ORDERS, None, 1)]


@pytest.mark.parametrize(
    "content",
    [
        b"my notes",
        b"\0\1",
        b'{"schema": "pulsar-doctor/stall-check/1"}',
        gzip.compress(b"{}", mtime=0),
    ],
)
def test_any_other_file_is_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s"
    path.write_bytes(content)
    error = refusal(lambda: save(path, reading()))
    assert str(error) == f"{path} is there and holds no samples; name another file with --save"
    assert error.exit_code == 2
    assert path.read_bytes() == content


def test_a_folder_or_a_place_that_is_not_there(tmp_path: Path) -> None:
    assert "is a folder" in str(refusal(lambda: save(tmp_path, reading())))
    error = refusal(lambda: save(tmp_path / "no" / "s", reading()))
    assert str(error).startswith(f"cannot write {tmp_path / 'no' / 's'}: No such file or directory")
    assert error.exit_code == 3


KILLED = """
import os, signal, sys
from pathlib import Path
from pulsar_doctor.broker.samples import StatsAnswer, Recorder
with Recorder(Path(sys.argv[1])) as recorder:
    for number in range(3):
        recorder.add(StatsAnswer("persistent://a/b/c", 1 + number, {"msgInCounter": number}))
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_crash_loses_nothing_that_was_written(tmp_path: Path) -> None:
    path = str(tmp_path / "s")
    ran = subprocess.run([sys.executable, "-c", KILLED, path], check=False)
    assert ran.returncode == -signal.SIGKILL
    found = read([path])
    assert [each.taken_ms for each in found.windows[0].window.samples] == [1, 2, 3]
    assert found.notes == (f"{path} is cut off; it is read up to its last whole line",)


def test_an_error_on_the_way_leaves_a_whole_file(tmp_path: Path) -> None:
    def broken() -> None:
        with Recorder(tmp_path / "s") as recorder:
            recorder.add(reading())
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        broken()
    assert read([str(tmp_path / "s")]).notes == ()


# -- cut and damaged files ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[int]]:
    """A file of one topic, and its size after each of its lines."""
    path = tmp_path_factory.mktemp("grown") / "s"
    sizes = []
    with Recorder(path) as recorder:
        sizes.append(path.stat().st_size)
        for at in range(6):
            document = {"msgInCounter": at, "storageSize": at * 7919}
            recorder.add(StatsAnswer(ORDERS, AT + at, document))
            sizes.append(path.stat().st_size)
    return path, sizes


def samples_of(path: Path) -> tuple[int, tuple[str, ...]] | None:
    """How many samples are read, and the notes; None where it is refused."""
    found = read_or_refused(path)
    if found is None:
        return None
    times = [each.taken_ms for each in found.windows[0].window.samples]
    assert times == [AT + at for at in range(len(times))]
    return found.samples, found.notes


def test_every_cut_of_a_file_is_read_up_to_the_last_whole_line(
    grown: tuple[Path, list[int]], tmp_path: Path
) -> None:
    whole, sizes = grown
    content = whole.read_bytes()
    for end in range(len(content)):
        (tmp_path / "s").write_bytes(content[:end])
        told = samples_of(tmp_path / "s")
        written = bisect_right(sizes, end) - 1  # readings; the header is no reading
        if told is None:
            assert written < 1
        else:
            # The last bytes of a line are the mark after it; it can be whole without them.
            assert written <= told[0] <= written + 1
            assert told[1] == (
                f"{tmp_path / 's'} is cut off; it is read up to its last whole line",
            )
    assert samples_of(whole) == (6, ())


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_every_cut_of_unpacked_lines_too(
    grown: tuple[Path, list[int]], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    content = gzip.decompress(grown[0].read_bytes())
    end = data.draw(st.integers(0, len(content)))
    path = tmp_path_factory.getbasetemp() / "cut-lines"
    path.write_bytes(content[:end])
    told = samples_of(path)
    # A last line is whole without its end, too.
    whole_lines = sum(end >= at for at, byte in enumerate(content) if byte == ord("\n"))
    assert (told[0] if told else 0) == max(0, whole_lines - 1)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_read_or_refused(
    grown: tuple[Path, list[int]], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    packed = grown[0].read_bytes()
    content = bytearray(data.draw(st.sampled_from([packed, gzip.decompress(packed)])))
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged"
    path.write_bytes(content)
    read_or_refused(path)


LINE = json.dumps({"topic": ORDERS, "taken_ms": AT, "stats": STATS}).encode() + b"\n"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (HEADER.replace(b"/1", b"/2"), "FILE has samples of version 2, this program reads 1: use a "
                                       "newer pulsar-doctor"),
        (HEADER, "FILE holds no reading of any topic: nothing to judge"),
        (HEADER + b"oops\n" + LINE, "line 2 of FILE: it is not readable JSON: "),
        (HEADER + LINE + b"[]\n", "line 3 of FILE: the document is a list, not an object"),
        (HEADER + b'{"stats": {}}\n', "line 2 of FILE: it names no topic"),
        (HEADER + b'{"topic": "t", "stats": {"msgInCounter": "x"}}\n',
         'line 2 of FILE: msgInCounter is "x", not a whole number'),
        (HEADER + b'{"topic": "t", "stats": {"msgInCounter": "x"}}', "line 2 of FILE: msgIn"),
        (HEADER + b'{"topic": "t", "limits": 5}\n', "line 2 of FILE: limits is 5, not an object"),
        (HEADER + b'{"topic": "t", "segments": 5}\n',
         "line 2 of FILE: its segments cannot be read: "),
        (HEADER + b'{"topic": "t", "segments": [5]}\n',
         "line 2 of FILE: its segments cannot be read: "),
        (HEADER + LINE + LINE.replace(b"17952623", b"16952623") + b"never read",
         "line 3 of FILE: the samples are not in order of time; give the oldest first"),
    ],
)  # fmt: skip
def test_a_samples_file_that_cannot_be_read(put: Put, content: bytes, sentence: str) -> None:
    name = put("s", content)
    assert str(refusal(lambda: read([name]))).startswith(sentence.replace("FILE", name))


def test_more_readings_than_anybody_takes_are_refused_early(
    put: Put, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pulsar_doctor.broker.samples.saved.READINGS_MOST", 2)
    name = put("s", HEADER + LINE * 3 + b"never read")
    with pytest.raises(InputError, match=r"line 4 of .*: there are more than 2 readings of one"):
        read([name])


def test_blank_lines_a_bom_and_unknown_fields_are_passed_over(put: Put) -> None:
    more = json.dumps({"topic": ORDERS, "note": "of a later version"}).encode() + b"\n"
    name = put("s", b"\xef\xbb\xbf" + HEADER + b"\n" + more + LINE.replace(b"\n", b"\r\n") + b"\n")
    assert named(read([name])) == [(ORDERS, None, 1)]


@pytest.mark.parametrize("loaded", ["5", "[[1]]", '{"1": 2}', "[7]"])
def test_what_is_no_list_of_numbers_places_no_segment(put: Put, loaded: str) -> None:
    places = f'{{"topic": "{ORDERS}", "segments": [], "loaded": {loaded}}}\n'
    assert read([put("s", HEADER + LINE + places.encode())]).windows[0].place is None


@pytest.mark.parametrize("taken", ["null", "0", "-1"])
def test_a_reading_without_a_time(put: Put, taken: str) -> None:
    name = put("s", HEADER + LINE.replace(str(AT).encode(), taken.encode()))
    assert read([name]).windows[0].window.last.taken_ms is None


# -- which topics ---------------------------------------------------------------------------------

FLEET = [
    ORDERS,
    "persistent://a/b/parted-partition-10",
    "persistent://a/b/parted-partition-2",
    "persistent://c/d/orders",
    "non-persistent://a/b/other",
]


@pytest.fixture
def fleet(tmp_path: Path) -> str:
    return save(tmp_path / "fleet", *(reading(name, at=at) for at in (0, 1) for name in FLEET))


PARTED = "persistent://a/b/parted"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ([], [("non-persistent://a/b/other", None), (PARTED, 2), (PARTED, 10),
              ("persistent://c/d/orders", None), (ORDERS, None)]),
        ([ORDERS], [(ORDERS, None)]),
        (["orders"], [("persistent://c/d/orders", None), (ORDERS, None)]),
        (["d/orders", "other"], [("non-persistent://a/b/other", None),
                                 ("persistent://c/d/orders", None)]),
        (["parted"], [(PARTED, 2), (PARTED, 10)]),
        (["parted-partition-10"], [(PARTED, 10)]),
    ],
)  # fmt: skip
def test_topics_of_a_samples_file(
    fleet: str, asked: list[str], found: list[tuple[str, int | None]]
) -> None:
    told = read([fleet], named=asked)
    assert named(told) == [(topic, partition, 2) for topic, partition in found]
    assert (told.samples, told.span_ms) == (2, 2000)


def test_a_topic_that_is_not_there(fleet: str, tmp_path: Path) -> None:
    error = refusal(lambda: read([fleet], named=["orders", "rders", "x"]))
    assert error.exit_code == 3
    assert str(error) == (
        f"{fleet} has no topic 'rders', 'x'; it has non-persistent://a/b/other, {PARTED}, "
        f"persistent://c/d/orders, {ORDERS}"
    )
    many = save(tmp_path / "many", *(reading(f"persistent://a/b/t{n:02}") for n in range(14)))
    error = refusal(lambda: read([many], named=["x"]))
    assert str(error).endswith("persistent://a/b/t09 and 4 more")


# -- what pulsar-admin printed --------------------------------------------------------------------


@pytest.mark.parametrize("name", OF_TOPICS)
def test_a_plain_file_is_one_sample(put: Put, name: str) -> None:
    found = read([put("s.json", stats_of(name))], named=[ORDERS], at=str(AT))
    assert named(found) == [(ORDERS, None, 1)]
    assert found.windows[0].window.last == Sample(AT, topic_stats(stats_of(name)))
    assert found.notes == ()


@pytest.mark.parametrize(
    "form",
    [
        lambda text: text.encode("utf-8-sig"),
        lambda text: b"\n \n" + text.encode() + b"\r\n\n",
        lambda text: text.encode("utf-16"),  # what > writes in PowerShell
        lambda text: gzip.compress(text.encode()),
        lambda text: gzip.compress(text[:99].encode()) + gzip.compress(text[99:].encode()),
        lambda text: json.dumps(json.loads(text), indent=2).encode(),
    ],
)
def test_forms_of_a_plain_file(put: Put, form: Callable[[str], bytes]) -> None:
    (window,) = read([put("s", form(json.dumps(STATS)))]).windows
    assert window.window.last == Sample(None, topic_stats(STATS))


def test_standard_input(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    for content in (json.dumps(STATS).encode(), gzip.compress(HEADER + LINE)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
        assert read(["-"]).windows[0].window.last.topic == topic_stats(STATS)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"{")))
    assert str(refusal(lambda: read(["-"]))).startswith("standard input is not readable JSON")


PIPED = (
    "import sys; from pulsar_doctor.broker.samples import read; "
    "from pulsar_doctor.broker.sample_files import SampleFiles; "
    "print(read(SampleFiles(sys.argv[1:])).samples)"
)


def test_a_pipe_has_no_way_back(put: Put) -> None:
    packed = gzip.compress(HEADER + LINE + LINE)
    for name in ("-", "/dev/stdin"):
        ran = subprocess.run(
            [sys.executable, "-c", PIPED, name], input=packed, capture_output=True, check=True
        )
        assert ran.stdout == b"2\n"


@pytest.mark.parametrize(
    ("asked", "topic", "partition"),
    [
        ([], "unknown", None),
        (["orders"], "orders", None),
        ([ORDERS], ORDERS, None),
        ([f"{ORDERS}-partition-3"], ORDERS, 3),
    ],
)
def test_the_topic_of_a_plain_file_is_the_argument(
    put: Put, asked: list[str], topic: str, partition: int | None
) -> None:
    found = read([put("s", STATS)], named=asked)
    assert named(found) == [(topic, partition, 1)]


def test_totals_of_a_partitioned_topic(put: Put) -> None:
    name = put("s", stats_of(FOLDED))
    for asked in (ORDERS, f"{ORDERS}-partition-1"):  # they are the totals, whatever is asked for
        found = read([name], named=[asked], at=str(AT))
        assert named(found) == [(ORDERS, None, 1)]
    totals = partitioned_stats(stats_of(FOLDED)).totals
    assert found.windows[0].window.last == Sample(AT, totals)
    (subscription,) = (totals.subscriptions or {}).values()
    assert subscription.last_consumed_timestamp_ms is None  # the file says 0
    assert subscription.never == frozenset()


def test_each_partition_is_a_window(put: Put) -> None:
    files = [put("1", stats_of(APART)), put("2", stats_of(APART))]
    found = read(files, [put("i", internal_of(APART))], at=str(AT), apart_seconds=2)
    assert named(found) == [(BASE, 0, 2), (BASE, 1, 2), (BASE, 2, 2)]
    each = partitioned_stats(stats_of(APART)).partitions or {}
    for window in found.windows:
        name = f"{BASE}-partition-{window.partition}"
        assert [one.topic for one in window.window.samples] == [each[name]] * 2
        assert [one.taken_ms for one in window.window.samples] == [AT - 2000, AT]
        assert window.window.first.internal is None
        internal = window.window.last.internal
        assert internal is not None
        number = internal_of(APART)["partitions"][name]["lastConfirmedEntry"]
        assert internal.last_confirmed_entry == tuple(int(part) for part in number.split(":"))


@pytest.mark.parametrize(
    ("asked", "partitions"),
    [([BASE], [0, 1, 2]), (["stats-partitioned-e722"], [0, 1, 2]), ([f"{BASE}-partition-1"], [1])],
)
def test_partitions_by_name(put: Put, asked: list[str], partitions: list[int]) -> None:
    found = read([put("s", stats_of(APART))], named=asked)
    assert [each.partition for each in found.windows] == partitions


def test_partitions_are_in_the_order_of_their_numbers(put: Put) -> None:
    text = json.dumps(stats_of(APART)).replace("-partition-0", "-partition-10")
    assert [each.partition for each in read([put("s", text)]).windows] == [1, 2, 10]


def test_partitions_of_another_topic(put: Put) -> None:
    name = put("s", stats_of(APART))
    error = refusal(lambda: read([name], named=["orders"]))
    assert str(error) == f"{name} has no topic 'orders'; it has {BASE}"


def test_a_partition_that_is_not_in_every_file(put: Put) -> None:
    def without(*numbers: int) -> dict[str, Any]:
        document = stats_of(APART)
        for number in numbers:
            del document["partitions"][f"{BASE}-partition-{number}"]
        return dict(document)

    files = [put("1", without()), put("2", without(1)), put("3", without(2)), put("4", without(2))]
    found = read(files, at=str(AT), apart_seconds=1)
    assert named(found) == [(BASE, 0, 4), (BASE, 1, 2)]
    assert found.notes == (f"{files[3]} has no {BASE}-partition-2: left out",)


# -- when they were taken -------------------------------------------------------------------------


def test_files_lie_an_interval_apart_before_the_time_given(put: Put) -> None:
    files = [put(str(n), STATS) for n in range(3)]
    (window,) = read(files, at=str(AT), apart_seconds=10).windows
    assert [each.taken_ms for each in window.window.samples] == [AT - 20_000, AT - 10_000, AT]
    assert window.window.span_ms == 20_000
    assert window.window.last.now_known


def test_without_a_time_ages_grow_by_the_interval_and_are_lower_bounds(put: Put) -> None:
    files = [put(str(n), STATS) for n in range(3)]
    found = read(files, apart_seconds=10)
    window = found.windows[0].window
    newest = window.first.newest_ms
    assert [each.age(newest) for each in window.samples] == [
        Age(0, exact=False),
        Age(10_000, exact=False),
        Age(20_000, exact=False),
    ]
    assert (window.span_ms, found.span_ms) == (20_000, 20_000)
    assert found.notes == (
        "it is not known when the last file was taken, so all ages are lower bounds; "
        "give the time with --at",
    )


def test_one_file_without_a_time_has_no_span(put: Put) -> None:
    found = read([put("s", STATS)], apart_seconds=10)
    assert (found.samples, found.span_ms, found.windows[0].window.interval_ms) == (1, None, None)


def test_a_time_before_what_the_file_tells_is_not_now(put: Put) -> None:
    found = read([put("s", STATS)], at=str(AT - 60_000_000))
    assert not found.windows[0].window.last.now_known
    assert found.notes == ("--at lies before moments of the last file; all ages are lower bounds",)


def test_files_are_put_in_the_order_that_they_tell(put: Put) -> None:
    early, late = (put(str(at), stats_of(MOVING, at)) for at in (0, 1))
    in_order, turned = read([early, late]), read([late, early])
    assert turned.windows == in_order.windows
    assert turned.notes[0] == (
        f"the files were not given in order of time; by their content it is {early}, then {late}"
    )
    assert in_order.notes == turned.notes[1:]
    with_internal = read([late, early], [put("i", internal_of(MOVING, 1))])
    assert with_internal.windows[0].window.last.internal is None, "it goes with the file beside it"


def test_one_that_has_acknowledged_before_and_never_later_on_is_of_two_topics(put: Put) -> None:
    """Partitions of one topic may have the same consumer, with other numbers."""
    early, late = (stats_of(MOVING, at) for at in (0, 1))
    for at, stats in enumerate((early, late)):
        for each in next(iter(stats["subscriptions"].values()))["consumers"]:
            each["lastAckedTimestamp"] = (each["lastConsumedTimestamp"], 0)[at]
    error = refusal(lambda: read([put("early", early), put("late", late)]))
    assert "are not of one topic" in str(error)
    assert error.exit_code == 2


def test_files_without_a_connection_in_both_are_of_one_topic_only_by_its_name(put: Put) -> None:
    """Files of two topics would show that messages move where nobody takes any."""
    other = stats_of(MOVING)
    for each in (*other["publishers"], *other["subscriptions"]["billing"]["consumers"]):
        each["connectedSince"] = "2026-01-01T00:00:00Z"
    names = [put("stuck", STATS), put("moving", other)]
    error = refusal(lambda: read(names))
    assert "no consumer or producer is in both; give TOPIC on the command line" in str(error)
    assert error.exit_code == 2
    assert read(names, named=[ORDERS]).samples == 2


def test_a_producer_that_stayed_shows_the_topic_of_a_restarted_application(put: Put) -> None:
    early, late = (stats_of(MOVING, at) for at in (0, 1))
    assert early["publishers"]
    for each in next(iter(late["subscriptions"].values()))["consumers"]:
        each["connectedSince"] = "2026-01-01T00:00:00Z"
    assert read([put("early", early), put("late", late)]).samples == 2
    late["publishers"] = []
    assert "no consumer or producer" in str(
        refusal(lambda: read([put("early", early), put("late", late)]))
    )


def test_files_that_contradict_each_other_are_noticed(put: Put) -> None:
    early, late = (stats_of(MOVING, at) for at in (0, 1))
    first = next(iter(early["subscriptions"].values()))["consumers"][0]
    first["lastConsumedTimestamp"] += 3_600_000
    names = [put("early", early), put("late", late)]
    error = refusal(lambda: read(names[::-1]))
    assert (
        str(error) == f"{names[1]} and {names[0]} are not in order of time; give the oldest first"
    )
    assert error.exit_code == 2


def test_without_an_interval_no_distance_is_made_up(put: Put) -> None:
    files = [put(str(at), stats_of(MOVING, at)) for at in (0, 1)]
    found = read(files)
    assert (found.samples, found.span_ms) == (2, None)
    assert any("how far apart the files were taken" in note for note in found.notes)
    timed = read(files, at=str(AT)).windows[0].window
    assert [each.taken_ms for each in timed.samples] == [None, AT]
    assert timed.span_ms is None


def test_the_same_numbers_twice_show_no_time_in_which_nothing_moved(put: Put) -> None:
    files = [put(str(n), STATS) for n in range(3)]
    found = read(files)
    assert found.samples == 1
    assert found.notes[0].startswith("2 files with the same numbers as another one left out")
    assert read(files, apart_seconds=10).samples == 3


def test_the_own_time_of_a_file_is_a_guess(put: Put, monkeypatch: pytest.MonkeyPatch) -> None:
    file = Path(put("s", STATS))
    for at_ms, guess_ms in ((AT, AT), (AT - 10**10, None)):  # before what it holds: a copy's
        os.utime(file, (at_ms / 1000, at_ms / 1000))
        found = read([str(file)])
        assert found.guess_ms == guess_ms
        assert not found.windows[0].window.last.now_known
    os.utime(file, (AT / 1000, AT / 1000))
    assert read([str(file)], at=str(AT)).guess_ms is None
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(file.read_bytes())))
    assert read(["-"]).guess_ms is None


@pytest.mark.parametrize(
    ("after_ms", "told"), [(-1, False), (0, True), (300, True), (2000, True), (2001, False)]
)
def test_it_is_the_time_where_the_newest_moment_in_it_is_no_older(
    put: Put, monkeypatch: pytest.MonkeyPatch, after_ms: int, told: bool
) -> None:
    file = Path(put("s", STATS))
    newest_ms = read([str(file)]).windows[0].window.last.newest_ms
    assert newest_ms is not None
    changed_ms = newest_ms + after_ms
    os.utime(file, ns=(changed_ms * 10**6, changed_ms * 10**6))
    stream = io.TextIOWrapper(io.BytesIO(file.read_bytes()))
    with monkeypatch.context() as patched:
        patched.setattr(sys, "stdin", stream)
        patched.setattr("time.time_ns", lambda: changed_ms * 10**6)
        found = [read([name]) for name in (str(file), "-")]  # standard input is read now
    for last in (each.windows[0].window.last for each in found):
        assert last.now_known is told
        assert last.now_ms == (changed_ms if told else newest_ms)
    later = str(changed_ms + 60_000)
    assert read([str(file)], at=later).windows[0].window.last.now_ms == changed_ms + 60_000


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("2026-11-21T11:58:20Z", AT),
        ("2026-11-21T13:58:20.250+02:00", AT + 250),
        (" 1795262300000 ", AT),
    ],
)
def test_moments(text: str, ms: int) -> None:
    assert moment_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("1795262300", "--at 1795262300 is in seconds; in milliseconds it is 1795262300000"),
        ("2026-11-21T11:58:20", "--at '2026-11-21T11:58:20' has no zone; write 2026-"),
        ("2026-11-21", "--at '2026-11-21' has no zone; write "),
        ("yesterday", "--at 'yesterday' is not a time; write "),
        ("17952623000000000", "--at '17952623000000000' is not a time; "),
        ("-5", "--at '-5' is not a time; "),
        ("", "--at '' is not a time; "),
        ("0001-01-01T00:00:00Z", "--at '0001-01-01T00:00:00Z' is not a time; "),
        ("١٧٩٥٢٦٢٣٠٠", "--at '١٧٩٥٢٦٢٣٠٠' is not a time; "),
    ],
)
def test_no_moments(text: str, why: str) -> None:
    error = refusal(lambda: moment_ms(text))
    assert str(error).startswith(why)
    assert error.exit_code == 2


# -- internal stats -------------------------------------------------------------------------------


def test_internal_stats_belong_to_the_last_files(put: Put) -> None:
    files = [put(str(at), STATS) for at in range(3)]
    inside = [put(f"i{at}", INTERNAL | {"totalSize": at}) for at in (1, 2)]
    (window,) = read(files, inside).windows
    told = [each.internal for each in window.window.samples]
    assert [each and each.total_size for each in told] == [None, 1, 2]


def partitioned(internal: Any) -> dict[str, Any]:
    return {"metadata": {"partitions": 1}, "partitions": {f"{ORDERS}-partition-0": internal}}


SAVED = HEADER + LINE
MISMATCHES = [
    ([STATS], [INTERNAL, INTERNAL],
     "2 files of --internal-stats and 1 of --stats; each needs one of --stats, taken at the same "),
    ([], [], "no file is given; give --stats FILE or --internal-stats FILE"),
    ([SAVED], [INTERNAL], "S0 has its own internal stats; give no other"),
    ([SAVED, SAVED], [], "S0 has samples of its own; give no other file"),
    ([STATS, SAVED], [], "S1 has samples of its own; give no other file"),
    ([STATS], [SAVED], "I0 is a document of pulsar-doctor itself, pulsar-doctor/samples/1"),
    ([STATS], [STATS], "I0 is the output of `topics stats`: give it with --stats"),
    ([STATS], [stats_of(FOLDED)], "I0 is the output of `topics partitioned-stats`: give it with"),
    ([STATS], [stats_of(APART)], "I0 is the output of `topics partitioned-stats --per-partition`"),
    ([STATS], [[]], "I0 is a list; --internal-stats takes that of `topics stats-internal`"),
    ([STATS], [{"a": 1}], "I0: the document holds no field of a topic's internal stats"),
    ([STATS], [INTERNAL | {"totalSize": "x"}], 'I0: totalSize is "x", not a whole number'),
    ([STATS], [internal_of(APART)], "I0 and S0 have no topic in common; S0 is the output of `to"),
    ([stats_of(APART)], [partitioned(INTERNAL)], "I0 and S0 have no topic in common; S0 is"),
    ([stats_of(APART)], [INTERNAL], "I0 and S0 have no topic in common; S0 is the output of `to"),
    ([stats_of(FOLDED)], [INTERNAL], "I0 cannot go with S0, the totals of a partitioned topic; "),
    ([INTERNAL], [], "S0 is the output of `topics stats-internal`: give it with --internal-stats"),
    ([internal_of(APART)], [], "S0 is the output of `topics partitioned-stats-internal`: give it"),
    ([STATS, stats_of(FOLDED)], [],
     "S0 is the output of `topics stats` and S1 that of `topics partitioned-stats`; give samples "),
    ([stats_of(APART), stats_of(FOLDED)], [], "S0 is the output of `topics partitioned-stats --"),
    ([stats_of(APART), json.loads(json.dumps(stats_of(APART)).replace("e722", "f833"))], [],
     f"the files are of several topics, {BASE} and {BASE.replace('e722', 'f833')}; give one"),
]  # fmt: skip


@pytest.mark.parametrize(("stats", "internal", "sentence"), MISMATCHES)
def test_files_that_do_not_fit_together(
    put: Put, tmp_path: Path, stats: list[Any], internal: list[Any], sentence: str
) -> None:
    s = [put(f"S{at}", content) for at, content in enumerate(stats)]
    i = [put(f"I{at}", content) for at, content in enumerate(internal)]
    error = refusal(lambda: read(s, i))
    assert str(error).replace(f"{tmp_path}/", "").startswith(sentence)
    assert error.exit_code == 2


def test_options_that_do_not_fit(put: Put) -> None:
    saved, plain = put("saved", SAVED), put("plain", STATS)
    wrong: list[tuple[Callable[[], object], str]] = [
        (lambda: read([saved], at=str(AT)), f"{saved} has its own times; leave out --at"),
        (lambda: read([plain], named=["a", "b"]),
         "such files are samples of one topic; give one TOPIC or none"),
        (lambda: read([plain, plain]), f"{plain} is given twice; give each file once"),
        (lambda: read(["-"], ["-"]), "standard input is given twice; give each file once"),
    ]  # fmt: skip
    for call, sentence in wrong:
        assert str(refusal(call)) == sentence


# -- what is no stats at all ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "FILE is empty"),
        (b" \n\n", "FILE is empty"),
        (gzip.compress(b"", mtime=0), "FILE is empty"),
        (b"\x80\x00\xff garbage",
         "FILE is not readable JSON: it is not text: a file of 11 bytes; expected is what `"),
        (b"Topic a/b/c not found\n\nReason: Topic a/b/c not found",
         "FILE is not readable JSON: it says "
         '"Topic a/b/c not found"; expected is what `pulsar-admin topics stats` or '),
        (b"HTTP 404 Not Found",
         'FILE is not readable JSON: it says "HTTP 404 Not Found"; expected is '),
        (b"we see\nnothing",
         "FILE is not readable JSON: it is plain text of 14 bytes; expected is what `"),
        (b"-----BEGIN PRIVATE KEY-----\nMIIE",
         "FILE is not readable JSON: it is a PEM file of 32 bytes; expected is what `"),
        (b"<html>401", "FILE is not readable JSON: it is a page of HTML or XML of 9 bytes; "),
        (json.dumps(STATS).replace(":", "=", 1), "FILE is not readable JSON: "),
        ('{"subscriptions": {"s": {"consumers": [', "FILE is not readable JSON: "),
        (PACKED[:-9], "FILE is cut off: its compressed "),
        (b"\x1f\x8bgarbage, not gzip", "FILE is damaged: "),
        ([], "FILE is a list; --stats takes the output of `topics stats`"),
        ("5", "FILE is not an object of JSON; --stats takes"),
        ("{}", "FILE is an empty object; --stats takes"),
        ({"reason": "Topic not found"}, "FILE is a broker's refusal: Topic not found; --stats"),
        ({"a/b": {"0x0_0xf": {"persistent": 1}}}, "FILE: something in it is not as `broker-stats"),
        ({"schema": "pulsar-doctor/stall-check/1"},
         "FILE is a document of pulsar-doctor itself, pulsar-doctor/stall-check/1, and holds no "),
        ('{\n"schema": "pulsar-doctor/stall-check/1"}',
         "FILE is a document of pulsar-doctor itself, pulsar-doctor/stall-check/1; --stats takes"),
        ({"a": 1}, "FILE: the document holds no field of a topic's stats"),
        ({"msgInCounter": 1, "partitions": []}, "FILE: partitions is a list, not an object"),
        ({"subscriptions": {"s": {"consumers": [{"availablePermits": "x"}]}}},
         'FILE: subscriptions.s.consumers[0].availablePermits is "x", not a whole number'),
    ],
)  # fmt: skip
def test_what_is_no_stats(put: Put, content: object, sentence: str) -> None:
    name = put("s", content)
    error = refusal(lambda: read([name]))
    assert str(error).startswith(sentence.replace("FILE", name))
    assert error.exit_code == 2


@pytest.mark.parametrize(
    "content",
    ["Bearer S3CRET", "\nS3CRET", '"S3CRET"', "token: S3CRET", '{"token": "S3CRET"', "S3CRET\0\x80",
     "not found S3CRET", "Bearer S3CRET topic a: not found S3CRET"],
)  # fmt: skip
def test_a_text_that_is_not_known_is_never_repeated(put: Put, content: str) -> None:
    name = put("s", content)
    assert "S3CRET" not in str(refusal(lambda: read([name])))


def test_a_file_that_is_not_there_or_a_folder(tmp_path: Path) -> None:
    gone, folder = str(tmp_path / "gone"), str(tmp_path)
    assert str(refusal(lambda: read([gone]))) == f"cannot read {gone}: No such file or directory"
    assert str(refusal(lambda: read([folder]))) == f"cannot read {folder}: Is a directory"


@settings(max_examples=100, deadline=None)
@given(content=st.binary(max_size=60), packed=st.booleans(), headed=st.booleans())
def test_any_bytes_are_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, packed: bool, headed: bool
) -> None:
    whole = HEADER * headed + content
    path = tmp_path_factory.getbasetemp() / "bytes"
    path.write_bytes(gzip.compress(whole) if packed else whole)
    read_or_refused(path)


def test_disorder_in_a_saved_file_is_an_input_error(tmp_path: Path) -> None:
    saved = save(tmp_path / "s", reading(at=1), reading(at=0))
    with pytest.raises(InputError, match="not in order of time"):
        read([saved])
