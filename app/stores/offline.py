"""Answer calls from documents instead of an API server."""

import itertools
from collections.abc import Iterable
from typing import Any

from app.facts.grove.podcliqueset import read_pod_clique_set
from app.facts.kinds import (
    ALL,
    CLAIM_TEMPLATE,
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    POD_CLIQUE_SET,
    POD_GANG_MAP,
)
from app.facts.labels import MNNVL_MANAGED
from app.kube.api import Conflict, Key, NotFound, Object, ObjectRef, Page, Patch, Selection
from app.objects.jsonpatch import apply_merge_patch
from app.objects.resource import Resource
from app.objects.shape import JsonMap, labels_of, map_at, text_at
from app.rules.mnnvl.claim import CHANNEL_CLASS

_LATER_APIS = {CLUSTER_TOPOLOGY_BINDING, POD_GANG_MAP}


class DocumentObjects:
    """An implementation of `Objects` with documents in memory.

    Documents are skipped if `kinds.ALL` lacks their kind, or if no API server would store their
    metadata, for example without a name. A namespaced document without a namespace is in `default`.
    Created and patched objects are stored too.

    If `is_whole` is true, objects that are not among the documents don't exist. Otherwise, nothing
    is known about them.
    """

    def __init__(self, documents: Iterable[Object], *, is_whole: bool = True) -> None:
        self.is_whole = is_whole
        self._objects: dict[Resource, dict[Key, Object]] = {}
        self._versions = itertools.count(1)
        self._later: set[Resource] = set()
        """The APIs of later releases of Grove to which documents belong, see `_later_api`."""
        self._is_design = False
        """Whether a document belongs to the release with ClusterTopologies (`_is_of_design`)."""
        for document in documents:
            self.add(document)

    def add(self, document: Object) -> None:
        """Store a document, unless it must be skipped.

        With a ComputeDomain that is not ours, also store the claim template that it names, because
        NVIDIA's controller would create this template.
        """
        resource = resource_of(document)
        metadata = map_at(document, "metadata")
        if resource is not None and _can_be_stored(metadata):
            self._store(resource, document, metadata.get("namespace") or "default")
            self._is_design |= _is_of_design(resource, document)
        template = _template_of_domain(document) if resource is COMPUTE_DOMAIN else None
        if template is not None:
            self.add(template)

    def contains(self, resource: Resource, name: str, namespace: str = "") -> bool:
        """Return whether this object is stored."""
        return (namespace, name) in self._objects.get(resource, {})

    def of(self, resource: Resource) -> list[Object]:
        """Return all stored objects of `resource`."""
        return list(self._objects.get(resource, {}).values())

    def served_version(self, resource: Resource) -> str | None:
        """Return the API version of the first stored object of `resource`.

        If there is none, return the preferred version. Return None if `resource` is an API of a
        later release of Grove to which no document belongs.
        """
        if resource in _LATER_APIS and resource not in self._later:
            return None
        for stored in self._objects.get(resource, {}).values():
            version = text_at(stored, "apiVersion").rpartition("/")[2]
            return version or resource.versions[0]
        return resource.versions[0]

    @property
    def names_grove(self) -> bool:
        """Whether the documents show to which release of Grove they belong."""
        return self.is_whole or bool(self._later) or self._is_design

    async def get(self, ref: ObjectRef, **_: Any) -> Object:
        try:
            return self._objects.get(ref.resource, {})[(ref.namespace or "", ref.name)]
        except KeyError:
            raise NotFound(f'{ref.resource} "{ref.name}" not found', code=404) from None

    async def list(self, selection: Selection, **_: Any) -> Page:
        """Return all selected objects as one page.

        A label selector may only have terms of the form `key=value`. Field selectors are ignored.
        """
        terms = dict(term.split("=") for term in selection.labels.split(",") if term)
        items = [
            obj
            for obj in self.of(selection.resource)
            if selection.namespace in (None, obj["metadata"].get("namespace"))
            and terms.items() <= labels_of(obj).items()
        ]
        return Page(items, "0")

    async def create(self, resource: Resource, obj: Object, namespace: str | None = None) -> Object:
        if self.contains(resource, obj["metadata"]["name"], namespace or ""):
            raise Conflict(f'{resource} "{obj["metadata"]["name"]}" already exists', code=409)
        return self._store(resource, obj, namespace or "")

    async def patch(self, ref: ObjectRef, patch: Patch, **_: Any) -> Object:
        current = await self.get(ref)
        changed = apply_merge_patch(current, patch)  # the only kind that webhooks send
        return self._store(ref.resource, changed, ref.namespace or "")

    def _store(self, resource: Resource, obj: Object, namespace: str) -> Object:
        """Store `obj` with a new resourceVersion, and a uid if it has none, and return it."""
        number = next(self._versions)
        metadata = {"uid": f"document-{number}", **obj["metadata"], "resourceVersion": str(number)}
        if resource.namespaced:
            metadata["namespace"] = namespace
        stored = {**obj, "metadata": metadata}
        self._later |= _later_api(resource, stored)
        self._objects.setdefault(resource, {})[
            (namespace if resource.namespaced else "", metadata["name"])
        ] = stored
        return stored


