"""Objects by their names.

Times of facts are seconds since 1970, None if an object has none.
"""

import sys
from typing import Any, ClassVar

from app.base.value import Value
from app.objects.shape import JsonMap, map_at, text_at, text_of

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is ""."""


class Ref(Value, order=True):
    """An object. `namespace` is "" for cluster-scoped kinds."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def key(self) -> Key:
        return self.namespace, self.name


class Named:
    """A fact about one object of its kind."""

    __slots__ = ()
    kind: ClassVar[str]
    name: str

    @property
    def ref(self) -> Ref:
        return Ref(self.kind, getattr(self, "namespace", ""), self.name)


class ClusterScoped(Value, Named):
    """A fact about one object of a kind without namespaces."""

    name: str = ""


class Namespaced(Value, Named):
    """A fact about one object of a kind that has namespaces."""

    namespace: str = ""
    name: str = ""

    @property
    def key(self) -> Key:
        return self.namespace, self.name


def interned(value: Any) -> str:
    """Return the text `value` as one object for equal texts, "" if it is no text."""
    return sys.intern(text_of(value))


def read_key(metadata: JsonMap) -> Key:
    """Return the key in the metadata of an object. Equal namespaces are one object."""
    return sys.intern(text_at(metadata, "namespace")), text_at(metadata, "name")


def read_name(obj: JsonMap) -> str:
    return text_at(map_at(obj, "metadata"), "name")
