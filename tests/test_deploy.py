"""What is ready to run in deploy/: its own tool checks each file, and its commands are run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import kubernetes_validate
import pytest
import yaml

import pulsar_doctor
from pulsar_doctor.cli import module_of
from tests.support.wanting import wanting

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
CUSTOMIZED = yaml.safe_load((KUBERNETES / "kustomization.yaml").read_text())
ACTION = yaml.safe_load((DEPLOY / "action/action.yml").read_text())
# Runs a command in a root of its own, which has these paths of the machine, read-only.
CLEAN_ROOT = """
set -e
root=$1; user=$2; shift 2
mount --bind "$root" "$root"
for each in $SEEN; do
  mkdir -p "$root${each%/*}"
  if [ -d "$each" ]; then mkdir -p "$root$each"; else touch "$root$each"; fi
  mount --bind "$each" "$root$each"
  mount -o remount,bind,ro "$root$each"
done
mkdir -p "$root/tmp"
[ "$WRITABLE" ] || mount -o remount,bind,ro "$root"
mount -t tmpfs tmpfs "$root/tmp"
exec /usr/sbin/chroot --userspec="$user" "$root" "$@"
"""
CONSUMER = """
import os, sys, time, pulsar
client = pulsar.Client(os.environ["PULSAR_SERVICE_URL"])
consumer = client.subscribe(os.environ["TOPIC"], "billing", pulsar.ConsumerType.Shared)
acknowledge = consumer.acknowledge
while True:
    {}
"""
needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or not all(map(shutil.which, ("unshare", "/usr/sbin/chroot"))),
    reason=wanting("root"),
)


def resources() -> Iterator[tuple[str, dict[str, object]]]:
    for name in CUSTOMIZED["resources"]:
        for document in yaml.safe_load_all((KUBERNETES / name).read_text()):
            yield name, document


def containers() -> Iterator[dict[str, object]]:
    for _, document in resources():
        spec = document.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec).get("template", {}).get("spec", {})
        yield from spec.get("containers", ())


def test_kubernetes_knows_each_field_of_the_manifests() -> None:
    kinds = []
    for _, document in resources():
        kubernetes_validate.validate(document, "1.37", strict=True)
        kinds.append(document["kind"])
    assert sorted(kinds) == ["CronJob", "Deployment", "Namespace", "NetworkPolicy", "Service"]


def test_a_wrong_field_of_a_manifest_is_noticed() -> None:
    [deployment] = [each for _, each in resources() if each["kind"] == "Deployment"]
    deployment["spec"]["replica"] = 1
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, "1.37", strict=True)


def test_what_the_debug_containers_customize_is_a_container() -> None:
    for path in KUBERNETES.glob("debug-*.yaml"):
        one = {"name": "debugger", "image": "i"} | yaml.safe_load(path.read_text())
        pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
        pod["spec"] = {"containers": [one]}
        kubernetes_validate.validate(pod, "1.37", strict=True)


def test_the_manifests_need_what_is_there_and_only_two_things_are_to_be_filled_in() -> None:
    [cluster] = CUSTOMIZED["configMapGenerator"]
    lines = (KUBERNETES / cluster["envs"][0]).read_text().splitlines()
    assert [line.partition("=")[0] for line in lines] == ["PULSAR_DOCTOR_ADMIN_URL"]
    [image] = CUSTOMIZED["images"]
    assert image["newTag"] == pulsar_doctor.__version__.partition(".dev")[0]
    assert {each["image"] for each in containers()} == {image["name"]}
    for each in containers():
        assert {"configMapRef": {"name": cluster["name"]}} in each["envFrom"]


def test_no_container_of_a_manifest_may_do_more_than_it_needs() -> None:
    for each in containers():
        assert each["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert each["resources"]["limits"].keys() == {"cpu", "memory"}
    assert not any("Role" in each["kind"] for _, each in resources())


def commands() -> Iterator[list[str]]:
    """What the manifests and units run, without the program's name."""
    yield from (each["args"] for each in containers())
    for unit in DEPLOY.glob("systemd/*.service"):
        [line] = re.findall("^ExecStart=(.*)$", unit.read_text(), re.M)
        yield shlex.split(line)[1:]


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_the_command_line_takes_what_the_manifests_and_units_run(command: list[str]) -> None:
    parsed = module_of(command[0]).command.make_context(command[0], command[1:])
    assert parsed.params


