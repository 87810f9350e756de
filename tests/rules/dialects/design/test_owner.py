"""Whose MNNVL resources are whose."""

from typing import Any

import pytest

from app.facts.grove.podgang import SlimPodGang, read_gang
from app.facts.identity import Place, read_place
from app.facts.nvidia.computedomain import MnnvlResource, read_mnnvl_resource
from app.rules.dialects.design.owner import MOST_GROUP_REPLICAS, POD_GANG_OWNS

BASE = SlimPodGang("ns", "pcs-0", "g", Place("pcs", "0"))
SCALED = SlimPodGang("ns", "pcs-0-pool-0", "s", Place("pcs", "0", "pool", "1"))
AS_GROVE_WRITES_IT = SlimPodGang("ns", "pcs-0", "g", Place("pcs"))
SET = {"kind": "PodCliqueSet", "name": "pcs", "uid": "u", "controller": True}


def resource(labels: Any = None, owners: Any = None, **metadata: Any) -> Any:
    defaults = {
        "grove.io/mnnvl-managed": "true",
        "grove.io/pcs-name": "pcs",
        "grove.io/pcs-replica-index": "0",
    }
    metadata = {
        "name": "cd",
        "namespace": "ns",
        "labels": {**defaults, **(labels or {})},
        "ownerReferences": [SET] if owners is None else owners,
        **metadata,
    }
    return read_mnnvl_resource({"kind": "ComputeDomain", "metadata": metadata})


def is_of(mnnvl_resource: MnnvlResource, gang: SlimPodGang) -> bool:
    return POD_GANG_OWNS.state(mnnvl_resource, gang) is not None


def adopted(resources: list[MnnvlResource], **options: bool) -> str | None:
    """The annotation of BASE, whose resources these are."""
    states = [state for made in resources if (state := POD_GANG_OWNS.state(made, BASE))]
    assert len(states) == len(resources)
    return POD_GANG_OWNS.adopted(states, **options)


GROUPED = {"grove.io/pcsg-name": "pool", "grove.io/pcsg-replica-index": "1"}


@pytest.mark.parametrize(
    ("labels", "base", "scaled"),
    [
        pytest.param({"grove.io/podgang": "pcs-0"}, True, False, id="made for the base"),
        pytest.param(
            {"grove.io/podgang": "pcs-0-pool-0", **GROUPED},
            False,
            True,
            id="made for the scaled one",
        ),
        pytest.param(
            {"grove.io/podgang": "pcs-0", **GROUPED}, True, False, id="the PodGang's name decides"
        ),
        pytest.param({}, True, False, id="the design's labels, of a replica"),
        pytest.param(GROUPED, False, True, id="a base PodGang never takes what is more specific"),
        pytest.param(
            {**GROUPED, "grove.io/pcsg-replica-index": "2"},
            False,
            False,
            id="another replica of the group",
        ),
        pytest.param({"grove.io/pcs-replica-index": "1"}, False, False, id="another replica"),
        pytest.param({"grove.io/mnnvl-managed": "no"}, False, False, id="not ours"),
    ],
)
@pytest.mark.statement("2.82")
def test_what_belongs_to_whom(labels: dict[str, str], base: bool, scaled: bool) -> None:
    mnnvl_resource = resource(labels)
    assert (
        is_of(mnnvl_resource, BASE),
        is_of(mnnvl_resource, SCALED),
    ) == (base, scaled)


def test_a_podgang_that_says_no_more_than_its_set_takes_what_names_it_and_nothing_else() -> None:
    named = resource({"grove.io/podgang": "pcs-0"})
    scaled = resource({"grove.io/podgang": "pcs-0-pool-0", **GROUPED})
    assert [
        is_of(mnnvl_resource, AS_GROVE_WRITES_IT) for mnnvl_resource in (named, scaled, resource())
    ] == [
        True,
        False,
        False,
    ]


def test_another_namespace_is_another_world() -> None:
    assert not is_of(resource(namespace="other"), BASE)


def test_labels_that_name_nothing_match_nothing() -> None:
    mnnvl_resource = resource({"grove.io/pcs-name": "", "grove.io/pcs-replica-index": ""})
    assert not is_of(mnnvl_resource, SlimPodGang("ns", "x", "", Place()))


