"""Certificates for the tests of TLS, good for two days at most and for this machine alone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


def certified(folder: Path, host: str) -> Path:
    """An authority and a certificate of it for that host, written to a folder; the folder.

    ca.pem: the authority. cert.pem: the certificate, and the authority's behind it, so that it can
    be trusted as it is. key.pem: its key. locked.pem: the same with the password `x`.
    """
    authority = trustme.CA()
    leaf = authority.issue_cert(host, not_after=datetime.now(UTC) + timedelta(days=2))
    authority.cert_pem.write_to_path(folder / "ca.pem")
    for blob in (*leaf.cert_chain_pems, authority.cert_pem):
        blob.write_to_path(folder / "cert.pem", append=True)
    key = leaf.private_key_pem.bytes()
    (folder / "key.pem").write_bytes(_encoded(key, NoEncryption()))
    (folder / "locked.pem").write_bytes(_encoded(key, BestAvailableEncryption(b"x")))
    return folder


def _encoded(pem: bytes, encryption: KeySerializationEncryption) -> bytes:
    """As PKCS 8, which Java can read, too."""
    key = load_pem_private_key(pem, password=None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
