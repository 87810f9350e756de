"""The KAI PodGroup of a group: every field's source, and the difference to a stored one."""

from typing import Any

import pytest
from msgspec.structs import replace

from app.rules.workload.groups import DefinedGroup, MetadataLayer
from app.rules.workload.kai_podgroup import (
    COPIED,
    TOPOLOGY_REQUIRED,
    WORKLOAD_GROUP,
    Conventions,
    LabelKeys,
    Remark,
    Sources,
    desired_pod_group,
    difference,
    is_of_group,
    named_queue,
    remarks,
    specs_for_crds,
)

NOTHING = MetadataLayer({}, {})
OWNER = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u1"}


CLASSES = frozenset(("w", "o", "p", "s", "high", "train", "inference", "build"))


def desired(
    group: DefinedGroup,
    owner: MetadataLayer = NOTHING,
    pod: MetadataLayer = NOTHING,
    kind: tuple[str, str] = ("", "Pod"),
    classes: frozenset[str] = CLASSES,
    **conventions: Any,
) -> Any:
    sources = Sources(owner, pod, kind, OWNER, classes)
    return desired_pod_group(group, sources, Conventions(topology="grove-topology", **conventions))


def test_a_podgroup_whole() -> None:
    group = DefinedGroup(
        "w",
        "g",
        4,
        MetadataLayer({"kai.scheduler/queue": "q"}, {"x": "w"}),
        "0",
        "",
        "high",
        "rack",
    )
    owner = MetadataLayer(
        {"team": "t"}, {"x": "o", "kai.scheduler/topology-preferred-placement": "host"}
    )
    pod = MetadataLayer(
        {"user": "eve", "pod-template-hash": "1"}, {"user": "eve@example.com", "y": "p"}
    )
    assert desired(group, owner, pod) == {
        "apiVersion": "scheduling.run.ai/v2alpha2",
        "kind": "PodGroup",
        "metadata": {
            "name": "w-g-0",
            "labels": {
                "team": "t",
                "kai.scheduler/queue": "q",
                "user": "eve",
                "app.kubernetes.io/managed-by": "grove-admission",
            },
            "annotations": {
                "x": "w",
                "user": "eve@example.com",
                "kai.scheduler/topology-preferred-placement": "host",
                "grove.io/workload-group": "w/g/0",
                "grove.io/copied-metadata": "labels/kai.scheduler/queue,labels/team,labels/user,annotations/kai.scheduler/topology-preferred-placement,annotations/user,annotations/x,spec/topologyConstraint",
            },
            "ownerReferences": [OWNER],
        },
        "spec": {
            "minMember": 4,
            "queue": "q",
            "priorityClassName": "high",
            "topologyConstraint": {
                "topology": "grove-topology",
                "requiredTopologyLevel": "rack",
                "preferredTopologyLevel": "host",
            },
        },
    }


QUEUE = "kai.scheduler/queue"
PREEMPTIBILITY = "kai.scheduler/preemptibility"
POOL = "kai.scheduler/node-pool"


