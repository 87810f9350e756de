"""The image's recipe: what it is built from is pinned, and nobody in it is root."""

import re
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def pinned() -> dict[str, str]:
    lines = (ROOT / "scripts" / "constraints.txt").read_text().splitlines()
    pairs = [line.split("==") for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in pairs}


def test_every_dependency_is_pinned_within_its_range() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(text) for text in project["dependencies"]]
    versions = pinned()
    outside = [
        str(one)
        for one in wanted
        if not one.specifier.contains(versions.get(canonicalize_name(one.name), "0"))
    ]
    assert outside == []


def test_the_recipe_uses_the_pins_and_copies_only_what_the_context_has() -> None:
    assert "--constraint constraints.txt" in DOCKERFILE
    let_in = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    copied = re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE)
    assert {name for line in copied for name in line.split()} == let_in
    assert [name for name in let_in if not (ROOT / name).exists()] == []


def test_the_sandbox_stays_out_of_the_image_and_in_the_wheel() -> None:
    assert "app/sandbox" in (ROOT / ".dockerignore").read_text().splitlines()
    packaging = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert packaging["packages"]["find"] == {"include": ["app*"]}
    assert [
        name for name in packaging["package-data"]["app"] if name.startswith("sandbox/crds")
    ] != []


def test_the_last_stage_is_nobody_and_has_no_build_tools() -> None:
    last = DOCKERFILE.rpartition("\nFROM ")[2]
    assert re.search(r"^USER ([1-9]\d*):([1-9]\d*)$", last, re.MULTILINE)
    assert "pip uninstall --yes" in last
    assert "pip install" not in last
