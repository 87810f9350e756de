"""ValidatingAdmissionPolicies of the local API server."""

from typing import Any

import pytest

from tests.apiserver.api import CONFIGMAPS, NAMESPACE, Api, Object

POLICIES = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies"
BINDINGS = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings"
DENIED = "configmaps \"box\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'p' denied request: "


def policy(expression: str, **spec: Any) -> Object:
    """A policy about new ConfigMaps."""
    rule = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "p"},
        "spec": {
            "matchConstraints": {"resourceRules": [rule]},
            "validations": [{"expression": expression, "message": "no"}],
            **spec,
        },
    }


def binding(**spec: Any) -> Object:
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": "p"},
        "spec": {"policyName": "p", "validationActions": ["Deny"], **spec},
    }


def box(**data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "box"}, "data": data}


SMALL = "object.data.size() < 2"
NODES = {"apiVersion": "v1", "kind": "Namespace"}
CASES: dict[str, tuple[Object, Object, str]] = {
    "what holds": (policy("true"), binding(), ""),
    "what does not hold": (policy(SMALL), binding(), f"{DENIED}no"),
    "a condition that is false": (
        policy(SMALL, matchConditions=[{"name": "c", "expression": "object.data.size() > 5"}]),
        binding(),
        "",
    ),
    "an expression that fails": (
        policy("object.missing.size() > 1"),
        binding(),
        f"{DENIED}expression resulted in error: object.missing.size() > 1: no such key: missing",
    ),
    "an expression that fails, and may": (
        policy("object.missing.size() > 1", failurePolicy="Ignore"),
        binding(),
        "",
    ),
    "variables that use variables": (
        policy(
            "variables.last == 'b'",
            variables=[
                {"name": "keys", "expression": "['a', 'b', 'a']"},
                {"name": "last", "expression": "variables.keys[variables.keys.lastIndexOf('a')]"},
            ],
        ),
        binding(),
        f"{DENIED}no",
    ),
    "a variable that fails is no harm unless it counts": (
        policy(
            "object.data.size() > 1 || variables.bad",
            variables=[{"name": "bad", "expression": "object.missing.x"}],
        ),
        binding(),
        "",
    ),
    "a message that is made": (
        policy(
            SMALL,
            validations=[
                {
                    "expression": SMALL,
                    "message": "no",
                    "messageExpression": "'at ' + string(['x', 'y'].indexOf('y')) + ['a', 'b'].join('-')",
                }
            ],
        ),
        binding(),
        f"{DENIED}at 1a-b",
    ),
    "a message that can't be made": (
        policy(
            SMALL,
            validations=[{"expression": SMALL, "message": "no", "messageExpression": "object.x.y"}],
        ),
        binding(),
        f"{DENIED}no",
    ),
    "a message of two lines": (
        policy(
            SMALL,
            validations=[{"expression": SMALL, "message": "no", "messageExpression": "'a\\nb'"}],
        ),
        binding(),
        f"{DENIED}no",
    ),
    "no parameter": (
        policy("false", paramKind={"apiVersion": "v1", "kind": "Node"}),
        binding(paramRef={"name": "n1", "parameterNotFoundAction": "Allow"}),
        "",
    ),
    "a kind of parameters that is not served": (
        policy("false", paramKind={"apiVersion": "x.example/v1", "kind": "Odd"}),
        binding(paramRef={"name": "n1", "parameterNotFoundAction": "Allow"}),
        "",
    ),
    "a parameter by name": (
        policy("params.metadata.name != 'home'", paramKind=NODES),
        binding(paramRef={"name": NAMESPACE, "parameterNotFoundAction": "Allow"}),
        f"{DENIED}no",
    ),
    "a parameter by selector": (
        policy("params.metadata.name != 'home'", paramKind=NODES),
        binding(paramRef={"selector": {}, "parameterNotFoundAction": "Allow"}),
        f"{DENIED}no",
    ),
    "another namespace": (
        policy(
            "false",
            matchConstraints={
                **policy("")["spec"]["matchConstraints"],
                "namespaceSelector": {
                    "matchExpressions": [
                        {
                            "key": "kubernetes.io/metadata.name",
                            "operator": "NotIn",
                            "values": [NAMESPACE],
                        }
                    ]
                },
            },
        ),
        binding(),
        "",
    ),
    "a user who may": (
        policy(
            "authorizer.group('').resource('secrets').namespace('home').name('s').check('get').allowed()"
        ),
        binding(),
        "",
    ),
}


async def written(api: Api, **data: str) -> tuple[str, list[str]]:
    """The refusal of a ConfigMap, "" if it was stored, and the warnings."""
    answer = await api.send("POST", CONFIGMAPS, box(**data))
    warnings = answer.headers.get_list("warning")
    return "" if answer.status_code < 300 else answer.json()["message"], warnings


@pytest.mark.parametrize("case", CASES)
async def test_a_policy_decides(api: Api, case: str) -> None:
    rule, bound, message = CASES[case]
    await api.done("POST", POLICIES, rule)
    await api.done("POST", BINDINGS, bound)
    assert await written(api, a="1", b="2") == (message, [])


async def test_a_policy_without_a_binding_says_nothing(api: Api) -> None:
    await api.done("POST", POLICIES, policy("false"))
    assert await written(api) == ("", [])


async def test_a_binding_without_a_policy_says_nothing(api: Api) -> None:
    await api.done("POST", BINDINGS, binding())
    assert await written(api) == ("", [])


async def test_a_policy_that_warns_refuses_nothing(api: Api) -> None:
    await api.done("POST", POLICIES, policy("false"))
    await api.done("POST", BINDINGS, binding(validationActions=["Warn", "Audit"]))
    message, (warning,) = await written(api)
    assert message == ""
    assert "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p': no" in warning


async def test_a_limited_user_may_not(api: Api) -> None:
    """An impersonated user has only what roles give."""
    check = "authorizer.group('').resource('secrets').name('s').check('get').allowed()"
    await api.done("POST", POLICIES, policy(check))
    await api.done("POST", BINDINGS, binding())
    role = {"verbs": ["create"], "apiGroups": [""], "resources": ["configmaps"]}
    rbac = "rbac.authorization.k8s.io"
    path = f"/apis/{rbac}/v1"
    await api.done(
        "POST",
        f"{path}/clusterroles",
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRole",
            "metadata": {"name": "r"},
            "rules": [role],
        },
    )
    await api.done(
        "POST",
        f"{path}/clusterrolebindings",
        {
            "apiVersion": f"{rbac}/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "r"},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "r"},
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": "bob"}],
        },
    )
    code, answer = await api.ask("POST", CONFIGMAPS, box(), headers={"Impersonate-User": "bob"})
    assert (code, answer["message"]) == (422, f"{DENIED}no")
