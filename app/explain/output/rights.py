"""Say which permissions are missing for facts that could not be read, and who can grant them."""

from collections.abc import Iterator, Mapping

from app.explain.reasons.reason import listed
from app.explain.state.index import Index
from app.explain.state.snapshot import BY_RESOURCE, OF_KIND
from app.facts.identity import Ref
from app.facts.kinds import POD_CLIQUE, POD_CLIQUE_SCALING_GROUP
from app.facts.rows import CHANNELS, ROOM
from app.objects.resource import POD, Resource

VIEWER = "grove-admission-view"
"""The name of the ClusterRole in our manifests with the permissions for explanations."""

_DENIED = ("no permission to ", "no right to ")


def lacks_right(cause: str) -> bool:
    """Return whether `cause`, from `Snapshot.unseen`, is a missing permission."""
    return cause.startswith(_DENIED)  # recordings of 0.9.0 have the second one


def unread_because(index: Index, ref: Ref) -> str:
    """Return why the objects by which `ref` is found could not be read, or "" if they were read."""
    return index.facts.unseen.get(_field_of(ref.kind), "")


def refusal(index: Index, ref: Ref, *, exists: bool) -> Iterator[str]:
    """Yield lines for a user who may not read the objects by which `ref` is found.

    `exists` is true if `ref` itself was found in a list. The lines say which permission is missing
    and who can grant it. For a PodCliqueSet, they also name the parts that can be explained anyway.
    """
    resource = _found_by(ref.kind)
    effect = f"so it is not known whether {ref} exists"
    if exists:
        effect = f"so {ref} can't be explained"
    yield (
        f"You have no permission to get and list {resource} in namespace {ref.namespace}, {effect}"
    )
    yield from how_to_get({_field_of(ref.kind): _DENIED[0]}, ref.namespace)
    parts = _readable_parts(index, ref)
    if parts:
        names = listed((f"{part.kind.lower()}/{part.name}" for part in parts), 8)
        yield f"These parts can be explained with your permissions: {names}"


def how_to_get(unseen: Mapping[str, str], namespace: str = "") -> Iterator[str]:
    """Yield sentences that say who can grant the permissions missing in `unseen`, and how."""
    fields = {field for field, cause in unseen.items() if lacks_right(cause)}
    # Only a ClusterRoleBinding can grant permission to read these.
    cluster_scoped = {row.name for resource, row in BY_RESOURCE.items() if not resource.namespaced}
    wide = fields & {ROOM, CHANNELS, *cluster_scoped}
    in_namespace = fields - wide if namespace else set()
    role = f"--clusterrole={VIEWER} --user=USER"
    if in_namespace:
        yield (
            f"Ask an admin of namespace {namespace} for permission to read its objects (USER is"
            f" your user name): kubectl -n {namespace} create rolebinding USER-view {role}"
        )
    if fields - in_namespace:
        yield (
            "Ask a cluster admin for permission to read the whole cluster (USER is your user name):"
            f" kubectl create clusterrolebinding USER-view {role}"
        )


def _field_of(kind: str) -> str:
    """Return the field of `Snapshot` by which objects of `kind` are found."""
    return BY_RESOURCE[_found_by(kind)].name


def _found_by(kind: str) -> Resource:
    """Return the resource by which objects of `kind` are found.

    A scaling group is found by its PodCliques, and a workload such as a Job by its pods.
    """
    if kind == POD_CLIQUE_SCALING_GROUP.kind:
        return POD_CLIQUE
    resource = OF_KIND[kind]
    return resource if resource in BY_RESOURCE else POD


def _readable_parts(index: Index, ref: Ref) -> list[Ref]:
    """Return the known PodGangs of a PodCliqueSet, or else its PodCliques, or else its pods.

    Return [] for other kinds.
    """
    key = ref.key
    if ref.kind != "PodCliqueSet":
        return []
    parts = (
        index.gangs_of_set.get(key, ())
        or index.cliques_of_set.get(key, ())
        or index.pods_of_set.get(key, ())
    )
    return [part.ref for part in parts]
