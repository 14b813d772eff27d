"""The files that a project is expected to have are there, complete, and agree with each other."""

from __future__ import annotations

import ast
import importlib
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
import yaml

import pulsar_doctor
from pulsar_doctor.diagnosis.causes import RETIRED, load
from tests import manpages

ROOT = Path(__file__).parent.parent
CHANGELOG_BYTES_MOST = 8192
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


# How a limit is written, by how the name of its constant ends; the first that is whole.
UNITS = {
    "BYTES": ((1 << 30, " GiB"), (1 << 20, " MiB"), (1 << 10, " KiB"), (1, " bytes")),
    "MILLISECONDS": ((1, " ms"),),
    "SECONDS": ((1, " s"),),
    "": ((1, ""),),
}
LIMIT = re.compile(r"`([a-z_.]+)\.([A-Z_]+)`")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[set[str], set[str]]:
    """The names in a wheel and in a source archive of this tree."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-t", "sdist", "-d", folder]
    dated = {**os.environ, "SOURCE_DATE_EPOCH": "946641600"}
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, env=dated)
    with zipfile.ZipFile(next(folder.glob("*.whl"))) as wheel:
        in_wheel = set(wheel.namelist())
        page = next(name for name in in_wheel if name.endswith("/pulsar-doctor.1"))
        assert b' 1 "1999-12-31" "' in wheel.read(page)  # the day of the build
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        in_archive = {name.partition("/")[2] for name in archive.getnames()}
    return in_wheel, in_archive


def test_a_wheel_holds_the_licence_the_types_and_every_manual_page(
    built: tuple[set[str], set[str]],
) -> None:
    version = f"pulsar_doctor-{pulsar_doctor.__version__}"
    pages = {f"share/man/man{name[-1]}/{name}" for name in manpages.pages()}
    wanted = {
        f"{version}.dist-info/licenses/LICENSE",
        f"{version}.dist-info/licenses/NOTICE",
        "pulsar_doctor/py.typed",
        "pulsar_doctor/parts/examine/jvm/agent.jar",
        "pulsar_doctor/report/stall_check/schema.json",
        "pulsar_doctor/report/documents.json",
        *(f"{version}.data/data/{page}" for page in pages),
        f"{version}.data/data/share/bash-completion/completions/pulsar-doctor",
        f"{version}.data/data/share/zsh/site-functions/_pulsar-doctor",
        f"{version}.data/data/share/fish/vendor_completions.d/pulsar-doctor.fish",
    }
    assert wanted <= built[0]
    assert {name.partition("/")[0] for name in built[0]} == {
        "pulsar_doctor",
        f"{version}.data",
        f"{version}.dist-info",
    }


def test_each_cause_that_git_ever_had_is_there_or_retired() -> None:
    folders = ("pulsar_doctor/rules", "pulsar_doctor/diagnosis/causes")
    line = ["git", "log", "--format=", "--name-only", "--diff-filter=AR", "--", *folders]
    said = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    stems = {Path(name).stem for name in said.split() if name.startswith(folders)}
    ever = {stem.replace("_", "-") for stem in stems if not stem.startswith("_")}
    assert len(ever) >= 46 or (ROOT / ".git/shallow").exists()
    assert ever <= {cause.code for cause in load()} | RETIRED.keys()


def test_a_source_archive_holds_all_that_git_does(built: tuple[set[str], set[str]]) -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    there = {name for name in listed.stdout.splitlines() if (ROOT / name).exists()}
    assert there - built[1] == set()


def test_the_notice_names_every_file_with_field_numbers_of_the_protocol() -> None:
    notice = (ROOT / "NOTICE").read_text()
    protos = [path.relative_to(ROOT) for path in (ROOT / "pulsar_doctor").rglob("*.proto")]
    assert len(protos) == 2
    assert [path for path in protos if str(path) not in notice] == []


def test_the_home_page_is_the_same_in_the_program_and_in_the_package() -> None:
    assert PROJECT["project"]["urls"].get("Homepage", "") == pulsar_doctor.HOME_PAGE


def test_the_changelog_begins_with_what_is_not_released_and_lists_what_programs_rely_on() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    versions = re.findall(r"^## \[(.+?)\](?: - .+)?$", changelog, re.M)
    version, development, _ = pulsar_doctor.__version__.partition(".dev")
    assert versions[0] == "Unreleased"
    assert (version in versions) != bool(development)
    newest = versions[not development]  # that of this tree
    section = changelog.partition(f"## [{newest}]")[2].partition("\n## ")[0]
    assert not development or f"This becomes {version}, " in section
    assert "### What programs rely on\n\n| what | contract |" in section
    assert development or newest == version
    assert len(changelog.encode()) <= CHANGELOG_BYTES_MOST


def test_ci_runs_the_command_of_the_readme_and_then_the_nightly_lane() -> None:
    every_time, nightly = ci_commands()
    assert "-c constraints.txt" in every_time
    assert f"\n{every_time}\n" in (ROOT / "README.md").read_text()
    assert nightly == f"{every_time.rpartition(' && ')[2]} -m nightly"


def test_what_fails_beside_other_tests_in_ci_decides_alone(tmp_path) -> None:
    """A test that passes then is believed; one that fails again fails CI."""
    for alone, passes in ((0, True), (1, False)):
        script = (
            "set -euo pipefail\n"
            + (ROOT / ".ci/run").read_text().partition('/.."\n')[2].partition("\npython3")[0]
            + "\nfalse || alone\nfalse || alone -m nightly\necho passed\n"
        )
        venv = tmp_path / f"{alone}/.venv/bin/pytest"
        venv.parent.mkdir(parents=True)
        venv.write_text(f'#!/bin/sh\necho pytest "$@"\nexit {alone}\n')
        venv.chmod(0o755)
        ran = subprocess.run(
            ["bash", "-c", script],
            check=False,
            cwd=tmp_path / str(alone),
            capture_output=True,
            text=True,
        )
        assert (ran.returncode == 0) is passes, ran
        assert "-n 1 --lf --lfnf none" in ran.stdout
        assert ("passed" in ran.stdout.splitlines()) is passes


def ci_commands() -> list[str]:
    lines = (ROOT / ".ci/run").read_text().splitlines()
    both = [line for line in lines if " || alone" in line]
    assert lines[-2:] == both
    return [line.partition(" || alone")[0] for line in both]


def test_every_package_that_the_tests_need_has_an_exact_version() -> None:
    text = (ROOT / "constraints.txt").read_text()
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    exact = {canonical_name(line.partition("==")[0]) for line in lines}
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = {
        canonical_name(re.split(r"[\[<>=;]", each)[0])
        for name in extras
        for each in [*PROJECT["project"]["dependencies"], *extras[name]]
    }
    assert wanted - exact == {"pulsar-doctor"}
    assert [line for line in lines if not re.fullmatch(r"[\w.-]+==[\w.]+", line)] == []


def requirements() -> dict[str, str]:
    """The name of each package that the program itself needs -> its range of versions."""
    extras = PROJECT["project"]["optional-dependencies"]
    listed = [each for name in extras if name != "test" for each in extras[name]]
    parts = [
        re.match(r"([\w.-]+)(?:\[[\w,]+\])?([^;]*)", each)
        for each in [*PROJECT["project"]["dependencies"], *listed]
    ]
    found = {canonical_name(part[1]): part[2] for part in parts if part}
    return {name: versions for name, versions in found.items() if name != "pulsar-doctor"}


def test_every_package_that_is_imported_is_declared() -> None:
    names, declared = packages_distributions(), requirements().keys()
    for code in (ROOT / "pulsar_doctor").rglob("*.py"):
        for node in ast.walk(ast.parse(code.read_text())):
            if isinstance(node, ast.Import):
                modules = [each.name for each in node.names]
            else:
                modules = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for module in {each.partition(".")[0] for each in modules}:
                if module in {*sys.stdlib_module_names, "pulsar_doctor"}:
                    continue
                owners = ["protobuf"] if module == "google" else names[module]
                known = declared & {canonical_name(each) for each in owners}
                assert known, f"{code.relative_to(ROOT)} imports {module}, which nothing declares"


def test_every_dependency_ends_below_the_major_version_after_the_tried_one() -> None:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    tried = dict(line.split("==") for line in lines if not line.startswith("#"))
    exact = {canonical_name(name): version for name, version in tried.items()}
    for name, versions in requirements().items():
        major = int(exact[name].partition(".")[0])
        assert re.fullmatch(rf">=[\d.]+,<{major + 1}", versions.strip()), f"{name}{versions}"


def canonical_name(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize("name", ["bug", "feature", "wrong-verdict"])
def test_an_issue_form_asks_each_question_under_a_name_of_its_own(name: str) -> None:
    form = yaml.safe_load((ROOT / f".github/ISSUE_TEMPLATE/{name}.yml").read_text())
    assert {"name", "description", "body"} <= form.keys()
    questions = [each for each in form["body"] if each["type"] != "markdown"]
    assert {each["type"] for each in questions} <= {"input", "textarea"}
    assert all(each["attributes"]["label"] for each in questions)
    assert len({each["id"] for each in questions}) == len(questions)


def test_a_wrong_verdict_is_reported_with_its_json() -> None:
    form = (ROOT / ".github/ISSUE_TEMPLATE/wrong-verdict.yml").read_text()
    assert "stall-check TOPIC -s SUBSCRIPTION -o json" in form
    assert "payload" in form


def test_the_public_workflow_runs_what_the_repository_runs() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
    install = ci_commands()[0].rpartition(" && ")[0]
    commands = {name: [step.get("run") for step in job["steps"]] for name, job in jobs.items()}
    assert install in commands["pure"]
    assert ci_commands()[0] in commands["every-time"]
    assert "bash .ci/run" in commands["nightly"]
    pythons = jobs["pure"]["strategy"]["matrix"]["python"]
    classified = [
        each.rpartition(" ")[2]
        for each in PROJECT["project"]["classifiers"]
        if re.search(r":: 3\.\d+$", each)
    ]
    assert set(classified) <= set(pythons)


def test_the_limits_that_the_security_page_lists_are_those_of_the_code() -> None:
    lines = (ROOT / "SECURITY.md").read_text().splitlines()
    rows = [line.split("|") for line in lines if LIMIT.search(line)]
    assert len(rows) > 15
    for _, _, limits, constants, _ in rows:
        values = [
            as_written(name, getattr(importlib.import_module(f"pulsar_doctor.{module}"), name))
            for module, name in LIMIT.findall(constants)
        ]
        written = re.findall(r"[\d,]*\d(?: [GMK]iB| bytes| ms| s\b)?", limits)
        assert set(written) == set(values), constants


def as_written(name: str, value: float) -> str:
    """A limit as a person reads it."""
    ending = next(each for each in UNITS if each in name)
    size, unit = next(each for each in UNITS[ending] if value % each[0] == 0)
    return f"{value / size:,.0f}{unit}"
