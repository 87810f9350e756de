"""The admission chain: which webhooks see a request, in which order, and what their answers do to
it.

The transport is scripted: nothing is called over the network here. What one call means is in
test_webhook.
"""

from collections.abc import Callable
from typing import Any

import pytest

from scripts.apiserver.admission.authorization import Authorizer
from scripts.apiserver.admission.chain import Admission, refusal
from scripts.apiserver.admission.webhook import (
    CallFailedError,
    Hook,
    Services,
    WebhookAnswer,
    WebhookTransport,
)
from scripts.apiserver.objects.errors import ApiError
from scripts.apiserver.objects.objects import ADMIN, Caller, copy
from scripts.apiserver.objects.patching import MERGE
from scripts.apiserver.objects.resources import Registry, Served
from scripts.apiserver.requests.builtins import builtins
from scripts.apiserver.requests.writes import Writer
from scripts.apiserver.storage import Storage
from tests.apiserver.api import NAMESPACE, Object, bare, configmap, definition

YES = WebhookAnswer(allowed=True)
Answers = Callable[[Object], WebhookAnswer]


class Script(WebhookTransport):
    """Answers each webhook by its name (without `.example.com`): yes unless told."""

    def __init__(self) -> None:
        super().__init__(Services(Storage()).address)
        self.answers: dict[str, Answers] = {}
        self.calls: list[tuple[str, Object]] = []

    async def call(self, hook: Hook, request: Object) -> WebhookAnswer:
        name = hook.name.removesuffix(".example.com")
        self.calls.append((name, copy(request)))
        return self.answers[name](request) if name in self.answers else YES


class Server:
    """Storage and writer behind a scripted admission chain.

    There is a namespace `home` of the team `a`.
    """

    def __init__(self) -> None:
        self.script = Script()
        self.storage = Storage()
        self.registry = Registry(builtins())
        admission = Admission(self.storage, self.registry, self.script, Authorizer(self.storage))
        self.writer = Writer(self.storage, self.registry, admission)
        self.put(
            {
                "apiVersion": "v1",
                "kind": "Namespace",
                "metadata": {"name": NAMESPACE, "uid": "n", "labels": {"team": "a"}},
            }
        )

    def served(self, group: str, version: str, plural: str) -> Served:
        served = self.registry.find(group, version, plural)
        assert served is not None
        return served

    def put(self, obj: Object) -> None:
        """Stores an object past admission."""
        served = self.registry.for_kind(obj["apiVersion"], obj["kind"])
        assert served is not None
        self.storage.insert(served.table, obj)

    def hooks(self, *items: Object, kind: str = "Mutating", name: str = "hooks") -> None:
        api_version = "admissionregistration.k8s.io/v1"
        self.put(
            {
                "apiVersion": api_version,
                "kind": f"{kind}WebhookConfiguration",
                "metadata": {"name": name, "uid": f"{kind} {name}"},
                "webhooks": list(items),
            }
        )

    async def create(self, obj: Object, *, plural: str = "configmaps", **options: Any) -> Object:
        namespace = "" if plural in ("namespaces", "nodes") else NAMESPACE
        caller = Caller(ADMIN, **options)
        return await self.writer.create(self.served("", "v1", plural), obj, caller, namespace)

    def asked(self) -> list[str]:
        return [name for name, _ in self.script.calls]


