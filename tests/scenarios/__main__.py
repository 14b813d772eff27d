"""Plays scenarios on the sandbox and records what brokers say: `python -m tests.scenarios record`.

Each becomes a file NAME.json: name, expects, settings, topic, subscription, played_seconds and
samples, a second apart, each with date_ms (the broker's clock), stats and internal as answered.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pulsar_doctor.sandbox.lifetime import running
from tests.scenarios import SCENARIOS, Scenario, Scene, stage

SAMPLES = 11
DURING_AT = 4  # the sample before which `during` happens


def record(played: Scenario, service_url: str, admin_url: str) -> dict[str, Any]:
    """Stages it and samples the window; returns the document."""
    topic = f"persistent://public/default/{played.name}-{secrets.token_hex(3)}"
    began = time.monotonic()
    with stage(played, service_url, admin_url, topic) as scene:
        seconds = round(time.monotonic() - began, 1)
        return {
            "name": played.name,
            "expects": asdict(played.expects),
            "settings": list(played.settings),
            "topic": scene.topic,
            "subscription": scene.subscription,
            "played_seconds": seconds,
            "samples": samples(played, scene),
        }


def samples(played: Scenario, scene: Scene) -> list[dict[str, Any]]:
    """One a second; what happens during the window happens on the way."""
    taken = []
    began = time.monotonic()
    for number in range(SAMPLES):
        time.sleep(max(0, began + number - time.monotonic()))
        if number == DURING_AT and played.during:
            played.during(scene)
        stats, internal = scene.read("stats"), scene.read("internalStats")
        taken.append(
            {"date_ms": stats.date_ms, "stats": stats.document, "internal": internal.document}
        )
    return taken


def main(arguments: list[str]) -> int:
    """Records the scenarios named, or all, in parallel; returns how many failed."""
    parser = argparse.ArgumentParser(prog="scenarios", description=__doc__)
    parser.add_argument("action", choices=["record", "list"])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--into", type=Path, default=Path("recorded_states"))
    parser.add_argument("--at-once", type=int, default=8)
    options = parser.parse_intermixed_args(arguments)
    chosen = [SCENARIOS[name] for name in options.names or SCENARIOS]
    if options.action == "list":
        for each in chosen:
            print(each.name, each.expects.status, each.expects.code or "", *each.settings)
        return 0
    options.into.mkdir(parents=True, exist_ok=True)
    with running() as broker, ThreadPoolExecutor(options.at_once) as pool:
        recorded = {
            each.name: pool.submit(record, each, broker.service_url, broker.admin_url)
            for each in chosen
        }
        return sum(not kept(options.into, name, future) for name, future in recorded.items())


def kept(folder: Path, name: str, future: Any) -> bool:
    """Writes the document; False where the scenario failed, which is told on stderr."""
    try:
        document = future.result()
    except Exception as error:
        print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
        return False
    (folder / f"{name}.json").write_text(json.dumps(document, indent=1))
    print(f"{name}: {document['played_seconds']} s", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