@pytest.mark.parametrize(
    ("workload", "owner", "pod", "field", "value"),
    [
        pytest.param(
            {QUEUE: "w"}, {QUEUE: "o"}, {QUEUE: "p"}, "queue", "w", id="queue: the Workload's"
        ),
        pytest.param(
            {}, {QUEUE: "o"}, {QUEUE: "p"}, "queue", "o", id="queue: else the top owner's"
        ),
        pytest.param({}, {}, {QUEUE: "p"}, "queue", "p", id="queue: else the Pod's"),
        pytest.param(
            {"project": "x"},
            {},
            {QUEUE: "p"},
            "queue",
            "p",
            id="queue: anybody's before any project",
        ),
        pytest.param({}, {"project": "x"}, {}, "queue", "x", id="queue: else the project"),
        pytest.param(
            {},
            {"project": "x"},
            {POOL: "a100"},
            "queue",
            "x-a100",
            id="queue: of the project's node pool",
        ),
        pytest.param({}, {}, {POOL: "a100"}, "queue", "default-queue", id="queue: nobody says"),
        pytest.param(
            {"priorityClassName": "w"},
            {},
            {"spec": "s"},
            "priorityClassName",
            "w",
            id="priority: Workload",
        ),
        pytest.param(
            {},
            {"priorityClassName": "o"},
            {"spec": "s"},
            "priorityClassName",
            "o",
            id="priority: owner",
        ),
        pytest.param(
            {},
            {},
            {"priorityClassName": "p"},
            "priorityClassName",
            "p",
            id="priority: else the Pod's label",
        ),
        pytest.param(
            {}, {}, {"spec": "s"}, "priorityClassName", "s", id="priority: else the Pod's spec"
        ),
        pytest.param({}, {}, {}, "priorityClassName", "train", id="priority: nobody says"),
        pytest.param(
            {"priorityClassName": "ghost"},
            {"priorityClassName": "o"},
            {},
            "priorityClassName",
            "o",
            id="priority: a class that does not exist counts as none",
        ),
        pytest.param(
            {"priorityClassName": "ghost"},
            {},
            {"spec": "gone"},
            "priorityClassName",
            "train",
            id="priority: none exists",
        ),
        pytest.param(
            {PREEMPTIBILITY: "preemptible"},
            {PREEMPTIBILITY: "non-preemptible"},
            {},
            "preemptibility",
            "preemptible",
            id="preemptibility: the Workload's",
        ),
        pytest.param(
            {},
            {PREEMPTIBILITY: "semi-preemptible"},
            {PREEMPTIBILITY: "preemptible"},
            "preemptibility",
            "semi-preemptible",
            id="preemptibility: semi-preemptible, which the owner says",
        ),
        pytest.param(
            {PREEMPTIBILITY: "perhaps"},
            {PREEMPTIBILITY: "non-preemptible"},
            {},
            "preemptibility",
            "non-preemptible",
            id="preemptibility: who says what KAI doesn't know is passed over",
        ),
        pytest.param(
            {},
            {},
            {PREEMPTIBILITY: "perhaps"},
            "preemptibility",
            None,
            id="preemptibility: nobody says",
        ),
    ],
)
@pytest.mark.statement("W.18", "W.21")
def test_fields_come_from_workload_then_owner_then_pod(
    workload: dict[str, str],
    owner: dict[str, str],
    pod: dict[str, str],
    field: str,
    value: str | None,
) -> None:
    """`spec` stands for the priority class of the Pod's spec."""
    labels = {key: value for key, value in pod.items() if key != "spec"}
    group = DefinedGroup("w", "g", 2, MetadataLayer(workload, {}))
    pod_group = desired(
        group, MetadataLayer(owner, {}), MetadataLayer(labels, {}, pod.get("spec", ""))
    )
    assert pod_group["spec"].get(field) == value


def test_every_key_can_be_another() -> None:
    keys = LabelKeys("q", "c", "e", "j", "u", "n")
    pod = MetadataLayer({"e": "preemptible", "j": "x", "u": "eve", "n": "a100"}, {}, "high")
    pod_group = desired(DefinedGroup("w", "g", 2, NOTHING), NOTHING, pod, keys=keys)
    spec = {
        "minMember": 2,
        "queue": "x-a100",
        "priorityClassName": "high",
        "preemptibility": "preemptible",
    }
    assert pod_group["spec"] == spec
    labels = {"u": "eve", "n": "a100", "app.kubernetes.io/managed-by": "grove-admission"}
    assert pod_group["metadata"]["labels"] == labels


def test_little_is_said_where_little_is_known() -> None:
    group = DefinedGroup("w", "g", None, NOTHING)
    assert desired(group, classes=frozenset(), default_queue="")["spec"] == {"minMember": 1}


