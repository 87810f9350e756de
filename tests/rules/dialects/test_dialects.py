"""Which constraints of a PodGang each dialect writes, and that it leaves every other word as it is.

Tests `app/rules/dialects/dialect.py`.
"""

import copy
from typing import Any

import pytest
from jsonpatch import apply_patch

from app.facts.grove.constraint import UNCONSTRAINED, StoredConstraint
from app.facts.grove.podcliqueset import read_pod_clique_set
from app.facts.grove.template import read_template
from app.facts.grove.topology import ClusterTopology, Level
from app.objects.edits import operations
from app.rules.dialects.bindings import BINDINGS
from app.rules.dialects.design import DESIGN, UNSERVED
from app.rules.dialects.dialect import Dialect, NoTopology
from app.rules.dialects.epochs import EPOCHS
from app.rules.topology.coverage import Nodes
from tests.builders import managed, pod_clique_set
from tests.rules.dialects.around import Around

ON = managed("grove-topology", levels=(Level("rack", "k/rack"), Level("host", "k/host")))
OFF = managed("grove-topology", enabled=False)


def gang(**extra: Any) -> dict[str, Any]:
    """A PodGang with constraints everywhere; `extra` is added to each constraint."""
    constraint = {"packConstraint": {"required": "k/zone"}, **extra}
    return {
        "metadata": {"name": "train-0", "annotations": {"grove.io/topology-name": "theirs"}},
        "spec": {
            "topologyConstraint": copy.deepcopy(constraint),
            "podgroups": [
                {"name": "train-0-worker", "topologyConstraint": copy.deepcopy(constraint)}
            ],
            "topologyConstraintGroupConfigs": [
                {
                    "name": "theirs",
                    "podGroupNames": ["train-0-worker"],
                    "topologyConstraint": constraint,
                }
            ],
        },
    }


def a_set(**constraint: Any) -> Any:
    pcs = pod_clique_set("train")
    if constraint:
        pcs["spec"]["template"]["cliques"][0]["topologyConstraint"] = constraint
    return read_pod_clique_set(pcs)


def after(
    dialect: Dialect, pcs: Any, topology: ClusterTopology, obj: dict[str, Any]
) -> dict[str, Any]:
    patch = operations(obj, dialect.podgang_changes(obj, pcs, Around(managed=topology)))
    patched: dict[str, Any] = apply_patch(obj, patch)
    return patched


@pytest.mark.parametrize("topology", [ON, OFF], ids=["enabled", "disabled"])
@pytest.mark.parametrize(
    "obj", [gang(), gang(spread={"key": "k/rack"})], ids=["known words", "unknown words"]
)
@pytest.mark.parametrize(
    ("dialect", "pcs"),
    [
        pytest.param(BINDINGS, a_set(topologyName="t", pack={"required": "rack"}), id="bindings"),
        pytest.param(
            BINDINGS, a_set(packDomain="rack"), id="bindings, a packDomain that was stored before"
        ),
        pytest.param(BINDINGS, a_set(), id="bindings, a set without constraints"),
        pytest.param(BINDINGS, None, id="bindings, an unknown set"),
        pytest.param(UNSERVED, a_set(packDomain="rack"), id="no topology API"),
        pytest.param(UNSERVED, None, id="no topology API, an unknown set"),
        pytest.param(DESIGN, a_set(pack={"preferred": "rack"}), id="design, a set with pack"),
        pytest.param(
            DESIGN, a_set(topologyName="t", packDomain="rack"), id="design, a set with topologyName"
        ),
        pytest.param(
            DESIGN,
            a_set(spread={"maxSkew": 1}),
            id="design, a set with a field that nobody knows yet",
        ),
    ],
)
def test_constraints_that_are_not_ours_stay_as_they_are(
    dialect: Dialect, pcs: Any, topology: ClusterTopology, obj: dict[str, Any]
) -> None:
    assert dialect.podgang_changes(obj, pcs, Around(managed=topology)) == []
    assert dialect is DESIGN or dialect.validate_podgang({"spec": []}) == []


