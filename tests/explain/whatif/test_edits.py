"""Edits as people write them, and what they do to the facts.

Tests `app/explain/answers/whatif/edits.py` and `app/explain/answers/whatif/edited_snapshot.py`.
"""

import pytest

from app.explain.answers.whatif.edited_snapshot import apply_edits
from app.explain.answers.whatif.edits import (
    Addition,
    Applying,
    Cordon,
    Drain,
    Labelling,
    Supposition,
    UnusableEdit,
    is_file,
    parse,
)
from app.explain.state.index import Index
from app.facts.identity import Ref
from app.facts.kubernetes.claim import ResourceSlice
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.selectors import Taint
from tests.explain.fleet import HOST, RACK, ZONE, facts, node, occupant, placed

WRITTEN: dict[str, Supposition] = {
    "drain rack=r7": Drain(("rack=r7",)),
    "drain n1 n2 zone=a": Drain(("n1", "n2", "zone=a")),
    "cordon n1 rack=r7": Cordon(("n1", "rack=r7")),
    "  add 4  like n12 ": Addition(4, "n12"),
    "label n1 rack=r2": Labelling(("n1",), (("rack", "r2"),)),
    "label n1 n2 rack=r2 example.com/x-": Labelling(
        ("n1", "n2"), (("rack", "r2"), ("example.com/x", None))
    ),
    "label n1 rack=": Labelling(("n1",), (("rack", ""),)),
}

UNCLEAR = [
    "",
    "drain",
    "cordon",
    "drian rack=r7",
    "add 4 n12",
    "add four like n12",
    "add 0 like n12",
    "add 10001 like n12",
    "add -1 like n12",
    "add ٤ like n12",
    "add 99999999999999999999 like n12",
    "add 000000019999 like n12",
    f"add 000000001{'9' * 5000} like n12",
    "label n1",
    "label rack=r2",
    "label n1 =r2",
    "label n1 rack=a!",
    "label n1 rack=" + "x" * 64,
    "delete n1",
]

ABSENT = {
    "cordon gpu-99": "there is no node 'gpu-99'",
    "drain gpu-99": "there is no node 'gpu-99'",
    "drain rack-b1": "there is no node 'rack-b1'; did you mean rack=rack-b1?",
    "drain node gpu-08": "there is no node 'node': write only the names of nodes",
    "drain rack=r7": "'rack=r7': no node has example.com/rack=r7",
    "drain row=r7": "'row' is neither a level nor a label of a node; the levels are zone, rack and host",
    "add 1 like gpu-99": "there is no node 'gpu-99'",
    "label gpu-99 rack=r2": "there is no node 'gpu-99'",
    "label gpu-01 row=r2": (
        "'row' is neither a level nor a label of a node; the levels are zone, rack and host"
    ),
}


@pytest.mark.parametrize("text", WRITTEN)
def test_an_edit_is_read(text: str) -> None:
    assert parse(text) == WRITTEN[text]


@pytest.mark.parametrize("text", UNCLEAR)
def test_an_edit_that_is_not_clear_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UnusableEdit) as refused:
        parse(text)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("text", ABSENT)
def test_an_edit_of_what_does_not_exist_is_refused(text: str) -> None:
    with pytest.raises(UnusableEdit) as refused:
        apply_edits(Index(facts()), [parse(text)])
    assert str(refused.value) == ABSENT[text]


def test_a_level_is_unknown_if_there_are_none() -> None:
    with pytest.raises(UnusableEdit) as refused:
        apply_edits(Index(facts(topologies=(), kai_topologies=())), [parse("drain row=r7")])
    assert str(refused.value) == (
        "'row' is neither a level nor a label of a node; there are no levels"
    )


def test_a_file_is_told_by_its_name() -> None:
    names = ["apply.yaml", "a.yml", "x/y.json", "-", "drain", "drain a.yaml", "apply"]
    assert [name for name in names if is_file(name)] == ["apply.yaml", "a.yml", "x/y.json", "-"]


def test_cordoned_nodes_keep_their_pods_and_take_no_others() -> None:
    snapshot = facts(pods=placed("gpu-08", "gpu-09"))
    edited = apply_edits(Index(snapshot), [Cordon(("gpu-08", "rack=rack-b2"))])
    closed = [node.name for node in edited.facts.nodes if node.unschedulable]
    assert closed == ["gpu-08", "gpu-12", "gpu-13", "gpu-14", "gpu-15"]
    assert edited.facts.pods == snapshot.pods
    assert edited.moved == frozenset()
    assert edited.lines == ("cordon gpu-08 rack=rack-b2: 5 nodes",)


