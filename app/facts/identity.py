"""Identify objects by kind, namespace and name, and by their place in a PodCliqueSet."""

from functools import lru_cache
from sys import intern
from typing import Any, ClassVar

from app.base.value import Value
from app.facts.labels import (
    BASE_PODGANG,
    CLIQUE_NAME,
    GROVE_CLIQUE_NAME,
    GROVE_PCS_NAME,
    GROVE_PCS_REPLICA,
    GROVE_PCSG_NAME,
    GROVE_PCSG_REPLICA,
    MNNVL_UNIT,
    PCS_NAME,
    PCS_REPLICA,
    PCSG_NAME,
    PCSG_REPLICA,
    PODGANG,
)
from app.objects.names import MAX_LABEL
from app.objects.shape import JsonMap, map_at, text_at, text_of

Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-scoped object is ""."""


class Ref(Value, order=True):
    """A reference to an object."""

    kind: str
    namespace: str
    """The namespace of the object, or "" for cluster-scoped kinds."""
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"

    @property
    def key(self) -> Key:
        """The namespace and the name."""
        return self.namespace, self.name


class Named:
    """A mixin for facts about one object: its kind, its name and its reference."""

    __slots__ = ()
    kind: ClassVar[str]
    name: str

    @property
    def ref(self) -> Ref:
        """The reference to the object."""
        return Ref(self.kind, getattr(self, "namespace", ""), self.name)


class ClusterScoped(Value, Named):
    """A fact about a cluster-scoped object."""

    name: str = ""


class Namespaced(Value, Named):
    """A fact about a namespaced object."""

    namespace: str = ""
    name: str = ""

    @property
    def key(self) -> Key:
        """The namespace and the name."""
        return self.namespace, self.name


def interned(value: Any) -> str:
    """Return the text `value`, as one object for equal texts. Return "" if it is not a text."""
    return intern(text_of(value))


def read_key(obj: JsonMap) -> Key:
    """Return the key in the metadata of an object. Equal namespaces are one object."""
    metadata = map_at(obj, "metadata")
    return intern(text_at(metadata, "namespace")), text_at(metadata, "name")


def read_name(obj: JsonMap) -> str:
    """Return the name in the metadata of an object."""
    return text_at(map_at(obj, "metadata"), "name")


# Places, from the labels of Grove's designs and of its operator.


class Place(Value):
    """The part of a PodCliqueSet that an object belongs to, by its labels ("" if missing)."""

    pcs: str = ""
    """The name of the PodCliqueSet."""
    replica: str = ""
    """The index of the PodCliqueSet's replica, as text."""
    group: str = ""
    """The short name of the scaling group (`inference-pool`)."""
    group_replica: str = ""
    """The index of the replica of that group, as text."""
    podgang: str = ""
    """The PodGang that the object is scheduled with."""
    clique: str = ""
    """The full name of the PodClique."""
    base_podgang: str = ""
    """The PodGang that must be scheduled before `podgang`."""
    unit: str = ""
    """The NVLink unit of an object that belongs to no PodCliqueSet."""

    @property
    def of_replica(self) -> tuple[str, str, str, str]:
        """The values that identify the replica of the set or of a scaling group."""
        return self.pcs, self.replica, self.group, self.group_replica

    @property
    def group_name(self) -> str:
        """The name of the PodCliqueScalingGroup, or "" if there is none."""
        return f"{self.pcs}-{self.replica}-{self.group}" if self.group else ""


NOWHERE = Place()


PLACE_LABELS = (
    PCS_NAME,
    GROVE_PCS_NAME,
    PCS_REPLICA,
    GROVE_PCS_REPLICA,
    PCSG_NAME,
    GROVE_PCSG_NAME,
    PCSG_REPLICA,
    GROVE_PCSG_REPLICA,
    PODGANG,
    GROVE_CLIQUE_NAME,
    CLIQUE_NAME,
    BASE_PODGANG,
    MNNVL_UNIT,
)


def read_place(labels: JsonMap) -> Place:
    """Return the place of an object with these labels.

    Equal places of objects that are read one after the other are usually one object, to save
    memory.
    """
    values = tuple(map(labels.get, PLACE_LABELS))
    try:
        return _shared_place(values)
    except (TypeError, ValueError):  # a value is not a text, or it is too long
        return _place(values)


@lru_cache(maxsize=256)
def _shared_place(values: tuple[Any, ...]) -> Place:
    """Return `_place(values)`. Raise ValueError if a text is too long for a label.

    Anybody may send a review with megabytes of labels, which must not stay in the cache.
    """
    if max([len(value) for value in values if value], default=0) > MAX_LABEL:
        raise ValueError
    return _place(values)


def _place(values: tuple[Any, ...]) -> Place:
    """Return the place for the values of PLACE_LABELS. A value that is not a text counts as "".

    The labels of the designs take precedence over Grove's, except for the name of the PodClique.
    The value of Grove's scaling group label is `<pcs>-<replica>-<group>`.
    """
    (
        pcs,
        grove_pcs,
        replica,
        grove_replica,
        group,
        grove_group,
        group_replica,
        grove_group_replica,
        podgang,
        grove_clique,
        clique,
        base_podgang,
        unit,
    ) = [intern(value) if isinstance(value, str) else "" for value in values]

    pcs = pcs or grove_pcs
    replica = replica or grove_replica
    prefix = f"{pcs}-{replica}-"
    if not group and pcs and replica and grove_group.startswith(prefix):
        group = intern(grove_group.removeprefix(prefix))

    return Place(
        pcs=pcs,
        replica=replica,
        group=group,
        group_replica=group_replica or grove_group_replica,
        podgang=podgang,
        clique=grove_clique or clique,
        base_podgang=base_podgang,
        unit=unit,
    )
