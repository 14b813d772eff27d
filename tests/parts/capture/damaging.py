"""Reads damaged captures in this process, for so many seconds; tells in JSON what became of them.

    python -m tests.parts.capture.damaging SECONDS SEED FILE…

Each is one of the files with something done to it: bits, bytes, numbers that are too large, parts
that are missing, twice, elsewhere or of another file. The whole subcommand runs on it. Wrong is:
an exception that is not told, more than one sentence beside what is said of TLS, a code that does
not fit, and longer than CASE_SECONDS.
"""

from __future__ import annotations

import gzip
import io
import json
import random
import re
import shutil
import signal
import struct
import sys
import tempfile
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from types import FrameType

from pulsar_doctor.cli import run

CASE_SECONDS = 30
LARGE = (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0x00FFFFFF, 1 << 24, 65535)


def damaged(contents: list[bytes], chance: random.Random) -> bytes:
    """One of these, with something done to it; perhaps packed again."""
    data = bytearray(chance.choice(contents))
    packed = data[:2] == b"\x1f\x8b"
    if packed and chance.random() < 0.5:
        data = bytearray(gzip.decompress(bytes(data)))
    for _ in range(chance.choice((1, 1, 2, 5, 30))):
        if not data:
            break
        at = chance.randrange(len(data))
        size = chance.choice((1, 2, 4, 16, 100, 3000))
        match chance.randrange(7):
            case 0:
                data[at] ^= 1 << chance.randrange(8)
            case 1:
                data[at : at + size] = chance.randbytes(size)
            case 2:
                number = chance.choice(LARGE)
                data[at : at + 4] = struct.pack(chance.choice(("<I", ">I")), number)
            case 3:
                del data[at : at + size]
            case 4:
                data[at:at] = data[at : at + size] * chance.choice((1, 1, 50))
            case 5:
                other = chance.choice(contents)
                data[at:at] = other[: chance.randrange(len(other))]
            case 6:
                del data[at:]
    return gzip.compress(bytes(data), mtime=0) if packed and chance.random() < 0.5 else bytes(data)


def too_long(number: int, frame: FrameType | None) -> None:
    """It hangs."""
    raise SystemExit(f"more than {CASE_SECONDS} s")


def read(file: Path, folder: Path) -> tuple[int, str]:
    """The code of the subcommand and what it said on stderr."""
    said = io.StringIO()
    with redirect_stdout(io.StringIO()), redirect_stderr(said):
        code = run(["capture", str(file), "--trace", str(folder / "t")])
    shutil.rmtree(folder / "t", ignore_errors=True)
    return code, said.getvalue()


def wrong(code: int, said: str) -> str | None:
    """What is wrong with it, if anything is."""
    lines = [line for line in said.splitlines() if " is TLS, which packets" not in line]
    if "Traceback" in said or code not in (0, 2, 3):
        return f"code {code}: {said}"
    return None if len(lines) == (code != 0) else f"code {code} and {len(lines)} lines: {said}"


def main(seconds: float, seed: int, names: list[str]) -> None:
    """Tells how many had which code; or the seed of the first that was wrong."""
    signal.signal(signal.SIGALRM, too_long)
    contents = [Path(name).read_bytes() for name in names]
    counts: dict[int, int] = {}
    longest, ends = 0.0, time.monotonic() + seconds
    number = seed
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        while time.monotonic() < ends:
            number += 1
            file = folder / "damaged"
            file.write_bytes(damaged(contents, random.Random(number)))
            began = time.monotonic()
            signal.alarm(CASE_SECONDS)
            code, said = read(file, folder)
            signal.alarm(0)
            longest = max(longest, time.monotonic() - began)
            counts[code] = counts.get(code, 0) + 1
            why = wrong(code, said)
            if why is not None:
                print(json.dumps({"seed": number - 1, "wrong": why}))
                return
    (most,) = re.findall(r"^VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.M)
    memory = int(most) * 1024  # ru_maxrss is that of whoever has started us, too
    told = {"codes": counts, "longest_seconds": longest, "memory_bytes": memory}
    print(json.dumps({"cases": sum(counts.values()), **told}))


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
