"""Warn about claims of resourceSharing with which pods can't be created or are never placed.

Grove creates these ResourceClaims, and gives each pod an entry with the name of each of its claims.
Sources: https://github.com/ai-dynamo/grove/tree/fcc3b3bb/operator/internal/resourceclaim,
https://github.com/kai-scheduler/KAI-Scheduler/tree/d5bc503a/pkg/scheduler/plugins/dynamicresources
"""

from collections.abc import Collection, Iterator, Mapping

from app.base.value import Value
from app.facts.labels import KAI_QUEUE, KAI_SCHEDULER
from app.objects.fields import FieldPath, quote
from app.objects.names import LABEL_RULE, MAX_LABEL, is_label
from app.objects.shape import JsonMap, int_of, list_of, map_at, map_of, maps_at, text_at, texts_at
from app.rules.mnnvl.claim import MAX_RESERVED

_TEMPLATE = FieldPath("spec.template")
_PER_REPLICA = "PerReplica"
_MOST_REPLICAS = 2**31 - 1


class _Sharer(Value):
    """The set, one of its scaling groups or one of its cliques, whose pods can share claims."""

    path: FieldPath
    part: JsonMap
    owner: str
    """The name of the object that owns the claims, in the last replica of the enclosing parts."""
    replicas: int
    """The number of replicas, each of which has a claim with the scope PerReplica."""
    pods: Mapping[str, int]
    """The number of pods in one replica, by clique."""


def sharing_warnings(document: JsonMap) -> list[str]:
    """Return warnings about the claims that pods of a PodCliqueSet share.

    The set must not exceed the bounds of `set_size`.
    """
    template = map_at(document, "spec", "template")
    cliques = maps_at(template, "cliques")
    schedulers = {text_at(map_at(clique, "spec", "podSpec"), "schedulerName") for clique in cliques}
    with_gpus: Collection[str] = ()
    if schedulers == {KAI_SCHEDULER}:
        claims = maps_at(template, "resourceClaimTemplates")
        with_gpus = {text_at(claim, "name") for claim in claims if _has_gpus(claim)}
    members = {
        text_at(group, "name"): texts_at(group, "cliqueNames")
        for group in maps_at(template, "podCliqueScalingGroups")
    }
    return [
        f"{at}: {text}"
        for sharer in _sharers(document, template)
        for position, entry in enumerate(list_of(sharer.part.get("resourceSharing")))
        for at in [sharer.path.child("resourceSharing").index(position)]
        for text in _mistakes(sharer, map_of(entry), members, with_gpus)
    ]


def _has_gpus(claim: JsonMap) -> bool:
    """Return whether KAI counts the claims of a template as claims of GPUs."""
    requests = maps_at(map_at(claim, "templateSpec", "spec", "devices"), "requests")
    classes = (text_at(map_at(request, "exactly"), "deviceClassName") for request in requests)
    return any("gpu" in name.lower() for name in classes)


def _sharers(document: JsonMap, template: JsonMap) -> Iterator[_Sharer]:
    """Yield the set, its scaling groups and its cliques."""
    name = text_at(map_at(document, "metadata"), "name")
    replicas = _count(map_at(document, "spec"))
    of_replica = f"{name}-{replicas - 1}"
    cliques = list_of(template.get("cliques"))
    pods = {
        text_at(map_of(clique), "name"): _count(map_at(map_of(clique), "spec"))
        for clique in cliques
    }
    owner_of = dict.fromkeys(pods, of_replica)
    in_set = {**pods}
    for position, item in enumerate(list_of(template.get("podCliqueScalingGroups"))):
        group = map_of(item)
        owner, count = f"{of_replica}-{text_at(group, 'name')}", _count(group)
        inside = {
            clique: pods[clique] for clique in texts_at(group, "cliqueNames") if clique in pods
        }
        owner_of |= dict.fromkeys(inside, f"{owner}-{count - 1}")
        in_set |= {clique: number * count for clique, number in inside.items()}
        path = _TEMPLATE.child("podCliqueScalingGroups").index(position)
        yield _Sharer(path, group, owner, count, inside)

    yield _Sharer(_TEMPLATE, template, name, replicas, in_set)
    for position, item in enumerate(cliques):
        clique = map_of(item)
        own = text_at(clique, "name")
        path = _TEMPLATE.child("cliques").index(position)
        yield _Sharer(path, clique, f"{owner_of[own]}-{own}", pods[own], {own: 1})


def _count(part: JsonMap) -> int:
    """Return the replicas of a part, from 1 to the largest number that Kubernetes accepts."""
    return min(max(1, int_of(part.get("replicas"), 1)), _MOST_REPLICAS)


def _mistakes(
    sharer: _Sharer,
    entry: JsonMap,
    members: Mapping[str, Collection[str]],
    with_gpus: Collection[str],
) -> Iterator[str]:
    """Yield what is wrong with the claims of an entry of resourceSharing.

    `members` are the cliques of each scaling group, and `with_gpus` the templates of claims of GPUs
    whose pods KAI places.
    """
    name = text_at(entry, "name")
    is_for_each = entry.get("scope") == _PER_REPLICA
    claim = f"{sharer.owner}-{sharer.replicas - 1 if is_for_each else 'all'}-{name}"
    named = f"Grove names a claim {quote(claim)}"
    more = len(claim) - MAX_LABEL
    if not name:
        return  # Grove rejects this.
    if more > 0:
        yield (
            f"{named}. Pods can use names of at most {MAX_LABEL} characters, so Grove can't create"
            f" the pods. Shorten the names by {more} {'character' if more == 1 else 'characters'}"
        )
    elif not is_label(claim):
        yield f"{named}, so it can't create the pods: the name {LABEL_RULE}"
    elif name in with_gpus:
        yield (
            "KAI places pods that share a claim of GPUs only if the claim has the label"
            f" {KAI_QUEUE} with their queue, which Grove does not set. Label each claim once it"
            f" exists, such as {quote(claim)}"
        )

    pods = _sharing_pods(sharer, entry, members) * (1 if is_for_each else sharer.replicas)
    if pods > MAX_RESERVED:
        yield (
            f"{pods} pods share a claim, but a claim can be reserved by at most {MAX_RESERVED}: the"
            " other pods will stay pending. Share each claim among fewer pods"
        )


def _sharing_pods(sharer: _Sharer, entry: JsonMap, members: Mapping[str, Collection[str]]) -> int:
    """Return how many pods of one replica share a claim of an entry of resourceSharing."""
    if "filter" not in entry:
        return sum(sharer.pods.values())
    narrowed = map_at(entry, "filter")
    chosen = {*texts_at(narrowed, "childCliqueNames")}
    for group in {*texts_at(narrowed, "childScalingGroupNames")}:
        chosen |= {*members.get(group, ())}
    return sum(number for clique, number in sharer.pods.items() if clique in chosen)
