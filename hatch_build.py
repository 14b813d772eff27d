"""Puts the glossary into a wheel, and manual pages dated by SOURCE_DATE_EPOCH, else today."""

from __future__ import annotations

import os
import re
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

DATE = re.compile(r'^(\.TH \S+ \d ")[^"]*"', re.M)


class ManualPages(BuildHookInterface):  # type: ignore[type-arg]
    """Found by hatchling, as the only hook of this file."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the wheel is written."""
        self._dated = tempfile.TemporaryDirectory()
        seconds = int(os.environ.get("SOURCE_DATE_EPOCH", time.time()))
        date = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d")
        for page in Path(self.root, "man").glob("man?/*"):
            text, dates = DATE.subn(rf'\g<1>{date}"', page.read_text("utf-8"))
            assert dates == 1, page
            dated = Path(self._dated.name, page.name)
            dated.write_text(text, "utf-8")
            build_data["shared_data"][str(dated)] = f"share/man/{page.parent.name}/{page.name}"
        if version == "standard":  # and no editable one; `mcp` gives it to assistants
            glossary = "pulsar_doctor/parts/mcp/glossary.md"
            build_data["force_include"][str(Path(self.root, "docs/glossary.md"))] = glossary

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """After the wheel is written."""
        self._dated.cleanup()
