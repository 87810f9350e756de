"""Describe a request to be admitted, and match it with the constraints of webhooks and policies."""

import uuid

from scripts.apiserver.objects.objects import Caller, Frozen, Object
from scripts.apiserver.objects.resources import NAMESPACES, Registry, Served
from scripts.apiserver.objects.selectors import object_selector
from scripts.apiserver.storage import Storage


class Attributes(Frozen):
    """A request to be admitted. `obj` and `old` are in the version of `served`."""

    served: Served
    operation: str
    namespace: str
    name: str
    caller: Caller
    obj: Object | None = None
    old: Object | None = None
    subresource: str = ""

    def request(self, matched: Served) -> Object:
        """Return the `request` of an AdmissionReview, with the object in the version `matched`."""
        present = {
            "subResource": self.subresource,
            "requestSubResource": self.subresource,
            "name": self.name,
            "namespace": self.namespace,
        }
        return {
            "uid": str(uuid.uuid4()),
            "kind": matched.group_version_kind(),
            "resource": matched.group_version_resource(),
            "requestKind": self.served.group_version_kind(),
            "requestResource": self.served.group_version_resource(),
            **{key: value for key, value in present.items() if value},
            "operation": self.operation,
            "userInfo": self.caller.user.info(),
            "object": self.converted(self.obj, matched),
            "oldObject": self.converted(self.old, matched),
            "dryRun": self.caller.dry_run,
        }

    def converted(self, obj: Object | None, matched: Served) -> Object | None:
        """Return `obj` in the version `matched`, or None without an object."""
        return None if obj is None else matched.read(self.served.write(obj))


class MatchConstraints(Frozen, eq=False, rename="camel"):
    """The constraints of a webhook or a policy, with the names and defaults of the API."""

    rules: tuple[Object, ...] = ()
    match_policy: str = "Equivalent"
    namespace_selector: Object | None = None
    object_selector: Object | None = None

    def matched(
        self, attributes: Attributes, registry: Registry, storage: Storage
    ) -> Served | None:
        """Return the version of the request that a rule names.

        Return None if no rule matches, or if a selector excludes the request.
        """
        versions = [attributes.served]
        if self.match_policy == "Equivalent":
            versions += registry.versions(attributes.served.table)
        for served in versions:
            if any(_rule_matches(rule, served, attributes) for rule in self.rules):
                return served if self._select(attributes, storage) else None
        return None

    def _select(self, attributes: Attributes, storage: Storage) -> bool:
        objects = object_selector(self.object_selector)
        if not any(objects(obj) for obj in (attributes.obj, attributes.old) if obj is not None):
            return False

        namespaces = object_selector(self.namespace_selector)
        if attributes.served.table == NAMESPACES:
            return namespaces(attributes.obj or attributes.old or {})
        if not attributes.served.namespaced:
            return True
        return namespaces(storage.get(NAMESPACES, ("", attributes.namespace)) or {})


def _rule_matches(rule: Object, served: Served, attributes: Attributes) -> bool:
    scope = {"Namespaced": (True,), "Cluster": (False,)}.get(
        rule.get("scope") or "*", (True, False)
    )
    namespaced = served.namespaced and served.table != NAMESPACES
    return (
        _named(rule, "operations", attributes.operation)
        and _named(rule, "apiGroups", served.group)
        and _named(rule, "apiVersions", served.version)
        and namespaced in scope
        and any(
            _resource_matches(item, served.plural, attributes.subresource)
            for item in rule.get("resources") or ()
        )
    )


def _named(rule: Object, key: str, value: str) -> bool:
    return not {"*", value}.isdisjoint(rule.get(key) or ())


def _resource_matches(pattern: str, plural: str, subresource: str) -> bool:
    """Return whether a pattern of a rule matches, such as `pods`, `pods/*`, `*/status` or `*/*`.

    `*` matches all resources but no subresource.
    """
    resource, _, sub = pattern.partition("/")
    return resource in ("*", plural) and (sub == subresource or (sub == "*"))