@pytest.mark.parametrize(
    ("kind", "existing", "priority_class"),
    [
        pytest.param(("apps", "Deployment"), CLASSES, "inference", id="a Deployment"),
        pytest.param(
            ("serving.knative.dev", "Service"), CLASSES, "inference", id="a Knative Service"
        ),
        pytest.param(("", "Service"), CLASSES, "train", id="a Service of another group"),
        pytest.param(("kubeflow.org", "Notebook"), CLASSES, "build", id="a Notebook"),
        pytest.param(("batch", "Job"), CLASSES, "train", id="any other kind"),
        pytest.param(
            ("apps", "Deployment"),
            CLASSES - {"inference"},
            None,
            id="a default that does not exist",
        ),
        pytest.param(("batch", "Job"), frozenset(), None, id="no class at all"),
    ],
)
def test_the_default_priority_class_is_that_of_the_kind_of_the_top_owner(
    kind: tuple[str, str], existing: frozenset[str], priority_class: str | None
) -> None:
    spec = desired(DefinedGroup("w", "g", 2, NOTHING), kind=kind, classes=existing)["spec"]
    assert spec.get("priorityClassName") == priority_class


@pytest.mark.parametrize(
    ("minimum", "minimum_of_members"),
    [
        pytest.param(None, 1, id="the basic policy"),
        pytest.param(4, 4, id="a gang"),
        pytest.param(0, 0, id="a gang that needs nobody is elastic in KAI"),
    ],
)
@pytest.mark.statement("W.12", "W.15")
def test_the_minimum_of_members(minimum: int | None, minimum_of_members: int) -> None:
    assert (
        desired(DefinedGroup("w", "g", minimum, NOTHING))["spec"]["minMember"] == minimum_of_members
    )


def test_a_podgroup_of_pods_without_a_common_owner_has_none() -> None:
    sources = Sources(NOTHING, NOTHING, ("", "Pod"), None, CLASSES)
    assert (
        desired_pod_group(DefinedGroup("w", "g", 2, NOTHING), sources, Conventions())["metadata"][
            "ownerReferences"
        ]
        == []
    )


@pytest.mark.parametrize(
    ("change", "patch"),
    [
        pytest.param({}, {}, id="in step"),
        pytest.param({"minimum": 5}, {"spec": {"minMember": 5}}, id="another minimum"),
        pytest.param(
            {"topology_key": ""},
            {
                "metadata": {"annotations": {COPIED: "labels/had"}},
                "spec": {"topologyConstraint": None},
            },
            id="no topology any more",
        ),
        pytest.param(
            {"layer": MetadataLayer({"l": "1"}, {"kai.scheduler/topology": "t"})},
            {
                "metadata": {
                    "labels": {"l": "1", "had": None},
                    "annotations": {
                        "kai.scheduler/topology": "t",
                        COPIED: "labels/l,annotations/kai.scheduler/topology,spec/topologyConstraint",
                    },
                },
                "spec": {"topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"}},
            },
            id="other metadata",
        ),
        pytest.param(
            {
                "topology_key": "",
                "layer": MetadataLayer(
                    {"had": "1"}, {"kai.scheduler/topology-preferred-placement": "host"}
                ),
            },
            {
                "metadata": {
                    "annotations": {
                        "kai.scheduler/topology-preferred-placement": "host",
                        COPIED: "labels/had,annotations/kai.scheduler/topology-preferred-placement,spec/topologyConstraint",
                    }
                },
                "spec": {
                    "topologyConstraint": {
                        "topology": "grove-topology",
                        "requiredTopologyLevel": None,
                        "preferredTopologyLevel": "host",
                    }
                },
            },
            id="preferred instead of required",
        ),
        pytest.param(
            {"layer": NOTHING},
            {
                "metadata": {
                    "labels": {"had": None},
                    "annotations": {COPIED: "spec/topologyConstraint"},
                }
            },
            id="a label that is gone there goes here; those of others stay",
        ),
        pytest.param(
            {"layer": MetadataLayer({"had": "1", QUEUE: "q", POOL: "p", "project": "o"}, {})},
            {
                "metadata": {
                    "annotations": {
                        COPIED: f"labels/had,labels/{POOL},labels/{QUEUE},labels/project,spec/topologyConstraint"
                    }
                }
            },
            id="queue, project and node pool are written at creation only",
        ),
    ],
)
def test_only_the_difference_is_written(change: dict[str, Any], patch: Any) -> None:
    group = DefinedGroup("w", "g", 4, MetadataLayer({"had": "1"}, {}), topology_key="rack")
    stored = desired(group)
    stored["spec"]["markUnschedulable"] = True
    stored["metadata"]["labels"]["theirs"] = "1"
    assert difference(stored, desired(replace(group, **change)), LabelKeys()) == patch