def test_drained_nodes_are_cordoned_and_their_pods_leave_but_those_of_daemons() -> None:
    daemon = occupant(
        "gpu-08", gpus=0, group="", controller=Ref("DaemonSet", "research", "exporter")
    )
    static = occupant("gpu-08", 1, gpus=0, group="", controller=Ref("Node", "research", "gpu-08"))
    ending = occupant("gpu-08", 2, gpus=1, deleting=1.0)
    reserving = occupant("gpu-08", 3, gpus=1, group="", reserves=True)
    staying = (daemon, static, ending, reserving)
    snapshot = facts(pods=(*placed("gpu-08", "gpu-08", "gpu-09"), *staying))
    edited = apply_edits(Index(snapshot), [Drain(("rack=rack-b1",))])
    assert [node.name for node in edited.facts.nodes if node.unschedulable] == [
        "gpu-08",
        "gpu-09",
        "gpu-10",
        "gpu-11",
    ]
    left = [pod.name for pod in edited.facts.pods if pod.node]
    assert left == [pod.name for pod in staying]
    assert len(edited.moved) == 3
    assert edited.lines == ("drain rack=rack-b1: 4 nodes, 3 pods must leave",)


@pytest.mark.parametrize("target", ["rack=rack-b1", f"{RACK}=rack-b1", "rack=zone-b/rack-b1"])
def test_a_domain_is_named_by_level_key_or_path(target: str) -> None:
    edited = apply_edits(Index(facts()), [Drain((target,))])
    assert sum(node.unschedulable for node in edited.facts.nodes) == 4


def test_added_nodes_are_empty_ready_and_have_their_own_host_and_devices() -> None:
    model = node(
        8,
        "zone-b",
        "rack-b1",
        unschedulable=True,
        ready=False,
        taints=(
            Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),
            Taint("team", "a", "NoSchedule"),
        ),
    )
    part = ResourceSlice("gpu.nvidia.com", "gpu-08", 1, "gpu-08", ("gpu-0", "gpu-1"))
    taken = Node("gpu-08-like-1")
    snapshot = facts(nodes=(model, taken), slices=(part,), pods=(occupant("gpu-08"),))
    edited = apply_edits(Index(snapshot), [Addition(2, "gpu-08")])
    added = edited.facts.nodes[2:]
    assert [n.name for n in added] == ["gpu-08-like-2", "gpu-08-like-3"]
    assert [n.labels for n in added] == [
        {ZONE: "zone-b", RACK: "rack-b1", HOST: n.name} for n in added
    ]
    assert {(n.ready, n.unschedulable, n.taints) for n in added} == {
        (True, False, model.taints[1:])
    }
    assert [part.node for part in edited.facts.slices] == [
        "gpu-08",
        "gpu-08-like-2",
        "gpu-08-like-3",
    ]
    assert len({part.pool for part in edited.facts.slices}) == 3
    assert edited.facts.pods == snapshot.pods


def test_labels_are_set_and_removed() -> None:
    edit = parse(f"label gpu-01 gpu-02 rack=rack-b1 {HOST}- example.com/new=1")
    edited = apply_edits(Index(facts()), [edit])
    labels = {node.name: node.labels for node in edited.facts.nodes}
    expected = {ZONE: "zone-a", RACK: "rack-b1", "example.com/new": "1"}
    assert labels["gpu-01"] == labels["gpu-02"] == expected
    assert labels["gpu-00"] == {ZONE: "zone-a", RACK: "rack-a1", HOST: "gpu-00"}


def test_edits_build_on_each_other() -> None:
    edits = [
        Addition(1, "gpu-00"),
        parse("label gpu-00-like-1 rack=rack-b2"),
        Drain(("gpu-00-like-1",)),
    ]
    edited = apply_edits(Index(facts()), edits)
    last = edited.facts.nodes[-1]
    assert (last.labels[RACK], last.unschedulable) == ("rack-b2", True)


def test_applied_documents_replace_what_has_their_name_or_are_added() -> None:
    label = {ZONE: "zone-c", RACK: "rack-c1"}
    documents = tuple(
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": label}}
        for name in ("gpu-00", "gpu-77")
    )
    edited = apply_edits(Index(facts()), [Applying("nodes.yaml", documents)])
    assert len(edited.facts.nodes) == 17
    changed = {node.name for node in edited.facts.nodes if node.labels == label}
    assert changed == {"gpu-00", "gpu-77"}
    assert edited.lines == ("apply nodes.yaml: 2 Nodes",)


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}, "affects placement"),
        ({"apiVersion": "v1", "kind": "Node", "metadata": {}}, "has no metadata.name"),
        ({"apiVersion": "v1", "kind": "Node"}, "has no metadata.name"),
    ],
)
def test_documents_that_say_nothing_are_refused(document: dict[str, object], problem: str) -> None:
    with pytest.raises(UnusableEdit, match=problem):
        apply_edits(Index(facts()), [Applying("x.yaml", (document,))])


@pytest.mark.parametrize(
    ("metadata", "namespace"),
    [({}, "default"), ({"namespace": "ml"}, "ml")],
    ids=["without a namespace", "with one"],
)
def test_an_applied_set_is_in_its_namespace(metadata: dict[str, str], namespace: str) -> None:
    document = {
        "apiVersion": "grove.io/v1alpha1",
        "kind": "PodCliqueSet",
        "metadata": {"name": "new", **metadata},
        "spec": {"replicas": 1, "template": {"cliques": [{"name": "a", "spec": {"replicas": 1}}]}},
    }
    edited = apply_edits(Index(facts()), [Applying("set.yaml", (document,))])
    assert [pcs.key for pcs in edited.facts.sets if pcs.name == "new"] == [(namespace, "new")]
