"""Objects from YAML files."""

from pathlib import Path

import yaml

from app.sandbox.objects.objects import Object

BUILT_IN = Path(__file__).parent / "crds"
OWN = BUILT_IN / "own"
"""A copy of `manifests/crds`, which an installed package doesn't have; a test keeps both equal."""


def load(folder: Path) -> list[Object]:
    """All objects of all `*.yaml` files in `folder`, in file order; [] if there is no such folder."""
    files = sorted(folder.glob("*.yaml"))
    return [obj for file in files for obj in yaml.safe_load_all(file.read_text()) if obj]


def definitions(neighbours: Path | None) -> list[Object]:
    """Our own CRDs, and those of the systems beside us: minimal ones of ours, unless `neighbours` is a folder with
    others, which win if both define a resource. FileNotFoundError for a folder without any."""
    found: dict[str, Object] = {}
    for folder in (OWN, neighbours or BUILT_IN):
        crds = [obj for obj in load(folder) if obj["kind"] == "CustomResourceDefinition"]
        if not crds:
            raise FileNotFoundError(f"no CustomResourceDefinition in {folder}")
        found.update({obj["metadata"]["name"]: obj for obj in crds})
    return list(found.values())
