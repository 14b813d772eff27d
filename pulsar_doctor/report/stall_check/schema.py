"""The JSON Schema of what stall-check prints for programs; it lies beside this file."""

from __future__ import annotations

from pathlib import Path

SCHEMA_FILE = Path(__file__).with_name("schema.json")
