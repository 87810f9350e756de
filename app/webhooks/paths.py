"""Read and write the paths of the webhooks in a stored webhook configuration.

The manifests leave the paths out, so that neither `kubectl apply` nor a GitOps tool claims these
fields. The server writes them with a token (`objects.tokens`).
"""

from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

from app.objects.shape import JsonMap, Object, map_at, text_of
from app.objects.tokens import split_token
from app.webhooks.registry import WEBHOOKS

PATHS_ARE_OURS = "grove-admission.grove.io/paths"
"""The annotation of a configuration whose paths the server writes. Its value is MANAGED."""

MANAGED = "managed"

TOKEN_AFTER = "grove-admission.grove.io/token-after"
"""The annotation of a configuration that holds a time (RFC 3339).

Tokens from before this time are replaced at once.
"""

TAKES_TOKENS = "grove-admission.grove.io/takes-tokens"
"""The annotation of our Pods that says which paths with a token their version serves.

"all" means all paths. Version 0.8, whose Pods have "true", answers 404 to all but two of them, and
version 0.6 to all of them.
"""

PATHS: Mapping[str, str] = {webhook.name: webhook.path for webhook in WEBHOOKS}
"""The path of each webhook without a token, by name."""


def are_ours(configuration: JsonMap) -> bool:
    """Return whether the server writes the paths in `configuration`."""
    annotations = configuration["metadata"].get("annotations") or {}
    return bool(annotations.get(PATHS_ARE_OURS) == MANAGED)


def tokens_in(configuration: JsonMap) -> set[str]:
    """Return the tokens in the paths of our webhooks, and "" if a path has no token."""
    return {
        split_token(path_of(webhook.get("clientConfig") or {}))[0]
        for webhook in configuration.get("webhooks") or ()
        if webhook["name"] in PATHS
    }


def carry_tokens(configurations: Iterable[JsonMap]) -> bool:
    """Return whether API servers call each of our webhooks over a path with a token.

    Both configurations must exist, because a missing one may be created again without tokens.
    """
    tokens = [tokens_in(configuration) for configuration in configurations]
    return len(tokens) == 2 and all(found and "" not in found for found in tokens)


def path_of(client: JsonMap) -> str:
    """Return the path of a clientConfig, or "" if it has no readable path."""
    if "url" not in client:
        return text_of(map_at(client, "service").get("path"))
    try:
        return urlsplit(text_of(client["url"])).path
    except ValueError:
        return ""


def with_token(configuration: JsonMap, token: str) -> list[Object]:
    """Return the webhooks of `configuration`, with `token` in the paths of our webhooks.

    If `token` is "", the paths have no token. Webhooks that are not in PATHS are unchanged.
    """
    prefix = f"/{token}" if token else ""
    return [
        _with_path(webhook, prefix + PATHS[webhook["name"]])
        if webhook["name"] in PATHS
        else webhook
        for webhook in configuration.get("webhooks") or ()
    ]


def _with_path(webhook: JsonMap, path: str) -> Object:
    client = webhook.get("clientConfig") or {}
    if "url" in client:
        url = urlsplit(client["url"])._replace(path=path).geturl()
        return {**webhook, "clientConfig": {**client, "url": url}}

    service = {**client["service"], "path": path}
    return {**webhook, "clientConfig": {**client, "service": service}}
