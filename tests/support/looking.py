"""Looks at something again and again beside a test."""

from __future__ import annotations

import threading
from typing import Self


class Looking:
    """From `with` to its end, and once more then. every_seconds: between two looks."""

    def __init__(self, every_seconds: float) -> None:
        self.looks = 0
        self._every_seconds = every_seconds
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.look()

    def look(self) -> None:
        """Once."""
        self.looks += 1

    def _run(self) -> None:
        while not self._over.wait(self._every_seconds):
            self.look()
