"""Objects from YAML files."""

from pathlib import Path

import yaml

from app.sandbox.objects import Object

BUILT_IN = Path(__file__).parent / "crds"
OWN = Path(__file__).parents[2] / "manifests" / "crds"


def load(folder: Path) -> list[Object]:
    """All objects of all `*.yaml` files in `folder`, in file order; [] where there is no such folder."""
    files = sorted(folder.glob("*.yaml"))
    return [obj for file in files for obj in yaml.safe_load_all(file.read_text()) if obj]


def definitions(own: Path | None) -> list[Object]:
    """The CRDs of the systems beside us, and our own from `own` (the checkout's manifests/crds unless told)."""
    return [
        obj for folder in (BUILT_IN, own or OWN) for obj in load(folder) if obj["kind"] == "CustomResourceDefinition"
    ]
