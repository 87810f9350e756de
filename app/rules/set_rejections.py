"""Warn about what Grove or the API server rejects in the document of a PodCliqueSet.

In a cluster, Grove's own webhook rejects such a set, so only documents are examined. Also warn
about fields that Grove accepts, but that have no effect or leave the set without pods. Topology
constraints, minAvailable above replicas and several schedulers have rules of their own. Defaults
are set before Grove validates. Sources:
https://github.com/ai-dynamo/grove/tree/fcc3b3bb/operator/internal/webhook/admission/pcs,
https://github.com/ai-dynamo/grove/tree/fcc3b3bb/operator/internal/scheduler
"""

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any

from app.base.spelling import Comparisons
from app.facts.labels import KAI_QUEUE, KAI_SCHEDULER
from app.objects.fields import FieldPath, listed, quote
from app.objects.names import is_subdomain, label_key_problem
from app.objects.shape import JsonMap, int_of, list_of, map_at, map_of, text_at, texts_at
from app.objects.time import signed_duration

_EXPLICIT = "CliqueStartupTypeExplicit"
_STARTUP_TYPES = ("CliqueStartupTypeAnyOrder", "CliqueStartupTypeInOrder", _EXPLICIT)
_UPDATE_TYPES = ("RollingRecreate", "OnDelete")
_LATER_UPDATE_TYPES = ("Coherent",)
"""The types of updates of later releases: docs/proposals/393-coherent-rolling-updates."""

_SCOPES = ("AllReplicas", "PerReplica")
_WITHOUT_TOPOLOGY = ("volcano", "lpx-scheduler")
"""The schedulers for which Grove rejects topology constraints."""

_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_VARIABLE = re.compile(r"(?!\.\.)(?!\.$)[-._a-zA-Z][-._a-zA-Z0-9]*")

MOST_OF_NAMES = 45
"""The maximum length of the names of a set, a scaling group and a clique together, in Grove."""

_SHOWN = 5
_TEMPLATE = FieldPath("spec.template")

Mistake = tuple[FieldPath, str]
"""A path in the document, and what is wrong there."""

Part = tuple[FieldPath, JsonMap]
"""A clique or a scaling group of the document, with its path."""


def rejection_warnings(document: JsonMap, old: JsonMap | None = None) -> list[str]:
    """Return warnings about a PodCliqueSet that Grove rejects, or that gets no pods.

    `old` is the set that an UPDATE replaces. What Grove has accepted in it is not reported again.
    The set must not exceed the bounds of `set_size`.
    """
    rejected = _rejected(document, is_new=old is None)
    ignored = [f"{path}: {text}" for path, text in _without_effect(document)]
    if old is None or old == document:
        return rejected + ignored
    accepted = {*_rejected(old, is_new=False)}
    return [text for text in rejected if text not in accepted] + ignored


def _rejected(document: JsonMap, *, is_new: bool) -> list[str]:
    mistakes = _mistakes(document, is_new=is_new)
    return [f"{path}: Grove rejects this: {text}" for path, text in mistakes]


def _mistakes(document: JsonMap, *, is_new: bool) -> list[Mistake]:
    """Return what Grove rejects. `is_new` says whether the set is created."""
    template = map_at(document, "spec", "template")
    cliques = _parts(template, "cliques")
    groups = _parts(template, "podCliqueScalingGroups")
    names = Comparisons()
    return [
        *_mistakes_of_template(document, template, cliques),
        *_doubles(cliques, groups),
        *_mistakes_of_members(document, cliques, groups, names),
        *_mistakes_of_order(template, cliques, names),
        *(each for part in cliques for each in _mistakes_of_clique(*part, is_new=is_new)),
        *(each for part in groups for each in _mistakes_of_group(*part)),
        *_mistakes_of_scaling(cliques, groups),
        *_mistakes_of_sharing(template, cliques, groups, names),
        *_mistakes_of_scheduler(document, template, cliques, groups),
    ]


def _parts(template: JsonMap, field: str) -> list[Part]:
    at = _TEMPLATE.child(field)
    items = enumerate(list_of(template.get(field)))
    return [(at.index(position), map_of(item)) for position, item in items]


