"""Topology constraints of a PodCliqueSet: set -> scaling group -> clique."""

from typing import Any

import pytest

from app.facts.grove.template import read_template
from app.facts.grove.topology import DOMAINS, ClusterTopology, Level
from app.objects.fields import FieldError
from app.rules.dialects.design.sets import (
    NOT_ENABLED,
    allowed_below,
    read_constraints,
    validate_constraints,
)
from tests.builders import managed
from tests.said import Said
from tests.steps import steps

ALL = managed(
    "grove-topology",
    enabled=True,
    levels=tuple(Level(domain, f"key/{domain}") for domain in DOMAINS),
)
FEW = managed("grove-topology", levels=(Level("rack", "key/rack"), Level("host", "key/host")))
OFF = managed("grove-topology", enabled=False)

CLIQUE = "spec.template.cliques[0].topologyConstraint.packDomain"
GROUP = "spec.template.podCliqueScalingGroups[0].topologyConstraint.packDomain"
SET = "spec.template.topologyConstraint.packDomain"


def pcs(top: Any = None, group: Any = None, clique: Any = None, **template: Any) -> dict[str, Any]:
    """A set with one scaling group of one clique, and a packDomain at each level."""

    def constraint(domain: Any) -> dict[str, Any]:
        return {} if domain is None else {"topologyConstraint": {"packDomain": domain}}

    return {
        "spec": {
            "template": {
                "cliques": [{"name": "a", **constraint(clique)}, {"name": "b"}],
                "podCliqueScalingGroups": [
                    {"name": "g", "cliqueNames": ["a"], **constraint(group)}
                ],
                **constraint(top),
                **template,
            }
        }
    }


def renamed(obj: dict[str, Any]) -> dict[str, Any]:
    """The set with another name of its first clique."""
    template = obj["spec"]["template"]
    template["cliques"][0]["name"] = "renamed"
    template["podCliqueScalingGroups"][0]["cliqueNames"] = ["renamed"]
    return obj


def judged(
    obj: Any, topology: ClusterTopology = ALL, old: Any = None
) -> tuple[list[FieldError], list[str]]:
    template = read_template(obj)
    constraints, of_values = read_constraints(template)
    assert [*template.findings, *of_values] == []
    stored = None if old is None else read_template(old)
    return validate_constraints(constraints, stored, topology)


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(pcs(), [], id="no constraint"),
        pytest.param(pcs("rack", "rack", "rack"), [], id="equal at every level"),
        pytest.param(pcs("zone", "rack", "host"), [], id="stricter at every level"),
        pytest.param(
            pcs(None, "zone", "region"),
            [(CLIQUE, '"zone" of scaling group "g"')],
            id="the broadest level below the next one, and no constraint of the set",
        ),
        pytest.param(pcs("host", None, "numa"), [], id="a group without a constraint is skipped"),
        pytest.param(
            pcs("host", None, "rack"),
            [(CLIQUE, '"host" of the PodCliqueSet')],
            id="clique against the set",
        ),
        pytest.param(
            pcs(None, "host", "rack"),
            [(CLIQUE, 'scaling group "g"')],
            id="clique against its group",
        ),
        pytest.param(pcs("host", "rack"), [(GROUP, "allowed: host")], id="group against the set"),
        pytest.param(
            pcs(
                None,
                "host",
                cliques=[
                    {"name": "a"},
                    {"name": "alone", "topologyConstraint": {"packDomain": "rack"}},
                ],
            ),
            [],
            id="a clique outside of the narrower group",
        ),
        pytest.param(
            pcs("host", "rack", "zone"),
            [(GROUP, '"host" of the PodCliqueSet'), (CLIQUE, '"host" of the PodCliqueSet')],
            id="both, each against the strictest above it",
        ),
        pytest.param(
            pcs("galaxy", "rack"), [(SET, "Unsupported value")], id="an unknown domain has no order"
        ),
        pytest.param(
            pcs(None, "rack", "rack\n"), [(CLIQUE, "Unsupported value")], id="a trailing newline"
        ),
        pytest.param(pcs("", None, ""), [], id="empty is none"),
        pytest.param(
            pcs(
                "rack",
                cliques=[
                    {"name": "a", "topologyConstraint": {"packDomain": level}}
                    for level in ("?", "host")
                ],
            ),
            [(CLIQUE, "Unsupported value")],
            id="two cliques of one name, one with an unknown domain",
        ),
        pytest.param(
            pcs(topologyConstraint=None, cliques=None, podCliqueScalingGroups=None), [], id="nulls"
        ),
    ],
)
@pytest.mark.statement(
    "1.4", "1.110", "1.112", "1.113", "1.114", "1.127", "1.130", "1.133", "1.177", "1.178", "1.179"
)
def test_hierarchy(obj: Any, expected: list[tuple[str, str]], said: Said) -> None:
    findings, warnings = judged(obj)
    assert [finding.field for finding in findings] == [field for field, _ in expected]
    assert all(text in str(finding) for finding, (_, text) in zip(findings, expected, strict=True))
    assert warnings == []
    said(findings)


