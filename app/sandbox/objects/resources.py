"""The resources that the sandbox serves: the built-in ones, and those of every stored CustomResourceDefinition."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from app.sandbox.objects.cel import CelError
from app.sandbox.objects.conversion import Convert, relabel
from app.sandbox.objects.errors import invalid
from app.sandbox.objects.objects import Object, TableId
from app.sandbox.objects.schema import Schema

CRDS: TableId = ("apiextensions.k8s.io", "customresourcedefinitions")


@dataclass(frozen=True, slots=True)
class Column:
    """A printer column: `path` is a JSONPath with its leading dot, `type` the CRD's (date is shown as an age)."""

    name: str
    path: str
    type: str = "string"
    priority: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """One resource in one version. `read` turns a stored object into this version, `write` turns it back."""

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
    categories: tuple[str, ...] = ()
    has_status: bool = False
    has_generation: bool = False
    custom: bool = False
    schema: Schema | None = None
    columns: tuple[Column, ...] = ()
    subresources: tuple[str, ...] = field(default=())

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    def group_version_kind(self) -> Object:
        return {"group": self.group, "version": self.version, "kind": self.kind}

    def group_version_resource(self) -> Object:
        return {"group": self.group, "version": self.version, "resource": self.plural}


class Registry:
    """What is served now. Custom resources come and go with their definitions."""

    def __init__(self, builtins: Iterator[Served]) -> None:
        self._served = {(item.group, item.version, item.plural): item for item in builtins}

    def find(self, group: str, version: str, plural: str) -> Served | None:
        return self._served.get((group, version, plural))

    def all(self) -> list[Served]:
        return list(self._served.values())

    def for_kind(self, api_version: str, kind: str) -> Served | None:
        """The resource of objects that say this apiVersion and kind."""
        matching = (item for item in self._served.values() if (item.api_version, item.kind) == (api_version, kind))
        return next(matching, None)

    def plural_of(self, api_version: str, kind: str) -> str | None:
        found = self.for_kind(api_version, kind)
        return found.plural if found else None

    def group_kind(self, group: str, kind: str) -> Served | None:
        """Some version of a kind: enough to know the table and the scope."""
        return next((item for item in self._served.values() if (item.group, item.kind) == (group, kind)), None)

    def for_table(self, table: TableId) -> Served:
        """The first served version of what is stored in `table`. KeyError if nothing is."""
        for item in self._served.values():
            if item.table == table:
                return item
        raise KeyError(table)

    def versions(self, served: Served) -> list[Served]:
        """All served versions of the same stored objects, the other groups' ones (events) included."""
        return [item for item in self._served.values() if item.table == served.table]

    def install(self, crd: Object) -> None:
        self.uninstall(crd)
        for item in custom_resources(crd):
            self._served[item.group, item.version, item.plural] = item

    def uninstall(self, crd: Object) -> None:
        table = crd["spec"]["group"], crd["spec"]["names"]["plural"]
        for key in [key for key, item in self._served.items() if item.table == table and item.custom]:
            del self._served[key]


def custom_resources(crd: Object) -> list[Served]:
    """The served versions of a definition. Raises 422 for a definition that can't be served."""
    name, spec = crd["metadata"]["name"], crd.get("spec") or {}
    try:
        names = spec["names"]
        table = (spec["group"], names["plural"])
        stored = next(item["name"] for item in spec["versions"] if item.get("storage"))
        served = [_custom(spec, names, version, table, stored) for version in spec["versions"] if version.get("served")]
    except CelError as error:
        raise _refused(name, "spec.validation.openAPIV3Schema", f"Invalid value: {error}") from error
    except StopIteration as error:
        raise _refused(name, "spec.versions", "Required value: a version with storage: true") from error
    except (KeyError, TypeError, AttributeError) as error:
        raise _refused(name, "spec", f"Required value: {error}") from error
    if name != f"{table[1]}.{table[0]}":
        raise _refused(name, "metadata.name", f'Invalid value: "{name}": must be spec.names.plural+"."+spec.group')
    return served


def _refused(name: str, field_name: str, message: str) -> Exception:
    cause = {"reason": "FieldValueInvalid", "message": message, "field": field_name}
    return invalid(CRDS[0], "CustomResourceDefinition", name, [cause])


def _custom(spec: Object, names: Object, version: Object, table: TableId, stored: str) -> Served:
    columns = [
        Column(item["name"], item["jsonPath"], item["type"], item.get("priority") or 0)
        for item in version.get("additionalPrinterColumns") or ()
    ]
    subresources = version.get("subresources") or {}
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
        categories=tuple(names.get("categories") or ()),
        has_status="status" in subresources,
        has_generation=True,
        custom=True,
        schema=Schema(version["schema"]["openAPIV3Schema"]),
        columns=tuple(columns or [Column("Age", ".metadata.creationTimestamp", "date")]),
        subresources=("status",) if "status" in subresources else (),
    )
