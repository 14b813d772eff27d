"""Reads named clusters (contexts) from our own file and from pulsarctl's.

Ours is `contexts.toml`, where each context is a table whose keys are named as the connection
options: `[prod]`, `admin-url = "https://…"`. pulsarctl (streamnative/pulsarctl, pkg/cmdutils) keeps
its contexts in ~/.config/pulsar/config, which is YAML. Its tokens are used from there, and never
written anywhere else. Where both files have a name, ours counts.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulsar_doctor.broker.input_files import text_of
from pulsar_doctor.errors import InputError
from pulsar_doctor.wording.spelling import near

VARIABLE = "PULSAR_DOCTOR_CONTEXT"
PULSARCTL = {  # its name of a setting that is one of ours as it is
    "tls_trust_certs_file_path": "tls_trust_certs",
    "tls_allow_insecure_connection": "tls_allow_insecure",
}
OAUTH2 = {  # its name, and that in the parameters of Pulsar's own tools
    "key_file": "privateKey",
    "issuer_endpoint": "issuerUrl",
    "audience": "audience",
    "scope": "scope",
}
ADMIN = "admin-service-url"
LOGIN = (*PULSARCTL, *OAUTH2, "token", "tokenFile")  # what is read of a login
LEVELS_MOST = 8  # levels; pulsarctl writes three


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
    """All contexts by name, and the name of the current one; None: there is none."""

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
    used = _current_file(environ)
    if _is_there(used):
        current = text_of(used, "the name of the current context in").strip()
    if VARIABLE in environ:  # set to nothing: no context
        current = environ[VARIABLE]
    return Contexts(ctl | _ours(file_of(environ), allowed), current or None)


def use(name: str, environ: Mapping[str, str]) -> None:
    """Makes it the current one, until another is used."""
    file = _current_file(environ)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{name}\n", "utf-8")


def file_of(environ: Mapping[str, str]) -> Path:
    """Where our own contexts are written."""
    folder = environ.get("XDG_CONFIG_HOME") or _home() / ".config"
    return Path(folder) / "pulsar-doctor" / "contexts.toml"


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


def _current_file(environ: Mapping[str, str]) -> Path:
    return file_of(environ).with_name("current-context")


def _ours(file: Path, allowed: frozenset[str]) -> dict[str, ClusterContext]:
    if not _is_there(file):
        return {}
    try:
        tables = tomllib.loads(text_of(file, "the contexts in"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{file} is not TOML: {error}") from None
    return {
        name: ClusterContext(name, file, _settings(name, tables, file, allowed)) for name in tables
    }


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
    """Its contexts, and its current one."""
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
    """What YAML without aliases holds. Raises InputError, which never quotes it: it has tokens.

    An alias is short, and what it stands for may fill the memory. pulsarctl writes none.
    """
    import yaml

    class Bounded(yaml.SafeLoader):
        """Reads few levels, and no aliases."""

        levels = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            """One value, with what is in it."""
            if self.levels == LEVELS_MOST or self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError
            self.levels += 1
            node = super().compose_node(parent, index)
            self.levels -= 1
            return node

    try:
        return yaml.load(text_of(file, "the contexts of pulsarctl in"), Bounded) or {}
    except (yaml.YAMLError, ValueError, RecursionError):  # 2026-99-99 is no date
        raise _foreign(file) from None


def _foreign(file: Path) -> InputError:
    return InputError(f"{file} is not what pulsarctl writes: see `pulsarctl context`")


def _text(value: Any, what: str) -> Any:
    """A text or a flag as it is. Raises InputError for anything else; what: its name."""
    if value is None or isinstance(value, str | bool):
        return value
    raise InputError(f"{what} is not a text; put it in quotes")


def _as_ours(
    name: str, context: Mapping[str, Any], login: Mapping[str, Any] | None, file: Path
) -> dict[str, Any]:
    of = f"context {name} of {file}"
    login = {key: _text((login or {}).get(key), f"{key} of {of}") for key in LOGIN}
    settings = {"admin_url": _text(context.get(ADMIN), f"{ADMIN} of {of}")}
    settings |= {ours: login[theirs] for theirs, ours in PULSARCTL.items()}
    if login["token"] and login["tokenFile"]:
        raise InputError(f"{of} has a token and a tokenFile; keep one of them")
    if login["key_file"]:
        params = {ours: login[theirs] for theirs, ours in OAUTH2.items() if login[theirs]}
        settings |= {"auth_plugin": "oauth2", "auth_params": json.dumps(params)}
    elif login["token"]:
        settings |= {"auth_plugin": "token", "auth_params": f"token:{login['token']}"}
    elif login["tokenFile"]:
        uri = Path(login["tokenFile"]).expanduser().absolute().as_uri()
        settings |= {"auth_plugin": "token", "auth_params": uri}
    return {key: value for key, value in settings.items() if value}
