"""Where settings come from, and which of two wins."""

from __future__ import annotations

from pathlib import Path

import pytest

from pulsar_doctor.broker.settings import Settings, guessed, load, read_client_conf
from pulsar_doctor.errors import InputError
from pulsar_doctor.parts.consume import attach
from tests.support.command_line import answered, environment, pulsar_doctor

CONF = """\
# what Pulsar's own tools read
brokerServiceUrl=pulsar://conf:6650
webServiceUrl: http://conf:8080
authPlugin=org.apache.pulsar.client.impl.auth.AuthenticationToken
authParams=token:a:b=c
tlsAllowInsecureConnection=true
useTls=false
"""


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "client.conf"
    path.write_text(CONF)
    return path


def test_without_anything_the_defaults_hold_and_nothing_set_them():
    assert load({}, {}) == Settings()
    assert load({}, {}).service_url == "pulsar://localhost:6650"


def test_option_before_environment_before_client_conf_before_default(conf):
    environ = {"PULSAR_CLIENT_CONF": str(conf), "PULSAR_DOCTOR_ADMIN_URL": "http://env:8080"}
    settings = load({"service_url": "pulsar://option:6650"}, environ)
    assert settings.service_url == "pulsar://option:6650"
    assert settings.admin_url == "http://env:8080"
    assert settings.auth_params == "token:a:b=c"
    assert settings.tls_allow_insecure is True
    assert settings.origins == {
        "service_url": "option --service-url",
        "admin_url": "environment variable PULSAR_DOCTOR_ADMIN_URL",
        "auth_plugin": f"client.conf {conf}",
        "auth_params": f"client.conf {conf}",
        "tls_allow_insecure": f"client.conf {conf}",
    }


def test_our_own_name_of_client_conf_wins_over_pulsars(conf, tmp_path):
    other = tmp_path / "other.conf"
    other.write_text("brokerServiceUrl=pulsar://other:6650")
    environ = {"PULSAR_CLIENT_CONF": str(conf), "PULSAR_DOCTOR_CLIENT_CONF": str(other)}
    assert load({}, environ).service_url == "pulsar://other:6650"
    assert load({"client_conf": conf}, environ).service_url == "pulsar://conf:6650"


def test_a_client_conf_that_is_not_there_is_an_error(tmp_path):
    with pytest.raises(InputError, match=r"cannot read client\.conf"):
        read_client_conf(tmp_path / "nothing.conf")


