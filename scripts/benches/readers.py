"""Measure the bytes that the readers of a kind keep of an object, and their time.

A kind has several readers only if one reader would keep much more than the server needs
(`app/facts`).
"""

import argparse
import gc
import json
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.cluster.leader_rows import read_stored_pod
from app.facts.grove.podclique import read_pod_clique
from app.facts.grove.podcliqueset import read_pod_clique_set, read_set_with_status
from app.facts.grove.podgang import read_pod_gang, read_stored_gang
from app.facts.grove.template import read_template
from app.facts.kubernetes.claim import read_resource_claim
from app.facts.kubernetes.node import read_node, read_node_labels
from app.facts.kubernetes.pod import read_pod
from app.facts.nvidia.computedomain import read_compute_domain, read_mnnvl_resource
from app.objects.shape import Object
from app.rules.mnnvl.missing_claims import read_clique
from benches.fleet import Fleet

REVIEW = Path("app/server/reviews/validate-podcliqueset.json")
ROUNDS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--objects", type=int, default=3000, help="number of objects of each kind (default: 3000)"
    )
    number = parser.parse_args().objects

    fleet = Fleet(number)
    reviewed = json.loads(REVIEW.read_text())["asked"]["request"]["object"]
    kinds: dict[str, tuple[Callable[[int], Object], tuple[Callable[[Any], Any], ...]]] = {
        "Node": (fleet.node, (read_node_labels, read_node)),
        "Pod": (lambda n: in_group(fleet.pod(n)), (read_stored_pod, read_pod)),
        "PodClique": (fleet.pod_clique, (read_clique, read_pod_clique)),
        "PodCliqueSet": (
            lambda n: {**reviewed, "metadata": {**reviewed["metadata"], "name": f"set-{n}"}},
            (read_pod_clique_set, read_set_with_status, read_template),
        ),
        "PodGang": (fleet.pod_gang, (read_stored_gang, read_pod_gang)),
        "ComputeDomain": (lambda n: fleet.mnnvl(n)[0], (read_mnnvl_resource, read_compute_domain)),
        "ResourceClaim": (lambda n: fleet.mnnvl(n)[1], (read_mnnvl_resource, read_resource_claim)),
    }
    for kind, (made, readers) in kinds.items():
        objects = [stored(made(position), position) for position in range(number)]
        print(f"{kind}, {len(json.dumps(objects[0]))} bytes of JSON")
        for read in readers:
            print(
                f"    {read.__name__:21} {kept(read, objects):6.0f} bytes, {taken(read, objects):5.1f} us"
            )


def in_group(pod: Object) -> Object:
    """Let a Pod name a PodGroup of Kubernetes, because the leader keeps only such Pods."""
    pod["spec"]["schedulingGroup"] = {"podGroupName": "train"}
    return pod


def stored(obj: Object, number: int) -> Object:
    """Return an object as an API server sends it. It shares no text with other objects."""
    obj = json.loads(json.dumps(obj))
    obj["metadata"] |= {"uid": f"5b1c-{number:08}", "resourceVersion": str(10**8 + number)}
    return obj


def kept(read: Callable[[Any], Any], objects: list[Object]) -> float:
    """Return the bytes that a reader allocates and keeps for each object.

    Text that the result shares with the object is not counted.
    """
    read(objects[0])
    gc.collect()
    tracemalloc.start()
    facts = list(map(read, objects))
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert None not in facts
    return size / len(objects)


def taken(read: Callable[[Any], Any], objects: list[Object]) -> float:
    """Return the lowest CPU time for reading an object in several rounds, in microseconds."""
    times = []
    for _ in range(ROUNDS):
        begun = time.process_time()
        for obj in objects:
            read(obj)
        times.append(time.process_time() - begun)
    return min(times) / len(objects) * 1e6


if __name__ == "__main__":
    main()
