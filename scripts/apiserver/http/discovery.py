"""Answer discovery, and the requests for OpenAPI that `kubectl apply` makes.

kubectl reads from OpenAPI v3 whether PATCH has the parameter `fieldValidation`. If so, the server
validates fields.
"""

from collections.abc import Iterable, Iterator

from scripts.apiserver.admission import authorization
from scripts.apiserver.objects.objects import Object
from scripts.apiserver.objects.resources import Registry, Served

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0+grove-admission-sandbox",
    "platform": "sandbox",
}
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
CREATED_ONLY = ("binding", "token")
"""The subresources that can only be created."""
_KINDS: dict[str, Object] = {
    "binding": {"kind": "Binding"},
    "scale": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
    "token": {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"},
}
"""The kinds of subresources that differ from the kind of their resource."""


def document(registry: Registry, parts: list[str]) -> Object | None:
    """Return the document at a path that was split into `parts`, or None if there is none."""
    match parts:
        case ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        case ["apis"]:
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": _groups(registry)}
        case ["apis", name]:
            return _group_document(registry, name)
        case ["api", version]:
            return _resource_list(registry, "", version)
        case ["apis", name, version]:
            return _resource_list(registry, name, version)
        case ["openapi", "v3"]:
            prefixes = dict.fromkeys(_prefix(item) for item in registry.all())
            return {
                "paths": {
                    prefix: {"serverRelativeURL": f"/openapi/v3/{prefix}"} for prefix in prefixes
                }
            }
        case ["openapi", "v3", *path]:
            return _openapi(registry, "/".join(path))

    return None


def _group_document(registry: Registry, name: str) -> Object | None:
    found = (group for group in _groups(registry) if group["name"] == name)
    return next(({**group, "kind": "APIGroup", "apiVersion": "v1"} for group in found), None)


def _groups(registry: Registry) -> list[Object]:
    """Return all groups except the core group, with their versions in the order of definition."""
    groups: dict[str, dict[str, None]] = {}
    for item in registry.all():
        groups.setdefault(item.group, {})[item.version] = None
    return [_group(name, versions) for name, versions in groups.items() if name]


def _group(name: str, versions: Iterable[str]) -> Object:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _resource_list(registry: Registry, group: str, version: str) -> Object | None:
    served = [item for item in registry.all() if (item.group, item.version) == (group, version)]
    if not served:
        return None
    resources = [entry for item in served for entry in _resources(item)]
    api_version = served[0].api_version
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version,
        "resources": resources,
    }


def _resources(item: Served) -> Iterator[Object]:
    """Yield a resource and its subresources. Access reviews can only be created."""
    common = {"namespaced": item.namespaced, "kind": item.kind}
    yield {
        "name": item.plural,
        "singularName": item.singular,
        **common,
        "verbs": ("create",) if item.group == authorization.REVIEWS else _VERBS,
        **({"shortNames": item.short_names} if item.short_names else {}),
    }
    for name in item.subresources:
        verbs = ("create",) if name in CREATED_ONLY else ("get", "patch", "update")
        kind = _KINDS.get(name, {})
        yield {
            "name": f"{item.plural}/{name}",
            "singularName": "",
            **common,
            **kind,
            "verbs": verbs,
        }


def _prefix(item: Served) -> str:
    return f"apis/{item.api_version}" if item.group else "api/v1"


def _openapi(registry: Registry, prefix: str) -> Object | None:
    """Return the PATCH operations of a group version, without schemas.

    Return None if the group version is not served.
    """
    string = {"type": "string", "uniqueItems": True}
    names = ("dryRun", "fieldManager", "fieldValidation")
    operation = {
        "x-kubernetes-action": "patch",
        "parameters": [{"name": name, "in": "query", "schema": string} for name in names],
        "responses": {"200": {"description": "OK"}},
    }
    paths = {
        f"/{prefix}/{'namespaces/{namespace}/' if item.namespaced else ''}{item.plural}/{{name}}": {
            "patch": {**operation, "x-kubernetes-group-version-kind": item.group_version_kind()}
        }
        for item in registry.all()
        if _prefix(item) == prefix
    }
    info = {"title": "grove-admission sandbox", "version": VERSION["gitVersion"]}

    return {"openapi": "3.0.0", "info": info, "paths": paths} if paths else None