def hook(name: str, /, **item: Any) -> Object:
    """A webhook for all writes of ConfigMaps."""
    rule = {
        "operations": ["*"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
    }
    known = {"name": f"{name}.example.com", "clientConfig": {}, "sideEffects": "None"}
    return {**known, "rules": [rule], **item}


def patch(*operations: Object) -> Answers:
    return lambda request: WebhookAnswer.model_construct(allowed=True, patch=list(operations))


def always(letter: str) -> Answers:
    """Adds a letter to data.log."""
    return lambda request: patch(
        {
            "op": "add",
            "path": "/data/log",
            "value": request["object"]["data"].get("log", "") + letter,
        }
    )(request)


def once(letter: str) -> Answers:
    """Adds a letter to data.log where it isn't there."""
    add = always(letter)
    return lambda request: (
        YES if letter in request["object"]["data"].get("log", "") else add(request)
    )


def refuse(**status: Any) -> Answers:
    return lambda request: WebhookAnswer(allowed=False, status=status)


def fail(request: Object) -> WebhookAnswer:
    raise CallFailedError("failed to call webhook: oops")


def configmap_one(**metadata: Any) -> Object:
    return {**configmap("one", k="v"), "metadata": {"name": "one", **metadata}}


async def told(server: Server, obj: Object, **options: Any) -> tuple[int, str, str]:
    with pytest.raises(ApiError) as caught:
        await server.create(obj, **options)
    return caught.value.code, caught.value.reason, caught.value.message


# Rules.


@pytest.mark.parametrize(
    ("rule", "asked"),
    [
        pytest.param({}, True, id="it fits"),
        pytest.param({"operations": ["UPDATE"]}, False, id="another operation"),
        pytest.param({"operations": ["*"]}, True, id="any operation"),
        pytest.param({"apiGroups": ["apps"]}, False, id="another group"),
        pytest.param({"apiGroups": ["*"]}, True, id="any group"),
        pytest.param({"apiVersions": ["v2"]}, False, id="another version"),
        pytest.param({"resources": ["secrets", "configmaps"]}, True, id="one of several resources"),
        pytest.param({"resources": ["*"]}, True, id="any resource"),
        pytest.param({"resources": ["*/*"]}, True, id="any resource and subresource"),
        pytest.param({"resources": ["configmaps/*"]}, True, id="the resource and its subresources"),
        pytest.param({"resources": ["configmaps/status"]}, False, id="a subresource"),
        pytest.param({"scope": "Namespaced"}, True, id="namespaced resources"),
        pytest.param({"scope": "Cluster"}, False, id="cluster-scoped resources"),
        pytest.param({"resources": None}, False, id="no resources"),
    ],
)
async def test_rules(rule: Object, asked: bool) -> None:
    server = Server()
    fitting = {
        "operations": ["CREATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["configmaps"],
    }
    server.hooks(hook("a", rules=[{**fitting, **rule}]))
    await server.create(configmap_one())
    assert server.asked() == (["a"] if asked else [])


@pytest.mark.parametrize(("scope", "asked"), [("Cluster", ["a"]), ("Namespaced", []), ("*", ["a"])])
async def test_a_namespace_is_cluster_scoped(scope: str, asked: list[str]) -> None:
    server = Server()
    rule = {
        "operations": ["*"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["namespaces"],
        "scope": scope,
    }
    server.hooks(hook("a", rules=[rule]))
    await server.create({"metadata": {"name": "more"}}, plural="namespaces")
    assert server.asked() == asked


async def test_webhooks_do_not_see_webhook_configurations() -> None:
    server = Server()
    every = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    server.hooks(hook("a", rules=[every]))
    group = "admissionregistration.k8s.io"
    served = server.served(group, "v1", "validatingwebhookconfigurations")
    await server.writer.create(served, {"metadata": {"name": "more"}}, Caller(ADMIN))
    assert server.asked() == []


# Selectors.


NODES = [
    {
        "operations": ["*"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["nodes", "namespaces"],
    }
]


@pytest.mark.parametrize(
    ("item", "asked"),
    [
        pytest.param({"objectSelector": {"matchLabels": {"a": "b"}}}, True, id="the object"),
        pytest.param({"objectSelector": {"matchLabels": {"a": "c"}}}, False, id="another object"),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "a"}}}, True, id="the namespace"
        ),
        pytest.param(
            {"namespaceSelector": {"matchLabels": {"team": "b"}}}, False, id="another namespace"
        ),
        pytest.param({"objectSelector": {}, "namespaceSelector": {}}, True, id="everything"),
    ],
)
async def test_selectors(item: Object, asked: bool) -> None:
    server = Server()
    server.hooks(hook("a", **item))
    await server.create(configmap_one(labels={"a": "b"}))
    assert server.asked() == (["a"] if asked else [])


