"""A recorded line: the objects of a cluster in which gangs wait, and what KAI did in each cycle.

The format is described in `tests/testdata/kai-lines/README.md`.
"""

import copy
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.explain.state.index import Index
from app.explain.state.read import facts_of

RECORDINGS = Path(__file__).parents[2] / "testdata" / "kai-lines"
GPU_GROUP = "runai-gpu-group"
RESERVATIONS = "kai-resource-reservation"
NOW = 1_798_761_600.0
"""2027-01-01: after all times in the recordings."""

Object = dict[str, Any]


@dataclass(frozen=True)
class Moment:
    """The objects just before a cycle, and what KAI did in it."""

    items: list[Object]
    cycle: Mapping[str, Any]

    @property
    def index(self) -> Index:
        return Index(facts_of(self.items, NOW))

    @property
    def placed(self) -> set[str]:
        """The PodGroups of which pods were bound in this cycle."""
        return {
            group_of(item)
            for item in self.items
            if item["kind"] == "Pod" and item["metadata"]["name"] in self.cycle["placed"]
        }


@dataclass(frozen=True)
class LineRecording:
    """One case: `document` is the whole file."""

    document: Mapping[str, Any]

    @property
    def name(self) -> str:
        return f"line{self.document['case']['seed']}"

    @property
    def tags(self) -> list[str]:
        return list(self.document["case"]["tags"])

    @property
    def cycles(self) -> list[Mapping[str, Any]]:
        return list(self.document["kai"]["cycles"])

    def moments(self) -> Iterator[Moment]:
        """Yield the cycles, each with the objects that it began with.

        Only the first one if GPUs are allocated by claims: which ones is not recorded.
        """
        case = self.document["case"]
        items = copy.deepcopy(list(self.document["items"]))
        leaving = {item["metadata"]["name"]: 1 for item in items if _is_deleted(item)}
        coming = set[str]()
        for number, cycle in enumerate(self.cycles[: 1 if "dra" in self.tags else None]):
            yield Moment(items, cycle)
            evicted = {each["pod"] for each in cycle["evicted"]}
            leaving = {name: left - 1 for name, left in leaving.items()}
            leaving |= dict.fromkeys(evicted, case["terminating"])
            gone = {name for name, left in leaving.items() if left <= 0}
            coming |= evicted if case["recreate"] else set()
            again = list(evicted_again(items, gone & coming, number))
            items = [_after(copy.deepcopy(item), cycle, leaving) for item in items]
            items = [item for item in items if item["metadata"]["name"] not in gone]
            items += again
            items = list(with_reservations(items))
            leaving = {name: left for name, left in leaving.items() if left > 0}
            coming -= gone


def evicted_again(items: Iterable[Object], gone: set[str], cycle: int) -> Iterator[Object]:
    """Yield pods that a controller recreates after evictions."""
    for item in items:
        if item["kind"] == "Pod" and item["metadata"]["name"] in gone:
            made = copy.deepcopy(item)
            made["metadata"].pop("deletionTimestamp", None)
            made["metadata"].get("annotations", {}).pop("received-resource-type", None)
            for label in gpu_groups_of(made):
                del made["metadata"]["labels"][label]
            made["spec"].pop("nodeName", None)
            made["status"] = {"phase": "Pending"}
            made["metadata"]["uid"] += "-again"
            made["metadata"]["creationTimestamp"] = f"2026-02-01T00:{cycle:02}:00Z"
            yield made


def _after(item: Object, cycle: Mapping[str, Any], leaving: Mapping[str, int]) -> Object:
    """Return an object as it is after a cycle."""
    name = item["metadata"]["name"]
    if item["kind"] == "Pod":
        if name in cycle["placed"]:
            item["spec"]["nodeName"] = cycle["placed"][name]
            item["status"] = {**item.get("status", {}), "phase": "Running"}
            _share(item, cycle.get("groups", {}).get(name, []))
        if name in leaving:
            item["metadata"]["deletionTimestamp"] = "2100-01-01T00:00:00Z"
    elif item["kind"] == "PodGroup":
        conditions = cycle["conditions"].get(name)
        status = {**item.get("status", {}), "schedulingConditions": conditions}
        item["status"] = status if conditions else {}
    return item


def _share(pod: Object, groups: Sequence[str]) -> None:
    """Write down of which GPUs a placed pod has a part, as KAI's binder does."""
    if not groups:
        return
    metadata = pod["metadata"]
    metadata["annotations"]["received-resource-type"] = "Fraction"
    has_several = "gpu-fraction-num-devices" in metadata["annotations"]
    labels = {f"{GPU_GROUP}/{group}": group for group in groups}
    metadata.setdefault("labels", {}).update(labels if has_several else {GPU_GROUP: groups[0]})


def gpu_groups_of(pod: Object) -> dict[str, str]:
    """Return the labels of a pod that name the shared GPUs of which it has a part."""
    labels = pod["metadata"].get("labels", {})
    return {label: value for label, value in labels.items() if label.startswith(GPU_GROUP)}


def with_reservations(items: Sequence[Object]) -> Iterator[Object]:
    """Yield `items` with one reservation pod of KAI for each GPU that is shared."""
    nodes = {
        group: item["spec"]["nodeName"]
        for item in items
        if item["kind"] == "Pod"
        and item["metadata"].get("namespace") != RESERVATIONS
        and "nodeName" in item["spec"]
        for group in gpu_groups_of(item).values()
    }
    for item in items:
        reserved = item["metadata"].get("namespace") == RESERVATIONS
        if not reserved or nodes.pop(item["metadata"]["labels"][GPU_GROUP], None):
            yield item

    for group, node in sorted(nodes.items()):
        labels = {"app": RESERVATIONS, GPU_GROUP: group}
        name = f"gpu-reservation-{node}-{group}"
        gpu = {"nvidia.com/gpu": "1"}
        container = {"name": "resource-reservation", "resources": {"limits": gpu, "requests": gpu}}
        yield {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": RESERVATIONS, "uid": name, "labels": labels},
            "spec": {"nodeName": node, "containers": [container]},
            "status": {"phase": "Running"},
        }


def _is_deleted(item: Object) -> bool:
    return "deletionTimestamp" in item["metadata"]


def group_of(pod: Object) -> str:
    return str(pod["metadata"].get("annotations", {}).get("pod-group-name", ""))


def line_recordings(kind: str = "seeds") -> Iterator[LineRecording]:
    """The recordings of a kind that the tests have: `seeds`, `two-topologies` or `shared`."""
    yield from line_recordings_of(sorted(RECORDINGS.glob(f"{kind}*.jsonl.gz")))


def line_recordings_of(files: Iterable[Path]) -> Iterator[LineRecording]:
    """The recordings of files: one JSON document each, or one on each line, gzipped."""
    for file in files:
        content = file.read_bytes()
        if file.suffix == ".gz":
            content = gzip.decompress(content)
        texts = (
            content.decode().splitlines()
            if file.name.endswith((".jsonl", ".jsonl.gz"))
            else [content]
        )
        yield from (LineRecording(json.loads(text)) for text in texts)
