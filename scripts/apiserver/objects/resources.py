"""Register the resources that the sandbox serves.

These are the built-in resources and those of every stored CustomResourceDefinition.
"""

from collections.abc import Iterator

from scripts.apiserver.objects.conversion import Convert, relabel
from scripts.apiserver.objects.errors import cause, invalid
from scripts.apiserver.objects.objects import Frozen, Object, TableId
from scripts.apiserver.objects.schema import Schema

CRDS: TableId = ("apiextensions.k8s.io", "customresourcedefinitions")
NAMESPACES: TableId = ("", "namespaces")
_ESTABLISHED = (("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted"))
"""The conditions of a served CRD, with their reasons."""

_CRD = (CRDS[0], "CustomResourceDefinition")


class Served(Frozen, eq=False):
    """A resource in one version.

    `read` converts a stored object to this version, and `write` converts it back. Custom resources
    have a `schema`.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    table: TableId
    read: Convert
    write: Convert
    singular: str = ""
    short_names: tuple[str, ...] = ()
    has_generation: bool = False
    schema: Schema | None = None
    subresources: tuple[str, ...] = ()

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def group_version_kind(self) -> Object:
        return {"group": self.group, "version": self.version, "kind": self.kind}

    def group_version_resource(self) -> Object:
        return {"group": self.group, "version": self.version, "resource": self.plural}


class Registry:
    """The served resources: the built-in ones and those of the installed CRDs."""

    def __init__(self, builtins: Iterator[Served]) -> None:
        self._served = {(item.group, item.version, item.plural): item for item in builtins}

    def find(self, group: str, version: str, plural: str) -> Served | None:
        return self._served.get((group, version, plural))

    def all(self) -> list[Served]:
        return list(self._served.values())

    def for_kind(self, api_version: str, kind: str) -> Served | None:
        """Return the resource of an apiVersion and kind, or None if it is not served."""
        matching = (
            item
            for item in self._served.values()
            if (item.api_version, item.kind) == (api_version, kind)
        )
        return next(matching, None)

    def versions(self, table: TableId) -> list[Served]:
        """Return all served versions of the objects in `table`, in all API groups."""
        return [item for item in self._served.values() if item.table == table]

    def install(self, crd: Object) -> None:
        """Serve the resources of `crd` instead of its previous ones."""
        self.uninstall(crd)
        for item in custom_resources(crd):
            self._served[item.group, item.version, item.plural] = item

    def uninstall(self, crd: Object) -> None:
        table = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        self._served = {
            key: item
            for key, item in self._served.items()
            if item.table != table or item.schema is None
        }


def custom_resources(crd: Object) -> list[Served]:
    """Return the served versions of a CRD. Raise 422 if the CRD is invalid."""
    name = crd["metadata"]["name"]
    spec = crd.get("spec") or {}
    try:
        names = spec["names"]
        table = (spec["group"], names["plural"])
        stored = next(item["name"] for item in spec["versions"] if item.get("storage"))
        served = [
            _custom(spec, names, version, table, stored)
            for version in spec["versions"]
            if version.get("served")
        ]
    except (StopIteration, KeyError, TypeError, AttributeError) as error:
        causes = [cause("Invalid", f"Invalid value: {error!r}", ("spec",))]
        raise invalid(_CRD, name, causes) from error

    if name != f"{table[1]}.{table[0]}":
        message = f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group'
        causes = [cause("Invalid", message, ("metadata", "name"))]
        raise invalid(_CRD, name, causes)

    return served


def established_status(crd: Object, now: str) -> Object:
    """Return the status of a CRD. All names are accepted. `now` is a timestamp."""
    names = crd["spec"]["names"]
    accepted = {"singular": names["kind"].lower(), "listKind": f"{names['kind']}List", **names}
    conditions = [
        {"type": kind, "status": "True", "reason": reason, "lastTransitionTime": now}
        for kind, reason in _ESTABLISHED
    ]
    return {"acceptedNames": accepted, "conditions": conditions}


def _custom(spec: Object, names: Object, version: Object, table: TableId, stored: str) -> Served:
    return Served(
        group=spec["group"],
        version=version["name"],
        plural=names["plural"],
        kind=names["kind"],
        namespaced=spec["scope"] == "Namespaced",
        table=table,
        read=relabel(f"{spec['group']}/{version['name']}"),
        write=relabel(f"{spec['group']}/{stored}"),
        singular=names.get("singular") or names["kind"].lower(),
        short_names=tuple(names.get("shortNames") or ()),
        has_generation=True,
        schema=Schema(version["schema"]["openAPIV3Schema"]),
        subresources=("status",) if "status" in (version.get("subresources") or {}) else (),
    )