@pytest.mark.parametrize(
    ("plural", "labels", "asked"),
    [
        pytest.param(
            "namespaces", {"team": "a"}, True, id="a namespace is chosen by its own labels"
        ),
        pytest.param("namespaces", {}, False, id="a namespace without them"),
        pytest.param("nodes", {}, True, id="what is in no namespace is always chosen"),
    ],
)
async def test_namespace_selectors_of_what_is_in_none(
    plural: str, labels: Object, asked: bool
) -> None:
    server = Server()
    server.hooks(hook("a", rules=NODES, namespaceSelector={"matchLabels": {"team": "a"}}))
    await server.create({"metadata": {"name": "more", "labels": labels}}, plural=plural)
    assert server.asked() == (["a"] if asked else [])


async def test_an_update_is_seen_by_what_chooses_the_old_object() -> None:
    server = Server()
    created = await server.create(configmap_one(labels={"a": "b"}))
    server.hooks(hook("a", objectSelector={"matchLabels": {"a": "b"}}))
    configmaps = server.served("", "v1", "configmaps")
    key = (NAMESPACE, "one")
    await server.writer.patch(
        configmaps, key, {"metadata": {"labels": {"a": "c"}}}, MERGE, Caller(ADMIN)
    )
    await server.writer.patch(configmaps, key, {"data": {"x": "y"}}, MERGE, Caller(ADMIN))
    assert server.asked() == ["a"]
    assert created["metadata"]["labels"] == {"a": "b"}


# Match conditions.


def conditions(*expressions: str) -> list[Object]:
    return [
        {"name": f"c{index}", "expression": expression}
        for index, expression in enumerate(expressions)
    ]


BROKEN = "object.data.nope == 'x'"
FORBIDDEN = 'configmaps "one" is forbidden: '
ERROR = f"a matchCondition resulted in error: {BROKEN}: no such key: nope"


@pytest.mark.parametrize(
    ("expressions", "asked"),
    [
        pytest.param(["true"], True, id="it holds"),
        pytest.param(["true", "false"], False, id="one doesn't"),
        pytest.param([BROKEN, "false"], False, id="one doesn't hold before one that fails"),
        pytest.param(["object.data.k == 'v' && oldObject == null"], True, id="the objects"),
        pytest.param(
            ["request.operation == 'CREATE' && request.name.startsWith('o')"],
            True,
            id="the request",
        ),
        pytest.param(["!('system:nodes' in request.userInfo.groups)"], True, id="the user"),
        pytest.param(["request.dryRun"], False, id="no dry run"),
    ],
)
async def test_match_conditions(expressions: list[str], asked: bool) -> None:
    server = Server()
    server.hooks(hook("a", matchConditions=conditions(*expressions)))
    await server.create(configmap_one())
    assert server.asked() == (["a"] if asked else [])


@pytest.mark.parametrize(
    "expressions",
    [
        pytest.param([BROKEN], id="one"),
        pytest.param([BROKEN, "true", "object.other"], id="the first of two"),
    ],
)
async def test_match_conditions_that_fail(expressions: list[str]) -> None:
    server = Server()
    server.hooks(hook("a", matchConditions=conditions(*expressions)))
    assert await told(server, configmap_one()) == (403, "Forbidden", FORBIDDEN + ERROR)


async def test_match_conditions_that_fail_can_be_ignored() -> None:
    server = Server()
    server.hooks(hook("a", matchConditions=conditions(BROKEN), failurePolicy="Ignore"))
    await server.create(configmap_one())
    assert server.asked() == []


# Order.


AGAIN = {"reinvocationPolicy": "IfNeeded"}


