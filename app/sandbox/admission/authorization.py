"""What RBAC lets users do: rules of roles, and the admission plugin OwnerReferencesPermissionEnforcement, which asks
RBAC about owner references. As Kubernetes has them in `plugin/pkg/auth/authorizer/rbac` and `plugin/pkg/admission/gc`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from app.sandbox.objects import errors
from app.sandbox.objects.objects import Object, User, metadata
from app.sandbox.storage.storage import Storage

_GROUP = "rbac.authorization.k8s.io"
_PLURALS = ("roles", "clusterroles", "rolebindings", "clusterrolebindings")

FindPlural = Callable[[str, str], str | None]
"""The plural of an apiVersion and kind; None if it isn't served."""


@dataclass(frozen=True, slots=True)
class Access:
    """What a request wants, as RBAC sees it: `resource` is `pods` or `pods/binding`; `namespace` and `name` are ""
    if the request has none."""

    verb: str
    group: str
    resource: str
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        scope = f'in the namespace "{self.namespace}"' if self.namespace else "at the cluster scope"
        return f'{self.verb} resource "{self.resource}" in API group "{self.group}" {scope}'


class Authorizer:
    """Decides for `limited` users by the roles and bindings of a storage; everybody else may do everything. `granted`
    is every access of limited users that was asked for and allowed."""

    def __init__(self, storage: Storage) -> None:
        self.granted: set[Access] = set()
        self.limited: set[str] = set()
        self._storage = storage
        self._rules: dict[str, list[tuple[str, Object]]] = {}
        self._changed = 0

    def check(self, user: User, access: Access) -> None:
        """Raises 403 for what `user` may not do."""
        if not self.may(user, access):
            why = f'User "{user.name}" cannot {access}'
            raise errors.forbidden(access.group, access.resource, access.name, why)
        if user.name in self.limited:
            self.granted.add(access)

    def may(self, user: User, access: Access) -> bool:
        return user.name not in self.limited or any(allows(rule, access, within) for within, rule in self._bound(user))

    def _bound(self, user: User) -> list[tuple[str, Object]]:
        """The rules of `user`, read again if a role or binding has changed."""
        tables = [self._storage.table((_GROUP, plural)) for plural in _PLURALS]
        changed = max(table.changed for table in tables)
        if changed != self._changed:
            self._rules, self._changed = {}, changed
        if user.name not in self._rules:
            objects = [obj for table in tables for obj in table.items()]
            self._rules[user.name] = list(bound_rules(objects, user))
        return self._rules[user.name]

    def check_owners(self, user: User, access: Access, new: Object, old: Object | None, plural_of: FindPlural) -> None:
        """Who changes an object's owners must be allowed to delete it, and who makes an owner wait for it, to update
        that owner's finalizers. `access` is the write itself. Raises 403."""
        before, after = (_owners(one) for one in (old or {}, new))
        if before == after:
            return
        if old is not None:
            self.check(user, Access("delete", access.group, access.resource, access.namespace, access.name))
        for owner in after:
            if owner.get("blockOwnerDeletion") and not any(_blocks(one, owner) for one in before):
                self.check(user, _finalizers(access, owner, plural_of))


def bound_rules(objects: Sequence[Object], user: User) -> Iterator[tuple[str, Object]]:
    """(namespace, rule) of every role that is bound to `user`; namespace "" for all of them."""
    roles = {_role_key(one["kind"], metadata(one)): one for one in objects if one["kind"] in ("Role", "ClusterRole")}
    for binding in objects:
        if binding["kind"] not in ("RoleBinding", "ClusterRoleBinding") or not _binds(binding, user):
            continue
        within = metadata(binding).get("namespace", "") if binding["kind"] == "RoleBinding" else ""
        reference = {"name": binding["roleRef"]["name"], "namespace": within}
        role = roles.get(_role_key(binding["roleRef"]["kind"], reference), {})
        for rule in role.get("rules") or ():
            yield within, rule


def allows(rule: Object, access: Access, within: str = "") -> bool:
    """Whether a rule, bound in the namespace `within` ("" for all), allows `access`."""
    if within and access.namespace != within:
        return False
    names = rule.get("resourceNames") or ()
    return (
        _covers(rule["verbs"], access.verb)
        and _covers(rule.get("apiGroups") or (), access.group)
        and _covers_resource(rule.get("resources") or (), access.resource)
        and (not names or access.name in names)
    )


def _covers(values: Sequence[str], value: str) -> bool:
    return "*" in values or value in values


def _covers_resource(values: Sequence[str], resource: str) -> bool:
    _, _, subresource = resource.partition("/")
    return _covers(values, resource) or bool(subresource and f"*/{subresource}" in values)


def _role_key(kind: str, meta: Object) -> tuple[str, str, str]:
    return kind, meta.get("namespace") or "" if kind == "Role" else "", meta["name"]


def _binds(binding: Object, user: User) -> bool:
    return any(_is(subject, user) for subject in binding.get("subjects") or ())


def _is(subject: Object, user: User) -> bool:
    match subject["kind"]:
        case "ServiceAccount":
            return user.name == f"system:serviceaccount:{subject['namespace']}:{subject['name']}"
        case "Group":
            return subject["name"] in user.groups
        case _:
            return bool(subject["name"] == user.name)


def _owners(obj: Object) -> list[Object]:
    return metadata(obj).get("ownerReferences") or []


def _blocks(before: Object, owner: Object) -> bool:
    return bool(before.get("blockOwnerDeletion")) and before.get("uid") == owner.get("uid")


def _finalizers(access: Access, owner: Object, plural_of: FindPlural) -> Access:
    version, kind = owner["apiVersion"], owner["kind"]
    plural = plural_of(version, kind)
    if plural is None:
        why = f"cannot set blockOwnerDeletion: no RESTMapping for APIVersion {version} Kind {kind}"
        raise errors.forbidden(access.group, access.resource, access.name, why)
    return Access("update", version.rpartition("/")[0], f"{plural}/finalizers", access.namespace, owner["name"])
