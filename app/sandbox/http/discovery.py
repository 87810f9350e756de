"""Discovery, plain and aggregated, and the few words of OpenAPI that kubectl apply needs.

kubectl asks OpenAPI v3 whether PATCH takes `fieldValidation`; the answer is yes, so it leaves validation to the server.
"""

from collections.abc import Iterable
from itertools import groupby

from app.sandbox.objects.objects import Object
from app.sandbox.objects.resources import Registry, Served
from app.sandbox.requests import access_reviews

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.0+grove-admission-sandbox",
    "platform": "sandbox",
    "goVersion": "none",
    "compiler": "none",
    "buildDate": "",
    "gitCommit": "",
    "gitTreeState": "",
}
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_NOT_SERVED = {("", "namespaces"): ("deletecollection",)}
_CHANGED = ("get", "patch", "update")
_SUBRESOURCES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "binding": ("", "Binding", ("create",)),
    "scale": ("autoscaling/v1", "Scale", _CHANGED),
    "token": ("authentication.k8s.io/v1", "TokenRequest", ("create",)),
}
"""The group version ("" for that of the resource), kind and verbs of those that aren't part of the object."""


def verbs(item: Served) -> tuple[str, ...]:
    """What can be done with a resource itself: reviews are only created, namespaces only deleted one by one."""
    if item.group == access_reviews.GROUP:
        return ("create",)
    return tuple(verb for verb in _VERBS if verb not in _NOT_SERVED.get(item.table, ()))


def _versions(registry: Registry) -> dict[str, dict[str, list[Served]]]:
    """group -> version -> resources, the best version of a group first."""
    found: dict[str, dict[str, list[Served]]] = {}
    for item in registry.all():
        found.setdefault(item.group, {}).setdefault(item.version, []).append(item)
    return {
        group: dict(sorted(versions.items(), key=lambda entry: _priority(entry[0]), reverse=True))
        for group, versions in found.items()
    }


def _priority(version: str) -> tuple[int, int, int]:
    """Kubernetes' order: v2 before v1 before v1beta2 before v1beta1 before v1alpha1."""
    for rank, word in ((2, "beta"), (1, "alpha")):
        major, found, minor = version.removeprefix("v").partition(word)
        if found and major.isdigit() and minor.isdigit():
            return rank, int(major), int(minor)
    digits = version.removeprefix("v")
    return (3, int(digits), 0) if digits.isdigit() else (0, 0, 0)


def core_versions(address: str) -> Object:
    addresses = [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}]
    return {"kind": "APIVersions", "versions": ["v1"], "serverAddressByClientCIDRs": addresses}


def group_list(registry: Registry) -> Object:
    groups = [_group(name, versions) for name, versions in _versions(registry).items() if name]
    return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}


def group(registry: Registry, name: str) -> Object | None:
    versions = _versions(registry).get(name) if name else None
    return {**_group(name, versions), "kind": "APIGroup", "apiVersion": "v1"} if versions else None


def _group(name: str, versions: Iterable[str]) -> Object:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def resource_list(registry: Registry, group_name: str, version: str) -> Object | None:
    served = _versions(registry).get(group_name, {}).get(version)
    if not served:
        return None
    resources = [entry for item in served for entry in (_resource(item), *_subresources(item))]
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": served[0].api_version,
        "resources": resources,
    }


def _resource(item: Served) -> Object:
    entry: Object = {
        "name": item.plural,
        "singularName": item.singular,
        "namespaced": item.namespaced,
        "kind": item.kind,
        "verbs": verbs(item),
    }
    return entry | _names(item)


def _names(item: Served) -> Object:
    found = {"shortNames": item.short_names, "categories": item.categories}
    return {key: names for key, names in found.items() if names}


def _subresource(item: Served, name: str) -> tuple[Object, tuple[str, ...]]:
    """The group, version and kind of a subresource, and its verbs."""
    version, kind, served = _SUBRESOURCES.get(name, ("", item.kind, _CHANGED))
    group, _, number = version.rpartition("/")
    where = {"group": group, "version": number} if version else {"group": item.group, "version": item.version}
    return {**where, "kind": kind}, served


def _subresources(item: Served) -> Iterable[Object]:
    for name in item.subresources:
        kind, served = _subresource(item, name)
        foreign = kind if (kind["group"], kind["version"]) != (item.group, item.version) else {"kind": kind["kind"]}
        common = {"singularName": "", "namespaced": item.namespaced}
        yield {"name": f"{item.plural}/{name}", **common, **foreign, "verbs": served}


def aggregated(registry: Registry, core: bool) -> Object:
    """The APIGroupDiscoveryList of /api (`core`) or /apis."""
    chosen = {name: versions for name, versions in _versions(registry).items() if (name == "") == core}
    items = [
        {
            "metadata": {"name": name, "creationTimestamp": None} if name else {"creationTimestamp": None},
            "versions": [
                {
                    "version": version,
                    "freshness": "Current",
                    "resources": [_aggregated_resource(item) for item in served],
                }
                for version, served in versions.items()
            ],
        }
        for name, versions in chosen.items()
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items}


def _aggregated_resource(item: Served) -> Object:
    subresources = []
    for name in item.subresources:
        response, served = _subresource(item, name)
        subresources.append({"subresource": name, "responseKind": response, "verbs": served})
    entry: Object = {
        "resource": item.plural,
        "responseKind": item.group_version_kind(),
        "scope": "Namespaced" if item.namespaced else "Cluster",
        "singularResource": item.singular,
        "verbs": verbs(item),
        **_names(item),
    }
    return {**entry, "subresources": subresources} if subresources else entry


def _prefix(item: Served) -> str:
    return f"apis/{item.group}/{item.version}" if item.group else f"api/{item.version}"


def openapi_index(registry: Registry) -> Object:
    prefixes = dict.fromkeys(_prefix(item) for item in registry.all())
    return {"paths": {prefix: {"serverRelativeURL": f"/openapi/v3/{prefix}"} for prefix in prefixes}}


def openapi_document(registry: Registry, prefix: str) -> Object | None:
    """The operations of one group version, without schemas; None if it isn't served."""
    items = sorted((item for item in registry.all() if _prefix(item) == prefix), key=lambda item: item.plural)
    paths: Object = {}
    for plural, same in groupby(items, key=lambda item: item.plural):
        item = next(same)
        scope = "namespaces/{namespace}/" if item.namespaced else ""
        paths[f"/{prefix}/{scope}{plural}/{{name}}"] = {"patch": _patch_operation(item)}
    info = {"title": "grove-admission sandbox", "version": VERSION["gitVersion"]}
    return {"openapi": "3.0.0", "info": info, "paths": paths} if paths else None


def _patch_operation(item: Served) -> Object:
    string = {"type": "string", "uniqueItems": True}
    parameters = [
        {"name": name, "in": "query", "schema": string} for name in ("dryRun", "fieldManager", "fieldValidation")
    ]
    return {
        "x-kubernetes-action": "patch",
        "x-kubernetes-group-version-kind": item.group_version_kind(),
        "parameters": parameters,
        "responses": {"200": {"description": "OK"}},
    }