NO_PAIR = "line {} of client.conf {} is not KEY=VALUE, such as webServiceUrl=http://broker:8080"
REFUSED = {
    "secret-token\n": NO_PAIR.format(1, "{}"),
    "# ours\nauthPlugin=a\\\n b\nsecret token": NO_PAIR.format(4, "{}"),
    "webServiceUrl http://secret:8080": NO_PAIR.format(1, "{}"),
    '{"webServiceUrl": "secret"}': NO_PAIR.format(1, "{}"),
    "x=1\nwebServiceUlr=secret": "client.conf {} has no setting webServiceUlr: "
    "did you mean webServiceUrl?",
    "webserviceURL=secret": "client.conf {} has no setting webserviceURL: "
    "did you mean webServiceUrl?",
    "secret=1\nadmin-url: secret": "client.conf {} has no setting of Pulsar, such as webServiceUrl",
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_client_conf_is_refused_and_not_repeated(text: str, tmp_path: Path) -> None:
    conf = tmp_path / "client.conf"
    conf.write_text(text)
    with pytest.raises(InputError) as refused:
        load({"client_conf": conf}, {})
    assert str(refused.value) == REFUSED[text].format(conf)


@pytest.mark.parametrize(
    "text", ["", "! nothing\n\n", "useKeyStoreTls=true", "tlsCiphers = x\nauthPlugin =\\\n tls\n"]
)
def test_what_pulsars_own_tools_take_is_taken(text: str, tmp_path: Path) -> None:
    conf = tmp_path / "client.conf"
    conf.write_text(text)
    assert read_client_conf(conf).get("authPlugin", "tls") == "tls"


def test_a_flag_that_is_neither_true_nor_false_is_an_error():
    with pytest.raises(InputError, match="takes true or false"):
        load({}, {"PULSAR_DOCTOR_TLS_ALLOW_INSECURE": "perhaps"})


def test_credentials_are_not_in_what_is_printed_of_settings(conf):
    assert "a:b=c" not in repr(load({"client_conf": conf}, {}))


@pytest.mark.parametrize(
    "arguments",
    [
        ["--service-url", "pulsar://127.0.0.1:1", "consume", "t", "-s", "s"],
        ["consume", "t", "-s", "s", "--service-url", "pulsar://127.0.0.1:1"],
        ["--service-url", "pulsar://127.0.0.1:2", "consume", "t", "-s", "s",
         "--service-url", "pulsar://127.0.0.1:1"],
    ],
)  # fmt: skip
def test_connection_options_stand_before_or_after_the_subcommand(arguments):
    run = answered(*arguments)
    assert run.returncode == 3
    assert "127.0.0.1:1 " in run.stderr


@pytest.mark.parametrize("url", ["orders", "http://broker:8080", "kafka://broker:6651"])
def test_a_service_url_that_cannot_be_tapped_is_said(url):
    run = pulsar_doctor("consume", "t", "-s", "s", "--service-url", url)
    assert run.returncode == 2
    assert len(run.stderr.strip().splitlines()) == 1


def test_the_environment_of_the_test_run_does_not_reach_the_program():
    assert not [name for name in environment() if name.startswith("PULSAR_DOCTOR_S")]


@pytest.mark.parametrize(
    "plugin",
    ["token", "AuthenticationToken", "org.apache.pulsar.client.impl.auth.AuthenticationToken"],
)
def test_a_token_comes_inline_or_from_a_file(plugin, tmp_path):
    path = tmp_path / "token"
    path.write_text("secret\n")
    for params in ("token:secret", "secret", f"file://{path}"):
        assert attach.authentication(Settings(auth_plugin=plugin, auth_params=params)) is not None
    missing = Settings(auth_plugin=plugin, auth_params="file:///nowhere/token")
    with pytest.raises(InputError, match="token file"):
        attach.authentication(missing)


def test_an_authentication_that_is_not_supported_is_named_and_its_parameters_are_not():
    with pytest.raises(InputError, match="athenz") as error:
        attach.authentication(Settings(auth_plugin="athenz", auth_params="canary"))
    assert "canary" not in str(error.value)


def test_a_client_certificate_of_client_conf_takes_both_of_its_files(tmp_path):
    conf = tmp_path / "client.conf"
    conf.write_text("tlsCertificateFilePath=/tls/me.pem\ntlsKeyFilePath=/tls/me.key\n")
    assert load({"client_conf": conf}, {}).certificate == (Path("/tls/me.pem"), Path("/tls/me.key"))
    conf.write_text("tlsCertificateFilePath=/tls/me.pem\n")
    assert load({"client_conf": conf}, {}).certificate is None


ELSEWHERE = {"service_url": "pulsar://broker:6650", "admin_url": "http://broker:8080"}


@pytest.mark.parametrize(
    ("named", "other"),
    [
        ({}, None),
        (ELSEWHERE, None),
        ({"service_url": ELSEWHERE["service_url"]}, "admin_url"),
        ({"admin_url": ELSEWHERE["admin_url"]}, "service_url"),
        ({"service_url": "pulsar://localhost:6650"}, None),
        ({"service_url": "pulsar://127.0.0.1:6650/"}, None),
        ({"admin_url": "http://[::1]:8080"}, None),
        ({"service_url": "pulsar://127.0.0.1:16650"}, "admin_url"),
        ({"service_url": ELSEWHERE["service_url"], "admin_url": "http://localhost:8080"}, None),
    ],
)
def test_a_default_beside_an_address_that_was_named_may_be_another_clusters(
    named: dict[str, str], other: str | None
) -> None:
    assert guessed(Settings(**named, origins=dict.fromkeys(named, "option"))) == other  # type: ignore[arg-type]
    assert guessed(Settings(**named, origins=dict.fromkeys(named, "option"), sandbox=True)) is None  # type: ignore[arg-type]
