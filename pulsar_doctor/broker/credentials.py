"""Turns the credentials of Pulsar's own tools into HTTP headers or a client certificate.

Parameters as in `authParams`: of a token see tokens.py; for the rest JSON or `key:value,key:value`
(`org.apache.pulsar.client.impl.auth`). A secret is in no repr and in no error.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes, urlsplit

import httpx2

from pulsar_doctor.broker.bodies import ACCEPTED, TOKEN, body_of
from pulsar_doctor.broker.input_files import require_files, text_of
from pulsar_doctor.broker.patience import AnswerPatience
from pulsar_doctor.broker.proxies import proxy_for
from pulsar_doctor.broker.request_log import logged
from pulsar_doctor.broker.settings import Settings
from pulsar_doctor.broker.tokens import EARLY_SECONDS, clean, expiry_of, path_of, token_source
from pulsar_doctor.errors import DoctorError, InputError

Certificate = tuple[Path, Path]  # certificate, key; both PEM
METHOD = "X-Pulsar-Auth-Method-Name"
ISSUER_SECONDS = 10.0
HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")  # RFC 9110, section 5.6.2
NO_TOKEN = (  # what is raised where an issuer answers something else
    httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError, TypeError, OverflowError,
    RecursionError,
)  # fmt: skip


class Credentials(Protocol):
    """What opens the door: headers for each request, or a client certificate."""

    @property
    def certificate(self) -> Certificate | None:
        """The client certificate and its key."""

    async def headers(self) -> dict[str, str]:
        """Headers of one request to the cluster. Raises DoctorError where there are none."""


class Fixed:
    """Headers that need no asking, or a client certificate; nothing at all by default."""

    def __init__(
        self,
        read: Callable[[], dict[str, str]] = dict,
        certificate: Certificate | None = None,
    ) -> None:
        self._read = read
        self.certificate = certificate

    async def headers(self) -> dict[str, str]:
        """The headers with the credentials as read now."""
        return self._read()


class ClientCredentials:
    """OAuth2's client credentials: the issuer sells a token, which is kept until it expires.

    The only POST of this program: to the issuer, never to a broker.
    """

    certificate: Certificate | None = None

    def __init__(self, params: Mapping[str, str], *, direct: bool = False) -> None:
        self._direct = direct
        self._key = _key_file(_needed(params, "privateKey", "oauth2"))
        self._issuer = params.get("issuerUrl") or _needed(self._key, "issuer_url", "oauth2")
        self._form = {
            "grant_type": "client_credentials",
            "client_id": _needed(self._key, "client_id", "the key file of oauth2"),
            "client_secret": _needed(self._key, "client_secret", "the key file of oauth2"),
        } | {name: params[name] for name in ("audience", "scope") if params.get(name)}
        self._token = ""
        self._good_until = 0.0
        self._lock = asyncio.Lock()

    async def headers(self) -> dict[str, str]:
        """The token, from the issuer where there is none or it is about to expire."""
        async with self._lock:
            if time.monotonic() >= self._good_until:
                self._token, lives_seconds = await self._buy()
                self._good_until = time.monotonic() + max(0.0, lives_seconds - EARLY_SECONDS)
        return _bearer(self._token)

    async def _buy(self) -> tuple[str, float]:
        host = urlsplit(self._issuer).hostname or self._issuer
        try:
            async with self._client() as http:
                patience = AnswerPatience(TOKEN, ISSUER_SECONDS)
                endpoint = await self._endpoint(http, patience)
                request = http.build_request("POST", endpoint, data=self._form)
                status, body = await _short(http, request, patience)
            if status != 200:
                raise DoctorError(
                    f"the OAuth2 issuer {host} refuses these client credentials "
                    f"({status}); see the key file, audience and scope"
                )
            sold = json.loads(body)
            return clean(str(sold["access_token"]), "OAuth2"), float(sold.get("expires_in", 0))
        except NO_TOKEN as error:
            raise DoctorError(
                f"the OAuth2 issuer {host} gives no token ({type(error).__name__}); see issuerUrl"
            ) from None  # the request holds the secret

    def _client(self) -> httpx2.AsyncClient:
        proxy = proxy_for(httpx2.URL(self._issuer), direct=self._direct)
        return httpx2.AsyncClient(
            timeout=ISSUER_SECONDS, trust_env=False, proxy=httpx2.Proxy(proxy) if proxy else None
        )

    async def _endpoint(self, http: httpx2.AsyncClient, patience: AnswerPatience) -> str:
        known = self._issuer.rstrip("/") + "/.well-known/openid-configuration"
        _, body = await _short(http, http.build_request("GET", known), patience)
        endpoint = str(json.loads(body)["token_endpoint"])
        if self._issuer.startswith("https:") and not endpoint.startswith("https:"):
            raise DoctorError("the OAuth2 issuer names a token endpoint without TLS: not asked")
        return endpoint


async def _short(
    http: httpx2.AsyncClient, request: httpx2.Request, patience: AnswerPatience
) -> tuple[int, bytearray]:
    """Status and body of what an issuer answers. Raises TooLong, TooSlow, httpx2's errors."""
    request.headers["Accept-Encoding"] = ACCEPTED
    response = await patience.of(logged(http.send(request, stream=True), request))
    try:
        return response.status_code, await body_of(response, patience)
    finally:
        await response.aclose()


