"""Reads named clusters (contexts) from our own file and from pulsarctl's.

Ours is `contexts.toml`, where each context is a table with keys named as the connection
options: `[prod]`, `admin-url = "https://…"`. pulsarctl (streamnative/pulsarctl, pkg/cmdutils) keeps
its contexts in ~/.config/pulsar/config, which is YAML. Its tokens are used from there, and never
written anywhere else. Where both files have a name, ours counts.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from platformdirs import user_config_path

from pulsar_doctor.broker.input_files import CONTEXTS_BYTES, text_of
from pulsar_doctor.errors import InputError, needing
from pulsar_doctor.wording.spelling import near

VARIABLE = "PULSAR_DOCTOR_CONTEXT"
TRUST, INSECURE = "tls_trust_certs_file_path", "tls_allow_insecure_connection"  # of pulsarctl
OAUTH2 = {  # its name, and that in the parameters of Pulsar's own tools
    "key_file": "privateKey",
    "issuer_endpoint": "issuerUrl",
    "audience": "audience",
    "scope": "scope",
}
ADMIN = "admin-service-url"
LOGIN = (TRUST, INSECURE, *OAUTH2, "token", "tokenFile")  # what is read of a login
LEVELS_MOST = 8  # levels; pulsarctl writes three
NULLS = frozenset({"", "~", "null", "Null", "NULL"})
# Each dot makes all dots before it in the same key count again: thousands take minutes.
KEY_PARTS_MOST = 32
KEY_PART = r"""(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+"""
LONG_KEY = re.compile(rf"(?<![\w-])(?:{KEY_PART}){{{KEY_PARTS_MOST}}}")


@dataclass(frozen=True, slots=True)
class ClusterContext:
    """One named cluster."""

    name: str
    file: Path  # where it is written
    settings: Mapping[str, Any] = field(repr=False)  # by the names of Settings

    def __str__(self) -> str:
        return f"context {self.name} of {self.file}"


@dataclass(frozen=True, slots=True)
class Contexts:
    """Every context by name, and the name of the current one; None: there is none."""

    by_name: Mapping[str, ClusterContext]
    current: str | None

    def named(self, name: str) -> ClusterContext:
        """The context of this name. Raises InputError where there is none."""
        if name not in self.by_name:
            raise InputError(
                f"there is no context {name!r}; "
                f"{near(name, self.by_name) or 'see `pulsar-doctor context --help`'}"
            )
        return self.by_name[name]


def read(environ: Mapping[str, str], allowed: frozenset[str]) -> Contexts:
    """Both files. allowed: names of settings that one may have. Raises InputError."""
    ctl, current = _of_pulsarctl(_home() / ".config" / "pulsar" / "config")
    if _is_there(_current_file()):
        current = text_of(_current_file(), "the name of the current context in").strip()
    if VARIABLE in environ:  # set to nothing: no context
        current = environ[VARIABLE]
    return Contexts(ctl | _ours(own_file(), allowed), current or None)


def use(name: str) -> None:
    """Makes it the current one, until another is used."""
    file = _current_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{name}\n", "utf-8")


def own_file() -> Path:
    """Where our own contexts are written."""
    return user_config_path("pulsar-doctor", appauthor=False) / "contexts.toml"


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user of a container, who has none
        return Path("/")


def _is_there(file: Path) -> bool:
    try:
        return bool(file.stat())
    except OSError:
        return False


def _current_file() -> Path:
    return own_file().with_name("current-context")


def _ours(file: Path, allowed: frozenset[str]) -> dict[str, ClusterContext]:
    _, tables = tables_of(file, "the file of contexts") or ("", {})
    return {
        name: ClusterContext(name, file, _settings(name, tables, file, allowed)) for name in tables
    }


def tables_of(
    file: Path, what: str, *, required: bool = False
) -> tuple[str, dict[str, Any]] | None:
    """A file of TOML, as text and as tables; None where there is none. Raises InputError.

    required: that there is none is an error, too.
    """
    if not (required or _is_there(file)):
        return None
    text = text_of(file, what, CONTEXTS_BYTES)
    if LONG_KEY.search(text):
        raise InputError(f"{file} has a key of more than {KEY_PARTS_MOST} parts")
    try:
        return text, tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file} is not TOML: {error}") from None


def _settings(
    name: str, tables: Mapping[str, Any], file: Path, allowed: frozenset[str]
) -> dict[str, Any]:
    table = tables[name]
    if not isinstance(table, dict):
        raise InputError(f"{name} in {file} is not a table; write [{name}] above its settings")
    settings = {key.replace("-", "_"): value for key, value in table.items()}
    for key, value in settings.items():
        option = key.replace("_", "-")
        if key not in allowed:
            options = (each.replace("_", "-") for each in allowed)
            raise InputError(f"[{name}] in {file} has no setting {option}; {near(option, options)}")
        if not isinstance(value, str | bool):
            raise InputError(f"{option} of [{name}] in {file} is not a text in quotes")
    return settings


def _of_pulsarctl(file: Path) -> tuple[dict[str, ClusterContext], str | None]:
    """The contexts of pulsarctl's file, and its current one."""
    if not _is_there(file):
        return {}, None
    document = _yaml_of(file)
    try:
        logins = document.get("auth-info") or {}
        contexts = {
            str(name): ClusterContext(
                str(name), file, _as_ours(str(name), each, logins.get(name), file)
            )
            for name, each in (document.get("contexts") or {}).items()
        }
        current = document.get("current-context")
    except AttributeError:
        raise _foreign(file) from None
    return contexts, _text(current, f"current-context of {file}")


def _yaml_of(file: Path) -> Any:
    """What YAML of texts holds. Raises InputError, which never quotes it: it has tokens.

    An alias is short, and what it expands to may fill the memory. A tag names how a text is read,
    which may fail or take long. pulsarctl writes neither.
    """
    with needing("pulsarctl", f"reading the contexts of pulsarctl in {file}"):
        import yaml

    class Bounded(yaml.BaseLoader):
        """Reads texts, null, and few levels of them; no aliases and no tags."""

        levels = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            """One value, with what is in it."""
            event = self.peek_event()  # type: ignore[no-untyped-call]
            tagged = getattr(event, "tag", None) is not None
            if tagged or self.levels == LEVELS_MOST or isinstance(event, yaml.AliasEvent):
                raise yaml.YAMLError
            self.levels += 1
            node = super().compose_node(parent, index)
            self.levels -= 1
            return node

        def construct_scalar(self, node: Any) -> str | None:  # type: ignore[override]
            """A number stays a text: some take long to read."""
            text: str = super().construct_scalar(node)
            return None if node.style is None and text in NULLS else text

    try:
        written = text_of(file, "the contexts of pulsarctl in", CONTEXTS_BYTES)
        return yaml.load(written, Bounded) or {}
    except (yaml.YAMLError, ValueError, RecursionError):  # a character that has no code
        raise _foreign(file) from None


def _foreign(file: Path) -> InputError:
    return InputError(f"{file} is not what pulsarctl writes: see `pulsarctl context`")


def _text(value: Any, what: str) -> Any:
    """A text as it is. Raises InputError for anything else; what: its name."""
    if value is None or isinstance(value, str):
        return value
    raise InputError(f"{what} is not a text")


def _flag(text: str | None, what: str) -> bool:
    flag = (text or "false").lower()
    if flag not in ("true", "false"):
        raise InputError(f"{what} is neither true nor false")
    return flag == "true"


def _as_ours(
    name: str, context: Mapping[str, Any], login: Mapping[str, Any] | None, file: Path
) -> dict[str, Any]:
    of = f"context {name} of {file}"
    login = {key: _text((login or {}).get(key), f"{key} of {of}") for key in LOGIN}
    settings: dict[str, Any] = {"admin_url": _text(context.get(ADMIN), f"{ADMIN} of {of}")}
    settings["tls_trust_certs"] = login[TRUST]
    settings["tls_allow_insecure"] = _flag(login[INSECURE], f"{INSECURE} of {of}")
    if login["token"] and login["tokenFile"]:
        raise InputError(f"{of} has a token and a tokenFile; keep one of them")
    if login["key_file"]:
        params = {ours: login[theirs] for theirs, ours in OAUTH2.items() if login[theirs]}
        settings |= {"auth_plugin": "oauth2", "auth_params": json.dumps(params)}
    elif login["token"]:
        settings |= {"auth_plugin": "token", "auth_params": f"token:{login['token']}"}
    elif login["tokenFile"]:
        settings |= {"auth_plugin": "token", "auth_params": _uri(login["tokenFile"], of)}
    return {key: value for key, value in settings.items() if value}


def _uri(token_file: str, of: str) -> str:
    if token_file.lower() in ("true", "false"):
        raise InputError(f"tokenFile of {of} is {token_file}, not the name of a file")
    try:
        return Path(token_file).expanduser().absolute().as_uri()
    except (RuntimeError, ValueError):  # nobody is called so; no file can be
        raise InputError(f"tokenFile of {of} is not the name of a file") from None
