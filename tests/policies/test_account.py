"""What policies let the account of the server write, in which nothing is right that it doesn't do.

Each thing that a thief of its token tries is a change of an object that is stored.
"""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE, POD_GANG, POD_GROUP, RESOURCE_CLAIM
from app.objects.resource import (
    LEASE,
    MUTATING_WEBHOOKS,
    POD,
    SECRET,
    VALIDATING_WEBHOOKS,
    Resource,
)
from app.webhooks.configurations import UrlTarget, webhook_configurations
from app.webhooks.paths import with_token
from scripts.apiserver.admission.policies import findings_of
from tests.policies.ways import pod
from tests.rendered import MANIFESTS, documents, rendered

pytestmark = pytest.mark.untraced

Object = dict[str, Any]
Change = Callable[[Object], Any]

POLICIES = documents((MANIFESTS / "base" / "account.yaml").read_text())
ACCOUNT = "system:serviceaccount:grove-system:grove-admission"
OTHERS = (
    "system:serviceaccount:grove-system:grove-admission-2",
    "system:serviceaccount:grove:grove-admission",
    "kubernetes-admin",
)


def said(
    resource: Resource, obj: Object | None, old: Object | None, user: str = ACCOUNT
) -> list[str]:
    """What the policies say against a write: a DELETE without `obj`, a CREATE without `old`."""
    operation = "DELETE" if obj is None else "CREATE" if old is None else "UPDATE"
    request = {
        "operation": operation,
        "resource": {"group": resource.group, "resource": resource.plural},
        "userInfo": {"username": user, "groups": []},
        "object": obj,
        "oldObject": old,
    }
    return [
        finding.message
        for policy, binding in zip(POLICIES[::2], POLICIES[1::2], strict=True)
        if any(
            resource.group in rule["apiGroups"]
            and resource.plural in rule["resources"]
            and operation in rule["operations"]
            for rule in policy["spec"]["matchConstraints"]["resourceRules"]
        )
        for finding in findings_of(policy, binding, request, [None], lambda access: False)
    ]


def configuration(kind: str) -> Object:
    (found,) = (obj for obj in rendered("overlays/self-managed") if obj["kind"] == kind)
    return found


def at_url() -> Object:
    return webhook_configurations(UrlTarget("https://webhooks.example:8443", b"ca"))[0]


def pod_clique() -> Object:
    """A PodClique with two containers, of which one has a claim of its own."""
    spec = copy.deepcopy(pod()["spec"])
    (first,) = spec["containers"]
    first["resources"] = {"limits": {"nvidia.com/gpu": "8"}, "claims": [{"name": "own"}]}
    spec["containers"].append({"name": "d", "image": "registry.example/d:1"})
    spec["initContainers"] = [{"name": "i", "image": "registry.example/i:1"}]
    metadata = {"name": "x", "labels": {"a": "b"}, "ownerReferences": [{"uid": "u"}]}
    return {"metadata": metadata, "spec": {"replicas": 2, "podSpec": spec}}


def labelled(value: str) -> Object:
    return {"metadata": {"name": "x", "labels": {"app.kubernetes.io/managed-by": value}}}


KEPT = labelled("grove-admission")
KEPT["metadata"]["finalizers"] = ["resource.kubernetes.io/delete-protection"]


def stored_pod() -> Object:
    return {
        **pod(annotations={"a": "b"}),
        "status": {"phase": "Pending"},
    }


def _first(obj: Object) -> Object:
    webhook: Object = obj["webhooks"][0]
    return webhook


def _tokens(obj: Object) -> None:
    """What the server writes into a configuration: caBundles and paths with a token."""
    obj["webhooks"] = with_token(obj, "t" * 40)
    for webhook in obj["webhooks"]:
        webhook["clientConfig"]["caBundle"] = "Y2E="
    obj["metadata"].update(resourceVersion="2", generation=2, managedFields=[{"manager": "g"}])


def _told(obj: Object) -> None:
    annotations = {"pod-group-name": "g", "kai.scheduler/skip-podgrouper": "true"}
    obj["metadata"]["annotations"].update(annotations)


def _claimed(obj: Object) -> None:
    spec = obj["spec"]["podSpec"]
    spec["resourceClaims"] = [{"name": "mnnvl", "resourceClaimName": "x"}]
    for container in spec["containers"]:
        resources = container.setdefault("resources", {})
        resources["claims"] = [*resources.get("claims", []), {"name": "mnnvl"}]


