"""Grove's objects as facts, in the form of the designs (packDomain) and in today's (pack, topologyName)."""

from collections.abc import Mapping
from typing import Any

from app.explain.facts import (
    Asked,
    CliqueTemplate,
    ClusterTopology,
    Condition,
    GangGroup,
    GangPart,
    GroupTemplate,
    Level,
    PodClique,
    PodCliqueSet,
    PodGang,
    Told,
)
from app.explain.project.pods import place, pod_claims, shape
from app.explain.values import at, items, mapping, number, seconds_since_1970, text, texts

Object = Mapping[str, Any]

DOMAINS = ("region", "zone", "datacenter", "block", "rack", "host", "numa")
"""The domains of a ClusterTopology, broadest first. A ClusterTopologyBinding has any, and lists them in this sense."""

TOPOLOGY_NAME = ("grove.io/topology-name", "kai.scheduler/topology")
KAI = "kai-scheduler"


def cluster_topology(obj: Object) -> ClusterTopology:
    """A ClusterTopology of the designs: its levels may be in any order and are sorted."""
    levels = [level for level in _levels(obj) if level.domain in DOMAINS]
    metadata = mapping(obj.get("metadata"))
    return ClusterTopology(
        kind="ClusterTopology",
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        levels=tuple(sorted(levels, key=lambda level: DOMAINS.index(level.domain))),
        kai=text(metadata, "name"),
    )


def cluster_topology_binding(obj: Object) -> ClusterTopology:
    """A ClusterTopologyBinding: the order of its list is the order of its levels."""
    metadata = mapping(obj.get("metadata"))
    bindings = items(at(obj, "spec").get("schedulerTopologyBindings"))
    drifts = [
        text(status, "message") or "not in sync"
        for status in items(at(obj, "status").get("schedulerTopologyStatuses"))
        if status.get("schedulerName") == KAI and status.get("inSync") is False
    ]
    bound = [text(item, "topologyReference") for item in bindings if item.get("schedulerName") == KAI]
    return ClusterTopology(
        kind="ClusterTopologyBinding",
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        levels=tuple(_levels(obj)),
        kai=next(filter(None, bound), text(metadata, "name")),
        external=any(bound),
        drift=next(iter(drifts), ""),
    )


def pod_clique_set(obj: Object) -> PodCliqueSet:
    metadata, spec = mapping(obj.get("metadata")), mapping(obj.get("spec"))
    template = mapping(spec.get("template"))
    return PodCliqueSet(
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        replicas=number(spec.get("replicas"), 1),
        asked=_asked(template, "spec.template"),
        cliques=tuple(
            _clique_template(item, f"spec.template.cliques[{position}]")
            for position, item in enumerate(items(template.get("cliques")))
        ),
        groups=tuple(
            _group_template(item, f"spec.template.podCliqueScalingGroups[{position}]")
            for position, item in enumerate(items(template.get("podCliqueScalingGroups")))
        ),
        conditions=conditions(obj),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
    )


def pod_clique(obj: Object) -> PodClique:
    metadata, spec, status = (mapping(obj.get(key)) for key in ("metadata", "spec", "status"))
    pod_spec = mapping(spec.get("podSpec"))
    replicas = number(spec.get("replicas"), 1)
    return PodClique(
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        place=place(metadata),
        replicas=replicas,
        minimum=number(spec.get("minAvailable"), replicas),
        scheduled=number(status.get("scheduledReplicas")),
        shape=shape(pod_spec),
        claims=pod_claims(pod_spec),
        scheduler=text(pod_spec, "schedulerName"),
        errors=tuple(text(item, "description") for item in items(status.get("lastErrors"))),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
    )


def pod_gang(obj: Object) -> PodGang:
    metadata, spec = mapping(obj.get("metadata")), mapping(obj.get("spec"))
    annotations = mapping(metadata.get("annotations"))
    return PodGang(
        namespace=text(metadata, "namespace"),
        name=text(metadata, "name"),
        uid=text(metadata, "uid"),
        place=place(metadata),
        topology=next((name for key in TOPOLOGY_NAME if (name := text(annotations, key))), ""),
        told=_told(spec),
        parts=tuple(
            GangPart(
                text(item, "name"),
                number(item.get("minReplicas"), 1),
                frozenset(text(pod, "name") for pod in items(item.get("podReferences"))),
                _told(item),
            )
            for item in items(spec.get("podgroups"))
        ),
        groups=tuple(
            GangGroup(text(item, "name"), texts(item.get("podGroupNames")), _told(item))
            for item in items(spec.get("topologyConstraintGroupConfigs"))
        ),
        created=seconds_since_1970(metadata.get("creationTimestamp")),
    )


def conditions(obj: Object) -> tuple[Condition, ...]:
    return tuple(
        Condition(*(text(item, key) for key in ("type", "status", "reason", "message")))
        for item in items(at(obj, "status").get("conditions"))
    )


def _levels(obj: Object) -> list[Level]:
    levels = (Level(text(item, "domain"), text(item, "key")) for item in items(at(obj, "spec").get("levels")))
    return [level for level in levels if level.domain and level.key]


def _asked(holder: Object, path: str) -> Asked:
    """`pack` before the deprecated packDomain, as Grove reads them."""
    constraint = mapping(holder.get("topologyConstraint"))
    pack = mapping(constraint.get("pack"))
    name, where = text(constraint, "topologyName"), f"{path}.topologyConstraint"
    if pack:
        return Asked(text(pack, "required"), text(pack, "preferred"), name, f"{where}.pack.required")
    return Asked(text(constraint, "packDomain"), "", name, f"{where}.packDomain")


def _clique_template(item: Object, path: str) -> CliqueTemplate:
    spec = mapping(item.get("spec"))
    replicas = number(spec.get("replicas"), 1)
    return CliqueTemplate(text(item, "name"), replicas, number(spec.get("minAvailable"), replicas), _asked(item, path))


def _group_template(item: Object, path: str) -> GroupTemplate:
    return GroupTemplate(
        text(item, "name"),
        texts(item.get("cliqueNames")),
        number(item.get("replicas"), 1),
        number(item.get("minAvailable"), 1),
        _asked(item, path),
    )


def _told(holder: Object) -> Told:
    pack = at(holder, "topologyConstraint", "packConstraint")
    return Told(text(pack, "required"), text(pack, "preferred"))
