"""Discovery, and the part of OpenAPI that `kubectl apply` reads.

kubectl reads in OpenAPI v3 whether PATCH has the parameter `fieldValidation`. It has, so the server validates fields.
"""

from collections.abc import Iterable
from itertools import groupby

from app.sandbox.objects.objects import Object
from app.sandbox.objects.resources import Registry, Served
from app.sandbox.requests import access_reviews

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
_SUBRESOURCES: dict[str, tuple[Object, tuple[str, ...]]] = {
    "binding": ({"kind": "Binding"}, ("create",)),
    "scale": ({"group": "autoscaling", "version": "v1", "kind": "Scale"}, _CHANGED),
    "token": ({"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}, ("create",)),
}
"""The kind and the verbs of the subresources whose kind is not that of the resource."""


def verbs(item: Served) -> tuple[str, ...]:
    """The verbs of a resource. Access reviews can only be created, and namespaces only be deleted one by one."""
    if item.group == access_reviews.GROUP:
        return ("create",)
    return tuple(verb for verb in _VERBS if verb not in _NOT_SERVED.get(item.table, ()))


def _versions(registry: Registry) -> dict[str, dict[str, list[Served]]]:
    """The resources by group and version, the preferred version of a group first."""
    groups: dict[str, dict[str, list[Served]]] = {}
    for item in registry.all():
        groups.setdefault(item.group, {}).setdefault(item.version, []).append(item)
    return {
        group: dict(sorted(versions.items(), key=lambda entry: _priority(entry[0]), reverse=True))
        for group, versions in groups.items()
    }


def _priority(version: str) -> tuple[int, int, int]:
    """A sort key for versions: v2, v1, v1beta2, v1beta1, v1alpha1 and all others in descending order."""
    for rank, word in ((2, "beta"), (1, "alpha")):
        major, _, minor = version.removeprefix("v").partition(word)
        if major.isdigit() and minor.isdigit():
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
    names = {"shortNames": item.short_names, "categories": item.categories}
    return entry | {key: value for key, value in names.items() if value}


def _subresources(item: Served) -> Iterable[Object]:
    for name in item.subresources:
        kind, allowed = _SUBRESOURCES.get(name, ({"kind": item.kind}, _CHANGED))
        common = {"singularName": "", "namespaced": item.namespaced}
        yield {"name": f"{item.plural}/{name}", **common, **kind, "verbs": allowed}


def _prefix(item: Served) -> str:
    return f"apis/{item.group}/{item.version}" if item.group else f"api/{item.version}"


def openapi_index(registry: Registry) -> Object:
    prefixes = dict.fromkeys(_prefix(item) for item in registry.all())
    return {"paths": {prefix: {"serverRelativeURL": f"/openapi/v3/{prefix}"} for prefix in prefixes}}


def openapi_document(registry: Registry, prefix: str) -> Object | None:
    """The PATCH operations of a group version, without schemas, or None if the group version is not served."""
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