@pytest.mark.parametrize(
    ("hooks", "log", "asked"),
    [
        pytest.param([hook("a"), hook("b")], "ab", "a b", id="nobody is asked again"),
        pytest.param([hook("a", **AGAIN)], "a", "a", id="not for its own change"),
        pytest.param([hook("a", **AGAIN), hook("b")], "aba", "a b a", id="for a later change"),
        pytest.param([hook("a"), hook("b", **AGAIN)], "ab", "a b", id="not for an earlier change"),
        pytest.param(
            [hook("a", **AGAIN), hook("yes"), hook("b")],
            "aba",
            "a yes b a",
            id="who changes nothing is left",
        ),
        pytest.param([hook("a", **AGAIN), hook("yes")], "a", "a yes", id="no later change"),
        pytest.param(
            [hook("a", **AGAIN), hook("b", **AGAIN)],
            "abab",
            "a b a b",
            id="for a change in the second round",
        ),
        pytest.param(
            [hook("a", **AGAIN), hook("b"), hook("c", **AGAIN)],
            "abcac",
            "a b c a c",
            id="who never is asked again is passed over",
        ),
        pytest.param(
            [hook("once-a", **AGAIN), hook("once-b", **AGAIN), hook("once-c", **AGAIN)],
            "abc",
            "once-a once-b once-c once-a once-b",
            id="the last is not asked where nothing changed any more",
        ),
        pytest.param(
            [hook("same", **AGAIN), hook("same")],
            "",
            "same same",
            id="a patch that changes nothing",
        ),
    ],
)
async def test_mutating_webhooks_in_their_order(hooks: list[Object], log: str, asked: str) -> None:
    server = Server()
    server.script.answers = {
        **{letter: always(letter) for letter in "abc"},
        **{f"once-{letter}": once(letter) for letter in "abc"},
        "same": patch({"op": "replace", "path": "/data/k", "value": "v"}),
    }
    server.hooks(*hooks)
    created = await server.create(configmap_one())
    assert (created["data"].get("log", ""), server.asked()) == (log, asked.split())


async def test_configurations_come_by_name_and_mutating_ones_first() -> None:
    server = Server()
    server.hooks(hook("v"), kind="Validating", name="0")
    server.hooks(hook("b"), name="2")
    server.hooks(hook("a"), name="1")
    await server.create(configmap_one())
    assert server.asked() == ["a", "b", "v"]


async def test_a_change_of_the_configuration_counts_at_once() -> None:
    server = Server()
    server.hooks(hook("a"))
    await server.create(configmap_one())
    server.storage.remove(
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations"), ("", "hooks")
    )
    await server.create(configmap("two"))
    assert server.asked() == ["a"]


async def test_validating_webhooks_see_what_mutating_ones_made() -> None:
    server = Server()
    server.script.answers["a"] = always("a")
    server.hooks(hook("a"))
    server.hooks(hook("v"), kind="Validating")
    await server.create(configmap_one())
    assert server.script.calls[-1][1]["object"]["data"] == {"k": "v", "log": "a"}


# Answers.


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
@pytest.mark.parametrize(
    ("status", "expected"),
    [
        pytest.param({}, (400, "", "without explanation"), id="no reason"),
        pytest.param({"message": "because"}, (400, "", "because"), id="a message"),
        pytest.param({"reason": "Because"}, (400, "Because", "Because"), id="a reason"),
        pytest.param({"message": "m", "reason": "R", "code": 418}, (418, "R", "m"), id="a code"),
        pytest.param({"message": "m", "code": 200}, (400, "", "m"), id="a code of success"),
    ],
)
async def test_refusals(kind: str, status: Object, expected: tuple[int, str, str]) -> None:
    server = Server()
    server.script.answers["a"] = refuse(**status)
    server.hooks(hook("a"), kind=kind)
    code, reason, said = expected
    colon = "" if said == "without explanation" else ":"
    message = f'admission webhook "a.example.com" denied the request{colon} {said}'
    assert await told(server, configmap_one()) == (code, reason, message)
    assert server.storage.get(("", "configmaps"), (NAMESPACE, "one")) is None


def test_the_details_of_a_refusal_are_passed_on() -> None:
    assert refusal("a", {"details": {"causes": [{"message": "m"}]}}).details == {
        "causes": [{"message": "m"}]
    }


