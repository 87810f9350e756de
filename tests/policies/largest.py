"""The largest objects that an API server takes, by what their judgement costs a policy."""

import copy
from collections.abc import Iterator
from typing import Any

from app.base.value import Value
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING, POD_CLIQUE_SET, POD_GROUP
from app.objects.resource import POD, Resource
from tests.policies.ways import CONFIG_MAP, GROUP, KAI, QUEUE, TEMPLATED, controlled, metadata, pod

Object = dict[str, Any]

DOMAINS = ("region", "zone", "datacenter", "block", "rack", "host", "numa")
NAME = "n" * 30
VALUE = "v" * 58
OTHER_VALUE = "w" * 58


class Large(Value):
    """An object, and the one that it replaces: the same, but for its constraints or names."""

    resource: Resource
    obj: Object
    old: Object


def _numbered(count: int, start: str) -> list[str]:
    return [f"{start}{NAME}{number:05}" for number in range(count)]


def levels(count: int, key: str = "k") -> list[Object]:
    """Levels with domains of their own, or with those of the designs if there are few."""
    domains = list(DOMAINS) if count <= len(DOMAINS) else _numbered(count, "d")
    return [
        {"domain": domain, "key": f"{key}{number}"}
        for number, domain in zip(range(count), domains, strict=False)
    ]


def _topology(resource: Resource, count: int, key: str) -> Large:
    obj = {"metadata": {"name": "large"}, "spec": {"levels": levels(count, key)}}
    old = {"metadata": {"name": "large"}, "spec": {"levels": levels(1)}}
    return Large(resource, obj, old)


def _pod_group(count: int) -> Large:
    """Each SubGroup has the one before as its parent, and the last has a name that is not known."""
    names = _numbered(count, "s")
    groups = [
        {"name": name, "parent": parent, "minMember": 1}
        for name, parent in zip(names, ["missing", *names], strict=False)
    ]
    first = {"name": names[0], "minMember": 1}
    return Large(
        POD_GROUP,
        {"metadata": metadata(), "spec": {"minMember": 1, "subGroups": groups}},
        {"metadata": metadata(), "spec": {"minMember": 1, "subGroups": [first]}},
    )


NAMES_OF_CLIQUES = {
    "labels": {QUEUE: VALUE, "project": VALUE},
    "annotations": {QUEUE: OTHER_VALUE, GROUP: VALUE},
}
"""What each clique names, as a PodCliqueSet has it."""


def pod_clique_set(
    cliques: int,
    groups: int,
    members: int,
    constraint: Object,
    names_of_cliques: Object = NAMES_OF_CLIQUES,
) -> Object:
    """A set in which everything has a constraint, and each group has the last cliques."""
    names = _numbered(cliques, "c")
    containers = [{"name": "c", "image": "i"}]
    listed = [
        {
            "name": name,
            **names_of_cliques,
            "topologyConstraint": constraint,
            "spec": {
                "roleName": name,
                "replicas": 1,
                "podSpec": {"containers": containers, "schedulerName": KAI},
            },
        }
        for name in names
    ]
    template: Object = {"cliques": listed, "topologyConstraint": constraint}
    if groups:
        template["podCliqueScalingGroups"] = [
            {
                "name": name,
                "cliqueNames": names[-members:] if members else [],
                "topologyConstraint": constraint,
            }
            for name in _numbered(groups, "g")
        ]
    return {"metadata": metadata(), "spec": {"replicas": 1, "template": template}}


SIZES = {
    "many cliques": (400, 0, 0),
    "cliques and groups": (200, 200, 0),
    "many groups": (60, 340, 9),
    "groups with all cliques": (100, 36, 100),
    "two large groups": (398, 2, 398),
}
"""Cliques, groups and members of each group, at the limit of what the policies judge."""

HUGE = {"more than is judged": (1400, 300, 3)}
"""About what fits into etcd."""


def _sets(constraints: dict[str, Object]) -> Iterator[tuple[str, Large]]:
    for title, (narrow, broad) in {
        "equal": ("host", "host"),
        "changed": ("host", "rack"),
    }.items():
        for name, (cliques, groups, members) in {**SIZES, **HUGE}.items():
            obj = pod_clique_set(cliques, groups, members, constraints[narrow])
            old = pod_clique_set(cliques, groups, members, constraints[broad])
            yield f"a PodCliqueSet, {name}, {title}", Large(POD_CLIQUE_SET, obj, old)


def _of_projects(constraint: Object) -> Large:
    """A set whose cliques name no queue, but a project that leads to one, and another before."""
    obj, old = (
        pod_clique_set(1400, 0, 0, constraint, {"labels": {"project": project}})
        for project in (VALUE, OTHER_VALUE)
    )
    return Large(POD_CLIQUE_SET, obj, old)


def largest(*, is_design: bool) -> dict[str, Large]:
    """The objects of one dialect, by name."""
    domains = ("rack", "host")
    if is_design:
        constraints: dict[str, Object] = {domain: {"packDomain": domain} for domain in domains}
    else:
        constraints = {
            domain: {
                "topologyName": "large-topology",
                "pack": {"required": domain, "preferred": domain},
            }
            for domain in domains
        }
    objects = dict(_sets(constraints))
    objects["a PodCliqueSet, projects of cliques"] = _of_projects(constraints["host"])
    for count in (300, 301, 9000):
        objects[f"{count} SubGroups"] = _pod_group(count)
    if is_design:
        objects["a ClusterTopology"] = _topology(CLUSTER_TOPOLOGY, 7, "k" * 57)
    else:
        for count in (16, 100, 101, 9000):
            objects[f"{count} levels"] = _topology(CLUSTER_TOPOLOGY_BINDING, count, "k" * 57)
    annotations = {f"a{number}": "v" * 1000 for number in range(240)}
    entries = {QUEUE: "q" * 20_000, GROUP: "g" * 60, **annotations}
    labels = {QUEUE: VALUE, "project": VALUE, "kai.scheduler/node-pool": VALUE}
    labels |= {f"l{number}": VALUE for number in range(3000)}
    named = metadata(labels, entries)
    objects["a Pod"] = Large(POD, {**pod(), "metadata": named}, pod())
    deployment = TEMPLATED[1]
    template = pod(labels, annotations=entries)
    large = {**controlled(deployment, {}, template), "metadata": copy.deepcopy(named)}
    objects["a Deployment"] = Large(deployment, large, controlled(deployment))
    objects["any owner"] = Large(
        CONFIG_MAP, {"metadata": copy.deepcopy(named)}, {"metadata": metadata()}
    )
    return objects
