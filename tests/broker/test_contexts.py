"""Contexts of our own and of pulsarctl: which one is used, for what, and what is never printed."""

from __future__ import annotations

import json
import re
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from pulsar_doctor.broker.settings import Settings, load
from pulsar_doctor.checkup.result import Checkup, Cluster
from pulsar_doctor.errors import InputError
from pulsar_doctor.report.stall_check.header import header
from pulsar_doctor.wording.addresses import bare
from tests.broker.http_broker import Reply, serving
from tests.support.command_line import answered, environment, pulsar_doctor

PULSARCTL = """\
auth-info:
  {name}:
    locationoforigin: /home/me/.config/pulsar/config
    tls_trust_certs_file_path: ""
    tls_allow_insecure_connection: false
{login}
contexts:
  {name}:
    admin-service-url: http://ctl:8080
    bookie-service-url: http://ctl:8083
current-context: "{current}"
"""
OURS = """\
[prod]
admin-url = "http://prod:8080"
service-url = "pulsar://prod:6650"
auth-plugin = "token"
auth-params = "token:canary"
"""
TOKEN = '    token: canary\n    tokenFile: ""'


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / ".config"))
    return tmp_path


def written(home: Path, *, ours: str = OURS, login: str = TOKEN, current: str = "") -> None:
    for folder, name, text in (
        ("pulsar-doctor", "contexts.toml", ours),
        ("pulsar", "config", PULSARCTL.format(name="ctl", login=login, current=current)),
    ):
        (home / ".config" / folder).mkdir(parents=True, exist_ok=True)
        (home / ".config" / folder / name).write_text(text)


def test_without_a_file_there_is_no_context(home: Path) -> None:
    assert load({}, {}) == Settings()
    with pytest.raises(InputError, match="there is no context 'prod'"):
        load({"context": "prod"}, {})


def test_a_mistyped_name_is_said_with_those_that_are_alike(home: Path) -> None:
    written(home)
    with pytest.raises(InputError, match="did you mean prod"):
        load({"context": "prud"}, {})


@pytest.mark.parametrize(
    ("login", "plugin", "params"),
    [
        (TOKEN, "token", "token:canary"),
        ("    tokenFile: /run/my token", "token", "file:///run/my%20token"),
        ("    token: ''", None, None),
        ("    key_file: /k.json\n    issuer_endpoint: https://i\n    audience: a", "oauth2",
         '{"privateKey": "/k.json", "issuerUrl": "https://i", "audience": "a"}'),
    ],
)  # fmt: skip
def test_pulsarctls_login_is_used(
    home: Path, login: str, plugin: str | None, params: str | None
) -> None:
    written(home, login=login)
    found = load({"context": "ctl"}, {})
    assert (found.admin_url, found.context) == ("http://ctl:8080", "ctl")
    assert (found.auth_plugin, found.auth_params) == (plugin, params)
    assert found.tls_allow_insecure is False
    assert "canary" not in repr(found)


ENV = {"PULSAR_DOCTOR_SERVICE_URL": "pulsar://env:6650"}


@pytest.mark.parametrize(
    ("options", "environ", "admin", "service"),
    [
        ({"context": "prod", "admin_url": "http://o:1"}, ENV, "http://o:1", "pulsar://prod:6650"),
        ({"context": "prod"}, ENV, "http://prod:8080", "pulsar://prod:6650"),
        ({}, ENV, "http://localhost:8080", "pulsar://env:6650"),
        ({}, ENV | {"PULSAR_DOCTOR_CONTEXT": "prod"}, "http://localhost:8080", "pulsar://env:6650"),
        ({}, {"PULSAR_DOCTOR_CONTEXT": "prod"}, "http://prod:8080", "pulsar://prod:6650"),
        ({}, {}, "http://ctl:8080", "pulsar://localhost:6650"),
        ({}, {"PULSAR_DOCTOR_CONTEXT": ""}, "http://localhost:8080", "pulsar://localhost:6650"),
        ({"context": ""}, {}, "http://localhost:8080", "pulsar://localhost:6650"),
        ({"sandbox": True}, {}, "http://localhost:8080", "pulsar://localhost:6650"),
    ],
)  # fmt: skip
def test_option_then_context_then_environment_then_current_context(
    home: Path, options: dict[str, Any], environ: dict[str, str], admin: str, service: str
) -> None:
    written(home, current="ctl")
    found = load(options, environ)
    assert (found.admin_url, found.service_url) == (admin, service)


