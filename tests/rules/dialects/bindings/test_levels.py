"""ClusterTopologyBindings: findings all at once, what an update may leave, and who uses them."""

from typing import Any

import pytest

from app.facts.grove.podcliqueset import read_pod_clique_set
from app.facts.kai.topology import KaiTopology, read_kai_topology
from app.objects.owners import OwnerRef
from app.rules.dialects.bindings import BINDINGS
from app.rules.dialects.bindings.levels import refusal_to_delete
from tests.builders import pod_clique_set
from tests.rules.dialects.around import Around
from tests.said import Said

RACK = {"domain": "rack", "key": "k/rack"}
HOST = {"domain": "host", "key": "kubernetes.io/hostname"}
EXTERNAL = [{"schedulerName": "kai-scheduler", "topologyReference": "theirs"}]
EXITS = "Grove's operator could not create the KAI Topology, would exit at its next start and block every PodCliqueSet"


def binding(*levels: Any, uid: str = "", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "gb200", **({"uid": uid} if uid else {})},
        "spec": {"levels": list(levels), **spec},
    }


def user(name: str, level: str, **metadata: Any) -> Any:
    pcs = pod_clique_set(name)
    pcs["metadata"] |= {"namespace": "ml", **metadata}
    pcs["spec"]["template"]["topologyConstraint"] = {
        "topologyName": "gb200",
        "pack": {"preferred": level},
    }
    return read_pod_clique_set(pcs)


@pytest.mark.parametrize(
    ("obj", "findings"),
    [
        pytest.param(binding(RACK, HOST), [], id="valid"),
        pytest.param(
            binding(),
            [
                "spec.levels: Required value: add at least one level, such as {domain: host, key: kubernetes.io/hostname}"
            ],
            id="no levels",
        ),
        pytest.param(
            binding(
                {"domain": "Rack", "key": "k/rack"},
                {"domain": "rack", "key": "k/rack"},
                {"domain": "rack", "key": "-"},
                {"key": "k/x"},
                {"domain": 3},
                7,
            ),
            [
                "spec.levels[0].domain: Invalid value: \"Rack\": must consist of lowercase letters, digits and '-', start with a letter, and have at most 63 characters",
                'spec.levels[1].key: Duplicate value: "k/rack"',
                'spec.levels[2].domain: Duplicate value: "rack"',
                "spec.levels[2].key: Invalid value: \"-\": must be a qualified label name: alphanumeric characters, '-', '_' or '.', starting and ending with an alphanumeric character, with an optional DNS subdomain prefix and '/', such as topology.kubernetes.io/rack",
                "spec.levels[3].domain: Required value: set a name for this level, such as rack",
                "spec.levels[4].domain: Invalid value: 3: must be a string",
                "spec.levels[4].key: Required value: set the node label of this level, such as topology.kubernetes.io/rack",
                "spec.levels[5]: Invalid value: 7: must be a map",
            ],
            id="everything wrong",
        ),
        pytest.param(
            binding({"domain": "a" * 63, "key": "k/a"}, {"domain": "b" * 64, "key": "k/b"}),
            [
                f"spec.levels[1].domain: Invalid value: \"{'b' * 64}\": must consist of lowercase letters, digits and '-', start with a letter, and have at most 63 characters"
            ],
            id="the longest domain, and a longer one",
        ),
        pytest.param(
            binding(HOST, RACK),
            [
                f'spec.levels[0].key: Invalid value: "kubernetes.io/hostname": KAI allows this key only in the last level: {EXITS}'
            ],
            id="host first",
        ),
        pytest.param(
            binding(HOST, RACK, schedulerTopologyBindings=EXTERNAL), [], id="host first, elsewhere"
        ),
        pytest.param(
            binding(RACK, schedulerTopologyBindings=[*EXTERNAL, *EXTERNAL, 3, {}]),
            [
                'spec.schedulerTopologyBindings[1].schedulerName: Duplicate value: "kai-scheduler"',
                "spec.schedulerTopologyBindings[2]: Invalid value: 3: must be a map",
            ],
            id="a scheduler twice",
        ),
        pytest.param(
            {"metadata": {}, "spec": 3}, ["spec: Invalid value: 3: must be a map"], id="no spec"
        ),
    ],
)
def test_findings(obj: dict[str, Any], findings: list[str]) -> None:
    verdict = BINDINGS.validate_levels(obj, None, "CREATE", Around(), managed=False)
    assert [str(finding) for finding in verdict.findings] == findings


OURS = KaiTopology("gb200", owners=(OwnerRef("ClusterTopologyBinding", "gb200", "u"),))
THEIRS = KaiTopology("gb200", owners=(OwnerRef("ClusterTopology", "gb200", "x"),))


