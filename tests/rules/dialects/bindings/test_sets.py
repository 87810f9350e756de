"""Constraints in the words of today's Grove: the verdicts of its webhook, with all findings at
once.
"""

from typing import Any

import pytest

from app.facts.grove.template import read_template
from app.facts.grove.topology import Level
from app.objects.fields import FieldError
from app.rules.dialects.bindings import BINDINGS
from app.rules.dialects.dialect import NO_CONSTRAINTS
from app.rules.topology.coverage import Nodes
from tests.rules.dialects.around import Around
from tests.said import Said
from tests.steps import steps

BOUND = {
    "gb200": tuple(Level(domain, f"k/{domain}") for domain in ("zone", "block", "rack", "host")),
    "h100": (Level("rack", "k/rack"), Level("host", "k/host")),
}
AROUND = Around(bound=BOUND)
OF_SET = "spec.template.topologyConstraint"
OF_POOL = "spec.template.podCliqueScalingGroups[0].topologyConstraint"
OF_ROUTER, OF_LEADER = (
    f"spec.template.cliques[{position}].topologyConstraint" for position in range(2)
)
FORMER_WORD = (
    "Forbidden: packDomain is allowed only in PodCliqueSets that already have it; use pack.required"
)
AGAIN = "To change it, delete the PodCliqueSet and create it again"
MISSING = "Required value: set the name of a ClusterTopologyBinding here, or once in spec.template.topologyConstraint"


def validated(
    obj: dict[str, Any], old: dict[str, Any] | None, facts: Around
) -> tuple[list[FieldError], list[str]]:
    stored = None if old is None else read_template(old)
    verdict = BINDINGS.validate_set(read_template(obj), stored, facts)
    return list(verdict.findings), list(verdict.warnings)


def pcs(
    of_set: Any = None, router: Any = None, pool: Any = None, leader: Any = None
) -> dict[str, Any]:
    """A clique `router` and, in the scaling group `pool`, a clique `leader`, each with its
    topologyConstraint.
    """

    def holder(constraint: Any, **fields: Any) -> dict[str, Any]:
        return {**fields, **({} if constraint is None else {"topologyConstraint": constraint})}

    cliques = [holder(router, name="router"), holder(leader, name="leader")]
    groups = [holder(pool, name="pool", cliqueNames=["leader", "absent"])]
    template = holder(of_set, cliques=cliques, podCliqueScalingGroups=groups)
    return {"metadata": {"name": "pcs"}, "spec": {"replicas": 1, "template": template}}


def c(name: str = "", required: str = "", preferred: str = "", former: str = "") -> dict[str, Any]:
    """A constraint without what is ""."""
    pack = {
        key: value for key, value in (("required", required), ("preferred", preferred)) if value
    }
    fields = (("topologyName", name), ("pack", pack), ("packDomain", former))
    return {key: value for key, value in fields if value}