def _mistakes_of_template(
    document: JsonMap, template: JsonMap, cliques: Sequence[Part]
) -> Iterator[Mistake]:
    if int_of(map_at(document, "spec").get("replicas")) < 0:
        yield FieldPath("spec.replicas"), "it is negative"
    if not cliques:
        yield _TEMPLATE.child("cliques"), "a PodCliqueSet needs at least one clique"

    startup = template.get("cliqueStartupType")
    if startup is not None and startup not in _STARTUP_TYPES:
        allowed = ", ".join(_STARTUP_TYPES)
        yield _TEMPLATE.child("cliqueStartupType"), f"{quote(startup)} is not one of {allowed}"

    update = map_at(document, "spec", "updateStrategy").get("type")
    if update is not None and update not in _UPDATE_TYPES + _LATER_UPDATE_TYPES:
        text = f"{quote(update)} is not one of {', '.join(_UPDATE_TYPES)}"
        yield FieldPath("spec.updateStrategy.type"), text

    delay = template.get("terminationDelay")
    if delay is not None and (signed_duration(delay) or 0) <= 0:
        text = f"{quote(delay)} is not a positive duration, such as 4h or 30m"
        yield _TEMPLATE.child("terminationDelay"), text


def _doubles(cliques: Sequence[Part], groups: Sequence[Part]) -> Iterator[Mistake]:
    """Yield names and roles that several parts have, and cliques in several scaling groups."""
    specs = [(path.child("spec"), map_at(clique, "spec")) for path, clique in cliques]
    for parts, kind, field in (
        (cliques, "cliques", "name"),
        (specs, "cliques", "roleName"),
        (groups, "scaling groups", "name"),
    ):
        counts = Counter(text_at(part, field) for _, part in parts)
        for path, part in parts:
            name = text_at(part, field)
            if counts.pop(name, 0) < 2:
                continue
            if name:
                text = f"several {kind} have the {field} {quote(name)}. Give each a different one"
                yield path.child(field), text
            elif field == "roleName":  # Grove compares missing roles too, but accepts a single one
                yield (
                    path.child(field),
                    "several cliques have no roleName. Give each a different one",
                )

    seen: set[str] = set()
    for path, group in groups:
        for name in texts_at(group, "cliqueNames"):
            if name in seen:
                text = f"clique {name} is listed twice, but can be in one scaling group only"
                yield path.child("cliqueNames"), text
            seen.add(name)


def _mistakes_of_members(
    document: JsonMap, cliques: Sequence[Part], groups: Sequence[Part], names: Comparisons
) -> Iterator[Mistake]:
    """Yield unknown cliques of scaling groups, and the clique whose names are too long together."""
    known = [text_at(clique, "name") for _, clique in cliques]
    group_of: dict[str, str] = {}
    for path, group in groups:
        for name in texts_at(group, "cliqueNames"):
            group_of.setdefault(name, text_at(group, "name"))
            if name and name not in known:
                yield path.child("cliqueNames"), _unknown("clique", name, known, names)

    set_name = text_at(map_at(document, "metadata"), "name")
    lengths = [len(set_name) + len(group_of.get(name, "")) + len(name) for name in known]
    longest = max(lengths, default=0)
    if longest > MOST_OF_NAMES:
        path, _ = cliques[lengths.index(longest)]
        text = (
            "the names of the PodCliqueSet, of this clique and of its scaling group have"
            f" {longest} characters together, more than {MOST_OF_NAMES}"
        )
        yield path.child("name"), text