def test_the_labels_of_queue_and_node_pool_stay_where_they_were_copied_from_them() -> None:
    group = DefinedGroup("w", "g", 4, MetadataLayer({QUEUE: "q", POOL: "a100", "team": "t"}, {}))
    patch = difference(desired(group), desired(replace(group, layer=NOTHING)), LabelKeys())
    assert patch == {"metadata": {"labels": {"team": None}, "annotations": {COPIED: ""}}}


def test_a_minimum_of_subgroups_excludes_one_of_members() -> None:
    """An administrator may divide a PodGroup; KAI allows only one of the two fields."""
    stored = desired(DefinedGroup("w", "g", 4, NOTHING))
    stored["spec"] = {
        **stored["spec"],
        "minMember": None,
        "minSubGroup": 1,
        "subGroups": [{"name": "a"}],
    }
    assert difference(stored, desired(DefinedGroup("w", "g", 5, NOTHING)), LabelKeys()) == {}


LABELLED = DefinedGroup("w", "g", 4, MetadataLayer({PREEMPTIBILITY: "semi-preemptible"}, {}))


@pytest.mark.parametrize("value", ["semi-preemptible", "non-preemptible", "of-a-later-release"])
def test_the_preemptibility_that_somebody_else_has_set_stays(value: str) -> None:
    stored = desired(DefinedGroup("w", "g", 4, NOTHING))
    stored["spec"] |= {"preemptibility": value, "ofALaterRelease": {"a": 1}}
    assert difference(stored, desired(DefinedGroup("w", "g", 5, NOTHING)), LabelKeys()) == {
        "spec": {"minMember": 5}
    }
    patch = difference(stored, desired(LABELLED), LabelKeys())
    written = {} if value == "semi-preemptible" else {"preemptibility": "semi-preemptible"}
    assert patch.get("spec", {}) == written


def test_the_preemptibility_of_a_label_goes_with_it() -> None:
    patch = difference(desired(LABELLED), desired(replace(LABELLED, layer=NOTHING)), LabelKeys())
    assert patch["spec"] == {"preemptibility": None}


PLACED_BY_OTHERS = {"topology": "other", "requiredTopologyLevel": "block"}


@pytest.mark.parametrize(
    "layer",
    [
        pytest.param(NOTHING, id="nothing"),
        pytest.param(MetadataLayer({"app": "x"}, {}), id="labels"),
    ],
)
def test_a_constraint_of_another_writer_stays(layer: MetadataLayer) -> None:
    without = desired(DefinedGroup("w", "g", 4, layer))
    stored = {**without, "spec": {**without["spec"], "topologyConstraint": PLACED_BY_OTHERS}}
    assert difference(stored, without, LabelKeys()) == {}
    more = desired(DefinedGroup("w", "g", 5, layer))
    assert difference(stored, more, LabelKeys()) == {"spec": {"minMember": 5}}


def test_the_constraint_of_the_workload_replaces_that_of_another_writer_and_goes_with_it() -> None:
    group = DefinedGroup("w", "g", 4, NOTHING)
    without = desired(group)
    stored = {**without, "spec": {**without["spec"], "topologyConstraint": PLACED_BY_OTHERS}}
    ours = desired(replace(group, topology_key="rack"))
    patch = difference(stored, ours, LabelKeys())
    assert patch["spec"]["topologyConstraint"] == {
        "topology": "grove-topology",
        "requiredTopologyLevel": "rack",
    }
    assert difference(ours, without, LabelKeys())["spec"] == {"topologyConstraint": None}


def test_a_constraint_that_an_earlier_release_copied_from_annotations_goes_with_them() -> None:
    group = DefinedGroup("w", "g", 4, MetadataLayer({}, {TOPOLOGY_REQUIRED: "rack"}))
    stored = desired(group)
    annotations = stored["metadata"]["annotations"]
    annotations[COPIED] = annotations[COPIED].replace(",spec/topologyConstraint", "")
    patch = difference(stored, desired(replace(group, layer=NOTHING)), LabelKeys())
    assert patch["spec"] == {"topologyConstraint": None}