async def test_the_first_refusal_of_several_is_told() -> None:
    server = Server()
    server.script.answers = {"b": refuse(message="b"), "c": refuse(message="c")}
    server.hooks(hook("a"), hook("b"), hook("c"), kind="Validating")
    assert (await told(server, configmap_one()))[
        2
    ] == 'admission webhook "b.example.com" denied the request: b'
    assert server.asked() == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
async def test_a_webhook_that_fails_closed(kind: str) -> None:
    server = Server()
    server.script.answers["a"] = fail
    server.hooks(hook("a"), kind=kind)
    why = 'failed calling webhook "a.example.com": failed to call webhook: oops'
    assert await told(server, configmap_one()) == (
        500,
        "InternalError",
        f"Internal error occurred: {why}",
    )


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
async def test_a_webhook_that_fails_open(kind: str) -> None:
    server = Server()
    server.script.answers = {"a": fail}
    server.hooks(hook("a", failurePolicy="Ignore"), hook("b"), kind=kind)
    await server.create(configmap_one())
    assert server.asked() == ["a", "b"]


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(
    ("operation", "why"),
    [
        pytest.param(
            {"op": "remove", "path": "/data/x"},
            "can't remove a non-existent object 'x'",
            id="what isn't",
        ),
        pytest.param(
            {"op": "swap", "path": "/data"}, "Unknown operation 'swap'", id="an unknown operation"
        ),
    ],
)
async def test_patches_that_do_not_apply_fail_whatever_the_policy(
    policy: str, operation: Object, why: str
) -> None:
    server = Server()
    server.script.answers["a"] = patch(operation)
    server.hooks(hook("a", failurePolicy=policy))
    assert await told(server, configmap_one()) == (
        500,
        "InternalError",
        f"Internal error occurred: {why}",
    )


async def test_warnings_reach_the_caller_with_a_refusal_too() -> None:
    server = Server()
    server.script.answers = {
        "a": lambda request: WebhookAnswer(allowed=True, warnings=["one", "two"]),
        "b": lambda request: WebhookAnswer(allowed=False, warnings=["three"]),
    }
    server.hooks(hook("a"), hook("b"))
    caller = Caller(ADMIN)
    with pytest.raises(ApiError):
        await server.writer.create(
            server.served("", "v1", "configmaps"), configmap_one(), caller, NAMESPACE
        )
    assert caller.warnings == ["one", "two", "three"]


async def test_a_patch_of_a_custom_resource_is_pruned_and_defaulted() -> None:
    server = Server()
    server.registry.install(definition())
    rule = {
        "operations": ["*"],
        "apiGroups": ["example.com"],
        "apiVersions": ["v1"],
        "resources": ["widgets"],
    }
    server.script.answers["a"] = patch(
        {"op": "replace", "path": "/spec", "value": {"size": 2, "odd": 1}}
    )
    server.hooks(hook("a", rules=[rule]))
    caller = Caller(ADMIN)
    obj = {"metadata": {"name": "one"}, "spec": {"size": 1}}
    created = await server.writer.create(
        server.served("example.com", "v1", "widgets"), obj, caller, NAMESPACE
    )
    assert (created["spec"], caller.warnings) == ({"size": 2, "colour": "grey"}, [])


# Dry runs.


async def test_webhooks_with_side_effects_refuse_dry_runs() -> None:
    server = Server()
    server.hooks(hook("a", sideEffects="Some"))
    message = 'admission webhook "a.example.com" does not support dry run'
    assert await told(server, configmap_one(), dry_run=True) == (400, "BadRequest", message)


@pytest.mark.parametrize("effects", ["None", "NoneOnDryRun"])
async def test_webhooks_are_told_of_dry_runs(effects: str) -> None:
    server = Server()
    server.hooks(hook("a", sideEffects=effects))
    await server.create(configmap_one(), dry_run=True)
    request = server.script.calls[0][1]
    assert request["dryRun"] is True


# Reviews.


