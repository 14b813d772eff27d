"""Reads where the goroutines of a Go program are: from its pprof page, or from a file."""

from __future__ import annotations

from pathlib import Path

from pulsar_doctor.evidence.dumps.goroutines import Goroutine, parsed
from pulsar_doctor.parts.examine.child import STEP_SECONDS, CannotAttach, in_time
from pulsar_doctor.wording.addresses import bare

PAGE = "/debug/pprof/goroutine?debug=2"
DUMP_BYTES = 32 << 20  # 50,000 goroutines


def read(source: str) -> dict[int, Goroutine]:
    """A dump by a URL of a pprof page, or of a file. Raises CannotAttach."""
    try:
        dump = in_time(lambda: _fetched(source) if "://" in source else _of_file(Path(source)))
    except TimeoutError:
        why = f"{bare(source)} has not answered within {STEP_SECONDS:g} s"
        raise CannotAttach(why) from None
    found = parsed(dump.decode("utf-8", "replace"))
    if not found:
        raise CannotAttach(f"{bare(source)} holds no dump of goroutines, as debug=2 prints it")
    return found


def page_of(url: str) -> str:
    """The pprof page of a program, where only its address was given."""
    return url if "/debug/pprof" in url else url.rstrip("/") + PAGE


def _of_file(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(DUMP_BYTES)
    except OSError as error:
        raise CannotAttach(f"{file} cannot be read: {error.strerror}") from None


def _fetched(url: str) -> bytes:
    import httpx2

    page, whole = page_of(url), bytearray()
    try:
        with httpx2.stream("GET", page, timeout=STEP_SECONDS, trust_env=False) as answer:
            answer.raise_for_status()
            for part in answer.iter_bytes():
                whole += part
                if len(whole) > DUMP_BYTES:
                    raise CannotAttach(
                        f"{bare(page)} answers with more than {DUMP_BYTES >> 20} MiB"
                    )
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise CannotAttach(f"{bare(page)} cannot be read: {error}") from None
    return bytes(whole)