def test_no_token_goes_to_a_cluster_that_it_is_not_for(home: Path) -> None:
    written(home, current="prod")
    conf = home / "client.conf"
    conf.write_text("webServiceUrl=http://conf:8080\nauthPlugin=token\nauthParams=token:conf\n")
    assert load({"context": "ctl"}, {"PULSAR_CLIENT_CONF": str(conf)}).auth_params == "token:canary"
    written(home, login="    token: ''")
    assert load({"context": "ctl"}, {"PULSAR_CLIENT_CONF": str(conf)}).auth_params is None
    assert load({"admin_url": "http://elsewhere:8080"}, {}).auth_params is None
    assert load({"client_conf": conf}, {}).auth_params == "token:conf"
    environ = {"PULSAR_DOCTOR_AUTH_PARAMS": "token:env"}  # alone, it is for whatever is named
    assert load({"context": "ctl"}, environ).auth_params == "token:env"


@pytest.mark.parametrize(
    ("ours", "wrong"),
    [
        ("[prod]\nadmin-ulr = 'x'", "has no setting admin-ulr; did you mean admin-url"),
        ("[prod\n", "is not TOML"),
        ("prod = 'http://x'", r"write \[prod\] above"),
        ("[prod]\nadmin-url = 5", "is not a text in quotes"),
        ("a = " + "[" * 50_000, "is not TOML: maximum recursion"),
        ("a = " + "9" * 5_000, "is not TOML: Exceeds the limit"),
        (".".join("a" * 60_000) + " = 1", "has a key of more than 32 parts"),
        ("x = {" + "\"a\".'b'.c ." * 30 + "d = 1}", "has a key of more than 32 parts"),
        ("# " + "x" * 300_000, "is longer than 256 KiB"),
        ('[prod]\ntls-key = "\\u0000"', "cannot be the name of a file"),
    ],
    ids=count(),
)
def test_what_is_wrong_in_a_file_is_said(home: Path, ours: str, wrong: str) -> None:
    written(home, ours=ours)
    with pytest.raises(InputError, match=wrong):
        load({"context": "prod"}, {})


@pytest.mark.parametrize("login", ["    token: [canary", TOKEN.replace('""', "x"), "  - canary"])
def test_a_wrong_file_of_pulsarctl_is_said_without_its_token(home: Path, login: str) -> None:
    written(home, login=login)
    with pytest.raises(InputError, match=r"pulsarctl|tokenFile") as error:
        load({"context": "ctl"}, {})
    assert "canary" not in str(error.value)


BIG = "a: &a [canary]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in pairwise("abcdefghijk")
)


@pytest.mark.parametrize(
    ("written_there", "wrong"),
    [
        (BIG + "auth-info: {c: {token: *k}}\ncontexts: {c: {}}", "is not what pulsarctl writes"),
        (BIG + "contexts: {c: {admin-service-url: *k}}", "is not what pulsarctl writes"),
        ("[" * 20_000, "is not what pulsarctl writes"),
        ("a: {" * 5_000, "is not what pulsarctl writes"),
        ("contexts: 2026-99-99", "is not what pulsarctl writes"),
        (f"contexts: {'1' * 5_000}", "is not what pulsarctl writes"),
        ("contexts: [c]", "is not what pulsarctl writes"),
        (
            "auth-info: {c: {tls_allow_insecure_connection: 5}}\ncontexts: {c: {}}",
            "neither true nor",
        ),
        ("auth-info: {c: {tokenFile: true}}\ncontexts: {c: {}}", "tokenFile of context c .*true"),
        ("auth-info: {c: {tokenFile: ~nouser/x}}\ncontexts: {c: {}}", "tokenFile .*name of a file"),
        ('auth-info: {c: {tokenFile: "\\uD800"}}\ncontexts: {c: {}}', "tokenFile .*name of a file"),
        ("auth-info: {c: {token: [~]}}\ncontexts: {c: {}}", "token of context c .*a text"),
        *(
            (f"contexts: {{c: {{admin-service-url: {tagged}}}}}", "is not what pulsarctl writes")
            for tagged in ('!!int ""', "!!bool x", "!!timestamp x", '!!float ""', "! x", "!!map {}")
        ),
        ("contexts: {c: {}}\nx: " + "1:" * 500_000, "is longer than 256 KiB"),
        ("auth-info: {c: {token: [canary]}}\ncontexts: {c: {}}", "token of context c .*a text"),
        ("contexts: {c: {admin-service-url: [x]}}", "admin-service-url of context c .*a text"),
        ("current-context: [c]", "current-context of .*a text"),
    ],
    ids=count(),
)
def test_hostile_yaml_is_refused_in_one_sentence(
    home: Path, written_there: str, wrong: str
) -> None:
    (home / ".config" / "pulsar").mkdir(parents=True)
    (home / ".config" / "pulsar" / "config").write_text(written_there)
    with pytest.raises(InputError, match=wrong) as error:
        load({"context": "c"}, {})
    assert "canary" not in str(error.value)


