"""How brokers are spoken to with TLS: whom we trust, and the certificate that we show."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from pulsar_doctor.errors import InputError

File = str | Path


def towards_brokers(
    trust: File | None,
    certificate: tuple[File, File] | None,
    *,
    insecure: bool,
    system: Callable[[], ssl.SSLContext] = ssl.create_default_context,
) -> ssl.SSLContext:
    """The context of our connections. Raises InputError.

    trust: certificates; None: those that `system` trusts. certificate: ours and its key, None: we
    show none. insecure: trust any certificate, for any host name.
    """
    try:
        context = ssl.create_default_context(cafile=str(trust)) if trust else system()
    except (OSError, ssl.SSLError) as error:
        raise InputError(
            f"cannot read certificates from {trust}: {error.strerror or error}; "
            "see --tls-trust-certs"
        ) from error
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if certificate:
        show(context, certificate, "client certificate")
    return context


def show(context: ssl.SSLContext, files: tuple[File, File], what: str) -> None:
    """Has it show a certificate, of which these are the file and its key's. Raises InputError."""
    certificate, key = files
    try:
        # OpenSSL would prompt for a password on the terminal: an encrypted key is an error here.
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ssl.SSLError) as error:
        why = error.strerror or error
        raise InputError(f"cannot use the {what} {certificate} ({key}): {why}") from error
