"""What must hold for any input: rules are total, mutations idempotent, and nothing else is touched."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonpatch import apply_patch

from app.facts.grove.podcliqueset import read_pod_clique_set
from app.facts.grove.podgang import read_gang
from app.facts.grove.template import read_template
from app.facts.grove.topology import DOMAINS, Level
from app.objects.edits import operations
from app.objects.jsonpatch import applies
from app.rules.dialects.design.levels import validate_cluster_topology
from app.rules.dialects.design.sets import read_constraints, validate_constraints
from app.rules.subgroups import validate_pod_group
from app.rules.topology.node_labels import binding_changes
from tests.builders import injection_into, managed
from tests.effort import tries

pytestmark = pytest.mark.untraced

TOPOLOGY = managed("t", levels=(Level("rack", "k/rack"), Level("host", "k/host")))

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["", "a", "b", "rack", "zone", "a\n"])
)
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner),
    max_leaves=8,
)


def maps(**fields: Any) -> st.SearchStrategy[Any]:
    """Maps whose fields may be missing, right or anything at all."""
    optional = {name: strategy | anything for name, strategy in fields.items()}
    return st.fixed_dictionaries({}, optional=optional) | anything


constraint = maps(packDomain=st.sampled_from(DOMAINS))
cliques = st.lists(maps(name=st.sampled_from("ab"), topologyConstraint=constraint), max_size=3)
groups = st.lists(
    maps(
        name=st.sampled_from("gh"),
        cliqueNames=st.lists(st.sampled_from("ab")),
        topologyConstraint=constraint,
    )
)
template = maps(topologyConstraint=constraint, cliques=cliques, podCliqueScalingGroups=groups)
sets = st.fixed_dictionaries({"spec": maps(template=template)})

subgroups = st.lists(
    maps(name=st.sampled_from(["a", "b", "C"]), parent=st.sampled_from(["a", "b", "C"])), max_size=4
)
levels = st.lists(
    maps(domain=st.sampled_from(DOMAINS), key=st.sampled_from(["a", "b", "-"])), max_size=8
)

amounts = st.dictionaries(st.sampled_from(["nvidia.com/gpu", "cpu"]), scalars)
resources = maps(limits=amounts, requests=amounts, claims=st.lists(maps(name=st.just("mnnvl"))))
containers = st.lists(maps(name=st.just("c"), resources=resources), max_size=3)
pod_spec = maps(
    containers=containers,
    initContainers=containers,
    resourceClaims=st.lists(maps(name=st.just("mnnvl"))),
)
pod_cliques = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {
                "name": st.sampled_from(["pcs-0-a", "other", "pcs-0-a\n"]) | anything,
                "annotations": st.fixed_dictionaries(
                    {"grove.io/mnnvl-enabled": st.just("true")},
                    optional={
                        "grove.io/mnnvl-scope": st.sampled_from(["replica", "clique"]) | anything
                    },
                ),
                "labels": st.fixed_dictionaries(
                    {},
                    optional={
                        "grove.io/pcs-name": st.just("pcs") | anything,
                        "grove.io/pcs-replica-index": st.just("0") | anything,
                    },
                ),
            }
        ),
        "spec": maps(podSpec=pod_spec, replicas=st.integers(0, 5)),
    }
)


@given(sets, st.none() | sets)
@settings(max_examples=tries(50, 150))
def test_hierarchy_is_total_and_gives_findings_or_warnings(obj: Any, old: Any) -> None:
    template = read_template(obj)
    constraints, of_values = read_constraints(template)
    stored = None if old is None else read_template(old)
    refusals, warnings = validate_constraints(constraints, stored, TOPOLOGY)
    assert not (refusals and warnings)
    assert all(str(finding) for finding in [*template.findings, *of_values, *refusals])
    read_pod_clique_set(obj)


@given(
    st.fixed_dictionaries({"spec": maps(subGroups=subgroups)}),
    st.fixed_dictionaries({"spec": maps(levels=levels)}),
)
@settings(max_examples=tries(50, 150))
def test_validators_are_total_and_repeat_themselves(pod_group: Any, topology: Any) -> None:
    assert validate_pod_group(pod_group) == validate_pod_group(pod_group)
    assert list(map(str, validate_cluster_topology(topology))) == list(
        map(str, validate_cluster_topology(topology))
    )


@given(pod_cliques)
@settings(max_examples=tries(100, 300))
def test_injection_is_total_idempotent_and_touches_only_claims(obj: Any) -> None:
    injection = injection_into(obj, "ns", "shared")
    if injection.plan is None:
        return
    patch = list(injection.patch)
    assert applies(obj, patch)
    assert all("laims" in operation["path"] for operation in patch)
    again = injection_into(apply_patch(obj, patch), "ns", "shared")
    assert again.plan is not None
    assert again.patch == []


@given(
    maps(labels=st.dictionaries(st.sampled_from("abc"), st.text())),
    st.dictionaries(st.sampled_from("abc"), st.text()),
)
def test_binding_labels_are_the_nodes_for_the_keys_and_the_callers_for_the_rest(
    metadata: Any, node: Any
) -> None:
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not (labels is None or isinstance(labels, dict)):
        return
    binding = {"metadata": metadata}
    after = apply_patch(binding, operations(binding, binding_changes(binding, node, ["a", "b"])))[
        "metadata"
    ].get("labels")
    kept = {key: value for key, value in (labels or {}).items() if key not in ("a", "b")}
    assert (after or {}) == {
        **kept,
        **{key: value for key, value in node.items() if key in ("a", "b")},
    }


@given(anything)
def test_a_gang_is_read_from_anything(metadata: Any) -> None:
    assert read_gang({"metadata": metadata}, "ns").namespace == "ns"
