"""Error messages for a broker that could not be read, each with what to do next."""

from __future__ import annotations

import base64
import contextlib
import errno
import json
import re
import socket
import ssl
from collections.abc import Iterator
from datetime import UTC, datetime

import httpx2

from pulsar_doctor.broker.bodies import TooMany
from pulsar_doctor.broker.patience import TooSlow
from pulsar_doctor.errors import DoctorError
from pulsar_doctor.wire.redaction import redact

AGAIN = frozenset({429, 500, 502, 503, 504})  # worth asking a second time
SERVER_TALK = re.compile(r"^\s*(-.*-|Message:)\s*")  # what the broker writes around a reason

CLOSED = re.compile("disconnected|closed connection")  # h11's words for an answer cut short


class AdminError(DoctorError):
    """The broker's REST API gave no usable answer."""

    def __init__(self, sentence: str, *, again: bool = False) -> None:
        super().__init__(sentence)
        self.again = again  # another try later may help


class Unreachable(AdminError):
    """No broker answers there, or not in time."""


class Refused(AdminError):
    """The credentials are missing, wrong, expired or not enough; or they were held back."""


class NotFound(AdminError):
    """No such topic, namespace or tenant."""


class BrokerFailed(AdminError):
    """The broker answered with a failure of its own, or with what cannot be read."""


def place(url: httpx2.URL) -> str:
    """Where a broker is, without anything secret that its address may carry."""
    host = f"[{url.host}]" if ":" in url.host else url.host
    return f"{url.scheme}://{host}" + (f":{url.port}" if url.port else "")


def of_connection(error: BaseException, url: httpx2.URL, what: str) -> AdminError:
    """What a failed connection means. what: the thing requested."""
    where = place(url)
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLError):
            return _of_tls(cause, url)
        if isinstance(cause, socket.gaierror):
            host = url.host
            return Unreachable(f"there is no host {host} ({cause.strerror}); see --admin-url")
        if isinstance(cause, OSError) and cause.errno == errno.ECONNREFUSED:
            return Unreachable(
                f"nothing listens at {where}; is the broker up? See --admin-url", again=True
            )
    if isinstance(error, httpx2.ConnectError):
        return Unreachable(f"cannot connect to {where}: {error}; see --admin-url", again=True)
    if isinstance(error, httpx2.DecodingError):
        return BrokerFailed(f"what {where} says of {what} cannot be unpacked: {error}")
    if isinstance(error, httpx2.RemoteProtocolError) and not CLOSED.search(str(error)):
        hint = ", or it wants https://" if url.scheme == "http" else ""
        return Unreachable(
            f"what answers at {where} does not speak HTTP; is it the broker's binary port{hint}? "
            "See --admin-url"
        )
    return Unreachable(
        f"{where} closed the connection while asked for {what}; does it want "
        + ("https://, or" if url.scheme == "http" else "a client certificate, or")
        + " is it the broker's binary port? See --admin-url",
        again=True,
    )


def of_proxy(error: BaseException, url: httpx2.URL, proxy: httpx2.URL) -> AdminError:
    """What a failed connection means where a proxy was on the way."""
    for cause in _causes(error):
        if isinstance(cause, ssl.SSLError):
            return _of_tls(cause, url)
    how = "refuses to connect" if isinstance(error, httpx2.ProxyError) else "cannot be reached"
    return Unreachable(
        f"the proxy {place(proxy)} of HTTPS_PROXY {how} ({error}), for {place(url)}; NO_PROXY "
        "names what is near, and --no-proxy uses none"
    )


def of_time(url: httpx2.URL, what: str, error: TooSlow) -> AdminError:
    """The answer did not come in time. Not requested again: that makes a slow broker slower."""
    seconds = f"{round(error.seconds, 1):g}s"
    if not error.received:
        return Unreachable(f"{place(url)} did not answer for {what} within {seconds}")
    return Unreachable(
        f"{place(url)} sent {error.received:,} bytes of {what} in {seconds}, and no end: it was "
        "not read to the end, and is not used"
    )