@pytest.mark.parametrize(
    ("kai", "obj", "old", "rejected", "warned"),
    [
        pytest.param(None, binding(RACK), None, False, False, id="none"),
        pytest.param(
            OURS, binding(RACK, uid="u"), binding(RACK, uid="u"), False, False, id="its own"
        ),
        pytest.param(
            OURS,
            binding(RACK),
            None,
            False,
            False,
            id="that of a former binding, which will be collected",
        ),
        pytest.param(THEIRS, binding(RACK), None, True, False, id="somebody else's"),
        pytest.param(KaiTopology("gb200"), binding(RACK), None, True, False, id="nobody's"),
        pytest.param(
            KaiTopology("gb200", deleting=True),
            binding(RACK),
            None,
            False,
            False,
            id="one that goes",
        ),
        pytest.param(THEIRS, binding(HOST), binding(RACK), False, True, id="it was so before"),
        pytest.param(
            THEIRS,
            binding(RACK),
            binding(RACK, schedulerTopologyBindings=EXTERNAL),
            True,
            False,
            id="it was external",
        ),
        pytest.param(
            THEIRS,
            binding(RACK, schedulerTopologyBindings=EXTERNAL),
            None,
            False,
            False,
            id="it is external",
        ),
    ],
)
def test_a_kai_topology_of_its_name(
    kai: KaiTopology | None,
    obj: dict[str, Any],
    old: dict[str, Any] | None,
    rejected: bool,
    warned: bool,
    said: Said,
) -> None:
    around = Around(kai={"gb200": kai} if kai else {})
    verdict = BINDINGS.validate_levels(
        obj, old, "UPDATE" if old else "CREATE", around, managed=False
    )
    assert (bool(verdict.findings), bool(verdict.warnings)) == (rejected, warned)
    said(verdict.findings, verdict.warnings)


def test_an_update_that_leaves_the_spec_may_leave_its_mistakes(said: Said) -> None:
    wrong = binding(HOST, RACK)
    verdict = BINDINGS.validate_levels(wrong, wrong, "UPDATE", Around(), managed=False)
    assert (verdict.findings, [text.partition(":")[0] for text in verdict.warnings]) == (
        [],
        ["already stored, so still allowed"],
    )
    said(verdict.warnings)


USERS = [user(f"set-{number}", "rack") for number in range(7)]


@pytest.mark.parametrize(
    ("sets", "refused"),
    [
        (
            USERS[:1],
            'Grove would remove the constraints on "rack" from the PodGangs of these PodCliqueSets: ml/set-0',
        ),
        (
            USERS,
            'Grove would remove the constraints on "rack" from the PodGangs of these PodCliqueSets: ml/set-0, ml/set-1, ml/set-2, ml/set-3, ml/set-4 and 2 more',
        ),
        ([user("a", "host")], ""),
        ([user("a", "rack", deletionTimestamp="now")], ""),
    ],
)
def test_who_uses_a_level(sets: list[Any], refused: str) -> None:
    around = Around(sets=sets)
    old = binding(RACK, HOST)
    new = binding(HOST)
    verdict = BINDINGS.validate_levels(new, old, "UPDATE", around, managed=False)
    assert [str(finding).partition(". Delete")[0] for finding in verdict.findings] == (
        [f"spec.levels: Forbidden: {refused}"] if refused else []
    )
    new["metadata"]["annotations"] = {"grove.io/allow-topology-in-use": "true"}
    verdict = BINDINGS.validate_levels(new, old, "UPDATE", around, managed=False)
    assert (verdict.findings, verdict.warnings) == (
        [],
        [refused.replace("would", "will")] if refused else [],
    )


def test_a_binding_that_nobody_uses_may_go(said: Said) -> None:
    assert (
        BINDINGS.validate_levels(binding(RACK), None, "DELETE", Around(), managed=False).refusal
        is None
    )
    refusal = BINDINGS.validate_levels(
        binding(RACK), None, "DELETE", Around(sets=USERS[:1]), managed=False
    ).refusal
    assert refusal is not None
    assert refusal.startswith(
        'ClusterTopologyBinding "gb200" cannot be deleted: Grove would remove the constraints on "rack"'
    )
    said([refusal])


@pytest.mark.parametrize(
    "metadata", [{}, {"metadata": None}, {"metadata": []}], ids=["none", "null", "a list"]
)
def test_a_binding_without_metadata_gets_a_verdict(metadata: Any, said: Said) -> None:
    """No API server sends one."""
    obj = {"spec": binding(RACK)["spec"], **metadata}
    verdict = BINDINGS.validate_levels(
        obj, None, "CREATE", Around(kai={"": KaiTopology("")}), managed=False
    )
    assert [finding.field for finding in verdict.findings] == ["metadata.name"]
    assert (
        BINDINGS.validate_levels(obj, None, "DELETE", Around(sets=USERS), managed=False).refusal
        is None
    )
    refusal, _ = refusal_to_delete(obj, USERS[:1])
    assert refusal is not None
    assert refusal.startswith('ClusterTopologyBinding "" cannot be deleted')
    said(verdict.findings, [refusal])


def test_a_stored_kai_topology() -> None:
    owner = {"kind": "ClusterTopologyBinding", "name": "gb200", "uid": "u", "controller": True}
    stored = {
        "metadata": {
            "name": "gb200",
            "ownerReferences": [{"kind": "x"}, owner],
            "deletionTimestamp": "now",
        },
        "spec": {"levels": [{"nodeLabel": "k/rack", "alias": "rack"}, 3]},
    }
    kai = read_kai_topology(stored)
    assert kai == KaiTopology(
        "gb200",
        ("k/rack",),
        (OwnerRef("x", "", "", False), OwnerRef("ClusterTopologyBinding", "gb200", "u")),
        (("rack", "k/rack"),),
        deleting=True,
    )
    assert kai.controller == kai.owners[1]
    assert [kai.position(level) for level in ("k/rack", "rack", "k/zone", "")] == [0, 0, None, None]
    assert read_kai_topology({"metadata": {"name": "a"}, "spec": []}) == KaiTopology("a")