def test_fields_of_a_constraint_that_are_not_known_stay() -> None:
    group = DefinedGroup("w", "g", 4, NOTHING, topology_key="rack")
    stored = desired(group)
    stored["spec"]["topologyConstraint"]["ofALaterRelease"] = 1
    assert difference(stored, desired(group), LabelKeys()) == {}
    wider = difference(stored, desired(replace(group, topology_key="zone")), LabelKeys())
    assert wider["spec"]["topologyConstraint"] == {
        "topology": "grove-topology",
        "requiredTopologyLevel": "zone",
    }


@pytest.mark.parametrize(
    ("spec", "stored", "expected"),
    [
        ({"minMember": 2}, {}, []),
        ({"minMember": 2, "preemptibility": "preemptible"}, {}, []),
        ({"minMember": 0, "queue": "q"}, {}, [{"minMember": 1, "queue": "q"}]),
        ({"minMember": 2, "preemptibility": "semi-preemptible"}, {}, [{"minMember": 2}]),
        (
            {"minMember": 0, "preemptibility": "semi-preemptible"},
            {"preemptibility": "preemptible"},
            [{"minMember": 0}, {"minMember": 1}],
        ),
        (
            {"minMember": 2, "preemptibility": "semi-preemptible"},
            {"preemptibility": "semi-preemptible"},
            [],
        ),
    ],
)
def test_what_is_left_for_older_releases(spec: Any, stored: Any, expected: list[Any]) -> None:
    assert list(specs_for_crds(spec, stored)) == [spec, *expected]


def test_an_elastic_podgroup_is_not_one_without_a_minimum() -> None:
    elastic = desired(DefinedGroup("w", "g", 0, NOTHING))
    gang = desired(DefinedGroup("w", "g", 2, NOTHING))
    assert difference(elastic, gang, LabelKeys()) == {"spec": {"minMember": 2}}
    assert difference(gang, elastic, LabelKeys()) == {"spec": {"minMember": 0}}
    assert difference(elastic, elastic, LabelKeys()) == {}


def test_what_is_empty_is_not_there() -> None:
    """Others that write a PodGroup whole leave empty fields behind."""
    stored = desired(DefinedGroup("w", "g", 4, NOTHING))
    assert (
        difference(
            {**stored, "spec": {**stored["spec"], "topologyConstraint": {}}}, stored, LabelKeys()
        )
        == {}
    )


JOB = {"apiVersion": "batch/v1", "uid": "job"}
OTHER = {"apiVersion": "batch/v1", "uid": "other"}
WORKLOAD = {"apiVersion": "scheduling.k8s.io/v1alpha2", "uid": "workload"}


@pytest.mark.parametrize(
    ("current", "common", "written"),
    [
        pytest.param([JOB], JOB, None, id="its owner"),
        pytest.param([JOB], OTHER, [], id="Pods of another owner"),
        pytest.param([JOB], None, [], id="Pods of several owners, or of none"),
        pytest.param([], JOB, None, id="none, because its Pods had several when they came"),
        pytest.param([], None, None, id="none at all"),
        pytest.param([WORKLOAD], None, [], id="a Workload, as in former versions"),
        pytest.param(
            [JOB, WORKLOAD],
            JOB,
            [],
            id="a Workload beside one of several owners, as in former versions",
        ),
    ],
)
@pytest.mark.statement("W.24")
def test_a_podgroup_has_no_owner_that_some_of_its_pods_do_not_have(
    current: Any, common: Any, written: Any
) -> None:
    stored = desired(DefinedGroup("w", "g", 4, NOTHING))
    target = desired(DefinedGroup("w", "g", 4, NOTHING))
    stored["metadata"]["ownerReferences"] = current
    target["metadata"]["ownerReferences"] = [common] if common else []
    patch = {} if written is None else {"metadata": {"ownerReferences": written}}
    assert difference(stored, target, LabelKeys()) == patch


REQUIRED = "kai.scheduler/topology-required-placement"


