"""Addresses and URLs as people write them, without anything that may be secret."""

from __future__ import annotations

import re

SECRET = re.compile(r"(?<=//)[^/@]*@|[?#].*")


def shown(address: tuple[str, int]) -> str:
    """`host:port`; an address of IPv6 in brackets."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bare(url: str) -> str:
    """A URL without user, password, query and fragment."""
    return SECRET.sub("", url)


def at(consumer: str, address: str | None) -> str:
    """`worker-1 at 10.0.3.7:51494`; the address is given once where it is the name."""
    shown = (address or "").lstrip("/")
    return f"{consumer} at {shown}" if shown and shown not in consumer else consumer
