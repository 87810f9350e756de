"""Load the CRDs and other objects of a sandbox from YAML files."""

from pathlib import Path

import yaml

from scripts.apiserver.objects.objects import Object

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
BUILT_IN = Path(__file__).parent / "crds"
"""Minimal CRDs of other systems."""
OWN = Path(__file__).parents[2] / "manifests" / "crds"


def load(folder: Path) -> list[Object]:
    """Return the objects in the `*.yaml` files of `folder`, in the order of the file names.

    Return [] if the folder does not exist.
    """
    files = sorted(folder.glob("*.yaml"))
    return [obj for file in files for obj in yaml.load_all(file.read_text(), Loader=_LOADER) if obj]


def definitions(neighbours: Path | None) -> list[Object]:
    """Return our CRDs and the CRDs of other systems.

    The latter are the minimal ones in `crds`, or those in the folder `neighbours`. These also
    replace our CRDs of the same name. Raise FileNotFoundError if `neighbours` has no CRDs.
    """
    definitions_by_name: dict[str, Object] = {}
    for folder in (OWN, neighbours or BUILT_IN):
        crds = [obj for obj in load(folder) if obj["kind"] == "CustomResourceDefinition"]
        if not crds:
            raise FileNotFoundError(f"no CustomResourceDefinition in {folder}")
        definitions_by_name.update({obj["metadata"]["name"]: obj for obj in crds})
    return list(definitions_by_name.values())