def _mistakes_of_order(
    template: JsonMap, cliques: Sequence[Part], names: Comparisons
) -> Iterator[Mistake]:
    """Yield mistakes in startsAfter, which Grove reads only with the startup type Explicit."""
    if template.get("cliqueStartupType") != _EXPLICIT:
        return
    after = {
        text_at(clique, "name"): texts_at(map_at(clique, "spec"), "startsAfter")
        for _, clique in cliques
    }
    for path, clique in cliques:
        name = text_at(clique, "name")
        at = path.child("spec.startsAfter")
        for other, count in Counter(after[name]).items():
            if not other:
                yield at, "a name is empty. Remove it"
            elif other == name:
                yield at, f"clique {name} can't start after itself. Remove it here"
            elif other not in after:
                yield at, _unknown("clique", other, after, names)
            if other and count > 1:
                yield at, f"clique {other} is listed twice. Remove one of them"

    try:
        TopologicalSorter(
            {name: {other for other in others if other != name} for name, others in after.items()}
        ).prepare()
    except CycleError as error:
        circle = listed(error.args[1][1:], _SHOWN)
        text = f"cliques that start after each other never start: {circle}. Remove one startsAfter"
        yield _TEMPLATE.child("cliques"), text


def _unknown(kind: str, name: str, known: Collection[str], names: Comparisons) -> str:
    meant = names.nearest(name, tuple(known))
    return f"no {kind} has the name {name}" + (f". Did you mean {meant}?" if meant else "")


def _mistakes_of_clique(path: FieldPath, clique: JsonMap, *, is_new: bool) -> Iterator[Mistake]:
    yield from _mistakes_of_name(path, clique)
    for field in ("labels", "annotations"):
        for key, value in map_at(clique, field).items():
            problem = label_key_problem(key)
            if field == "labels" and not problem and not _LABEL_VALUE.fullmatch(str(value)):
                problem = f"{quote(value)} is not a valid label value"
            if problem:
                yield path.child(field).key(key), problem

    spec = map_at(clique, "spec")
    at = path.child("spec")
    if "podSpec" not in spec:
        yield at.child("podSpec"), "a clique needs a podSpec"
    # Grove sets the replicas 0, as which it reads missing ones, to 1. But it sets a missing
    # minAvailable to the given replicas.
    replicas = int_of(spec.get("replicas", 0), 1)
    if replicas < (0 if int_of(spec.get("minAvailable")) else 1):
        is_set = "replicas" in spec
        yield at.child("replicas"), "it must be at least 1" if is_set else "a clique needs replicas"
    if int_of(spec.get("minAvailable"), 1) < 1:
        yield at.child("minAvailable"), "it must be at least 1"

    yield from _mistakes_of_pods(at.child("podSpec"), map_at(spec, "podSpec"), is_new=is_new)


def _mistakes_of_pods(at: FieldPath, pod_spec: JsonMap, *, is_new: bool) -> Iterator[Mistake]:
    for field in ("topologySpreadConstraints", "nodeName") if is_new else ():
        if pod_spec.get(field):
            yield at.child(field), "a new PodCliqueSet must not have it. Remove it"
    for field in ("initContainers", "containers"):
        for position, container in enumerate(list_of(pod_spec.get(field))):
            variables = list_of(map_of(container).get("env"))
            yield from _mistakes_of_variables(
                at.child(field).index(position).child("env"), variables
            )


def _mistakes_of_variables(at: FieldPath, variables: Sequence[Any]) -> Iterator[Mistake]:
    names = [text_at(map_of(variable), "name") for variable in variables]
    for name, count in Counter(names).items():
        if not _VARIABLE.fullmatch(name):
            yield at, f"{quote(name)} is not a valid name of a variable"
        elif count > 1:
            yield at, f"variable {name} is set {count} times. Remove all but one"


def _mistakes_of_name(path: FieldPath, part: JsonMap) -> Iterator[Mistake]:
    name = text_at(part, "name")
    if not is_subdomain(name):
        text = f"{quote(name)} is not a name of lowercase letters, digits and '-'"
        yield path.child("name"), text


def _mistakes_of_group(path: FieldPath, group: JsonMap) -> Iterator[Mistake]:
    yield from _mistakes_of_name(path, group)
    if "cliqueNames" not in group:
        yield path.child("cliqueNames"), "a scaling group needs cliqueNames"
    for field in ("replicas", "minAvailable"):
        if int_of(group.get(field), 1) < 1:
            yield path.child(field), "it must be at least 1"