@pytest.mark.statement("1.106", "1.107", "1.131")
def test_a_level_that_is_not_configured_is_named_with_those_that_are() -> None:
    findings, _ = judged(pcs("zone", "rack"), FEW)
    detail = 'topology level not found in ClusterTopology "grove-topology", which has: rack, host'
    assert list(map(str, findings)) == [f'{SET}: Invalid value: "zone": {detail}']


@pytest.mark.statement("1.98", "1.134", "1.135")
def test_disabled_topology_refuses_every_constraint() -> None:
    findings, _ = judged(pcs("zone", None, "host"), OFF)
    assert list(map(str, findings)) == [
        f"{SET}: Forbidden: {NOT_ENABLED}",
        f"{CLIQUE}: Forbidden: {NOT_ENABLED}",
    ]


@pytest.mark.parametrize(
    ("new", "old", "topology", "kept"),
    [
        pytest.param(pcs("zone"), pcs("zone"), FEW, True, id="a level that is gone"),
        pytest.param(pcs("zone"), pcs("zone"), OFF, True, id="topology switched off"),
        pytest.param(
            pcs("host", None, "rack"), pcs("host", None, "rack"), ALL, True, id="an old violation"
        ),
        pytest.param(pcs("zone"), pcs("block"), FEW, False, id="changed to something invalid"),
        pytest.param(pcs("zone"), pcs(), FEW, False, id="added"),
        pytest.param(pcs("zone", "rack"), pcs("zone"), FEW, True, id="one kept, a valid one added"),
        pytest.param(pcs("zone", "block"), pcs("zone"), FEW, False, id="an invalid one added"),
        pytest.param(
            pcs("zone", "rack"), pcs("zone", "block"), FEW, True, id="one of two is corrected"
        ),
        pytest.param(pcs(None, "block"), pcs("zone", "block"), FEW, True, id="one of two removed"),
        pytest.param(
            pcs("block", "region"), pcs("zone", "region"), FEW, False, id="one becomes invalid"
        ),
        pytest.param(
            pcs("rack", "block", "zone"),
            pcs("host", "rack", "zone"),
            ALL,
            False,
            id="a kept one, below one that becomes too broad",
        ),
        pytest.param(
            pcs("rack", "rack", "zone"),
            pcs("host", "rack", "zone"),
            ALL,
            True,
            id="one of two that are too broad is corrected",
        ),
        pytest.param(
            pcs("host", "rack"), pcs("block", "rack"), ALL, False, id="too broad by a change above"
        ),
        pytest.param(
            pcs("numa", "rack"), pcs("host", "rack"), ALL, True, id="too broad before, too"
        ),
        pytest.param(
            renamed(pcs("zone", None, "host")),
            pcs("zone", None, "host"),
            FEW,
            True,
            id="a clique of such a set is renamed",
        ),
        pytest.param(
            renamed(pcs("rack", None, "block")),
            pcs("rack", None, "block"),
            FEW,
            True,
            id="the clique itself is renamed",
        ),
        pytest.param(
            pcs(None, "host", "rack"),
            pcs(None, "host", "rack", podCliqueScalingGroups=[{"name": "g", "cliqueNames": ["b"]}]),
            ALL,
            False,
            id="the clique moved into another group",
        ),
    ],
)
@pytest.mark.statement("1.132")
def test_what_was_stored_before_stays_usable(
    new: Any, old: Any, topology: ClusterTopology, kept: bool, said: Said
) -> None:
    findings, warnings = judged(new, topology, old)
    assert (findings == []) is kept
    assert (warnings != []) is kept
    assert all(warning.startswith("stored topology constraint") for warning in warnings)
    said(findings, warnings)