def test_what_the_design_does_not_read_survives_a_removal() -> None:
    spread = {"spread": {"key": "k/rack"}}
    result = after(DESIGN, a_set(packDomain="rack"), OFF, gang(**spread))
    left = {"packConstraint": {}, **spread}
    assert result == {
        "metadata": {"name": "train-0", "annotations": {}},
        "spec": {
            "topologyConstraint": left,
            "podgroups": [{"name": "train-0-worker", "topologyConstraint": left}],
            "topologyConstraintGroupConfigs": [
                {"name": "theirs", "podGroupNames": ["train-0-worker"], "topologyConstraint": left}
            ],
        },
    }
    assert DESIGN.podgang_changes(result, None, Around(managed=OFF)) == []


def test_an_entry_with_only_unknown_words_stays_where_ours_are_written() -> None:
    obj = gang()
    obj["spec"]["topologyConstraintGroupConfigs"][0]["topologyConstraint"] = {"spread": 1}
    assert after(DESIGN, a_set(packDomain="rack"), ON, obj)["spec"][
        "topologyConstraintGroupConfigs"
    ] == [
        {"name": "theirs", "podGroupNames": ["train-0-worker"], "topologyConstraint": {"spread": 1}}
    ]


def test_the_design_writes_and_removes_its_own_words() -> None:
    changed = after(DESIGN, a_set(packDomain="rack"), ON, gang())
    pack = {"packConstraint": {"required": "k/rack", "preferred": "k/host"}}
    assert changed["spec"]["podgroups"] == [{"name": "train-0-worker", "topologyConstraint": pack}]
    assert "topologyConstraintGroupConfigs" not in changed["spec"]
    assert after(DESIGN, a_set(packDomain="rack"), OFF, gang())["spec"] == {
        "podgroups": [{"name": "train-0-worker"}]
    }


def later(topology_name: str = "", required: str = "", preferred: str = "") -> StoredConstraint:
    return StoredConstraint("", topology_name, required, preferred, is_later=True)


@pytest.mark.parametrize(
    ("constraint", "read"),
    [
        ({}, UNCONSTRAINED),
        ({"packDomain": "rack"}, StoredConstraint("rack")),
        ({"topologyName": "t"}, later("t")),
        ({"pack": {"required": "rack", "preferred": 3}}, later("", "rack")),
        (
            {"topologyName": "t", "pack": {"required": "rack", "preferred": "host"}},
            later("t", "rack", "host"),
        ),
        ({"pack": []}, UNCONSTRAINED),
        ({"pack": {"spread": "rack"}}, later()),
        (
            {"spread": {"maxSkew": 1}, "packDomain": "rack"},
            StoredConstraint("rack", is_later=True),
        ),
    ],
)
def test_constraints_in_the_words_of_todays_grove(constraint: Any, read: StoredConstraint) -> None:
    pcs = a_set(**constraint)
    assert (pcs.cliques[0].constraint, pcs.uses_pack) == (read, read.is_later)


@pytest.mark.parametrize(
    ("obj", "levels"),
    [
        (
            {"spec": {"levels": [{"domain": "b-1", "key": "k/b"}, {"domain": "a", "key": "k/a"}]}},
            ("b-1", "a"),
        ),
        ({"spec": {"levels": [{"domain": "a"}, 3, {"domain": "b", "key": 3}]}}, ()),
        ({"spec": {"levels": {}}}, ()),
        ({"spec": []}, ()),
    ],
    ids=["in their order", "unusable levels", "no list", "no spec"],
)
def test_levels_of_a_binding(obj: Any, levels: tuple[str, ...]) -> None:
    assert tuple(level.domain for level in BINDINGS.read_levels(obj)) == levels


def test_the_topologies_that_workloads_can_use() -> None:
    bound = {"b": ON.levels}
    assert DESIGN.in_use(Around(ON, bound=bound)) == {"grove-topology": ON.levels}
    assert DESIGN.in_use(Around(OFF, bound=bound)) == {}
    for dialect in (BINDINGS, EPOCHS):
        assert dialect.in_use(Around(OFF, bound=bound)) == bound


