"""Relays between sockets of ours: one of a test's own, or one that the tests of a file share."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.parts.tap.tapped import LOOPS, Tapped, on_loop, tapping


@pytest.fixture
def tapped(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Tapped]:
    """One that a test may end, on uvloop where it names no event loop by an indirect parameter."""
    loop = getattr(request, "param", "uvloop")
    with on_loop(loop, tmp_path), tapping(tmp_path / "t") as tapped:
        yield tapped


@pytest.fixture(scope="module")
def relays(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Tapped]]:
    """By the event loop, one each for all tests of a file."""
    with contextlib.ExitStack() as stack:

        @cache
        def started(loop: str) -> Tapped:
            folder = tmp_path_factory.mktemp("relay")
            with on_loop(loop, folder):
                return stack.enter_context(tapping(folder / "t"))

        yield started


@pytest.fixture
def shared(relays: Callable[[str], Tapped]) -> Iterator[Tapped]:
    """For tests that only look at their own connections."""
    yield from _of_one_test(relays("uvloop"))


@pytest.fixture(params=LOOPS)
def either_loop(
    request: pytest.FixtureRequest, relays: Callable[[str], Tapped]
) -> Iterator[Tapped]:
    """A shared one on uvloop, and one on asyncio's own loop."""
    yield from _of_one_test(relays(request.param))


def _of_one_test(of_all: Tapped) -> Iterator[Tapped]:
    """Its sockets end with the test."""
    with contextlib.ExitStack() as stack:
        yield Tapped(of_all.relay, of_all.server, stack)