@pytest.mark.parametrize(
    ("obj", "findings"),
    [
        pytest.param(pcs(), [], id="no constraints"),
        pytest.param(
            pcs(c("gb200", "zone", "block"), c("", "rack"), c("", "block"), c("", "host")),
            [],
            id="inherited",
        ),
        pytest.param(
            pcs(None, None, c("gb200", "block"), c("", "rack")),
            [],
            id="inherited from the group alone",
        ),
        pytest.param(pcs(c("", "zone")), [f"{OF_SET}.topologyName: {MISSING}"], id="no name"),
        pytest.param(
            pcs(None, c("", "rack"), c("gb200", "block"), None),
            [f"{OF_ROUTER}.topologyName: {MISSING}"],
            id="a group's name is not inherited by cliques outside of it",
        ),
        pytest.param(
            pcs(c("gb200", "zone"), c("h100", "rack")),
            [
                f'{OF_ROUTER}.topologyName: Invalid value: "h100": all topologyName values of a PodCliqueSet must be the same, but another one is "gb200"'
            ],
            id="two names",
        ),
        pytest.param(
            pcs(c("b200", "zone"), c("", "rack")),
            [
                f'{OF_SET}.topologyName: Invalid value: "b200": ClusterTopologyBinding not found; existing ones: gb200, h100'
            ],
            id="an unknown binding is reported once",
        ),
        pytest.param(
            pcs(c("b200", "zone"), c("b200", "rack")),
            [
                f'{OF_SET}.topologyName: Invalid value: "b200": ClusterTopologyBinding not found; existing ones: gb200, h100'
            ],
            id="an unknown binding that is named twice too",
        ),
        pytest.param(
            pcs(c("h100", "zone", "numa"), None, None, c("", "", "", "block")),
            [
                f'{OF_SET}.pack.required: Invalid value: "zone": not a level of ClusterTopologyBinding "h100", which has: rack, host',
                f'{OF_SET}.pack.preferred: Invalid value: "numa": not a level of ClusterTopologyBinding "h100", which has: rack, host',
                f'{OF_LEADER}.packDomain: Invalid value: "block": not a level of ClusterTopologyBinding "h100", which has: rack, host',
                f"{OF_LEADER}.packDomain: {FORMER_WORD}",
            ],
            id="unknown levels, all of them",
        ),
        pytest.param(
            pcs(c("gb200", "rack", "rack"), c("", "zone", "block"), c("", "host"), c("", "block")),
            [
                f'{OF_ROUTER}.pack.required: Invalid value: "zone": must not be broader than the required domain "rack" of the PodCliqueSet; allowed: rack, host',
                f'{OF_ROUTER}.pack.preferred: Invalid value: "block": must not be broader than the preferred domain "rack" of the PodCliqueSet; allowed: rack, host',
                f'{OF_LEADER}.pack.required: Invalid value: "block": must not be broader than the required domain "host" of scaling group "pool"; allowed: host',
            ],
            id="broader than what stands above, the narrowest of it",
        ),
        pytest.param(
            pcs(c("gb200", "", "", "rack"), c("", "", "", "zone")),
            [
                f'{OF_ROUTER}.packDomain: Invalid value: "zone": must not be broader than the required domain "rack" of the PodCliqueSet; allowed: rack, host',
                f"{OF_SET}.packDomain: {FORMER_WORD}",
                f"{OF_ROUTER}.packDomain: {FORMER_WORD}",
            ],
            id="packDomain is required",
        ),
        pytest.param(
            pcs({"topologyName": 3, "pack": {"required": []}}),
            [
                f"{OF_SET}.topologyName: Invalid value: 3: must be a string",
                f"{OF_SET}.pack.required: Invalid value: []: must be a string",
            ],
            id="wrong types",
        ),
        pytest.param(
            {"spec": {"template": {"cliques": [3], "podCliqueScalingGroups": {}}}},
            [
                "spec.template.podCliqueScalingGroups: Invalid value: {}: must be a list",
                "spec.template.cliques[0]: Invalid value: 3: must be a map",
            ],
            id="wrong shapes",
        ),
    ],
)
def test_findings_at_creation(obj: dict[str, Any], findings: list[str]) -> None:
    assert [str(finding) for finding in validated(obj, None, AROUND)[0]] == findings


def test_of_two_groups_of_one_name_the_first_is_above_their_cliques() -> None:
    obj = pcs(c("gb200", "zone"), None, c("", "rack"), c("", "block"))
    groups = obj["spec"]["template"]["podCliqueScalingGroups"]
    groups.append({**groups[0], "topologyConstraint": c("", "zone")})

    assert [str(finding) for finding in validated(obj, None, AROUND)[0]] == [
        f'{OF_LEADER}.pack.required: Invalid value: "block": must not be broader than the required domain "rack" of scaling group "pool"; allowed: rack, host'
    ]


def test_without_any_binding_the_message_says_so(said: Said) -> None:
    (finding,), _ = validated(pcs(c("gb200", "zone")), None, Around())
    assert finding.message.endswith("ClusterTopologyBinding not found; this cluster has none")
    said([finding])


STORED = pcs(c("gb200", "rack"), c("", "host"))
FORMER = pcs(c("", "", "", "zone"), c("", "", "", "rack"))
NAMED = pcs(c("gb200", "", "", "zone"), c("", "", "", "rack"))
NAMED_AGAIN = pcs(c("gb200", "", "", "zone"))


