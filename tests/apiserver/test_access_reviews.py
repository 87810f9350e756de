"""Access reviews: `kubectl auth can-i`, and what controllers ask of others."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from tests.apiserver.api import Api, Object, opened

SELF = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
OTHERS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
PODS = {"verb": "get", "resource": "pods", "namespace": "home"}
OPERATOR = "system:serviceaccount:grove-system:grove-admission"
RULES: list[Object] = [
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "operator"},
        "rules": [
            {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["get"]},
            {
                "apiGroups": ["apps"],
                "resources": ["deployments"],
                "resourceNames": ["one"],
                "verbs": ["*"],
            },
        ],
    },
    {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "operator"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": "operator",
        },
        "subjects": [
            {"kind": "ServiceAccount", "name": "grove-admission", "namespace": "grove-system"}
        ],
    },
]


@pytest_asyncio.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The operator may read pods, their status, and do anything with one deployment."""
    async with opened(tmp_path, rules=RULES) as api:
        yield api


async def test_the_answer_is_the_question_with_a_status(api: Api) -> None:
    assert await api.ask("POST", SELF, {"spec": {"resourceAttributes": PODS}}) == (
        201,
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": {"resourceAttributes": PODS},
            "status": {"allowed": True},
        },
    )


@pytest.mark.parametrize(
    ("attributes", "allowed"),
    [
        pytest.param(PODS, True, id="what a rule names"),
        pytest.param({**PODS, "verb": "delete"}, False, id="another verb"),
        pytest.param({**PODS, "subresource": "status"}, True, id="a subresource"),
        pytest.param({**PODS, "subresource": "binding"}, False, id="another subresource"),
        pytest.param(
            {"verb": "get", "resource": "deployments", "group": "apps", "name": "one"},
            True,
            id="a name",
        ),
        pytest.param(
            {"verb": "get", "resource": "deployments", "group": "apps", "name": "two"},
            False,
            id="another",
        ),
        pytest.param({}, False, id="nothing in particular"),
    ],
)
async def test_the_operator_asks_about_itself(api: Api, attributes: Object, allowed: bool) -> None:
    answer = await api.done(
        "POST", SELF, {"spec": {"resourceAttributes": attributes}}, user="operator"
    )
    assert answer["status"] == {"allowed": allowed}


@pytest.mark.parametrize(
    ("subject", "verb", "allowed"),
    [
        pytest.param({"user": OPERATOR}, "get", True, id="the operator, what it may"),
        pytest.param({"user": OPERATOR}, "delete", False, id="the operator, what it may not"),
        pytest.param({"user": "alice"}, "delete", True, id="everybody else may do everything"),
        pytest.param({"groups": ["system:masters"]}, "delete", True, id="a group"),
    ],
)
async def test_the_admin_asks_about_others(
    api: Api, subject: Object, verb: str, allowed: bool
) -> None:
    spec = {**subject, "resourceAttributes": {**PODS, "verb": verb}}
    assert (await api.done("POST", OTHERS, {"spec": spec}))["status"] == {"allowed": allowed}


async def test_groups_alone_are_answered_without_rules_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as free:
        spec = {"groups": ["system:masters"], "resourceAttributes": PODS}
        assert (await free.done("POST", OTHERS, {"spec": spec}))["status"] == {"allowed": True}


@pytest.mark.parametrize(
    ("path", "spec", "told"),
    [
        pytest.param(
            SELF,
            {},
            "spec.resourceAttributes: the sandbox reviews access to resources only",
            id="no attributes",
        ),
        pytest.param(
            OTHERS,
            {"resourceAttributes": PODS},
            "spec.user: at least one of user or group must be specified",
            id="nobody is asked about",
        ),
    ],
)
async def test_reviews_that_are_refused(api: Api, path: str, spec: Object, told: str) -> None:
    assert await api.refused("POST", path, {"spec": spec}) == (400, "BadRequest", told)


async def test_a_review_of_another_kind_is_refused(api: Api) -> None:
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {}}
    kind = "authorization.k8s.io/v1"
    told = f'SubjectAccessReview in version "{kind}" cannot be handled as a SelfSubjectAccessReview in version "{kind}"'
    assert await api.refused("POST", SELF, body) == (400, "BadRequest", told)


@pytest.mark.parametrize(
    ("method", "path"), [("GET", SELF), ("DELETE", OTHERS), ("GET", f"{SELF}/one")]
)
async def test_reviews_are_not_stored(api: Api, method: str, path: str) -> None:
    assert (await api.refused(method, path))[:2] == (405, "MethodNotAllowed")


async def test_only_the_question_about_others_needs_a_right(api: Api) -> None:
    spec = {"user": "alice", "resourceAttributes": PODS}
    assert (await api.refused("POST", OTHERS, {"spec": spec}, user="operator"))[:2] == (
        403,
        "Forbidden",
    )
