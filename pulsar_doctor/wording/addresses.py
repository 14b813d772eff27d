"""A host and a port as people write them."""

from __future__ import annotations


def shown(address: tuple[str, int]) -> str:
    """`host:port`; an address of IPv6 in brackets."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