@pytest.mark.parametrize(
    ("old", "new", "findings"),
    [
        pytest.param(STORED, STORED, [], id="unchanged"),
        pytest.param(
            STORED,
            pcs(c("gb200", "rack")),
            [
                f"{OF_ROUTER}: Forbidden: cannot be changed after creation: was {{required: host}}, would be absent. {AGAIN}"
            ],
            id="removed",
        ),
        pytest.param(
            STORED,
            pcs(c("h100", "rack"), c("", "host")),
            [
                f"{OF_SET}: Forbidden: cannot be changed after creation: was {{topologyName: gb200, required: rack}}, would be {{topologyName: h100, required: rack}}. {AGAIN}"
            ],
            id="another binding",
        ),
        pytest.param(
            pcs(),
            pcs(None, c("gb200", "rack", "host")),
            [
                f"{OF_ROUTER}: Forbidden: cannot be changed after creation: was absent, would be {{topologyName: gb200, required: rack, preferred: host}}. {AGAIN}"
            ],
            id="added",
        ),
        pytest.param(
            FORMER,
            FORMER,
            [f"{OF_SET}.topologyName: {MISSING}", f"{OF_ROUTER}.topologyName: {MISSING}"],
            id="a packDomain without a name",
        ),
        pytest.param(
            FORMER,
            pcs(c("", "zone"), c("", "", "", "rack")),
            [f"{OF_SET}.topologyName: {MISSING}", f"{OF_ROUTER}.topologyName: {MISSING}"],
            id="it becomes pack.required, still without a name",
        ),
        pytest.param(NAMED, NAMED, [], id="a packDomain with a name may stay"),
        pytest.param(FORMER, NAMED, [], id="it gets its name"),
        pytest.param(
            NAMED,
            pcs(c("gb200", "zone"), c("", "", "", "rack")),
            [],
            id="packDomain becomes pack.required",
        ),
        pytest.param(
            NAMED,
            pcs(c("gb200", "block"), c("", "", "", "rack")),
            [
                f"{OF_SET}: Forbidden: cannot be changed after creation: was {{topologyName: gb200, packDomain: zone}}, would be {{topologyName: gb200, required: block}}. {AGAIN}"
            ],
            id="another level with that",
        ),
        pytest.param(
            NAMED,
            pcs(c("gb200", "zone", "rack"), c("", "", "", "rack")),
            [
                f"{OF_SET}: Forbidden: cannot be changed after creation: was {{topologyName: gb200, packDomain: zone}}, would be {{topologyName: gb200, required: zone, preferred: rack}}. {AGAIN}"
            ],
            id="a preferred level with that",
        ),
        pytest.param(
            FORMER,
            pcs(c("h100", "", "", "zone"), c("", "", "", "rack")),
            [
                f'{OF_SET}.packDomain: Invalid value: "zone": not a level of ClusterTopologyBinding "h100", which has: rack, host'
            ],
            id="a name is added, and judged",
        ),
        pytest.param(
            FORMER,
            pcs(None, c("gb200", "", "", "rack")),
            [
                f"{OF_SET}: Forbidden: cannot be changed after creation: was {{packDomain: zone}}, would be absent. {AGAIN}",
            ],
            id="a constraint of before is removed",
        ),
        pytest.param(
            pcs(c("gb200", "zone")),
            NAMED_AGAIN,
            [
                f"{OF_SET}: Forbidden: cannot be changed after creation: was {{topologyName: gb200, required: zone}}, would be {{topologyName: gb200, packDomain: zone}}. {AGAIN}"
            ],
            id="pack.required does not become packDomain",
        ),
        pytest.param(pcs(c("gone", "rack")), pcs(c("gone", "rack")), [], id="the binding is gone"),
        pytest.param(pcs(), pcs(), [], id="never any"),
    ],
)
def test_findings_at_an_update(
    old: dict[str, Any], new: dict[str, Any], findings: list[str]
) -> None:
    assert [str(finding) for finding in validated(new, old, AROUND)[0]] == findings