async def test_the_review_of_a_creation() -> None:
    server = Server()
    server.hooks(hook("a"))
    await server.create(configmap_one())
    kind = {"group": "", "version": "v1", "kind": "ConfigMap"}
    resource = {"group": "", "version": "v1", "resource": "configmaps"}
    request = server.script.calls[0][1]
    assert len(request.pop("uid")) == 36
    assert request == {
        "kind": kind,
        "resource": resource,
        "requestKind": kind,
        "requestResource": resource,
        "name": "one",
        "namespace": NAMESPACE,
        "operation": "CREATE",
        "userInfo": ADMIN.info(),
        "object": {**configmap_one(), "metadata": {"name": "one", "namespace": NAMESPACE}},
        "oldObject": None,
        "dryRun": False,
    }


async def test_a_generated_name_is_known_to_validating_webhooks_only() -> None:
    server = Server()
    server.hooks(hook("a"))
    server.hooks(hook("v"), kind="Validating")
    created = await server.create({"metadata": {"generateName": "x-"}})
    names = [request.get("name") for _, request in server.script.calls]
    assert names == [None, created["metadata"]["name"]]


async def test_the_review_of_a_deletion() -> None:
    server = Server()
    created = await server.create(configmap_one())
    server.hooks(hook("v"), kind="Validating")
    configmaps = server.served("", "v1", "configmaps")
    await server.writer.delete(configmaps, (NAMESPACE, "one"), Caller(ADMIN))
    request = server.script.calls[0][1]
    assert {key: request[key] for key in ("operation", "name", "object", "oldObject")} == {
        "operation": "DELETE",
        "name": "one",
        "object": None,
        "oldObject": created,
    }


async def test_the_review_of_a_change_of_the_status() -> None:
    server = Server()
    await server.create({"metadata": {"name": "n"}}, plural="nodes")
    rule = {
        "operations": ["UPDATE"],
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "resources": ["nodes/status"],
    }
    server.hooks(hook("a", rules=[rule]))
    nodes = server.served("", "v1", "nodes")
    body = {"status": {"phase": "x"}}
    await server.writer.patch(nodes, ("", "n"), body, MERGE, Caller(ADMIN), "status")
    await server.writer.patch(nodes, ("", "n"), {"spec": {"a": "b"}}, MERGE, Caller(ADMIN))
    assert server.asked() == ["a"]
    request = server.script.calls[0][1]
    assert (request["subResource"], request["requestSubResource"], request["operation"]) == (
        "status",
        "status",
        "UPDATE",
    )
    assert "status" not in request["oldObject"]
    assert request["object"]["status"] == {"phase": "x"}


# Versions.


CLAIMS = {
    "operations": ["*"],
    "apiGroups": ["resource.k8s.io"],
    "apiVersions": ["v1"],
    "resources": ["resourceclaims"],
}
FLAT = {
    "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "x"}]}},
}


async def test_a_webhook_sees_the_version_of_its_rule() -> None:
    server = Server()
    server.script.answers["a"] = patch(
        {"op": "replace", "path": "/spec/devices/requests/0/deviceClassName", "value": "y"}
    )
    server.hooks(hook("a", rules=[CLAIMS]))
    served = server.served("resource.k8s.io", "v1beta1", "resourceclaims")
    created = await server.writer.create(served, FLAT, Caller(ADMIN), NAMESPACE)
    request = server.script.calls[0][1]
    versions = [
        request[key]["version"] for key in ("kind", "resource", "requestKind", "requestResource")
    ]
    assert versions == ["v1", "v1", "v1beta1", "v1beta1"]
    assert request["object"]["apiVersion"] == "resource.k8s.io/v1"
    assert bare(created) == {
        "apiVersion": "resource.k8s.io/v1beta1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": NAMESPACE},
        "spec": {"devices": {"requests": [{"name": "r", "deviceClassName": "y"}]}},
    }


async def test_a_webhook_that_wants_exactly_its_version_sees_no_other() -> None:
    server = Server()
    server.hooks(hook("a", rules=[CLAIMS], matchPolicy="Exact"))
    for version in ("v1beta1", "v1"):
        served = server.served("resource.k8s.io", version, "resourceclaims")
        await server.writer.create(
            served, {"metadata": {"name": version}}, Caller(ADMIN), NAMESPACE
        )
    assert [request["name"] for _, request in server.script.calls] == ["v1"]
