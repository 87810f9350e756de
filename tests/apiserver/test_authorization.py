"""RBAC in the sandbox: rules, bindings, and the guard of owner references."""

from typing import Any

import pytest
from msgspec.structs import replace

from scripts.apiserver.admission.authorization import Access, Authorizer, allows
from scripts.apiserver.objects.errors import ApiError
from scripts.apiserver.objects.objects import ADMIN, ALICE, OPERATOR, Object
from scripts.apiserver.objects.resources import Registry
from scripts.apiserver.requests.builtins import builtins
from scripts.apiserver.storage import Storage

PODS = Access("get", "", "pods", "ours", "p")


def rule(**changes: Any) -> Object:
    return {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], **changes}


@pytest.mark.parametrize(
    ("changes", "access", "allowed"),
    [
        pytest.param({}, {}, True, id="verb, group and resource are named"),
        pytest.param({}, {"verb": "list"}, False, id="another verb"),
        pytest.param({}, {"group": "apps"}, False, id="another group"),
        pytest.param({}, {"resource": "nodes"}, False, id="another resource"),
        pytest.param(
            {}, {"resource": "pods/status"}, False, id="a resource doesn't cover its subresources"
        ),
        pytest.param(
            {"resources": ["pods/status"]}, {"resource": "pods/status"}, True, id="a subresource"
        ),
        pytest.param(
            {"resources": ["pods/status"]}, {}, False, id="a subresource doesn't cover its resource"
        ),
        pytest.param(
            {"resources": ["*/status"]},
            {"resource": "pods/status"},
            True,
            id="a subresource of anything",
        ),
        pytest.param({"resources": ["*"]}, {"resource": "pods/status"}, True, id="anything"),
        pytest.param(
            {"verbs": ["*"], "apiGroups": ["*"]},
            {"verb": "delete", "group": "apps"},
            True,
            id="wildcards",
        ),
        pytest.param({"resourceNames": ["p"]}, {}, True, id="this name"),
        pytest.param({"resourceNames": ["q"]}, {}, False, id="another name"),
        pytest.param(
            {"resourceNames": ["p"]},
            {"name": ""},
            False,
            id="a name is needed where names are given",
        ),
        pytest.param(
            {"apiGroups": None, "resources": None, "nonResourceURLs": ["/metrics"]},
            {},
            False,
            id="a rule about paths",
        ),
    ],
)
def test_what_a_rule_allows(changes: Object, access: Any, allowed: bool) -> None:
    assert allows(rule(**changes), replace(PODS, **access), "") is allowed


def role(kind: str, name: str, *rules: Object, namespace: str = "") -> Object:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"kind": kind, "metadata": metadata, "rules": list(rules)}


def binding(kind: str, to: str, namespace: str = "", /, **subject: str) -> Object:
    metadata = {"name": "b", "namespace": namespace} if namespace else {"name": "b"}
    role_kind, _, name = to.partition("/")
    return {
        "kind": kind,
        "metadata": metadata,
        "roleRef": {"kind": role_kind, "name": name},
        "subjects": [
            {
                "kind": "ServiceAccount",
                "name": "grove-admission",
                "namespace": "grove-system",
                **subject,
            }
        ],
    }


def stored(*objects: Object) -> Storage:
    storage = Storage()
    for number, obj in enumerate(objects):
        put(storage, obj, str(number))
    return storage


def put(storage: Storage, obj: Object, uid: str) -> None:
    metadata = {**obj["metadata"], "uid": uid}
    storage.insert(
        ("rbac.authorization.k8s.io", f"{obj['kind'].lower()}s"), {**obj, "metadata": metadata}
    )


def limited(objects: list[Object]) -> Authorizer:
    """An authorizer with these roles and bindings, which limits our own account."""
    return Authorizer(stored(*objects), {ADMIN.name, ALICE.name})


READ = role("ClusterRole", "read", rule())
READ_OURS = role("Role", "read", rule(), namespace="ours")