RACK, HOST = (
    {"domain": "rack", "key": "k/rack"},
    {"domain": "host", "key": "kubernetes.io/hostname"},
)
UNLABELLED = (
    'level "rack": no node has the label k/rack, so pods that require this level stay pending'
)
USER = a_set(packDomain="rack")


def in_use(levels: str) -> list[str]:
    text = f"constraints on removed levels ({levels}) will be ignored in 1 PodCliqueSet"
    return [f"{text}: {USER.namespace}/train"]


def topology(*levels: Any) -> dict[str, Any]:
    return {"metadata": {"name": "t"}, "spec": {"levels": list(levels)}}


@pytest.mark.parametrize("dialect", [DESIGN, UNSERVED, BINDINGS, EPOCHS], ids=lambda d: d.name)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_levels_that_no_node_has_are_warned_of(dialect: Dialect, operation: str) -> None:
    around = Around(counted=Nodes([({"kubernetes.io/hostname": "n"}, 3)]))
    for managed_one in (False, True):
        obj = topology(RACK, HOST)
        verdict = dialect.validate_levels(obj, obj, operation, around, managed_one)
        assert (verdict.refusal, verdict.findings) == (None, [])
        assert verdict.warnings == [UNLABELLED]


@pytest.mark.parametrize("dialect", [DESIGN, UNSERVED, BINDINGS, EPOCHS], ids=lambda d: d.name)
def test_levels_that_are_invalid_are_not_warned_of(dialect: Dialect) -> None:
    around = Around(counted=Nodes([({"kubernetes.io/hostname": "n"}, 3)]), sets=[USER])
    verdict = dialect.validate_levels(topology(RACK, RACK), topology(RACK), "UPDATE", around, True)
    assert verdict.findings
    assert verdict.warnings == []


@pytest.mark.parametrize("dialect", [DESIGN, UNSERVED], ids=lambda d: d.name)
@pytest.mark.parametrize(
    ("before", "after", "managed_one", "warnings"),
    [
        pytest.param(topology(RACK, HOST), topology(HOST), True, in_use("'rack'"), id="removed"),
        pytest.param(topology(RACK, HOST), topology(HOST), False, [], id="of another topology"),
        pytest.param(topology(RACK, HOST), topology(RACK, HOST), True, [], id="kept"),
        pytest.param(topology(HOST), topology(RACK, HOST), True, [], id="added"),
        pytest.param(topology(RACK, HOST), None, True, in_use("'rack'"), id="deleted"),
        pytest.param(topology(RACK, HOST), None, False, [], id="another topology is deleted"),
        pytest.param(topology(HOST), None, True, [], id="deleted without that level"),
    ],
)
def test_the_removal_of_a_level_that_sets_use_is_warned_of(
    dialect: Dialect,
    before: dict[str, Any],
    after: dict[str, Any] | None,
    managed_one: bool,
    warnings: list[str],
) -> None:
    around = Around(sets=[USER])
    verdict = (
        dialect.validate_levels(before, None, "DELETE", around, managed_one)
        if after is None
        else dialect.validate_levels(after, before, "UPDATE", around, managed_one)
    )
    assert (verdict.refusal, verdict.findings, list(verdict.warnings)) == (None, [], warnings)


@pytest.mark.parametrize(
    ("dialect", "name", "resource", "sign", "owner", "owns_topology", "reads_groups"),
    [
        (UNSERVED, "none", "ClusterTopology", "ClusterTopology", "PodCliqueSet", False, False),
        (DESIGN, "design", "ClusterTopology", "ClusterTopology", "PodGang", True, False),
        (
            BINDINGS,
            "bindings",
            "ClusterTopologyBinding",
            "ClusterTopologyBinding",
            "PodCliqueSet",
            False,
            True,
        ),
        (EPOCHS, "epochs", "ClusterTopologyBinding", "PodGangMap", "PodCliqueSet", False, True),
    ],
    ids=lambda value: value.name if isinstance(value, Dialect) else "",
)
def test_what_a_dialect_is(
    dialect: Dialect,
    name: str,
    resource: str,
    sign: str,
    owner: str,
    owns_topology: bool,
    reads_groups: bool,
) -> None:
    assert (dialect.name, dialect.resource.kind, dialect.sign.kind) == (name, resource, sign)
    assert dialect.owner.kind == owner
    assert (dialect.owns_topology, dialect.reads_groups) == (owns_topology, reads_groups)


