"""The manifests as they are applied: the output of `kubectl kustomize` for folders of `manifests`.

kustomize renames objects and what refers to them, so the files themselves don't show what is
installed.
"""

import functools
import os
import shutil
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config.read import read_configuration, with_overrides
from app.config.schema import Configuration

Object = dict[str, Any]
Permission = tuple[str, str, str, str, str]
"""Namespace ("" for all), API group, resource, name of the object ("" for all) and verb."""

MANIFESTS = Path(__file__).parents[1] / "manifests"
OVERLAYS = ("self-managed", "cert-manager")
"""The overlays that install the server."""

FOLDERS = ("prerequisites", *(f"overlays/{name}" for name in (*OVERLAYS, "monitoring")))
"""The folders that a user applies."""


def rendered(folder: str) -> list[Object]:
    """Return the objects of a folder of `manifests`, such as `overlays/self-managed`.

    Skip the test if kubectl is missing.
    """
    return documents(kustomize(MANIFESTS / folder))


def documents(text: str) -> list[Object]:
    """Return the objects of a YAML text, read by libyaml, which takes a tenth of the time."""
    return [obj for obj in yaml.load_all(text, Loader=yaml.CSafeLoader) if obj]


def text_of(objects: Iterable[Object]) -> str:
    """Return the objects as YAML, written by libyaml."""
    return yaml.dump_all(objects, Dumper=yaml.CSafeDumper)


COMPONENTS = ("flow-control", "egress")
"""The components that a user can add to an overlay."""


def with_components(overlay: str, folder: Path, components: Sequence[str] = COMPONENTS) -> str:
    """Return the YAML of an overlay with components, whose kustomization is written to `folder`."""
    folder.mkdir(exist_ok=True)
    paths = [f"overlays/{overlay}", *(f"components/{name}" for name in components)]
    relative = [os.path.relpath(MANIFESTS / path, folder.resolve()) for path in paths]
    content = {"resources": relative[:1], "components": relative[1:]}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(content))
    return kustomize(folder)


def kustomize(folder: Path) -> str:
    """Return the output of kustomize for a folder. Skip the test if kubectl is missing."""
    if shutil.which("kubectl") is None:
        pytest.skip("needs kubectl, which renders the manifests", allow_module_level=True)
    return _kustomize(folder)


@functools.cache
def _kustomize(folder: Path) -> str:
    return subprocess.run(
        ["kubectl", "kustomize", str(folder)], check=True, capture_output=True, text=True
    ).stdout


def of_kind(objects: list[Object], kind: str) -> Object:
    """Return the only object of a kind."""
    (obj,) = [obj for obj in objects if obj["kind"] == kind]
    return obj


def container(objects: list[Object]) -> Object:
    """Return the only container of the Deployment."""
    (container,) = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(container)


def configuration(objects: list[Object]) -> Configuration:
    """Return the configuration of the rendered Deployment, from its file and environment."""
    pod = of_kind(objects, "Deployment")["spec"]["template"]["spec"]
    (name,) = [
        volume["configMap"]["name"]
        for volume in pod["volumes"]
        if volume["name"] == "configuration"
    ]
    (text,) = [obj["data"]["config.yaml"] for obj in objects if obj["metadata"]["name"] == name]
    variables = container(objects)["env"]
    environment = {
        variable["name"]: variable["value"] for variable in variables if "value" in variable
    }
    return with_overrides(read_configuration(text, name), environment, {})


def permissions(objects: list[Object]) -> Iterator[Permission]:
    """Yield each permission that the rendered roles grant to our server."""
    bound = {obj["roleRef"]["name"] for obj in objects if "roleRef" in obj}
    roles = (obj for obj in objects if obj["kind"] in ("Role", "ClusterRole"))
    for role in (role for role in roles if role["metadata"]["name"] in bound):
        for rule in role["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for name in rule.get("resourceNames", [""]):
                        for verb in rule["verbs"]:
                            yield role["metadata"].get("namespace", ""), group, resource, name, verb