@pytest.mark.skipif(not shutil.which("kustomize"), reason=wanting("kustomize"))
def test_kustomize_builds_them() -> None:
    run = ["kustomize", "build", KUBERNETES]
    built = subprocess.run(run, capture_output=True, text=True, check=True).stdout
    assert "image: registry.example/pulsar-doctor:" in built


@pytest.mark.usefixtures("outside")
def test_the_action_is_one_by_the_published_schema() -> None:
    check = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.github-actions"]
    subprocess.run([*check, DEPLOY / "action/action.yml"], check=True)
    used = set(re.findall(r"inputs\.([\w-]+)", (DEPLOY / "action/action.yml").read_text()))
    assert used == ACTION["inputs"].keys()


DAILY = ("works", "hangs")  # what is tried each night; all of them take minutes
CONSUMERS = {
    "works": ("acknowledge(consumer.receive())", 0, "0"),
    "hangs": ("time.sleep(60)", 1, "1"),
    "forgets": ("consumer.receive()", 1, "1"),
    "gives back": ("consumer.negative_acknowledge(consumer.receive())", 1, "1"),
    "crashes": ("sys.exit(7)", 7, "7"),
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(each, marks=[pytest.mark.slow] * (each not in DAILY)) for each in CONSUMERS],
)
def test_the_shell_of_the_action_says_what_a_consumer_did(
    broker, tmp_path: Path, name: str
) -> None:
    [check] = [step for step in ACTION["runs"]["steps"] if step.get("id") == "check"]
    work, code, output = CONSUMERS[name]
    (tmp_path / "consumer.py").write_text(CONSUMER.format(work))
    (tmp_path / "pulsar-doctor-path").mkdir()
    program = Path(sys.executable).parent / "pulsar-doctor"
    (tmp_path / "pulsar-doctor-path/pulsar-doctor").symlink_to(program)
    inputs = {each: str(ACTION["inputs"][each].get("default", "")) for each in ACTION["inputs"]}
    inputs |= {"consumer": f"{sys.executable} consumer.py", "for": "15s", "expect-within": "8s"}
    ours = {each: value for each, value in os.environ.items() if not each.startswith("PULSAR")}
    variables = {
        name: inputs[re.search(r"inputs\.([\w-]+)", value)[1]]
        for name, value in check["env"].items()
    }
    ran = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", check["run"]],
        cwd=tmp_path,
        env=ours
        | variables
        | {
            "RUNNER_TEMP": str(tmp_path),
            "GITHUB_ACTION_PATH": str(DEPLOY / "action"),
            "GITHUB_OUTPUT": str(tmp_path / "output"),
            "PULSAR_DOCTOR_CACHE": str(tmp_path / "cache"),
            "PULSAR_DOCTOR_PULSAR_HOME": str(broker.home),
        },
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert ran.returncode == code, ran.stderr
    outputs = dict(each.split("=") for each in (tmp_path / "output").read_text().splitlines())
    assert outputs == {"exit-code": output, "trace": str(tmp_path / "smoke.ptrace")}
    assert (tmp_path / "smoke.ptrace").is_dir()
    assert ("::error" in ran.stdout) == (code != 0), ran.stdout


@pytest.mark.skipif(not shutil.which("actionlint"), reason=wanting("actionlint"))
def test_the_workflows_and_the_action_that_they_use_pass_actionlint() -> None:
    subprocess.run(["actionlint"], cwd=ROOT, check=True)


