"""Objects that a console is shown: the fleet of the sandbox, as webhooks and reconcilers leave it."""

import copy
from collections.abc import Iterable
from typing import Any

from app.kube.api import Object
from scripts.fleet import fleet

LEVELS = {
    "zone": "topology.kubernetes.io/zone",
    "block": "topology.kubernetes.io/block",
    "rack": "topology.kubernetes.io/rack",
    "host": "kubernetes.io/hostname",
}
_PLURALS = {"ClusterTopology": "clustertopologies", "Topology": "topologies"}
UNSEEN = "\u202egnp.exe\x1b[2J\x9b1m\r\n\u2028\u200b"
"""What rewrites a terminal, begins a line, turns a line around, or isn't seen."""

HOSTILE = f"<script>alert(1)</script>\"'&{UNSEEN}" + "x" * 220


def objects() -> dict[str, list[Object]]:
    """Return those of the small fleet by plural."""
    return by_plural(fleet())


def by_plural(objects: Iterable[Object]) -> dict[str, list[Object]]:
    """Add the topologies, and let the PodGangs say what their sets ask for."""
    found: dict[str, list[Object]] = {
        "clustertopologies": [_cluster_topology()],
        "topologies": [_kai_topology()],
    }
    levels = {}
    for obj in copy.deepcopy(list(objects)):
        if obj["kind"] == "PodCliqueSet":
            levels[obj["metadata"]["name"]] = obj["spec"]["template"]["topologyConstraint"][
                "packDomain"
            ]
        if obj["kind"] == "PodGang":
            key = LEVELS[levels[obj["metadata"]["name"].removesuffix("-0")]]
            obj["spec"]["topologyConstraint"] = {
                "packConstraint": {"required": key, "preferred": LEVELS["host"]}
            }
        if obj["kind"] == "PodGroup" and "ownerReferences" in obj["metadata"]:
            name = obj["metadata"]["name"]
            owner = {"apiVersion": "scheduler.grove.io/v1alpha1", "kind": "PodGang", "name": name}
            obj["metadata"]["ownerReferences"] = [{**owner, "uid": f"PodGang-{owner['name']}"}]
        obj["metadata"] |= {
            "uid": f"{obj['kind']}-{obj['metadata']['name']}",
            "resourceVersion": "1",
        }
        found.setdefault(plural(obj["kind"]), []).append(obj)
    return found


def plural(kind: str) -> str:
    return _PLURALS.get(kind, f"{kind.lower()}s")


def _cluster_topology() -> Object:
    levels = [{"domain": domain, "key": key} for domain, key in LEVELS.items()]
    metadata = {"name": "grove-topology", "uid": "ct"}
    return {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "metadata": metadata,
        "spec": {"levels": levels},
    }


def _kai_topology() -> Object:
    owner = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "ClusterTopology",
        "name": "grove-topology",
        "uid": "ct",
    }
    metadata = {"name": "grove-topology", "ownerReferences": [owner]}
    levels = [{"nodeLabel": key} for key in LEVELS.values()]
    return {
        "apiVersion": "kai.scheduler/v1alpha1",
        "kind": "Topology",
        "metadata": metadata,
        "spec": {"levels": levels},
    }


def hostile(text: str = HOSTILE) -> dict[str, list[Object]]:
    """The fleet with a hostile `text` wherever a value is shown: names, namespaces, labels, levels,
    messages.
    """
    of_fleet = objects()

    def spoil(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: spoil(item) for key, item in value.items()}
        if isinstance(value, list):
            return [spoil(item) for item in value]
        shown = (
            "llm-serve",
            "inference",
            "rack-",
            "zone-c",
            "gpu-c",
            "0/64",
            "team-llm",
            "block-c",
        )
        return f"{value}{text}" if isinstance(value, str) and value.startswith(shown) else value

    kept = {"clustertopologies", "topologies"}
    return {name: items if name in kept else spoil(items) for name, items in of_fleet.items()}