def test_a_verdict_on_a_set_has_what_further_rules_need() -> None:
    pcs = pod_clique_set("train")
    template = pcs["spec"]["template"]
    template["topologyConstraint"] = {"packDomain": "rack"}
    template["cliques"][0]["topologyConstraint"] = {"packDomain": "host"}
    name = template["cliques"][0]["name"]
    for dialect in (DESIGN, UNSERVED):
        verdict = dialect.validate_set(read_template(pcs), None, Around(managed=ON))
        assert (verdict.findings, verdict.warnings, verdict.is_known) == ([], [], True)
        assert verdict.levels == ON.levels
        assert verdict.required == {("set", ""): "rack", ("clique", name): "host"}
        assert verdict.constrained == [("set", ""), ("clique", name)]

    template["topologyConstraint"] = {"topologyName": "t", "pack": {"preferred": "rack"}}
    template["cliques"][0]["topologyConstraint"] = {"pack": {"required": "host"}}
    verdict = BINDINGS.validate_set(read_template(pcs), None, Around(bound={"t": ON.levels}))
    assert (verdict.findings, verdict.warnings, verdict.is_known) == ([], [], True)
    assert verdict.levels == ON.levels
    assert verdict.required == {("clique", name): "host"}
    assert list(verdict.constrained) == [("set", ""), ("clique", name)]


@pytest.mark.parametrize("part", ["podgroups", "topologyConstraintGroupConfigs"])
def test_the_shape_of_a_podgang_is_judged_where_its_constraints_are_written(part: str) -> None:
    spec = {
        "topologyConstraint": {"packConstraint": 1},
        part: [{"topologyConstraint": {"packConstraint": "rack"}}, {"topologyConstraint": []}, 7],
    }
    found = [str(finding) for finding in DESIGN.validate_podgang({"spec": spec})]
    assert found == [
        "spec.topologyConstraint.packConstraint: Invalid value: 1: must be a map",
        f"spec.{part}[2]: Invalid value: 7: must be a map",
        f'spec.{part}[0].topologyConstraint.packConstraint: Invalid value: "rack": must be a map',
        f"spec.{part}[1].topologyConstraint: Invalid value: []: must be a map",
    ]
    assert DESIGN.validate_podgang(gang()) == []
    for dialect in (UNSERVED, BINDINGS, EPOCHS):
        assert dialect.validate_podgang({"spec": spec}) == []


class Missing(Around):
    def topology(self) -> ClusterTopology:
        raise NoTopology("ClusterTopology t does not exist")


def constrained(domain: str, member: str = "worker") -> Any:
    pcs = pod_clique_set("train")
    template = pcs["spec"]["template"]
    template["cliques"] = [{"name": member, "topologyConstraint": {"packDomain": domain}}]
    return read_template(pcs)


@pytest.mark.parametrize("dialect", [DESIGN, UNSERVED], ids=lambda d: d.name)
def test_without_its_topology_a_set_may_only_keep_its_constraints(dialect: Dialect) -> None:
    verdict = dialect.validate_set(constrained("rack"), constrained("rack"), Missing())
    assert (verdict.findings, verdict.is_known, len(verdict.warnings)) == ((), False, 1)
    assert "ClusterTopology t does not exist" in verdict.warnings[0]
    for old in (None, constrained("host"), constrained("rack", "other")):
        with pytest.raises(NoTopology):
            dialect.validate_set(constrained("rack"), old, Missing())