@pytest.mark.parametrize(("text", "flag"), [("true", True), ("True", True), ("false", False)])
def test_a_flag_of_pulsarctl_is_true_or_false(home: Path, text: str, flag: bool) -> None:
    written(home, login=f"    tls_allow_insecure_connection: {text}")
    assert load({"context": "ctl"}, {}).tls_allow_insecure is flag


@pytest.mark.parametrize("nothing", ["", "~", "null", "''", '""'])
def test_a_text_of_pulsarctl_is_taken_as_it_is_written(home: Path, nothing: str) -> None:
    login = (
        f"    token: 0123\n    tokenFile: {nothing}\n    since: 2026-99-99\n    n: {'1:' * 9999}1"
    )
    written(home, login=login)
    found = load({"context": "ctl"}, {})
    assert found.auth_params == "token:0123"
    assert found.tls_trust_certs is None
    assert found.tls_allow_insecure is False


def test_the_header_names_cluster_and_context() -> None:
    run = Checkup("broker", [])
    run.cluster = Cluster("eu-1", "http://broker:8080", "4.0.8", "prod")
    assert header(run).startswith("context prod, eu-1 at http://broker:8080, Pulsar 4.0.8; ")


def test_context_lists_shows_and_chooses_and_never_prints_a_token(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(home)
    monkeypatch.setattr("tests.support.command_line.environment", lambda _: _without_a_context())
    listed = answered("context", "list")
    assert [line.split()[:2] for line in listed.stdout.splitlines()] == [
        ["ctl", "http://ctl:8080"], ["prod", "http://prod:8080"],
    ]  # fmt: skip
    assert answered("context", "show").returncode == 2
    assert answered("context", "use", "prud").returncode == 2
    assert answered("context", "use", "prod").stderr == "prod is the current context\n"
    shown = answered("context", "show")
    told = json.loads(answered("context", "list", "-o", "json").stdout)["contexts"]
    assert [each["name"] for each in told if each["current"]] == ["prod"]
    assert {each["auth_params"] for each in told} == {"given"}
    assert "canary" not in listed.stdout + shown.stdout + json.dumps(told)
    asked = pulsar_doctor(
        "produce", "orders", "--context", "ctl", "--service-url", "pulsar://127.0.0.1:1"
    )
    assert asked.stderr.startswith("context ctl: http://ctl:8080\n")


def _without_a_context() -> dict[str, str]:
    kept = environment()
    del kept["PULSAR_DOCTOR_CONTEXT"]
    return kept


def test_vv_shows_each_request_and_where_each_setting_comes_from(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(home)
    monkeypatch.setattr("tests.support.command_line.environment", lambda _: _without_a_context())
    asked = ("stall-check", "orders", "--window", "0s", "--context", "prod")
    with serving(lambda _: Reply(document={})) as web:
        run = pulsar_doctor("-v", *asked, "--admin-url", web.url, "-v")
    lines = run.stderr.splitlines()
    assert lines[:3] == [
        f"admin-url {web.url} (option --admin-url)",
        f"auth-params given (context prod of {home}/.config/pulsar-doctor/contexts.toml)",
        f"auth-plugin token (context prod of {home}/.config/pulsar-doctor/contexts.toml)",
    ]
    asked_url = re.escape(f"{web.url}/admin/v2/persistent/public/default/orders/partitions")
    assert any(re.fullmatch(rf"GET {asked_url}: 200 in \d+ ms", line) for line in lines), lines
    assert "canary" not in run.stderr
    quieter = pulsar_doctor(*asked, "--admin-url", web.url, "-v")
    assert "GET" not in quieter.stderr


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://me:canary@broker:8080/admin?token=canary#canary", "http://broker:8080/admin"),
        ("pulsar+ssl://[::1]:6651", "pulsar+ssl://[::1]:6651"),
        ("http://a:8080,b:8080/x", "http://a:8080,b:8080/x"),
    ],
)
def test_a_url_is_shown_without_what_may_be_secret(url: str, shown: str) -> None:
    assert bare(url) == shown