def test_a_change_of_two_cliques_of_one_name_is_refused_once(said: Said) -> None:
    old = pcs(c("gb200", "zone"), c("gb200", "rack"))
    new = pcs(c("gb200", "zone"))
    cliques = new["spec"]["template"]["cliques"]
    cliques.append(dict(cliques[0]))
    findings = [str(finding) for finding in validated(new, old, AROUND)[0]]
    assert len([text for text in findings if "cannot be changed" in text]) == 1
    said(findings)


def test_what_is_stored_is_warned_about() -> None:
    _, warnings = validated(pcs(c("gone", "rack")), pcs(c("gone", "rack")), AROUND)
    assert warnings == [
        f'stored topology constraint, still allowed: {OF_SET}.topologyName: Invalid value: "gone": ClusterTopologyBinding not found; existing ones: gb200, h100'
    ]


@pytest.mark.parametrize(
    ("obj", "warnings"),
    [
        (pcs(c("gb200", "zone", "rack")), []),
        (
            pcs(c("gb200")),
            [
                f"{OF_SET} has neither pack.required nor pack.preferred, so it keeps no pods together"
            ],
        ),
        (
            pcs(c("gb200", "rack"), None, c("", "", "block"), None),
            [
                f'{OF_POOL}.pack.preferred "block" has no effect: the PodCliqueSet already requires the narrower "rack"'
            ],
        ),
        (
            pcs(None, None, c("gb200", "", "host"), c("", "rack")),
            [
                f'{OF_LEADER}.pack.required "rack" is broader than the preferred domain "host" of scaling group "pool", so this preference may be ignored for clique "leader"'
            ],
        ),
    ],
)
def test_warnings_about_constraints_without_effect(
    obj: dict[str, Any], warnings: list[str]
) -> None:
    assert validated(obj, None, AROUND) == ([], warnings)


def nodes(*places: str, count: int = 2) -> Nodes:
    """Groups of nodes; a place is the values of zone, block and rack."""
    keys = ("k/zone", "k/block", "k/rack")
    groups = [(dict(zip(keys, place.split("/"), strict=False)), count) for place in places]
    return Nodes(
        [({**labels, "k/host": str(n)}, count) for n, (labels, count) in enumerate(groups)]
    )


ALONE = 'all nodes with the labels of its topology are in one "{}", and KAI then places the pods only if a level is also preferred. Create the PodCliqueSet with pack.preferred: host'


@pytest.mark.parametrize(
    ("obj", "counted", "warnings"),
    [
        pytest.param(
            pcs(c("gb200", "zone")),
            nodes("z/b/r", "z/b/r"),
            [f'{OF_SET}.pack.required "zone": {ALONE.format("rack")}'],
            id="d5-grove: the only zone has one rack",
        ),
        pytest.param(
            pcs(None, None, None, c("gb200", "block")),
            nodes("z/b/r", "z/b/r"),
            [f'{OF_LEADER}.pack.required "block": {ALONE.format("rack")}'],
            id="of a clique, if there is no constraint above",
        ),
        pytest.param(
            pcs(c("gb200", "zone", "host")), nodes("z/b/r", "z/b/r"), [], id="d5-one-rack-preferred"
        ),
        pytest.param(pcs(c("gb200", "rack")), nodes("z/b/r", "z/b/r"), [], id="the shared level"),
        pytest.param(pcs(c("gb200", "zone")), nodes("z/b/r", "z/c/r"), [], id="two blocks"),
        pytest.param(
            pcs(c("gb200", "zone")),
            nodes("z/b/r", "z/b/r", "z/c"),
            [f'{OF_SET}.pack.required "zone": {ALONE.format("rack")}'],
            id="nodes without a label don't count",
        ),
        pytest.param(
            pcs(c("gb200", "zone", "block"), c("", "block")),
            nodes("z/b/r", "z/b/r"),
            [],
            id="below another constraint",
        ),
        pytest.param(
            pcs(c("gb200", "zone"), c("gb200")),
            nodes("z/b/r", "z/b/r"),
            [
                f"{OF_ROUTER} has neither pack.required nor pack.preferred, so it keeps no pods together",
                f'{OF_SET}.pack.required "zone": {ALONE.format("rack")}',
            ],
            id="after warnings that depend on no node",
        ),
        pytest.param(pcs(c("gb200", "zone")), Nodes(), [], id="no nodes are known"),
        pytest.param(pcs(c("gb200", "", "zone")), nodes("z/b/r"), [], id="nothing is required"),
    ],
)
def test_a_required_domain_while_all_nodes_share_a_narrower_one(
    obj: dict[str, Any], counted: Nodes, warnings: list[str]
) -> None:
    assert validated(obj, None, Around(bound=BOUND, counted=counted)) == ([], warnings)