def of_size(url: httpx2.URL, what: str, most: int) -> AdminError:
    """The answer is longer than is read. Not requested again: it would be as long."""
    return BrokerFailed(
        f"{place(url)} answers with more than {most >> 20} MiB of {what}: it was not read "
        "to the end, and is not used; does a broker answer there? See --admin-url"
    )


def of_number(url: httpx2.URL, what: str, error: TooMany) -> AdminError:
    """The answer holds more than can be kept."""
    return BrokerFailed(
        f"what {place(url)} answers for {what} holds {error}: it is not used; does a broker answer "
        "there? See --admin-url"
    )


def of_status(
    response: httpx2.Response,
    body: bytes | bytearray,
    what: str,
    *,
    expired_at: float | None = None,
) -> AdminError:
    """What a status other than 200 means. expired_at: when the token that was sent expires."""
    status, where, why = response.status_code, place(response.url), _reason(response, body)
    if status == 401:
        return Refused(_unauthorized(response, where, expired_at))
    if status == 403:
        return Refused(f"these credentials may not read {what}{why}; ask for a role that may")
    if not is_json(response) and status < 500:
        return no_rest_api(response)
    if status == 404:
        return NotFound(f"{where} does not have {what}{why}")
    return BrokerFailed(
        f"{where} failed with {status} when asked for {what}{why}", again=status in AGAIN
    )


def no_rest_api(response: httpx2.Response) -> AdminError:
    """Something else than a broker answers."""
    kind = "a web page" if "html" in response.headers.get("Content-Type", "") else "something else"
    return Unreachable(
        f"{kind} answers at {place(response.url)} ({response.status_code}), not the REST API of "
        "a broker, or of one too old for this; see --admin-url"
    )


def is_json(response: httpx2.Response) -> bool:
    """Whether the answer says that it is JSON."""
    return "json" in response.headers.get("Content-Type", "").lower()


def _of_tls(error: ssl.SSLError, url: httpx2.URL) -> AdminError:
    where = place(url)
    if isinstance(error, ssl.SSLCertVerificationError):
        return Unreachable(
            f"the certificate of {where} is not trusted ({error.verify_message}); "
            "give its authority with --tls-trust-certs, or --tls-allow-insecure"
        )
    reason = str(error.reason or error).replace("_", " ").lower()
    if "certificate required" in reason or "handshake failure" in reason:
        return Refused(
            f"{where} wants a client certificate ({reason}); give --auth-plugin tls and "
            "--auth-params tlsCertFile:FILE,tlsKeyFile:FILE"
        )
    if "alert" in reason:
        return Refused(f"{where} does not accept this client's certificate ({reason})")
    return Unreachable(f"{where} does not speak TLS ({reason}); use http:// or its TLS port")


def _unauthorized(response: httpx2.Response, where: str, expired_at: float | None) -> str:
    sent = response.request.headers
    if expired_at is not None:
        when = datetime.fromtimestamp(expired_at, UTC)
        return f"the token expired at {when:%Y-%m-%d %H:%M:%S} UTC; give {where} a new one"
    if "Authorization" in sent:
        return f"{where} does not accept these credentials (401); see --auth-params"
    return f"{where} wants credentials (401); give --auth-plugin and --auth-params"


def _reason(response: httpx2.Response, body: bytes | bytearray) -> str:
    """The broker's own words, one line, in brackets; nothing of the credentials."""
    try:
        reason = json.loads(body)["reason"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    lines = (SERVER_TALK.sub("", line).strip() for line in str(reason).splitlines())
    line = next((line for line in lines if line), "")
    line = "".join(character for character in line if character.isprintable())
    for secret in _secrets(response.request.headers.get("Authorization", "")):
        line = line.replace(secret, "***")
    line = redact(line)
    return f" ({line})" if line else ""


def _secrets(authorization: str) -> Iterator[str]:
    """What was sent to get in; of a user and a password that, and the password as it is, too."""
    kind, _, sent = authorization.rpartition(" ")
    if sent:
        yield sent
    if kind.lower() == "basic":
        with contextlib.suppress(ValueError):
            both = base64.b64decode(sent, validate=True).decode("utf-8", "replace")
            yield from (part for part in (both, both.partition(":")[2]) if part)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        if isinstance(error, BaseExceptionGroup):
            yield from error.exceptions
        error = error.__cause__ or error.__context__
