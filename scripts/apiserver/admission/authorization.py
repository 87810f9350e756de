"""Check access by RBAC, answer access reviews, and check changes of owner references.

The latter is what the admission plugin OwnerReferencesPermissionEnforcement does. Sources:
https://github.com/kubernetes/kubernetes/blob/v1.34.0/plugin/pkg/auth/authorizer/rbac/rbac.go and
https://github.com/kubernetes/kubernetes/blob/v1.34.0/plugin/pkg/admission/gc/gc_admission.go
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from scripts.apiserver.objects import errors, lifecycle
from scripts.apiserver.objects.objects import Frozen, Object, User, copy, key_of, owners_of
from scripts.apiserver.objects.resources import Registry, Served
from scripts.apiserver.storage import Storage

REVIEWS = "authorization.k8s.io"
"""The API group of access reviews, which are answered and not stored."""

REVIEWS_OF_SELF = (REVIEWS, "selfsubjectaccessreviews")
_GROUP = "rbac.authorization.k8s.io"
_MASTERS = "system:masters"
_PLURALS = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")


class Access(Frozen):
    """An access that RBAC checks.

    `resource` is, for example, `pods` or `pods/binding`. `namespace` and `name` are "" if the
    request has none.
    """

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        scope = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'{self.verb} resource "{self.resource}" in API group "{self.group}" {scope}'


class Authorizer:
    """An authorizer that uses the stored roles and bindings.

    The users in `free` may do everything. `granted` has every access that was checked and allowed
    for other users.
    """

    def __init__(self, storage: Storage, free: Iterable[str] = ()) -> None:
        self.granted: set[Access] = set()
        self.free = set(free)
        self._storage = storage

    def check(self, user: User, access: Access) -> None:
        """Raise 403 if `user` does not have this access."""
        if not self.may(user, access):
            why = f'User "{user.name}" cannot {access}'
            raise errors.forbidden((access.group, access.resource), access.name, why)
        if user.name not in self.free:
            self.granted.add(access)

    def may(self, user: User, access: Access) -> bool:
        if user.name in self.free or _MASTERS in user.groups:
            return True
        objects = [
            obj for plural in _PLURALS for obj in self._storage.table((_GROUP, plural)).items()
        ]
        return any(allows(rule, access, within) for within, rule in bound_rules(objects, user))

    def check_owners(
        self, user: User, access: Access, new: Object, old: Object | None, registry: Registry
    ) -> None:
        """Raise 403 if `user` may not change the owner references from `old` to `new`.

        The user must be allowed to delete a stored object and, for a new `blockOwnerDeletion`, to
        update the finalizers of the owner. `access` is that of the write itself.
        """
        before = owners_of(old or {})
        after = owners_of(new)
        if before == after:
            return
        if old is not None:
            self.check(user, replace(access, verb="delete"))
        blocking = {owner.get("uid") for owner in before if owner.get("blockOwnerDeletion")}
        for owner in after:
            if owner.get("blockOwnerDeletion") and owner.get("uid") not in blocking:
                self.check(user, _finalizers(access, owner, registry))


def bound_rules(objects: Sequence[Object], user: User) -> Iterator[tuple[str, Object]]:
    """Yield each rule that is bound to `user`, after the namespace of its binding.

    The namespace is "" for all namespaces.
    """
    roles = {(obj["kind"], *key_of(obj)): obj for obj in objects}
    for binding in objects:
        if any(_is(subject, user) for subject in binding.get("subjects") or ()):
            within = key_of(binding)[0]
            kind = binding["roleRef"]["kind"]
            name = binding["roleRef"]["name"]
            role = roles.get((kind, within if kind == "Role" else "", name), {})
            yield from ((within, rule) for rule in role.get("rules") or ())


def allows(rule: Object, access: Access, within: str) -> bool:
    """Return whether a rule that is bound in the namespace `within` allows `access`.

    `within` is "" for all namespaces.
    """
    resources = {"*", access.resource, f"*/{access.resource.partition('/')[2]}"}
    return (
        within in ("", access.namespace)
        and access.name in (rule.get("resourceNames") or (access.name,))
        and not {"*", access.verb}.isdisjoint(rule["verbs"])
        and not {"*", access.group}.isdisjoint(rule.get("apiGroups") or ())
        and not resources.isdisjoint(rule.get("resources") or ())
    )


def _is(subject: Object, user: User) -> bool:
    if subject["kind"] == "ServiceAccount":
        return user.name == f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
    return subject["name"] in (user.groups if subject["kind"] == "Group" else (user.name,))


def _finalizers(access: Access, owner: Object, registry: Registry) -> Access:
    version = owner["apiVersion"]
    kind = owner["kind"]
    served = registry.for_kind(version, kind)
    if served is None:
        why = f"cannot set blockOwnerDeletion: no RESTMapping for APIVersion {version} Kind {kind}"
        raise errors.forbidden((access.group, access.resource), access.name, why)
    return Access(
        "update", served.group, f"{served.plural}/finalizers", access.namespace, owner["name"]
    )


def answered(review: Object, served: Served, caller: User, authorizer: Authorizer) -> Object:
    """Return an access review with its status.

    Raise 400 for another kind, and for a review without `resourceAttributes` or without a user.
    """
    review = copy(review)
    lifecycle.check_identity(served, review, "", "")
    spec = review.get("spec") or {}
    user = caller
    if served.table != REVIEWS_OF_SELF:
        user = User(spec.get("user") or "", tuple(spec.get("groups") or ()))
        if not user.name and not user.groups:
            raise errors.bad_request("spec.user: at least one of user or group must be specified")
    return {**review, "status": {"allowed": authorizer.may(user, _access(spec))}}


def _access(spec: Object) -> Access:
    attributes = spec.get("resourceAttributes")
    if not isinstance(attributes, dict):
        raise errors.bad_request(
            "spec.resourceAttributes: the sandbox reviews access to resources only"
        )
    resource = "/".join(filter(None, (attributes.get("resource"), attributes.get("subresource"))))
    group, namespace, name = (attributes.get(key) or "" for key in ("group", "namespace", "name"))
    return Access(attributes.get("verb") or "", group, resource, namespace, name)
