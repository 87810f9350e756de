"""Authorization of writes of the managed ClusterTopology. Source: `rules/README.md`."""

from collections.abc import Collection


def refusal_to_write(kind: str, name: str, operation: str, username: str, authorized: Collection[str]) -> str | None:
    """Returns the reason why `username` may not do `operation` to the managed topology
    `name`, an object of `kind`. None if the user may.

    Only `authorized`, which are full user names, may write it; cluster administrators are no exception.
    """
    if username in authorized:
        return None
    allowed = ", ".join(sorted(authorized)) or "nobody (authorizedUsers is empty)"
    return (
        f'{kind} "{name}" is managed by the operator: user "{username}" cannot {operation.lower()} it; '
        f"only these can: {allowed}. Change clusterTopology in the operator's configuration instead, or use a "
        f"{kind} of another name"
    )
