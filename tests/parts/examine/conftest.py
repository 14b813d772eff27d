"""Examined clients have the broker of those that are captured."""

from tests.parts.capture.conftest import broker

__all__ = ["broker"]