def _later_api(resource: Resource, stored: Object) -> set[Resource]:
    """Return a set with the API of a later release of Grove to which `stored` belongs, if any.

    A PodCliqueSet that uses a ClusterTopologyBinding belongs to the API of these bindings.
    """
    if resource is POD_CLIQUE_SET and read_pod_clique_set(stored).names_pack:
        return {CLUSTER_TOPOLOGY_BINDING}
    return {resource} & _LATER_APIS


def _is_of_design(resource: Resource, document: Object) -> bool:
    """Return whether a document belongs to the release of Grove with ClusterTopologies.

    Such a document is a ClusterTopology, or a PodCliqueSet with a packDomain, which later releases
    reject in new sets.
    """
    if resource is POD_CLIQUE_SET:
        return bool(read_pod_clique_set(document).domains)
    return resource is CLUSTER_TOPOLOGY


def _template_of_domain(domain: Object) -> Object | None:
    """Return the claim template that NVIDIA's controller creates for a ComputeDomain.

    Return None if the ComputeDomain names no template, or if it is ours: nothing looks up the
    claims of our ComputeDomains.
    """
    name = text_at(map_at(domain, "spec", "channel", "resourceClaimTemplate"), "name")
    if not name or labels_of(domain).get(MNNVL_MANAGED) == "true":
        return None
    request = {"name": "channel", "exactly": {"deviceClassName": CHANNEL_CLASS}}
    return {
        "apiVersion": CLAIM_TEMPLATE.api_version(),
        "kind": CLAIM_TEMPLATE.kind,
        "metadata": {"name": name, "namespace": map_at(domain, "metadata").get("namespace", "")},
        "spec": {"spec": {"devices": {"requests": [request]}}},
    }


def _can_be_stored(metadata: JsonMap) -> bool:
    """Return whether an API server would store `metadata`, as far as this program reads it."""
    name = metadata.get("name")
    namespace = metadata.get("namespace") or ""
    maps = (metadata.get("labels") or {}, metadata.get("annotations") or {})
    return (
        _are_texts((name, namespace))
        and all(isinstance(entries, dict) and _are_texts(entries.values()) for entries in maps)
        and _are_owners(metadata.get("ownerReferences") or [])
    )


def _are_owners(references: Any) -> bool:
    return isinstance(references, list) and all(
        isinstance(owner, dict) and _are_texts(map(owner.get, ("kind", "name", "uid")))
        for owner in references
    )


def _are_texts(values: Iterable[Any]) -> bool:
    return all(isinstance(value, str) for value in values)


def resource_of(document: Object) -> Resource | None:
    """Return the resource of a document, or None if `kinds.ALL` lacks its kind."""
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    identity = (group, document.get("kind"))
    return next((resource for resource in ALL if (resource.group, resource.kind) == identity), None)