def _mistakes_of_scaling(cliques: Sequence[Part], groups: Sequence[Part]) -> Iterator[Mistake]:
    """Yield mistakes in the autoScalingConfig of cliques and the scaleConfig of scaling groups."""
    group_of = {name: path for path, group in groups for name in texts_at(group, "cliqueNames")}
    for path, clique in cliques:
        spec = map_at(clique, "spec")
        if "autoScalingConfig" not in spec:
            continue
        at = path.child("spec.autoScalingConfig")
        group_path = group_of.get(text_at(clique, "name"))
        if group_path is not None:
            instead = group_path.child("scaleConfig")
            yield at, f"the clique is scaled with its scaling group. Use {instead} instead"
        config = map_at(spec, "autoScalingConfig")
        replicas = int_of(spec.get("replicas"), 1)
        yield from _too_few(at, config, int_of(spec.get("minAvailable"), replicas))
        most = _too_low(config, replicas, replicas)
        if most:
            yield at.child("maxReplicas"), most

    for path, group in groups:
        if "scaleConfig" in group:
            config = map_at(group, "scaleConfig")
            minimum = int_of(group.get("minAvailable"), 1)
            yield from _too_few(path.child("scaleConfig"), config, minimum)


def _too_few(at: FieldPath, config: JsonMap, minimum: int) -> Iterator[Mistake]:
    """Yield minReplicas below minAvailable, which is `minimum`, and a missing maxReplicas."""
    least = config.get("minReplicas")
    if int_of(least, minimum) < minimum:
        yield at.child("minReplicas"), f"{least} is less than minAvailable ({minimum}). Raise it"
    if "maxReplicas" not in config:
        yield at.child("maxReplicas"), "an autoscaler needs maxReplicas"


def _too_low(config: JsonMap, least: int, replicas: int) -> str:
    """Return what is wrong if maxReplicas is below minReplicas or `least`, or ""."""
    most = config.get("maxReplicas")
    minimum = int_of(config.get("minReplicas"), replicas)
    if int_of(most, minimum) < minimum:
        return f"{most} is less than minReplicas ({minimum}). Raise it"
    if int_of(most, least) < least:
        return f"{most} is less than replicas ({least}). Raise it"
    return ""


# Shared claims.


def _mistakes_of_sharing(
    template: JsonMap, cliques: Sequence[Part], groups: Sequence[Part], names: Comparisons
) -> Iterator[Mistake]:
    """Yield mistakes in resourceClaimTemplates and in the resourceSharing of all parts."""
    claims: set[str] = set()
    for path, claim in _parts(template, "resourceClaimTemplates"):
        name = text_at(claim, "name")
        if not name:
            yield path.child("name"), "a template needs a name"
        elif name in claims:
            yield path.child("name"), f"several templates have the name {name}"
        claims.add(name)
        if not list_of(map_at(claim, "templateSpec", "spec", "devices").get("requests")):
            requests = path.child("templateSpec.spec.devices.requests")
            yield requests, "a template needs at least one request"

    clique_names = [text_at(clique, "name") for _, clique in cliques]
    group_names = [text_at(group, "name") for _, group in groups]
    children = {"clique": clique_names, "scaling group": group_names}
    yield from _mistakes_of_sharing_in(_TEMPLATE, template, claims, children, names)
    for path, group in groups:
        members = {"clique": texts_at(group, "cliqueNames")}
        yield from _mistakes_of_sharing_in(path, group, claims, members, names)
    for path, clique in cliques:
        yield from _mistakes_of_sharing_in(path, clique, claims, {}, names)


_FILTERS = {"clique": "childCliqueNames", "scaling group": "childScalingGroupNames"}
"""The fields of a filter, by the kind of the parts that they name."""