def test_a_change_of_one_of_two_cliques_with_one_name_is_a_change() -> None:
    def cliques(*domains: str) -> dict[str, Any]:
        return pcs(
            "rack",
            cliques=[
                {"name": "a", "topologyConstraint": {"packDomain": domain}} for domain in domains
            ],
        )

    findings, warnings = judged(cliques("zone", "host"), ALL, cliques("rack", "host"))
    assert ([finding.field for finding in findings], warnings) == ([CLIQUE], [])


def test_reordered_cliques_are_unchanged() -> None:
    old = pcs("zone", None, "host")
    new = pcs("zone", None, "host")
    new["spec"]["template"]["cliques"].reverse()
    findings, warnings = judged(new, OFF, old)
    assert (findings, len(warnings)) == ([], 2)


@pytest.mark.parametrize(
    ("obj", "fields"),
    [
        pytest.param({"spec": []}, ["spec"], id="spec is a list"),
        pytest.param({"spec": {"template": 1}}, ["spec.template"], id="template is a number"),
        pytest.param(
            pcs(topologyConstraint="rack"),
            ["spec.template.topologyConstraint"],
            id="constraint is text",
        ),
        pytest.param(pcs(top=["rack"]), [SET], id="packDomain is a list"),
        pytest.param(pcs(cliques={}), ["spec.template.cliques"], id="cliques is a map"),
        pytest.param(
            pcs(cliques=[1], podCliqueScalingGroups=["g"]),
            ["spec.template.podCliqueScalingGroups[0]", "spec.template.cliques[0]"],
            id="entries that are no maps",
        ),
        pytest.param(
            pcs(podCliqueScalingGroups=[{"name": "g", "cliqueNames": "a"}]),
            ["spec.template.podCliqueScalingGroups[0].cliqueNames"],
            id="cliqueNames is text",
        ),
    ],
)
def test_shapes_that_the_crd_does_not_allow(obj: Any, fields: list[str], said: Said) -> None:
    template = read_template(obj)
    findings = [*template.findings, *read_constraints(template)[1]]
    assert [finding.field for finding in findings] == fields
    said(findings)


@pytest.mark.statement("1.114")
def test_a_clique_in_two_groups_answers_to_both(said: Said) -> None:
    groups = [
        {"name": "g", "cliqueNames": ["a"], "topologyConstraint": {"packDomain": "rack"}},
        {"name": "h", "cliqueNames": ["a"], "topologyConstraint": {"packDomain": "host"}},
    ]
    findings, _ = judged(pcs(None, None, "zone", podCliqueScalingGroups=groups))
    assert [str(finding) for finding in findings if 'scaling group "h"' in str(finding)] == list(
        map(str, findings)
    )
    said(findings)


def test_each_of_two_cliques_with_one_name_is_refused() -> None:
    clique = {"name": "a", "topologyConstraint": {"packDomain": "zone"}}
    findings, _ = judged(pcs("rack", cliques=[clique, clique]))
    assert [finding.field for finding in findings] == [CLIQUE, CLIQUE.replace("[0]", "[1]")]


@pytest.mark.untraced
def test_the_work_for_cliques_and_groups_of_one_name_grows_with_their_number() -> None:
    """Not with its square: four times as many take four times as many steps, and not sixteen."""
    constraint = {"topologyConstraint": {"packDomain": "rack"}}

    def judge(number: int) -> None:
        groups = [{"name": f"g{at}", "cliqueNames": ["a"], **constraint} for at in range(number)]
        cliques = [{"name": "a", **constraint}] * number
        cliques.append({"name": "b", "topologyConstraint": {"packDomain": "host"}})
        assert judged(pcs(cliques=cliques, podCliqueScalingGroups=groups)) == ([], [])

    assert steps(lambda: judge(2000)) < 5 * steps(lambda: judge(500))


@pytest.mark.statement("1.131", "1.133")
def test_only_levels_that_exist_are_allowed() -> None:
    levels = tuple(Level(name, name) for name in ("zone", "rack", "host"))
    three = managed("t", levels=levels)
    assert allowed_below("rack", three) == "rack, host"
    assert allowed_below("numa", three) == "none"


def test_a_level_below_the_hostname_is_allowed_with_a_warning() -> None:
    levels = (Level("host", "kubernetes.io/hostname"), Level("numa", "key/numa"))
    findings, warnings = judged(pcs("host", None, "numa"), managed("t", levels=levels))
    assert (findings, warnings) == (
        [],
        [
            f'{CLIQUE}: KAI cannot use level "numa", which is below kubernetes.io/hostname:'
            ' the constraint is written as "host"'
        ],
    )
