"""Finds the broker's address and credentials: option, context, environment, client.conf."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pulsar_doctor.broker import contexts
from pulsar_doctor.broker.contexts import ClusterContext
from pulsar_doctor.broker.input_files import require_files, text_of
from pulsar_doctor.errors import InputError
from pulsar_doctor.wording.spelling import near

PREFIX = "PULSAR_DOCTOR_"

DEFAULTS: dict[str, str] = {
    "service_url": "pulsar://localhost:6650",
    "admin_url": "http://localhost:8080",
}

# Our setting and the key that Pulsar's own tools read in client.conf (`ClientConfiguration`).
CLIENT_CONF_KEYS = {
    "service_url": "brokerServiceUrl",
    "admin_url": "webServiceUrl",
    "auth_plugin": "authPlugin",
    "auth_params": "authParams",
    "tls_trust_certs": "tlsTrustCertsFilePath",
    "tls_certificate": "tlsCertificateFilePath",
    "tls_key": "tlsKeyFilePath",
    "tls_allow_insecure": "tlsAllowInsecureConnection",
}
OTHER_KEYS = (  # of the client.conf of Pulsar 2 to 5, and not used here
    "useTls", "tlsEnableHostnameVerification", "useKeyStoreTls", "tlsTrustStoreType",
    "tlsTrustStorePath", "tlsTrustStorePassword", "tlsKeyStoreType", "tlsKeyStorePath",
    "tlsKeyStorePassword", "webserviceTlsProvider", "proxyServiceUrl", "proxyProtocol",
    "sslFactoryPlugin", "sslFactoryPluginParams",
)  # fmt: skip
PULSARS_KEYS = {key.lower(): key for key in (*CLIENT_CONF_KEYS.values(), *OTHER_KEYS)}
# One that ends in a backslash continues on the next one.
CONF_LINE = re.compile(r"(?:[^\n\\]|\\[\s\S]?)+")
PAIR = re.compile(r"([\w.-]+)\s*[=:](.*)", re.ASCII | re.DOTALL)
MISSPELT = 0.85  # of difflib: webServicUrl, and not sslProvider beside webserviceTlsProvider
INHERITED = re.compile(  # by a process of ours: what Python and OpenSSL look for
    r"PATH|HOME|LANG|LC_[A-Z]+|TZ|TZDIR|TMPDIR|TEMP|TMP|SYSTEMROOT|(DY)?LD_LIBRARY_PATH"
    r"|SSL_CERT_(FILE|DIR)|OPENSSL_CONF|PYTHON[A-Z0-9]+|COVERAGE_PROCESS_START"
)
LOOPBACK = re.compile(r"//(127\.0\.0\.1|\[::1\])(?=:|$)")  # written another way
FLAGS = frozenset({"tls_allow_insecure", "no_proxy", "sandbox"})
IMPLIED = {"exec": "token", "header": "header"}  # the plugin that parameters are for
RUNS = re.compile(r"(header:[^=]+=)?exec:")  # parameters that name a command


@dataclass(frozen=True, slots=True)
class Settings:
    """One value for all connection options."""

    service_url: str = DEFAULTS["service_url"]
    admin_url: str = DEFAULTS["admin_url"]
    auth_plugin: str | None = None
    auth_params: str | None = field(default=None, repr=False)
    tls_trust_certs: Path | None = None
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_allow_insecure: bool = False
    no_proxy: bool = False
    sandbox: bool = False
    pulsar_home: Path | None = None
    context: str | None = None  # name of the one that was used
    # name of a setting -> what set it; what nothing set has its default
    origins: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def certificate(self) -> tuple[Path, Path] | None:
        """Our own certificate and its key, as client.conf names them beside any authentication."""
        if self.tls_certificate is None or self.tls_key is None:
            return None
        return self.tls_certificate, self.tls_key

    @property
    def auth_name(self) -> str:
        """The plugin's short name, also of a Java class; empty without one."""
        return (self.auth_plugin or "").rpartition(".")[2].lower().removeprefix("authentication")


def guessed(settings: Settings) -> str | None:
    """Which of the two addresses may be another cluster's: a default beside one that was named.

    `service_url` or `admin_url`; None where both were named, neither, or the one named is that of
    its default. Addresses of the sandbox belong together.
    """
    if settings.sandbox:
        return None
    named = {
        name for name in DEFAULTS if name in settings.origins or not _is_default(settings, name)
    }
    if len(named) != 1 or all(_is_default(settings, name) for name in named):
        return None
    (other,) = set(DEFAULTS) - named
    return other


def _is_default(settings: Settings, name: str) -> bool:
    url = LOOPBACK.sub("//localhost", str(getattr(settings, name)).rstrip("/"))
    return url == LOOPBACK.sub("//localhost", DEFAULTS[name])


PATHS = frozenset({"tls_trust_certs", "tls_certificate", "tls_key", "pulsar_home"})
NAMES = frozenset(Settings.__dataclass_fields__) - {"context", "origins"}
OF_A_CLUSTER = frozenset({*DEFAULTS, "auth_plugin", "auth_params", "tls_certificate", "tls_key"})
IN_CONTEXTS = NAMES - {"sandbox", "pulsar_home"}

# What a source calls each setting, and the values that it has.
SettingSource = tuple[Callable[[str], str], Mapping[str, Any]]