def test_a_claim_generated_for_a_pod_is_the_pods() -> None:
    assert not is_of(
        resource(owners=[{"kind": "Pod", "name": "p", "uid": "p", "controller": True}]), BASE
    )


@pytest.mark.parametrize(
    ("owners", "state"),
    [
        pytest.param([SET], "adoptable", id="its set has it"),
        pytest.param([], "adoptable", id="nobody has it"),
        pytest.param(
            [{"kind": "PodGang", "name": "pcs-0", "uid": "g", "controller": True}],
            "owned",
            id="we have it",
        ),
        pytest.param(
            [{"kind": "PodGang", "name": "pcs-0", "uid": "g"}],
            "adoptable",
            id="we don't control it",
        ),
        pytest.param(
            [{"kind": "PodGang", "name": "pcs-0", "uid": "old", "controller": True}],
            "adoptable",
            id="a former one",
        ),
        pytest.param(
            [{"kind": "PodGang", "name": "pcs-1", "uid": "x", "controller": True}],
            "foreign",
            id="another PodGang",
        ),
        pytest.param([{**SET, "name": "other"}], "foreign", id="another set has it"),
        pytest.param(
            [SET, {"kind": "Thing", "name": "t", "uid": "t"}], "foreign", id="somebody else as well"
        ),
        pytest.param(["x"], "adoptable", id="nonsense"),
    ],
)
def test_how_a_resource_stands_to_its_gang(owners: Any, state: str) -> None:
    assert POD_GANG_OWNS.state(resource(owners=owners), BASE) == state


def test_what_is_being_deleted_is_nobodys() -> None:
    assert POD_GANG_OWNS.state(resource(deletionTimestamp="2026-01-01T00:00:00Z"), BASE) == "going"


@pytest.mark.statement("2.86")
def test_the_annotation_says_what_is_written() -> None:
    waiting = resource()
    owned = resource(owners=[{"kind": "PodGang", "name": "pcs-0", "uid": "g", "controller": True}])
    assert adopted([]) is None
    assert adopted([owned, owned]) == "true"
    assert adopted([owned, waiting]) == "false"
    assert adopted([owned, waiting], adopting=True) == "true"
    foreign = resource(owners=[{"kind": "Thing", "name": "t", "uid": "t"}])
    assert adopted([foreign], adopting=True) == "false"


@pytest.mark.statement("2.77")
def test_a_gang_is_read_with_either_vocabulary() -> None:
    labels = {
        "app.kubernetes.io/part-of": "pcs",
        "grove.io/podcliqueset-replica-index": "0",
        "grove.io/podcliquescalinggroup": "pcs-0-pool",
        "grove.io/podcliquescalinggroup-replica-index": "1",
    }
    metadata = {"name": "pcs-0-pool-0", "uid": "s", "labels": labels}
    assert read_gang({"metadata": metadata}, "ns") == SCALED
    assert read_gang({"metadata": None}, "ns") == SlimPodGang("ns", "", "", Place())


def test_the_designs_labels_come_first_and_a_foreign_group_label_is_none() -> None:
    both = {
        "grove.io/pcs-name": "a",
        "app.kubernetes.io/part-of": "b",
        "grove.io/pcs-replica-index": 3,
    }
    assert read_place(both) == Place("a")
    assert read_place({**both, "grove.io/podcliquescalinggroup": "b-0-pool"}).group == ""
    mixed = {
        "grove.io/pcs-name": "a",
        "grove.io/pcs-replica-index": "0",
        "grove.io/podcliquescalinggroup": "b-0-x",
    }
    assert read_place(mixed).group == ""


def test_groves_name_of_a_podclique_comes_first_because_it_is_the_whole_one() -> None:
    labels = {"grove.io/clique-name": "worker", "grove.io/podclique": "pcs-0-worker"}
    assert read_place(labels) == Place(clique="pcs-0-worker")


