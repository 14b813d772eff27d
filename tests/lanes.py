"""Which lane a test runs in. Nobody marks a test for a lane: the rules here do.

- `pytest -m pure`: no broker, no Spark, no sockets, no processes.
- `pytest`: the pure ones, those that use sockets of this process alone, and what `DAILY` names: one
  test file for each kind of broker, Spark and process.
- `pytest -m nightly`: everything else but the tests that somebody marked as `slow`.
- `pytest -m "not slow"`: both of the last two.

A test is pure unless what it is made of (its function, its fixtures, whatever
they reach in this folder) names something that goes outside, or it uses the fixture `outside`.
Where that reading is wrong the guard says so: in a pure test a socket that binds, connects or
sends, and a process, fail the test, even where the code that opened them swallows the error.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

import pytest

TESTS = str(Path(__file__).parent)
# What uses a shared broker, Spark or a process and runs each time: the beginnings of node ids.
DAILY = (
    "tests/parts/capture/test_on_broker.py",
    "tests/checkup/test_stall_check_on_broker.py",
    "tests/cli/test_stall_check.py",
    "tests/cli/test_trace.py",
    "tests/parts/consume/test_consume.py",
    "tests/ledger/test_permits_on_broker.py",
    "tests/parts/examine/test_hostile.py",
    "tests/parts/examine/test_outside.py",
    "tests/parts/examine/test_python.py",
    "tests/parts/analyze/test_aggregations.py",
    "tests/parts/analyze/test_one_verdict.py::test_each_subscription_has_the_verdict_of_stall_check",
    "tests/parts/analyze/test_saving.py::test_the_same_trace_twice_is_there_once",
    "tests/parts/mcp/test_server.py::test_every_tool_of_a_stalled_a_healthy_and_an_unreachable",
    "tests/parts/tap/test_on_broker.py",
    "tests/parts/tap/test_killed.py::test_a_relay_that_is_killed_is_started_again_at_the_same_address",
    "tests/parts/tap/test_killed.py::test_what_is_missing_is_told_also_where_the_relay",
    "tests/trace/",
)
# What is left out of these files, of the pure tests and of those with sockets: each takes seconds,
# and repeats with more cases, or with larger ones, what a test beside it shows in less.
HEAVY = (
    "tests/broker/test_bodies.py::test_a_topic_with_20_000_subscriptions",
    "tests/broker/test_fleet.py::test_memory_does_not_grow_with_the_stats",
    "tests/broker/test_patience.py::test_a_list_that_is_cut_brings_no_questions",
    "tests/checkup/test_stall_check_documents.py::test_mutated_documents_get_a_verdict",
    "tests/checkup/test_stall_check_on_broker.py::test_the_verdict_is_the_one_that_the_state_deserves"
    "[delayed-look-ahead]",
    "tests/cli/test_report.py::test_a_large_case",
    "tests/cli/test_stall_check_faults.py::test_one_bad_topic_does_not_stop_the_good_ones",
    "tests/known/test_incidents.py::test_none_matches",
    "tests/parts/capture/test_adversary.py::test_with_data_lost_anywhere_nothing_is_invented",
    "tests/parts/consume/test_consume.py::test_the_demo_tells_its_story",
    "tests/incidents/test_laws.py::test_a_rhythm_is_judged_the_same_at_every_phase",
    "tests/incidents/test_laws.py::test_no_law_is_broken_that_is_not_known_to_be[range(40",
    "tests/parts/examine/test_answers.py::test_a_dump_takes_time",
    "tests/parts/examine/test_hostile.py::test_tricks_at_random_moments",
    "tests/parts/examine/test_hostile.py::test_who_does_not_answer_is_waited_for",
    "tests/report/test_causes.py::test_ten_thousand_of_one_cause",
    "tests/report/test_formats.py::test_no_name_breaks_a_report",
    "tests/parts/simulate/test_simulate.py::test_the_smallest_queue_that_costs_nothing",
    "tests/parts/analyze/test_aggregations.py::test_each_job_says_which_table",
    "tests/parts/analyze/test_aggregations.py::test_where_a_table_fails",
    "tests/parts/tap/test_on_broker.py::test_javas_own_tools_work_through_the_tap",
    "tests/parts/tap/relay/test_tls.py::test_the_address_for_a_broker_has_the_name",
    "tests/parts/tap/test_observer_hangs.py::test_one_that_works_is_never_said",
    "tests/trace/test_bombs.py::test_ack_sets_of_5_mib",
    "tests/trace/test_damaged.py::test_whatever_is_damaged_is_told",
    "tests/trace/test_killed.py::test_an_observer_that_is_killed_again",
    "tests/trace/test_survives.py::test_whatever_is_damaged_is_found",
)
OUTSIDE = "outside"  # the fixture of those of which it cannot be read
BROKERS = frozenset({"broker", "default_broker"})  # fixtures: one of each for a whole run
SPARK = "spark"
LONG = (SPARK, *sorted(BROKERS))
# These judge the same transcripts, and play each once.
SHARING = "tests/causes/"
EITHER = "either_broker"  # a fixture: a test for each of them
PLAIN = frozenset({str, bytes, int, float, bool, type(None)})

# Modules, functions and attributes of other people that go outside, by the names that code uses.
GOING = frozenset(
    {"subprocess", "socket", "socketserver", "multiprocessing", "pty", "pulsar", "_pulsar",
     "start_server", "start_unix_server", "open_connection", "create_server", "create_connection",
     "create_subprocess_exec", "HTTPServer", "ThreadingHTTPServer", "StdioServerParameters"}
)  # fmt: skip
PROCESSES = frozenset(
    {"subprocess", "multiprocessing", "pty", "create_subprocess_exec", "StdioServerParameters"}
)
# What the hooks of the interpreter tell of sockets and processes.
FORBIDDEN = frozenset(
    {"socket.bind", "socket.connect", "socket.getaddrinfo", "socket.gethostbyname",
     "socket.sendto", "socket.sendmsg", "subprocess.Popen", "os.exec", "os.fork", "os.forkpty",
     "os.posix_spawn", "os.spawn", "os.system"}
)  # fmt: skip


def lane_of(item: pytest.Item) -> str:
    """The mark of the lane that a test runs in: pure, nightly, or "" for the rest of every run."""
    if item.get_closest_marker("slow"):
        return ""
    if item.nodeid.startswith(HEAVY):
        return "nightly"
    return "pure" if is_pure(item) else "nightly" if is_nightly(item) else ""


def is_pure(item: pytest.Item) -> bool:
    """Whether nothing that this test reaches goes outside."""
    if OUTSIDE in getattr(item, "fixturenames", ()):
        return False
    return not any(goes_outside(each) for each in _made_of(item))


def is_nightly(item: pytest.Item) -> bool:
    """Whether this test, which is not pure, is too expensive for every run."""
    if item.nodeid.startswith(DAILY):
        return False
    shares = together(item) in LONG
    return shares or any(goes_outside(each, PROCESSES) for each in _made_of(item))


def together(item: pytest.Item) -> str:
    """With whom it runs in one process where several share the tests: there is one broker of each
    kind for all that use it, and one Spark; the rest keeps to its file, also where it starts a
    broker, or to a folder whose files share what they make."""
    if brokers := brokers_of(item):
        return max(brokers)  # of some folders the default one is what `broker` gives
    uses_spark = SPARK in getattr(item, "fixturenames", ()) or "pyspark" in _text_of(item.path)
    if uses_spark:
        return SPARK
    return SHARING if item.nodeid.startswith(SHARING) else item.nodeid.partition("::")[0]


def turn(item: pytest.Item) -> int:
    """When it begins: what one process has for long first, what fills a gap anywhere last."""
    if item.get_closest_marker("pure"):
        return len(LONG) + 1
    group = together(item)
    return LONG.index(group) if group in LONG else len(LONG)


def brokers_of(item: pytest.Item) -> frozenset[str]:
    """The shared brokers that it uses, by name; of `either_broker` that of its case."""
    named = BROKERS.intersection(getattr(item, "fixturenames", ()))
    params: Mapping[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return named | {params[EITHER]} if EITHER in params else named


@cache
def _text_of(file: Path) -> str:
    return file.read_text()


def _made_of(item: pytest.Item) -> Iterator[object]:
    """The function of a test, what it is called with, and its fixtures."""
    yield getattr(item, "function", None)
    yield from getattr(getattr(item, "callspec", None), "params", {}).values()
    fixtures: Any = getattr(item, "_fixtureinfo", None)
    for name, found in fixtures.name2fixturedefs.items() if fixtures else ():
        yield from (each.func for each in found if name in fixtures.names_closure)


_clean: dict[tuple[frozenset[str], int], object] = {}  # kept, so that no id is given twice
_going: dict[tuple[frozenset[str], int], object] = {}


def goes_outside(what: object, names: frozenset[str] = GOING) -> bool:
    """Whether a function, a class or a table of these tests uses one of these names, or reaches
    one that does."""
    seen: dict[tuple[frozenset[str], int], object] = {}
    ahead = [what]
    while ahead:
        each = ahead.pop()
        key = names, id(each)
        if key in _going:
            _going[names, id(what)] = what
            return True
        if key in seen or key in _clean:
            continue
        seen[key] = each
        for function in _parts(each):
            for name, found in _named(function.__code__, function.__globals__):
                if name in names:
                    _going[key] = each
                    _going[names, id(what)] = what
                    return True
                ahead.append(found)
    _clean.update(seen)
    return False


def _parts(what: object) -> Iterable[FunctionType]:
    if type(what) in PLAIN:  # most of what the cases of a table are made of
        return
    what = getattr(what, "__wrapped__", what)
    if isinstance(what, MethodType):
        what = what.__func__
    if isinstance(what, FunctionType) and what.__code__.co_filename.startswith(TESTS):
        yield what
    elif isinstance(what, type) and _is_ours(what.__module__):
        for base in what.__mro__:
            for each in vars(base).values():
                yield from _parts(_function_of(each))
    elif isinstance(what, (dict, MappingProxyType)):
        for each in what.values():
            yield from _parts(each)
    elif isinstance(what, (list, tuple)):
        for each in what:
            yield from _parts(each)


def _function_of(member: object) -> object:
    """What stands behind a property, a cached one, a static or a class method."""
    for name in ("fget", "func", "__func__"):
        member = getattr(member, name, None) or member
    return member


def _is_ours(module: str) -> bool:
    return (getattr(sys.modules.get(module), "__file__", None) or "").startswith(TESTS)


def _named(code: CodeType, known: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The names in this code, of what is within it, and what they stand for."""
    names: list[Mapping[str, object]] = [known]
    for name in code.co_names:
        for each in [space[name] for space in names if name in space]:
            yield name, each
            if isinstance(each, ModuleType) and _is_ours(each.__name__):
                names.append(vars(each))
        yield name, None
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _named(inner, known)