def load(options: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Settings from what the user gave.

    options: name of a setting -> value, absent or None where not given.
    Raises InputError where a file cannot be read, a context does not exist, a flag is neither true
    nor false, what should be a certificate is no file, or client.conf names a command.
    """
    variables = {name: environ.get(PREFIX + name.upper()) for name in NAMES}
    context = _context(options, variables, environ)
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for origin, given in _sources(options, context, variables, _client_conf(options, environ)):
        for name in _wanted(given, origins, context) - values.keys():
            if given.get(name) not in (None, ""):
                values[name], origins[name] = _typed(name, given[name]), origin(name)
    _complete_login(values, origins)
    settings = Settings(**values, context=context.name if context else None, origins=origins)
    require_files(settings.tls_trust_certs, settings.tls_certificate, settings.tls_key)
    return settings


def _complete_login(values: dict[str, Any], origins: Mapping[str, str]) -> None:
    """Adds the plugin that parameters imply. Raises InputError for a command of client.conf."""
    params, origin = values.get("auth_params", ""), origins.get("auth_params", "")
    if origin.startswith("client.conf") and RUNS.match(params):
        raise InputError(f"authParams of {origin} names a command, which is not run from there")
    kind = params.partition(":")[0]
    if "auth_plugin" not in values and kind in IMPLIED:
        values["auth_plugin"] = IMPLIED[kind]


def _wanted(
    given: Mapping[str, Any], origins: Mapping[str, str], context: ClusterContext | None
) -> frozenset[str]:
    """What is taken from a source: all, unless it is of another cluster than the context above."""
    above = any(origins.get(name) == str(context) for name in DEFAULTS)
    return NAMES - OF_A_CLUSTER if above and any(map(given.get, DEFAULTS)) else NAMES


def _context(
    options: Mapping[str, Any], variables: Mapping[str, Any], environ: Mapping[str, str]
) -> ClusterContext | None:
    """The one that the option names, else the current one; None: none.

    The current one counts only where neither an option nor the environment says which cluster is
    meant: its token is for its own addresses.
    """
    name = options.get("context")
    elsewhere = ("client_conf", "sandbox", *DEFAULTS)
    if name is None and any(options.get(each) or variables.get(each) for each in elsewhere):
        return None
    if name == "":
        return None
    known = contexts.read(environ, IN_CONTEXTS)
    name = name or known.current
    return None if name is None else known.named(name)


def _sources(
    options: Mapping[str, Any],
    context: ClusterContext | None,
    variables: Mapping[str, Any],
    conf: tuple[Path, Mapping[str, Any]] | None,
) -> Iterator[SettingSource]:
    """Where settings are looked for, in this order."""
    yield lambda name: f"option --{name.replace('_', '-')}", options
    environment = (lambda name: f"environment variable {PREFIX}{name.upper()}", variables)
    if context is None:
        yield environment
    elif options.get("context"):
        yield lambda _: str(context), context.settings
        yield environment
    else:
        yield environment
        yield lambda _: str(context), context.settings
    if conf is not None:
        file, values = conf
        yield lambda _: f"client.conf {file}", values


def _client_conf(
    options: Mapping[str, Any], environ: Mapping[str, str]
) -> tuple[Path, dict[str, str | None]] | None:
    """The path of client.conf and what it has of our settings; None where none is named."""
    named = (
        options.get("client_conf")
        or environ.get(PREFIX + "CLIENT_CONF")
        or environ.get("PULSAR_CLIENT_CONF")
    )
    if not named:
        return None
    pairs = read_client_conf(Path(named))
    return Path(named), {name: pairs.get(key) for name, key in CLIENT_CONF_KEYS.items()}


def for_own_processes(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment of a process of ours: what Python and OpenSSL need, and nothing else.

    Whoever may read a process may read its environment, and it is inherited as long as anything
    runs. What such a process needs of our settings it gets by pipe.
    """
    return {name: value for name, value in environ.items() if INHERITED.fullmatch(name)}


def _typed(name: str, value: Any) -> Any:
    if name in PATHS:
        return Path(value)
    if name in FLAGS and isinstance(value, str):
        if value.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise InputError(f"{name} is {value!r}; it takes true or false")
        return value.lower() in ("true", "1", "yes")
    return value


def read_client_conf(path: Path) -> dict[str, str]:
    """The keys and values of a client.conf: Java properties, `key=value` or `key: value` a line.

    Raises InputError for a line that is not that, a key that is misspelt, and if no key is one of
    Pulsar's. The text is not repeated: it may be a secret. Pulsar's own tools ignore other keys.
    """
    text, pairs = text_of(path, "client.conf"), dict[str, str]()
    for at in CONF_LINE.finditer(text):
        line = at[0].replace("\\\n", "").strip()
        if not line or line[0] in "#!":
            continue
        pair = PAIR.fullmatch(line)
        if pair is None:
            where = f"line {text.count(chr(10), 0, at.start()) + 1} of client.conf {path}"
            raise InputError(f"{where} is not KEY=VALUE, such as webServiceUrl=http://broker:8080")
        pairs[pair[1]] = pair[2].strip()
    others = pairs.keys() - PULSARS_KEYS.values()
    for key in others:
        if alike := get_close_matches(key.lower(), PULSARS_KEYS, 1, MISSPELT):
            meant = near(key, alike, shown=PULSARS_KEYS)
            raise InputError(f"client.conf {path} has no setting {key}: {meant}")
    if pairs and len(others) == len(pairs):
        raise InputError(f"client.conf {path} has no setting of Pulsar, such as webServiceUrl")
    return pairs