STATUS = Resource("grove.io", "podcliquesets/status", "PodCliqueSet", True, ("v1alpha1",))
GANG = {"metadata": {"name": "x"}, "spec": {}}
GONE = {"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "gone"}
MUTATING = configuration("MutatingWebhookConfiguration")
VALIDATING = configuration("ValidatingWebhookConfiguration")
SECRET_OBJECT: Object = {
    "metadata": {"name": "grove-admission-certificates"},
    "type": "kubernetes.io/tls",
}

ALLOWED: dict[str, tuple[Resource, Object | None, Change]] = {
    "caBundles and paths": (MUTATING_WEBHOOKS, MUTATING, _tokens),
    "caBundles and paths of validating webhooks": (VALIDATING_WEBHOOKS, VALIDATING, _tokens),
    "paths of URLs": (MUTATING_WEBHOOKS, at_url(), _tokens),
    "annotations of a Pod": (POD, stored_pod(), _told),
    "annotations of a Pod without any": (
        POD,
        {**pod(), "metadata": {"name": "x"}},
        lambda obj: obj["metadata"].update(annotations={"pod-group-name": "g"}),
    ),
    "claims of a PodClique": (POD_CLIQUE, pod_clique(), _claimed),
    "constraints of a PodGang": (
        POD_GANG,
        {"metadata": {"name": "x", "labels": {}}, "spec": {}},
        lambda obj: obj.update(
            spec={"topologyConstraint": {}},
            metadata={**obj["metadata"], "annotations": {"grove.io/topology-name": "t"}},
        ),
    ),
    "conditions of a PodCliqueSet": (
        STATUS,
        {"metadata": {"name": "x"}},
        lambda obj: obj.update(status={"conditions": [{"type": "TopologyConstraintSatisfied"}]}),
    ),
    "our own PodGroup": (POD_GROUP, labelled("grove-admission"), lambda obj: obj.update(spec={})),
    "our own claim": (RESOURCE_CLAIM, labelled("grove-admission"), lambda obj: obj.update(spec={})),
    "our own claim that Pods use": (RESOURCE_CLAIM, KEPT, lambda obj: obj.update(spec={})),
    "a new claim": (RESOURCE_CLAIM, None, lambda obj: obj.update(metadata={"name": "x"})),
    "the Secret": (SECRET, None, lambda obj: obj.update(SECRET_OBJECT)),
    "the Lease": (LEASE, None, lambda obj: obj.update(metadata={"name": "grove-admission"})),
}

REFUSED: dict[str, tuple[Resource, Object | None, Change]] = {
    "another webhook": (
        MUTATING_WEBHOOKS,
        MUTATING,
        lambda obj: obj["webhooks"].append({**_first(obj), "name": "thief.example.com"}),
    ),
    "no webhooks": (VALIDATING_WEBHOOKS, VALIDATING, lambda obj: obj.pop("webhooks")),
    "a webhook twice": (
        MUTATING_WEBHOOKS,
        MUTATING,
        lambda obj: obj["webhooks"].append({**_first(obj), "rules": []}),
    ),
    "another webhook in place of one": (
        MUTATING_WEBHOOKS,
        MUTATING,
        lambda obj: _first(obj).update(name="thief.example.com"),
    ),
    "another order": (MUTATING_WEBHOOKS, MUTATING, lambda obj: obj["webhooks"].reverse()),
    "a URL": (
        MUTATING_WEBHOOKS,
        MUTATING,
        lambda obj: _first(obj).update(clientConfig={"url": "https://thief.example.com/x"}),
    ),
    "another host in a URL": (
        MUTATING_WEBHOOKS,
        at_url(),
        lambda obj: _first(obj)["clientConfig"].update(url="https://thief.example:8443/x"),
    ),
    "a Service in place of a URL": (
        MUTATING_WEBHOOKS,
        at_url(),
        lambda obj: _first(obj).update(clientConfig={"service": {"namespace": "n", "name": "x"}}),
    ),
    "another Service": (
        MUTATING_WEBHOOKS,
        MUTATING,
        lambda obj: _first(obj)["clientConfig"]["service"].update(namespace="thief"),
    ),
    "another port": (
        MUTATING_WEBHOOKS,
        MUTATING,
        lambda obj: _first(obj)["clientConfig"]["service"].update(port=8080),
    ),
    "rules about Secrets": (
        VALIDATING_WEBHOOKS,
        VALIDATING,
        lambda obj: _first(obj)["rules"][0].update(apiGroups=[""], resources=["secrets"]),
    ),
    "one rule more": (
        VALIDATING_WEBHOOKS,
        VALIDATING,
        lambda obj: _first(obj)["rules"].append(
            {**_first(obj)["rules"][0], "apiGroups": [""], "resources": ["secrets"]}
        ),
    ),
    "no namespaceSelector": (
        VALIDATING_WEBHOOKS,
        VALIDATING,
        lambda obj: _first(obj).pop("namespaceSelector"),
    ),
    "a field that is not known yet": (
        VALIDATING_WEBHOOKS,
        VALIDATING,
        lambda obj: _first(obj).update(audience="thief"),
    ),
    "a failurePolicy": (
        VALIDATING_WEBHOOKS,
        VALIDATING,
        lambda obj: _first(obj).update(failurePolicy="Ignore"),
    ),
    "an annotation for cert-manager": (
        MUTATING_WEBHOOKS,
        MUTATING,
        lambda obj: obj["metadata"]["annotations"].update(x="y"),
    ),
    "no annotations": (MUTATING_WEBHOOKS, MUTATING, lambda obj: obj["metadata"].pop("annotations")),
    "an owner that doesn't exist, so that it is collected": (
        VALIDATING_WEBHOOKS,
        VALIDATING,
        lambda obj: obj["metadata"].update(ownerReferences=[GONE]),
    ),
    "an image of a Pod": (
        POD,
        stored_pod(),
        lambda obj: obj["spec"]["containers"][0].update(image="registry.example/thief:1"),
    ),
    "tolerations of a Pod": (POD, stored_pod(), lambda obj: obj["spec"].update(tolerations=[{}])),
    "another annotation of a Pod": (
        POD,
        stored_pod(),
        lambda obj: obj["metadata"]["annotations"].update(x="y"),
    ),
    "an annotation less": (POD, stored_pod(), lambda obj: obj["metadata"]["annotations"].clear()),
    "labels of a Pod, so that a Service has it": (
        POD,
        stored_pod(),
        lambda obj: obj["metadata"].update(labels={"app": "y"}),
    ),
    "an owner of a Pod": (
        POD,
        stored_pod(),
        lambda obj: obj["metadata"].update(ownerReferences=[GONE]),
    ),
    "a finalizer of a Pod": (
        POD,
        stored_pod(),
        lambda obj: obj["metadata"].update(finalizers=["x"]),
    ),
    "a container of a PodClique": (
        POD_CLIQUE,
        pod_clique(),
        lambda obj: obj["spec"]["podSpec"]["containers"].append({"name": "thief"}),
    ),
    "an image of a PodClique": (
        POD_CLIQUE,
        pod_clique(),
        lambda obj: obj["spec"]["podSpec"]["containers"][1].update(image="thief"),
    ),
    "an image of an init container": (
        POD_CLIQUE,
        pod_clique(),
        lambda obj: obj["spec"]["podSpec"]["initContainers"][0].update(image="thief"),
    ),
    "no init containers": (
        POD_CLIQUE,
        pod_clique(),
        lambda obj: obj["spec"]["podSpec"].pop("initContainers"),
    ),
    "an init container as one of the others": (
        POD_CLIQUE,
        pod_clique(),
        lambda obj: obj["spec"]["podSpec"]["containers"].append(
            obj["spec"]["podSpec"]["initContainers"].pop()
        ),
    ),
    "a status by which Grove's operator goes": (
        STATUS,
        {"metadata": {"name": "x"}, "status": {"replicas": 1}},
        lambda obj: obj["status"].update(currentGenerationHash="x"),
    ),
    "a first status by which Grove's operator goes": (
        STATUS,
        {"metadata": {"name": "x"}},
        lambda obj: obj.update(status={"replicas": 1, "currentGenerationHash": "x"}),
    ),
    "a status less": (
        STATUS,
        {"metadata": {"name": "x"}, "status": {"replicas": 1}},
        lambda obj: obj.pop("status"),
    ),
    "a privileged container": (
        POD_CLIQUE,
        pod_clique(),
        lambda obj: obj["spec"]["podSpec"]["containers"][0].update(securityContext={}),
    ),
    "limits of a container": (
        POD_CLIQUE,
        pod_clique(),
        lambda obj: obj["spec"]["podSpec"]["containers"][0]["resources"].update(limits={}),
    ),
    "requests of a container": (
        POD_CLIQUE,
        pod_clique(),
        lambda obj: obj["spec"]["podSpec"]["containers"][1].update(resources={"requests": {}}),
    ),
    "no resources": (
        POD_CLIQUE,
        pod_clique(),
        lambda obj: obj["spec"]["podSpec"]["containers"][0].pop("resources"),
    ),
    "a service account": (
        POD_CLIQUE,
        pod_clique(),
        lambda obj: obj["spec"]["podSpec"].update(serviceAccountName="thief"),
    ),
    "no schedulerName": (
        POD_CLIQUE,
        pod_clique(),
        lambda obj: obj["spec"]["podSpec"].pop("schedulerName"),
    ),
    "replicas": (POD_CLIQUE, pod_clique(), lambda obj: obj["spec"].update(replicas=100)),
    "no replicas": (POD_CLIQUE, pod_clique(), lambda obj: obj["spec"].pop("replicas")),
    "an owner of a PodClique": (
        POD_CLIQUE,
        pod_clique(),
        lambda obj: obj["metadata"]["ownerReferences"].clear(),
    ),
    "an owner of a PodGang": (
        POD_GANG,
        GANG,
        lambda obj: obj["metadata"].update(ownerReferences=[GONE]),
    ),
    "a PodGang's priority": (POD_GANG, GANG, lambda obj: obj["spec"].update(priorityClassName="p")),
    "a group of a PodGang": (POD_GANG, GANG, lambda obj: obj["spec"].update(podgroups=[{}])),
    "a PodGroup of KAI's pod-grouper": (
        POD_GROUP,
        labelled("kai"),
        lambda obj: obj.update(spec={"queue": "b"}),
    ),
    "a claim of somebody, taken over": (
        RESOURCE_CLAIM,
        {"metadata": {"name": "x"}},
        lambda obj: obj["metadata"].update(**labelled("grove-admission")["metadata"]),
    ),
    "a new claim that nobody can delete": (
        RESOURCE_CLAIM,
        None,
        lambda obj: obj.update(metadata={"name": "x", "finalizers": ["thief.example/x"]}),
    ),
    "a finalizer of our own PodGroup": (
        POD_GROUP,
        labelled("grove-admission"),
        lambda obj: obj["metadata"].update(finalizers=["thief.example/x"]),
    ),
    "a claim of ours that nothing keeps while Pods use it": (
        RESOURCE_CLAIM,
        KEPT,
        lambda obj: obj["metadata"].pop("finalizers"),
    ),
    "a token of a service account": (
        SECRET,
        None,
        lambda obj: obj.update(SECRET_OBJECT, type="kubernetes.io/service-account-token"),
    ),
    "a Secret without a type": (
        SECRET,
        None,
        lambda obj: obj.update(metadata=SECRET_OBJECT["metadata"]),
    ),
    "another Secret": (
        SECRET,
        None,
        lambda obj: obj.update(type="Opaque", metadata={"name": "other"}),
    ),
    "a Secret with the name of our Lease": (
        SECRET,
        None,
        lambda obj: obj.update(type="Opaque", metadata={"name": "grove-admission"}),
    ),
    "a Secret whose name is generated": (
        SECRET,
        None,
        lambda obj: obj.update(type="Opaque", metadata={"generateName": "grove-admission"}),
    ),
    "the Lease of somebody": (
        LEASE,
        None,
        lambda obj: obj.update(metadata={"name": "grove-operator"}),
    ),
    "a Lease with the name of our Secret": (
        LEASE,
        None,
        lambda obj: obj.update(metadata={"name": "grove-admission-certificates"}),
    ),
}


def changed(old: Object | None, change: Change) -> Object:
    obj = copy.deepcopy(old or {})
    change(obj)
    assert obj != old
    return obj


@pytest.mark.parametrize("case", ALLOWED)
def test_the_account_may_write_what_the_server_writes(case: str) -> None:
    resource, old, change = ALLOWED[case]
    obj = changed(old, change)
    assert said(resource, obj, old) == []
    assert old is None or said(resource, old, obj) == []


def test_an_api_server_adds_counts_to_the_first_status() -> None:
    """The CRD of Grove has them as defaults. Otherwise no condition would be written before them."""
    first = {"metadata": {"name": "x"}, "status": {"conditions": [], "availableReplicas": 0}}
    assert said(STATUS, first, {"metadata": {"name": "x"}}) == []


@pytest.mark.parametrize("case", REFUSED)
def test_a_thief_of_the_account_may_not_write_more(case: str) -> None:
    resource, old, change = REFUSED[case]
    obj = changed(old, change)
    messages = said(resource, obj, old)
    assert messages != []
    assert all(message.startswith("the account of grove-admission ") for message in messages)
    assert [said(resource, obj, old, user) for user in OTHERS] == [[]] * len(OTHERS)


@pytest.mark.parametrize("resource", [RESOURCE_CLAIM, COMPUTE_DOMAIN, POD_GROUP], ids=str)
def test_only_what_has_our_label_is_deleted(resource: Resource) -> None:
    assert said(resource, None, labelled("grove-admission")) == []
    assert len(said(resource, None, labelled("somebody"))) == 1
    assert len(said(resource, None, {"metadata": {"name": "x"}})) == 1


def test_no_server_is_needed_for_it_and_nothing_is_let_through_that_fails() -> None:
    assert {obj["spec"]["failurePolicy"] for obj in POLICIES[::2]} == {"Fail"}
    assert {tuple(obj["spec"]["validationActions"]) for obj in POLICIES[1::2]} == {("Deny",)}
    names = [obj["spec"]["policyName"] for obj in POLICIES[1::2]]
    assert names == [obj["metadata"]["name"] for obj in POLICIES[::2]]