AGAIN = "stored topology constraint, still allowed (to correct it, delete the PodCliqueSet and create it again)"
NEVER = 'must not be broader than the required domain "rack", because KAI never places such pods. Remove pack.preferred, or use one of: rack, host'


@pytest.mark.parametrize(
    ("constraint", "findings"),
    [
        pytest.param(
            c("gb200", "rack", "zone"),
            [f'{OF_SET}.pack.preferred: Invalid value: "zone": {NEVER}'],
            id="d3-grove: preferred is broader",
        ),
        pytest.param(c("gb200", "rack", "rack"), [], id="equal"),
        pytest.param(c("gb200", "rack", "host"), [], id="narrower"),
        pytest.param(c("gb200", "", "zone"), [], id="nothing is required"),
        pytest.param(c("gb200", "rack", ""), [], id="nothing is preferred"),
    ],
)
def test_a_preferred_domain_that_is_broader_than_the_required_one(
    constraint: dict[str, Any], findings: list[str]
) -> None:
    obj = pcs(constraint)
    created, _ = validated(obj, None, AROUND)
    assert list(map(str, created)) == findings

    scaled = {**obj, "spec": {**obj["spec"], "replicas": 2}}
    stored = [f"{AGAIN}: {finding}" for finding in findings]
    assert validated(scaled, obj, AROUND) == ([], stored)


def test_of_a_packdomain_and_of_a_set_that_must_get_a_name_the_same_holds(said: Said) -> None:
    old = pcs(c("", "", "zone", "rack"))
    new = pcs(c("gb200", "", "zone", "rack"))
    findings, warnings = validated(new, old, AROUND)
    assert findings == []
    assert f'{AGAIN}: {OF_SET}.pack.preferred: Invalid value: "zone": {NEVER}' in warnings
    said(warnings)


def test_which_levels_a_set_requires() -> None:
    verdict = BINDINGS.validate_set(read_template(STORED), read_template(STORED), AROUND)
    assert (verdict.levels, verdict.required) == (
        BOUND["gb200"],
        {("set", ""): "rack", ("clique", "router"): "host"},
    )
    assert BINDINGS.validate_set(read_template(pcs()), None, AROUND) == NO_CONSTRAINTS
    assert BINDINGS.in_use(AROUND) == BOUND


@pytest.mark.untraced
def test_the_work_for_cliques_and_groups_of_one_name_grows_with_their_number() -> None:
    """Not with its square: four times as many take four times as many steps, and not sixteen.

    No API server allows two cliques of one name, but a dry run may send them. The second one
    inherits its name too, and its level has to exist.
    """
    constraint = {"topologyConstraint": c("", "rack")}

    def judge(number: int) -> None:
        groups = [{"name": f"g{at}", "cliqueNames": ["w"], **constraint} for at in range(number)]
        cliques = [{"name": "w", **constraint}] * number
        cliques.append({"name": "w", "topologyConstraint": c("", "row")})
        obj = pcs(c("gb200", "zone"))
        obj["spec"]["template"] |= {"cliques": cliques, "podCliqueScalingGroups": groups}
        (finding,), _ = validated(obj, None, AROUND)
        assert finding.field == f"spec.template.cliques[{number}].topologyConstraint.pack.required"

    assert steps(lambda: judge(2000)) < 5 * steps(lambda: judge(500))