def credentials(settings: Settings) -> Credentials:
    """The credentials of these settings; without a plugin there are none.

    Raises InputError where the plugin is not supported or its parameters are not understood.
    """
    name, plugin = settings.auth_name, settings.auth_plugin
    if not plugin:
        return Fixed()
    if name not in PLUGINS:
        known = INSTEAD.get(name, f"{', '.join(sorted(PLUGINS))} are")
        raise InputError(f"authentication {plugin!r} is not supported; {known}")
    return PLUGINS[name](settings)


def expires_at(headers: Mapping[str, str]) -> float | None:
    """When the token of these headers expires, in epoch seconds; None: not reported."""
    return expiry_of(headers.get("Authorization", "").removeprefix("Bearer "))


def _token(settings: Settings) -> Credentials:
    params = _params(settings)
    if params.startswith("{"):
        params = f"token:{_needed(_pairs(params, 'token'), 'token', 'token')}"
    return _read_anew(params, _bearer)


def _header(settings: Settings) -> Credentials:
    """`header:NAME=SOURCE`, for what a gateway or an authentication of one's own wants."""
    name, equals, source = _params(settings).removeprefix("header:").partition("=")
    if not equals or not HEADER.fullmatch(name):
        raise InputError("a header takes --auth-params header:NAME=file:PATH, or env:, exec:")
    return _read_anew(source, lambda value: {name: value})


def _read_anew(source: str, as_headers: Callable[[str], dict[str, str]]) -> Credentials:
    read = token_source(source)
    read()  # what cannot be read is reported before anything is requested
    return Fixed(lambda: as_headers(read()))


def _basic(settings: Settings) -> Credentials:
    params = _params(settings)
    if params.startswith("{"):
        pairs = _pairs(params, "basic")
        user = pairs.get("userId") or _needed(pairs, "username", "basic")
        password = _needed(pairs, "password", "basic")
    else:
        user, colon, password = params.removeprefix("basic:").partition(":")
        if not colon:
            raise InputError("basic authentication takes --auth-params user:password")
    encoded = base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
    return Fixed(lambda: {"Authorization": f"Basic {encoded}", METHOD: "basic"})


def _tls(settings: Settings) -> Credentials:
    pairs = _pairs(_params(settings), "tls")
    paths = [path_of(_needed(pairs, name, "tls")) for name in ("tlsCertFile", "tlsKeyFile")]
    require_files(*paths)
    return Fixed(certificate=(paths[0], paths[1]))


PLUGINS: dict[str, Callable[[Settings], Credentials]] = {
    "token": _token,
    "basic": _basic,
    "tls": _tls,
    "oauth2": lambda settings: ClientCredentials(
        _pairs(_params(settings), "oauth2"), direct=settings.no_proxy
    ),
    "header": _header,
    "disabled": lambda _: Fixed(),
}
NO_TICKETS = (
    "Kerberos tickets cannot be used: take a token, a client certificate, or the header of a "
    "gateway (--auth-params header:NAME=file:PATH)"
)
INSTEAD = {  # of what is not supported: what works
    "kerberos": NO_TICKETS,
    "sasl": NO_TICKETS,
    "athenz": "give the role token as a header: --auth-params header:Athenz-Role-Auth=exec:COMMAND",
}


def _params(settings: Settings) -> str:
    return settings.auth_params or ""


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", METHOD: "token"}


def _pairs(params: str, plugin: str) -> dict[str, str]:
    """`{"key": "value"}` or `key:value,key:value`."""
    if params.startswith("{"):
        try:
            return {str(key): str(value) for key, value in json.loads(params).items()}
        except ValueError:
            raise InputError(f"the parameters of {plugin} are no JSON; see --auth-params") from None
    pairs = (pair.partition(":") for pair in params.split(","))
    return {key.strip(): value.strip() for key, colon, value in pairs if colon}


def _needed(pairs: Mapping[str, Any], name: str, what: str) -> str:
    value = pairs.get(name)
    if not value:
        raise InputError(f"{what} needs {name}; see --auth-params")
    return str(value)


def _key_file(where: str) -> dict[str, Any]:
    """The client's id and secret, from a file or a `data:` URL."""
    if where.startswith("data:"):
        head, _, body = where.partition(",")
        try:
            raw = unquote_to_bytes(body)
            text = (base64.b64decode(raw) if head.endswith(";base64") else raw).decode()
        except (binascii.Error, UnicodeDecodeError):
            raise InputError("privateKey is not a readable data: URL; see --auth-params") from None
    else:
        text = text_of(path_of(where), "the key file of oauth2")
    try:
        return dict(json.loads(text))
    except (ValueError, TypeError):
        raise InputError("the key file of oauth2 is not JSON object; see privateKey") from None