def _mistakes_of_sharing_in(
    path: FieldPath,
    part: JsonMap,
    claims: Collection[str],
    children: Mapping[str, Sequence[str]],
    names: Comparisons,
) -> Iterator[Mistake]:
    """Yield mistakes in the resourceSharing of one part.

    `claims` are the names of resourceClaimTemplates, and `children` the names that a filter of this
    part can have, by kind.
    """
    seen: set[str] = set()
    for position, entry in enumerate(list_of(part.get("resourceSharing"))):
        sharing = map_of(entry)
        at = path.child("resourceSharing").index(position)
        name = text_at(sharing, "name")
        if not name:
            yield at.child("name"), "an entry needs the name of a template"
        elif name in seen:
            yield at.child("name"), f"{name} is listed twice. Remove one of them"
        seen.add(name)
        if name in claims and text_at(sharing, "namespace"):
            yield at.child("namespace"), f"{name} is one of resourceClaimTemplates. Remove it"
        if sharing.get("scope") not in _SCOPES:
            yield at.child("scope"), f"it must be one of {', '.join(_SCOPES)}"

        narrowed = map_at(sharing, "filter")
        if children and "filter" in sharing:
            if not any(narrowed.get(_FILTERS[kind]) for kind in children):
                allowed = " or ".join(_FILTERS[kind] for kind in children)
                yield at.child("filter"), f"it needs {allowed}"
            for kind, known in children.items():
                for child in texts_at(narrowed, _FILTERS[kind]):
                    if child not in known:
                        yield (
                            at.child("filter").child(_FILTERS[kind]),
                            _unknown(kind, child, known, names),
                        )


# Schedulers.


def _mistakes_of_scheduler(
    document: JsonMap, template: JsonMap, cliques: Sequence[Part], groups: Sequence[Part]
) -> Iterator[Mistake]:
    """Yield what the schedulerName of the pods does not allow.

    If no clique names a scheduler, Grove's configuration decides, which is not known here.
    """
    schedulers = {text_at(map_at(part, "spec", "podSpec"), "schedulerName") for _, part in cliques}
    for scheduler in sorted(schedulers.intersection(_WITHOUT_TOPOLOGY)):
        for path, part in ((_TEMPLATE, template), *groups, *cliques):
            if part.get("topologyConstraint") is not None:
                text = f"{scheduler} takes no topology constraints. Remove it"
                yield path.child("topologyConstraint"), text
    if schedulers != {KAI_SCHEDULER}:
        return

    queues: dict[str, FieldPath] = {}
    for path, part in ((FieldPath("metadata"), map_at(document, "metadata")), *cliques):
        for field in ("labels", "annotations"):
            queue = text_at(map_at(part, field), KAI_QUEUE)
            if queue:
                queues.setdefault(queue, path.child(field).key(KAI_QUEUE))
                break
    if not queues:
        text = "releases from August 2026 on need a queue for kai-scheduler. Set this label"
        yield FieldPath("metadata.labels").key(KAI_QUEUE), text
    for queue, path in list(queues.items())[1:]:
        first = next(iter(queues))
        yield path, f"queue {queue} is not queue {first}. Use one queue for the whole PodCliqueSet"


# What Grove accepts.


def _without_effect(document: JsonMap) -> Iterator[Mistake]:
    """Yield what Grove accepts, but then does not do."""
    spec = map_at(document, "spec")
    template = map_at(spec, "template")
    if "replicas" not in spec:
        text = "the API server sets a missing number to 0, so Grove creates no pods. Set a number"
        yield FieldPath("spec.replicas"), text

    cliques = _parts(template, "cliques")
    groups = _parts(template, "podCliqueScalingGroups")
    named = [(FieldPath("metadata"), map_at(document, "metadata")), *cliques, *groups]
    for path, part in named:
        name = text_at(part, "name")
        if "." in name and is_subdomain(name):
            text = f"{quote(name)} becomes part of the hostname of pods, so Grove can't create them"
            yield path.child("name"), f"{text}. Use '-' instead of '.'"

    if template.get("cliqueStartupType") != _EXPLICIT:
        for path, clique in cliques:
            if texts_at(map_at(clique, "spec"), "startsAfter"):
                text = f"it has no effect unless spec.template.cliqueStartupType is {_EXPLICIT}"
                yield path.child("spec.startsAfter"), text

    for path, group in groups:
        too_low = _too_low(map_at(group, "scaleConfig"), 0, int_of(group.get("replicas"), 1))
        if too_low:
            at = path.child("scaleConfig.maxReplicas")
            text = "Grove can't create the HorizontalPodAutoscaler, and creates no pods before it"
            yield at, f"{text}: {too_low}"
