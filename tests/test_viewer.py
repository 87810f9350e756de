"""The ClusterRole for people, as it is rendered."""

from app.explain.output.rights import VIEWER
from app.explain.state.snapshot import RESOURCES
from app.facts.workload_of_pod import WORKLOAD_KINDS
from app.objects.resource import NAMESPACE
from tests.rendered import Object, rendered

READS = {"get", "list", "watch"}


def viewer() -> Object:
    (role,) = [
        obj
        for obj in rendered("overlays/self-managed")
        if (obj["kind"], obj["metadata"]["name"]) == ("ClusterRole", VIEWER)
    ]
    return role


def test_who_may_view_a_namespace_sees_its_workloads() -> None:
    label = "rbac.authorization.k8s.io/aggregate-to-view"
    assert viewer()["metadata"]["labels"][label] == "true"


def test_it_may_read_what_explain_and_the_console_read() -> None:
    readable = {
        (group, resource)
        for rule in viewer()["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }
    read = {
        (resource.group, resource.plural) for resource in (*RESOURCES, *WORKLOAD_KINDS, NAMESPACE)
    }
    assert read <= readable
    assert not {("", "secrets"), ("", "configmaps")} & readable


def test_it_only_reads() -> None:
    assert [rule["verbs"] for rule in viewer()["rules"] if set(rule["verbs"]) != READS] == []


def test_nobody_is_bound_to_it() -> None:
    bound = {
        obj["roleRef"]["name"] for obj in rendered("overlays/self-managed") if "roleRef" in obj
    }
    assert VIEWER not in bound