LEGACY_BASE = SlimPodGang(
    "ns", "pcs-0", "b", Place("pcs"), cliques=("pcs-0-router", "pcs-0-pool-0-leader")
)
LEGACY_SCALED = SlimPodGang(
    "ns", "pcs-0-pool-0", "s", Place("pcs"), cliques=("pcs-0-pool-1-leader",)
)
ANCHOR = SlimPodGang(
    "ns",
    "pcs-0-1700000000000000000",
    "a",
    Place("pcs", "0"),
    role="Anchor",
    cliques=("pcs-0-router", "pcs-0-pool-0-leader"),
)
TAIL = SlimPodGang(
    "ns",
    "pcs-0-1700000000000000001-pool-1",
    "t",
    Place("pcs", "0"),
    role="Tail",
    cliques=("pcs-0-pool-1-leader",),
)
GANGS = {"base": LEGACY_BASE, "scaled": LEGACY_SCALED, "anchor": ANCHOR, "tail": TAIL}


@pytest.mark.parametrize(
    ("name", "labels", "gangs"),
    [
        pytest.param("pcs-0-cd", {}, ["base", "anchor"], id="of a whole replica"),
        pytest.param("pcs-0-router-cd", {}, ["base", "anchor"], id="of a clique"),
        pytest.param(
            "pcs-0-pool-1-cd", GROUPED, ["scaled", "tail"], id="of a scaling group replica"
        ),
        pytest.param(
            "pcs-0-pool-1-leader-cd",
            GROUPED,
            ["scaled", "tail"],
            id="of a clique in a scaling group replica",
        ),
        pytest.param("pcs-0-pool-cd", {}, [], id="of a clique that has the name of the group"),
        pytest.param("pcs-1-cd", {"grove.io/pcs-replica-index": "1"}, [], id="of another replica"),
        pytest.param("pcs-0-cd", {"grove.io/pcs-name": "other"}, [], id="of another set"),
        pytest.param(
            "pcs-0-router-cd", {"grove.io/pcs-name": "other"}, [], id="of another set's clique"
        ),
        pytest.param("pcs-0-cd", {"grove.io/pcs-replica-index": ""}, [], id="of no replica"),
        pytest.param(
            "pcs-0-cd",
            {"grove.io/podgang": "pcs-0-pool-0"},
            ["base", "scaled", "anchor"],
            id="with the label of an earlier version",
        ),
    ],
)
@pytest.mark.statement("2.55")
def test_the_podgang_that_has_the_cliques_owns_the_resource_in_both_naming_schemes(
    name: str, labels: dict[str, str], gangs: list[str]
) -> None:
    stored = resource(labels, name=name)
    assert [key for key, gang in GANGS.items() if is_of(stored, gang)] == gangs


@pytest.mark.statement("2.82")
def test_every_resource_of_a_podgang_is_found_by_its_base_name() -> None:
    assert set(POD_GANG_OWNS.base_names(LEGACY_SCALED)) >= {
        "pcs-0-pool-0",
        "pcs-0-pool-1",
        "pcs-0-pool-1-leader",
    }
    assert "pcs-0" in POD_GANG_OWNS.base_names(LEGACY_BASE)
    assert "pcs-0" in POD_GANG_OWNS.base_names(ANCHOR)
    assert not POD_GANG_OWNS.is_given_back(resource(owners=[]))


@pytest.mark.parametrize(
    "clique",
    [
        pytest.param("pcs-0" + "-a" * 30_000, id="a name that no PodClique can have"),
        pytest.param("pcs-0" + "-1" * 30_000, id="of very many numbers"),
    ],
)
def test_no_name_of_a_podgroup_makes_many_base_names(clique: str) -> None:
    """Each part of the name before a dash was one: 900 MB for a name of 60 KB."""
    gang = SlimPodGang("ns", "pcs-0", "g", Place("pcs", "0"), cliques=(clique, "pcs-0-a"))
    names = POD_GANG_OWNS.base_names(gang)
    assert "pcs-0-a" in names
    assert sum(map(len, names)) < 100


def test_many_podgroups_make_a_bounded_number_of_base_names() -> None:
    cliques = tuple(f"pcs-0-{number}{'-1' * 100}" for number in range(1000))
    gang = SlimPodGang("ns", "pcs-0", "g", Place("pcs", "0"), cliques=cliques)
    assert len(POD_GANG_OWNS.base_names(gang)) <= MOST_GROUP_REPLICAS + len(cliques) + 3