@pytest.mark.parametrize(
    ("objects", "allowed"),
    [
        pytest.param(
            [READ, binding("ClusterRoleBinding", "ClusterRole/read")], True, id="bound everywhere"
        ),
        pytest.param([READ], False, id="a role that nobody is bound to"),
        pytest.param(
            [READ, binding("ClusterRoleBinding", "ClusterRole/write")],
            False,
            id="a role that isn't there",
        ),
        pytest.param(
            [READ, binding("ClusterRoleBinding", "ClusterRole/read", name="other")],
            False,
            id="another's binding",
        ),
        pytest.param(
            [READ_OURS, binding("RoleBinding", "Role/read", "ours")],
            True,
            id="bound in its namespace",
        ),
        pytest.param(
            [READ_OURS, binding("RoleBinding", "Role/read", "theirs")],
            False,
            id="a role of a namespace",
        ),
        pytest.param(
            [READ, binding("RoleBinding", "ClusterRole/read", "ours")],
            True,
            id="everybody's role, bound here",
        ),
        pytest.param(
            [READ, binding("RoleBinding", "ClusterRole/read", "theirs")],
            False,
            id="everybody's role, bound there",
        ),
        pytest.param(
            [
                READ,
                binding(
                    "ClusterRoleBinding",
                    "ClusterRole/read",
                    kind="Group",
                    name="system:authenticated",
                ),
            ],
            True,
            id="bound to a group",
        ),
        pytest.param(
            [
                READ,
                binding("ClusterRoleBinding", "ClusterRole/read", kind="User", name=OPERATOR.name),
            ],
            True,
            id="bound to the user",
        ),
        pytest.param([], False, id="no roles at all"),
    ],
)
def test_what_a_bound_service_account_may_do(objects: list[Object], allowed: bool) -> None:
    authorizer = limited(objects)
    if allowed:
        authorizer.check(OPERATOR, PODS)
        return
    with pytest.raises(ApiError) as refused:
        authorizer.check(OPERATOR, PODS)
    told = (
        f'User "{OPERATOR.name}" cannot get resource "pods" in API group "" in the namespace "ours"'
    )
    assert (refused.value.code, refused.value.message) == (403, f'pods "p" is forbidden: {told}')


def test_a_change_of_roles_counts_at_once() -> None:
    storage = stored(binding("ClusterRoleBinding", "ClusterRole/read"))
    authorizer = Authorizer(storage)
    assert not authorizer.may(OPERATOR, PODS)
    put(storage, READ, "later")
    assert authorizer.may(OPERATOR, PODS)
    storage.remove(("rbac.authorization.k8s.io", "clusterrolebindings"), ("", "b"))
    assert not authorizer.may(OPERATOR, PODS)


def test_only_one_user_is_limited_and_what_it_was_granted_is_kept() -> None:
    authorizer = limited([READ, binding("ClusterRoleBinding", "ClusterRole/read")])
    for user in (ADMIN, ALICE):
        authorizer.check(user, Access("delete", "", "nodes", name="n"))
    authorizer.check(OPERATOR, PODS)
    assert authorizer.granted == {PODS}


OWNER = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "g", "uid": "1"}
BLOCKED = {**OWNER, "blockOwnerDeletion": True}
CREATE, UPDATE = (Access(verb, "", "pods", "ours", "p") for verb in ("create", "update"))
DELETE = Access("delete", "", "pods", "ours", "p")
FINALIZERS = Access("update", "apps", "deployments/finalizers", "ours", "g")


def owned(*owners: Object) -> Object:
    return {"metadata": {"name": "p", "ownerReferences": list(owners)}}


@pytest.mark.parametrize(
    ("access", "new", "old", "asked"),
    [
        pytest.param(CREATE, owned(), None, set(), id="created without owners"),
        pytest.param(
            CREATE, owned(OWNER), None, set(), id="created with an owner that needn't wait"
        ),
        pytest.param(
            CREATE, owned(BLOCKED), None, {FINALIZERS}, id="created with an owner that has to wait"
        ),
        pytest.param(UPDATE, owned(BLOCKED), owned(BLOCKED), set(), id="owners stay"),
        pytest.param(UPDATE, owned(BLOCKED), owned(), {DELETE, FINALIZERS}, id="an owner comes"),
        pytest.param(UPDATE, owned(), owned(BLOCKED), {DELETE}, id="an owner goes"),
        pytest.param(
            UPDATE,
            owned(BLOCKED),
            owned(BLOCKED, {**OWNER, "uid": "2"}),
            {DELETE},
            id="another owner goes",
        ),
        pytest.param(
            UPDATE,
            owned(BLOCKED),
            owned(OWNER),
            {DELETE, FINALIZERS},
            id="an owner has to wait from now on",
        ),
    ],
)
def test_owner_references_ask_for_rights_on_the_object_and_its_owner(
    access: Access, new: Object, old: Object | None, asked: set[Access]
) -> None:
    everything = role("ClusterRole", "all", rule(apiGroups=["*"], resources=["*"], verbs=["*"]))
    authorizer = limited([everything, binding("ClusterRoleBinding", "ClusterRole/all")])
    authorizer.check_owners(OPERATOR, access, new, old, Registry(builtins()))
    assert authorizer.granted == asked


def test_an_owner_of_a_kind_that_is_not_served_can_not_be_made_to_wait() -> None:
    authorizer = limited([READ])
    with pytest.raises(ApiError, match="no RESTMapping for APIVersion apps/v1"):
        authorizer.check_owners(OPERATOR, CREATE, owned(BLOCKED), None, Registry(iter(())))
