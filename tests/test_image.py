"""The image's recipe: what it is built from is pinned, and nobody in it is root."""

import py_compile
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.installation.readme import PAGES

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


CONSTRAINTS = (ROOT / "scripts" / "constraints.txt").read_text()
BUILD_CONSTRAINTS = (ROOT / "scripts" / "build-constraints.txt").read_text()
TRACING_CONSTRAINTS = (ROOT / "scripts" / "tracing-constraints.txt").read_text()
DEV_CONSTRAINTS = (ROOT / "scripts" / "dev-constraints.txt").read_text()
INSTALL = (ROOT / "scripts" / "install").read_text()
READMES = "".join(path.read_text() for path in PAGES)
TIMED = bytes(4)
BY_HASH = bytes([1, 0, 0, 0])
"""How the second field of a .pyc says what its source is compared by; here, by nothing."""
PIN = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)(?: ; .+?)? \\$", re.MULTILINE)


def pinned(constraints: str = CONSTRAINTS) -> dict[str, str]:
    return {canonicalize_name(name): version for name, version in PIN.findall(constraints)}


def test_every_dependency_is_pinned_within_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [Requirement(text) for text in project["dependencies"]]
    versions = pinned()
    outside = [
        str(requirement)
        for requirement in requirements
        if not requirement.specifier.contains(
            versions.get(canonicalize_name(requirement.name), "0")
        )
    ]
    assert outside == []


def test_the_tests_run_with_the_versions_of_the_image() -> None:
    versions = dict(re.findall(r"^([a-z0-9._-]+)==([^ \n]+)", DEV_CONSTRAINTS, re.MULTILINE))
    image = pinned() | pinned(TRACING_CONSTRAINTS)
    assert {name: versions[name] for name in image} == image
    assert "://" not in DEV_CONSTRAINTS


def test_everything_that_the_tests_install_has_one_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {
        canonicalize_name(Requirement(text).name)
        for extra in ("dev", "console", "mcp", "sandbox", "tracing")
        for text in project["optional-dependencies"][extra]
    } - {"grove-admission"}
    assert names <= {
        canonicalize_name(name)
        for name in re.findall(r"^([A-Za-z0-9._-]+)==", DEV_CONSTRAINTS, re.MULTILINE)
    }
    assert '--constraint "$versions"' in (ROOT / "scripts" / "setup").read_text()


@pytest.mark.parametrize("constraints", [CONSTRAINTS, BUILD_CONSTRAINTS, TRACING_CONSTRAINTS])
def test_each_pin_has_hashes_and_no_host_is_named(constraints: str) -> None:
    pins = re.split(r"^(?=[A-Za-z])", constraints, flags=re.MULTILINE)[1:]
    assert pins != []
    assert [pin for pin in pins if "--hash=sha256:" not in pin or not PIN.match(pin)] == []
    assert "://" not in constraints


def test_only_what_has_a_known_hash_is_installed() -> None:
    steps = [line for line in INSTALL.splitlines() if re.search(r"pip\S* .*\binstall\b", line)]
    assert len(steps) == 4
    assert [step for step in steps if "$pinned" not in step and "--no-index" not in step] == []
    assert "--require-hashes" in INSTALL


def test_all_bytecode_is_by_hash_also_what_an_import_has_left(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "lib").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    for name in ("imported", "other"):
        (tmp_path / f"lib/{name}.py").write_text("x = 1\n")
    py_compile.compile(str(tmp_path / "lib/imported.py"), doraise=True)
    (left,) = (tmp_path / "lib/__pycache__").iterdir()
    assert left.read_bytes()[4:8] == TIMED

    (command,) = [line for line in INSTALL.splitlines() if "compileall" in line]
    subprocess.run(["sh", "-euc", command, "install", str(tmp_path)], check=True)
    compiled = sorted((tmp_path / "lib/__pycache__").iterdir())
    assert [path.name.split(".")[0] for path in compiled] == ["imported", "other"]
    assert {path.read_bytes()[4:8] for path in compiled} == {BY_HASH}


def test_the_extra_adds_packages_and_changes_none() -> None:
    added = {canonicalize_name(name) for name, _ in PIN.findall(TRACING_CONSTRAINTS)}
    assert {"opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http"} <= added
    assert added & pinned().keys() == set()


def test_the_recipe_installs_with_the_script_and_copies_only_what_the_context_has() -> None:
    assert "RUN ./scripts/install /opt/grove-admission" in DOCKERFILE
    let_in = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    assert {name for line in copied for name in line.split()} == let_in
    assert [name for name in let_in if not (ROOT / name).exists()] == []


def test_the_base_is_an_argument_and_the_labels_have_the_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE) == ["${PYTHON}", "${PYTHON}"]
    assert f"ARG VERSION={version}\n" in DOCKERFILE
    assert 'org.opencontainers.image.version="${VERSION}"' in DOCKERFILE


def test_the_base_is_the_newest_python_that_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    releases = [
        line.rpartition(" :: ")[2]
        for line in project["classifiers"]
        if re.search(r":: Python :: 3\.\d+$", line)
    ]
    assert set(re.findall(r"python:(3\.\d+)-slim", DOCKERFILE + READMES)) == {releases[-1]}
    assert project["requires-python"] == f">={releases[0]}"


def test_every_command_names_the_image_of_this_version() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    tags = re.findall(r"\bgrove-admission:(\d[\w.]*)", READMES)
    assert set(tags) == {version}
    assert len(tags) > 3


def test_the_wheel_has_the_product_and_no_scripts() -> None:
    packaging = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert packaging["packages"]["find"] == {"include": ["app", "app.*"]}
    used = {
        name
        for path in (ROOT / "app").rglob("*.py")
        for name in re.findall(r"^\s*(?:from|import) (\w+)", path.read_text(), re.MULTILINE)
    }
    assert used & {"scripts", "tests"} == set()


def test_the_last_stage_is_nobody_and_has_no_build_tools() -> None:
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER ([1-9]\d*):([1-9]\d*)$", last, re.MULTILINE)
    assert "pip uninstall --yes" in last
    assert "pip install" not in last