@pytest.mark.parametrize(
    ("stored", "group", "subject", "remark"),
    [
        pytest.param(
            "q",
            DefinedGroup("w", "g", 2, MetadataLayer({QUEUE: "q"}, {})),
            "queue",
            None,
            id="the queue of the label",
        ),
        pytest.param("q", DefinedGroup("w", "g", 2, NOTHING), "queue", None, id="no label"),
        pytest.param(
            "moved",
            DefinedGroup("w", "g", 2, MetadataLayer({QUEUE: "q"}, {})),
            "queue",
            Remark(
                "QueueDiffers",
                'the labels and annotations ask for queue "q", but spec.queue stays "moved": grove-admission writes it only at creation. To move the group, change spec.queue',
            ),
            id="another queue",
        ),
        pytest.param(
            "",
            DefinedGroup("w", "g", 2, NOTHING, topology_key="rack"),
            "topology",
            None,
            id="only the API's topology",
        ),
        pytest.param(
            "",
            DefinedGroup("w", "g", 2, MetadataLayer({}, {REQUIRED: "rack"})),
            "topology",
            None,
            id="only KAI's annotation",
        ),
        pytest.param(
            "",
            DefinedGroup("w", "g", 2, MetadataLayer({}, {REQUIRED: "rack"}), topology_key="rack"),
            "topology",
            None,
            id="both, and the same",
        ),
        pytest.param(
            "",
            DefinedGroup("w", "g", 2, MetadataLayer({}, {REQUIRED: "zone"}), topology_key="rack"),
            "topology",
            Remark(
                "TopologyConflict",
                'schedulingConstraints.topology requires "rack" and is used; kai.scheduler/topology-required-placement requires "zone" and is ignored. Remove one of them',
            ),
            id="both, and different",
        ),
    ],
)
def test_what_people_should_know(
    stored: str, group: DefinedGroup, subject: str, remark: Remark | None
) -> None:
    sources = Sources(NOTHING, NOTHING, ("", "Pod"), None, CLASSES)
    assert remarks({"spec": {"queue": stored}}, group, sources, Conventions())[subject] == remark


def named(workload: MetadataLayer, owner: MetadataLayer, pod: MetadataLayer) -> str | None:
    return named_queue((workload, owner, pod), LabelKeys())


def test_only_a_workload_names_its_queue_in_an_annotation() -> None:
    """KAI reads no annotations of owners and Pods, and the queue guard can't select them."""
    nothing = MetadataLayer({}, {})
    annotated = MetadataLayer({}, {QUEUE: "a", "project": "b"})
    assert named(annotated, nothing, nothing) == "a"
    assert named(nothing, annotated, annotated) is None
    assert named(annotated, MetadataLayer({QUEUE: "o"}, {}), nothing) == "a"
    assert named(MetadataLayer({}, {"project": "b"}), nothing, nothing) is None


def test_a_project_does_not_count_beside_an_empty_label_of_a_queue() -> None:
    """KAI takes that label, and the queue guard asks about no project beside it."""
    nothing = MetadataLayer({}, {})
    empty = MetadataLayer({QUEUE: "", "project": "b"}, {})
    assert named(nothing, nothing, empty) is None
    assert named(nothing, empty, nothing) is None
    assert named(nothing, empty, MetadataLayer({QUEUE: "a"}, {})) == "a"


@pytest.mark.parametrize(
    ("labels", "annotations", "ours"),
    [
        pytest.param(
            {"app.kubernetes.io/managed-by": "grove-admission"},
            {WORKLOAD_GROUP: "w/g/"},
            True,
            id="ours",
        ),
        pytest.param(
            {"app.kubernetes.io/managed-by": "grove-admission"},
            {WORKLOAD_GROUP: "x/g/"},
            False,
            id="another",
        ),
        pytest.param({}, {WORKLOAD_GROUP: "w/g/"}, False, id="somebody else's"),
    ],
)
def test_whose_a_podgroup_is(labels: Any, annotations: Any, ours: bool) -> None:
    stored = {"metadata": {"labels": labels, "annotations": annotations}}
    assert is_of_group(stored, DefinedGroup("w", "g", 2, NOTHING)) is ours
