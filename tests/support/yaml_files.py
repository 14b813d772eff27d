"""YAML of these tests, by the loader in C, which takes a tenth of the time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # a PyYAML without its C part has one


def read(path: Path) -> Any:
    """What the file holds, as lists, dicts and scalars."""
    return yaml.load(path.read_text("utf-8"), LOADER)