class Guard:
    """Knows whether a pure test is running, and fails it for what no pure test does."""

    def __init__(self) -> None:
        self._watching = False
        self._item: pytest.Item | None = None
        self._others: set[int | None] = (
            set()
        )  # threads from before the test, as Py4J's FinalizerWorker
        self._done: list[str] = []
        sys.addaudithook(self._heard)  # for good: an interpreter forgets none

    def _heard(self, event: str, _arguments: tuple[object, ...]) -> None:
        if self._watching and event in FORBIDDEN and threading.get_native_id() not in self._others:
            self._done.append(event)
            raise WentOutside(event)

    @contextmanager
    def over(self, item: pytest.Item) -> Iterator[None]:
        """While a test is set up, or runs."""
        if self._item is not item:
            self._item = item
            self._others = {each.native_id for each in threading.enumerate()} - {
                threading.get_native_id()
            }
        self._watching = item.get_closest_marker("pure") is not None
        try:
            yield
        except WentOutside:
            pass  # it is told below
        finally:
            self._watching = False
            done, self._done = self._done, []
        if done:
            pytest.fail(f"this test is pure, and it goes outside ({done[0]}): see tests/lanes.py")


class WentOutside(BaseException):
    """Not an Exception: code under test does not take it for a failure of its own."""