@pytest.mark.skipif(not shutil.which("hadolint"), reason=wanting("hadolint"))
def test_the_dockerfile_passes_hadolint() -> None:
    run = ["hadolint", "--failure-threshold", "warning", DEPLOY / "Dockerfile"]
    subprocess.run(run, check=True)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason=wanting("systemd-analyze"))
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    for unit in DEPLOY.glob("systemd/*"):
        text = re.sub("^Documentation=.*\n", "", unit.read_text(), flags=re.M)
        (tmp_path / unit.name).write_text(
            text.replace("/opt/pulsar-doctor/bin/pulsar-doctor", "/bin/true")
        )
    for unit in tmp_path.iterdir():
        run = ["systemd-analyze", "verify", unit]
        found = subprocess.run(run, capture_output=True, text=True, check=False)
        assert (found.returncode, found.stderr) == (0, "")


def steps(target: str) -> Iterator[tuple[str, str]]:
    """What the Dockerfile does for a target, beginning with the stage that it is made from."""
    text = (DEPLOY / "Dockerfile").read_text()
    for stage in re.split("^(?=FROM )", text, flags=re.M)[1:]:
        lines = re.findall("^([A-Z]+) (.*)$", stage, re.M)
        start = re.fullmatch(r"(\S+) AS (\S+)", lines[0][1])
        if start and start[2] == target:
            for what, value in lines[1:]:
                source = re.match(r"--from=(\S+) ", value) if what == "COPY" else None
                yield from steps(source[1]) if source else [(what, value)]


@needs_root
@pytest.mark.parametrize(
    "target",
    [
        pytest.param("base", marks=pytest.mark.timeout(300)),
        pytest.param("all", marks=[pytest.mark.slow, pytest.mark.timeout(1200)]),
    ],
)
def test_the_steps_of_the_image_work_in_a_clean_root(target: str, tmp_path: Path) -> None:
    """Without Docker: a Python and what it needs of the system is all that is there."""
    root = tmp_path / "root"
    shutil.copytree(ROOT, root / "src", ignore=_outside_the_context)
    (root / "opt").mkdir()
    for link in ("bin", "lib", "lib64"):
        (root / link).symlink_to(f"usr/{link}")
    pip = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    path = pip | {"PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin", "HOME": "/tmp", "WRITABLE": "1"}
    last = dict(steps(target))
    for what, value in steps(target):
        if what == "RUN":
            built = in_root(root, ["/usr", "/etc/ssl"], ["sh", "-euc", f"cd /src; {value}"], path)
            assert built.returncode == 0, built.stderr
    shutil.rmtree(root / "src")
    state = "tests/states/4.0.8/no-consumer.jsonl.gz"
    shutil.copy(ROOT / state, root / "opt/state.jsonl.gz")
    # What runs is nobody, may write nothing, and finds no shell.
    judged = in_root(
        root, ["/usr/lib", "/usr/lib64"],
        [*yaml.safe_load(last["ENTRYPOINT"]), "stall-check", "--stats", "/opt/state.jsonl.gz"],
        dict(each.split("=", 1) for each in shlex.split(last["ENV"])), user=last["USER"],
    )  # fmt: skip
    assert "no consumer is attached" in judged.stdout, judged.stderr
    assert (judged.returncode, judged.stderr) == (0, "")


def _outside_the_context(folder: str, names: list[str]) -> set[str]:
    """What the .dockerignore leaves out."""
    context = re.findall("^!(.*)$", (DEPLOY / "Dockerfile.dockerignore").read_text(), re.M)
    here = {name: str((Path(folder) / name).relative_to(ROOT)) for name in names}
    return {
        name
        for name, path in here.items()
        if name == "__pycache__"
        or not any(
            f"{each}/".startswith(f"{path}/") or path.startswith(f"{each}/") for each in context
        )
    }


def in_root(
    root: Path, seen: list[str], command: list[str], variables: dict[str, str], user: str = "0:0"
) -> subprocess.CompletedProcess[str]:
    """Runs it in this root, with these paths of the machine, its network and Python."""
    network = ["/etc/resolv.conf", "/etc/hosts", "/etc/pip.conf"]
    seen = [*seen, sys.base_prefix, "/dev/null", "/dev/urandom", *filter(os.path.exists, network)]
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", CLEAN_ROOT, "sh", root, user, *command],
        env={"WRITABLE": ""} | variables | {"SEEN": " ".join(seen)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
