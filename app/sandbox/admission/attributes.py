"""A request to be admitted, and whether the rules and selectors of a configuration match it."""

import uuid
from collections.abc import Iterable

from app.sandbox.objects.objects import Caller, Frozen, Object
from app.sandbox.objects.resources import NAMESPACES, Registry, Served
from app.sandbox.objects.selectors import Matches
from app.sandbox.storage import Storage


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
        """Return the `request` of an AdmissionReview.

        `matched` is the version that a rule of the webhook names.
        """
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
            "dryRun": self.caller.options.dry_run,
            "options": self.caller.options.review(f"{self.operation.title()}Options"),
        }

    def converted(self, obj: Object | None, matched: Served) -> Object | None:
        """`obj` in the version `matched`."""
        return None if obj is None else matched.read(self.served.write(obj))


def matched_version(
    rules: Iterable[Object],
    attributes: Attributes,
    registry: Registry,
    *,
    equivalent: bool,
) -> Served | None:
    """Return the version of the request that one of `rules` names, or None if none matches."""
    versions = [attributes.served]
    if equivalent:
        versions += registry.versions(attributes.served.table)
    for served in versions:
        if any(_rule_matches(rule, served, attributes) for rule in rules):
            return served
    return None


def is_selected(
    namespaces: Matches,
    objects: Matches,
    attributes: Attributes,
    storage: Storage,
) -> bool:
    """Return whether a namespaceSelector and an objectSelector select the request."""
    if not any(objects(obj) for obj in (attributes.obj, attributes.old) if obj is not None):
        return False
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
    """`pods`, `pods/binding`, `pods/*`, `*/status`, `*` (no subresources), `*/*`."""
    resource, _, sub = pattern.partition("/")
    return resource in ("*", plural) and (sub == subresource or (sub == "*"))
