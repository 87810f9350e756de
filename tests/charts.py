"""Render charts with Helm: the program `helm`, or the same Go code in the package helm-python-sdk."""

import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.rendered import MANIFESTS, Object, documents

CHART = MANIFESTS / "chart"

Values = Mapping[str, Any]


def merged(*maps: Values) -> dict[str, Any]:
    """Return one map with the values of all, in which later ones replace earlier ones."""
    result: dict[str, Any] = {}
    for each in maps:
        for key, value in each.items():
            both = isinstance(value, dict) and isinstance(result.get(key), dict)
            result[key] = merged(result[key], value) if both else value
    return result


class RefusedError(Exception):
    """Helm has rejected the values, or could not render the chart."""


def render(
    folder: Path, values: Values, namespace: str = "grove-system", *, release: str = "release"
) -> list[Object]:
    """Return the objects of a chart. Raise RefusedError with Helm's message.

    Skip the test if neither the program nor the package is installed.
    """
    program = shutil.which("helm")
    if program is not None:
        texts = [_by_program(program, folder, values, namespace, release)]
    else:
        texts = _by_package(folder, values, namespace, release)
    objects = [obj for text in texts for obj in documents(text)]
    return sorted(objects, key=_rank)


_LAST = ("Deployment", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
"""What Helm installs last. The package gives the order of the files, in which the Deployment comes
before the permissions of its Pods: a fast Pod then logs calls that are forbidden.
"""


def _rank(obj: Object) -> int:
    kind = obj.get("kind")
    return _LAST.index(kind) if kind in _LAST else -1


def _by_program(program: str, folder: Path, values: Values, namespace: str, release: str) -> str:
    command = [program, "template", release, str(folder), "--namespace", namespace, "--values", "-"]
    ended = subprocess.run(
        command, input=json.dumps(values), capture_output=True, text=True, check=False
    )
    if ended.returncode != 0:
        raise RefusedError(ended.stderr)
    return ended.stdout


def _by_package(folder: Path, values: Values, namespace: str, release: str) -> list[str]:
    reason = "needs the program helm, or the package helm-python-sdk"
    helm = pytest.importorskip("helm_python", reason=reason)
    with helm.Chart.load(str(folder)) as chart:
        try:
            chart.validate_schema(dict(values))
            texts = chart.render(dict(values), name=release, namespace=namespace)
        except helm.HelmError as problem:
            raise RefusedError(str(problem)) from None
    return [text for name, text in texts.items() if not name.endswith("NOTES.txt")]
