"""Authorization of writes of the managed ClusterTopology. Source: `rules/README.md`."""

from collections.abc import Collection

from app.rules.kinds import CLUSTER_TOPOLOGY

_VERBS = {"CREATE": "create", "UPDATE": "update", "DELETE": "delete"}


def refusal_to_write_managed_topology(
    *,
    name: str,
    managed_name: str,
    operation: str,
    username: str,
    authorized: Collection[str],
    kind: str = CLUSTER_TOPOLOGY.kind,
) -> str | None:
    """Returns the reason why `username` may not do `operation` to the topology
    `name`, an object of `kind`. None if the user may.

    Only the object `managed_name` is guarded. Only `authorized`, which are full
    user names, may write it; cluster administrators are no exception.
    """
    if name != managed_name or username in authorized:
        return None
    verb = _VERBS.get(operation, operation.lower())
    allowed = ", ".join(sorted(authorized)) or "nobody (authorizedUsers is empty)"
    return (
        f'{kind} "{name}" is managed by the operator: user "{username}" cannot {verb} it; '
        f"only these can: {allowed}. Change clusterTopology in the operator's configuration instead, or use a "
        f"{kind} of another name"
    )
