"""Plays incidents and prints who breaks which law: `python -m incidents --seeds 0-9999`."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from tests.incidents.counting import as_known, printed
from tests.incidents.many import all_of


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seeds", default="0-9999", help="first and last, both played")
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--pairs", type=int, default=5, help="shown of each rule")
    options.add_argument("--rhythms", default="0-249", help="likewise, of rhythms; none: ''")
    options.add_argument("--known", type=Path, help="also write what is broken, as known.py has it")
    asked = options.parse_args()
    seeds, rhythms = _range(asked.seeds), _range(asked.rhythms)
    began = time.monotonic()
    total = all_of(seeds, rhythms, asked.processes)
    if asked.known:
        asked.known.write_text("\n".join(as_known(total)) + "\n")
    for line in printed(total, asked.pairs):
        print(line)
    took = time.monotonic() - began
    print(f"{took:.0f} s")


def _range(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1) if text else range(0)


if __name__ == "__main__":
    main()
