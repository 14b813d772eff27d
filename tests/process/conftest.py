"""Examined clients have the broker of those that are captured."""

from tests.capture.conftest import broker

__all__ = ["broker"]
