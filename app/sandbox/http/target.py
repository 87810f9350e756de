"""What a path names, and what a request for it needs of RBAC."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.sandbox.admission.authorization import Access
from app.sandbox.objects import errors
from app.sandbox.objects.objects import Key
from app.sandbox.objects.resources import Registry, Served


@dataclass(frozen=True, slots=True)
class Target:
    """A collection (without a `name`), an object or a subresource."""

    served: Served
    namespace: str
    name: str
    subresource: str

    @property
    def key(self) -> Key:
        return self.namespace, self.name


def find_target(registry: Registry, parts: list[str]) -> Target:
    """The target of a path `api/v1/...` or `apis/<group>/<version>/...`, split into `parts`. Raises 404 if it is not
    served."""
    group, version, path = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = ""
    if len(path) > 2 and path[0] == "namespaces" and registry.find(group, version, path[2]):
        namespace, path = path[1], path[2:]
    served = registry.find(group, version, path[0])
    if served is None or len(path) > 3 or (namespace and not served.namespaced):
        raise errors.not_served()
    name, subresource = (*path[1:], "", "")[:2]
    if (subresource and subresource not in served.subresources) or (served.namespaced and name and not namespace):
        raise errors.not_served()
    return Target(served, namespace, name, subresource)


def access_of(method: str, params: Mapping[str, str], target: Target) -> Access:
    """The access that a request needs. A collection with a field selector for one name counts as that object."""
    served, name = target.served, target.name
    resource = f"{served.plural}/{target.subresource}" if target.subresource else served.plural
    if not name and method != "POST":
        key, _, value = params.get("fieldSelector", "").partition("=")
        name = value.removeprefix("=") if key == "metadata.name" and "," not in value else ""
    return Access(_verb(method, params, target), served.group, resource, target.namespace, name)


def _verb(method: str, params: Mapping[str, str], target: Target) -> str:
    if method == "GET":
        if params.get("watch") in ("1", "true"):
            return "watch"
        return "get" if target.name else "list"
    if method == "DELETE" and not target.name:
        return "deletecollection"
    return {"POST": "create", "PUT": "update"}.get(method, method.lower())
