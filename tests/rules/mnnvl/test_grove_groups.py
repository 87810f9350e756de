"""Groups of today's Grove beside our annotations: names, collisions, and what nobody reads."""

import itertools
from typing import Any

import pytest

from app.facts.grove.podcliqueset import (
    NO_ANNOTATIONS,
    MnnvlAnnotations,
    PodCliqueSet,
    read_pod_clique_set,
)
from app.facts.grove.template import read_template
from app.facts.grove.unit_member import read_carrier
from app.rules.mnnvl.claim import CliqueFacts, inject
from app.rules.mnnvl.sets import (
    MOST_COLLISIONS,
    Domains,
    group_findings,
    ignored_annotations,
    validate_annotations,
)
from tests.said import Said
from tests.steps import steps

GROUP = "grove.io/mnnvl-group"
ENABLED = "grove.io/mnnvl-enabled"
SCOPE = "grove.io/mnnvl-scope"


def clique(name: str, gpus: Any = 8, replicas: int = 2, **annotations: str) -> dict[str, Any]:
    containers = [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": gpus}}}]
    spec = {"replicas": replicas, "podSpec": {"containers": containers}}
    return {"name": name, "annotations": keyed(annotations), "spec": spec}


def keyed(annotations: dict[str, str]) -> dict[str, str]:
    return {f"grove.io/mnnvl-{key.replace('_', '-')}": value for key, value in annotations.items()}


def pcs(
    *cliques: dict[str, Any],
    groups: Any = (),
    name: str = "nvl",
    replicas: int = 1,
    **annotations: str,
) -> Any:
    metadata = {"name": name, "namespace": "ml", "annotations": keyed(annotations)}
    template = {"cliques": list(cliques), "podCliqueScalingGroups": list(groups)}
    return {"metadata": metadata, "spec": {"replicas": replicas, "template": template}}


def findings(obj: Any, old: Any = None, *others: Any) -> list[str]:
    stored = [read_pod_clique_set(other) for other in others]
    template = None if old is None else read_template(old)
    found, _ = validate_annotations(read_template(obj), template, stored)
    return [finding.field for finding in found]


POOL = {"name": "pool", "cliqueNames": ["leader"], "replicas": 3, "minAvailable": 2}
OF_SET = f"metadata.annotations[{GROUP}]"
OF_WORKER = f"spec.template.cliques[0].annotations[{GROUP}]"


@pytest.mark.parametrize(
    ("obj", "fields"),
    [
        pytest.param(pcs(clique("worker")), [], id="no group"),
        pytest.param(pcs(clique("worker"), group="train"), [], id="a group"),
        pytest.param(pcs(clique("worker"), group="none"), [], id="opted out"),
        pytest.param(pcs(clique("worker"), group="Train"), [OF_SET], id="no name"),
        pytest.param(pcs(clique("worker"), group=""), [OF_SET], id="empty"),
        pytest.param(pcs(clique("worker"), group="g" * 58), [OF_SET], id="too long by one"),
        pytest.param(pcs(clique("worker"), group="g" * 57), [], id="just short enough"),
        pytest.param(
            pcs(clique("worker"), group="g" * 57, replicas=11),
            [OF_SET],
            id="too long for the last replica",
        ),
        pytest.param(
            pcs(clique("worker", gpus=0), group="g" * 60), [], id="too long, but without GPUs"
        ),
        pytest.param(
            pcs(clique("worker"), name="p" * 62, group="g"), [OF_SET], id="a long name of the set"
        ),
        pytest.param(pcs(clique("worker", group="own"), group="g" * 60), [], id="overridden"),
        pytest.param(
            pcs(clique("worker", enabled="true"), group="train"),
            ["spec.template.cliques[0].annotations"],
            id="ours on a clique of the group",
        ),
        pytest.param(
            pcs(
                clique("leader", enabled="true"), groups=[{**POOL, "annotations": {GROUP: "pool"}}]
            ),
            ["spec.template.cliques[0].annotations"],
            id="ours on a clique, Grove's on its scaling group",
        ),
        pytest.param(
            pcs(clique("a"), clique("b"), group="train", enabled="true"),
            ["metadata.annotations"],
            id="both on the set: once",
        ),
        pytest.param(
            pcs(clique("worker", enabled="false"), group="train", enabled="false"),
            [],
            id="ours is off",
        ),
    ],
)
def test_findings(obj: Any, fields: list[str], said: Said) -> None:
    found, _ = validate_annotations(read_template(obj), None, [])
    assert [finding.field for finding in found] == fields
    said(found)


def test_a_claim_that_has_groves_name() -> None:
    worker = clique("worker")
    worker["spec"]["podSpec"]["resourceClaims"] = [{"name": "mine"}, {"name": "mnnvl-claim"}]
    at = "spec.template.cliques[0].spec.podSpec.resourceClaims[1].name"
    assert findings(pcs(worker, group="train")) == [at]
    assert findings(pcs(worker)) == []


def test_the_message_about_a_long_name_says_how_long_it_may_be(said: Said) -> None:
    (finding,), _ = validate_annotations(
        read_template(pcs(clique("worker"), group="g" * 60)), None, []
    )
    assert finding.message.endswith(
        "Create the PodCliqueSet with a group name of at most 57 characters"
    )
    (finding,), _ = validate_annotations(
        read_template(pcs(clique("w"), name="p" * 62, group="g")), None, []
    )
    assert finding.message.endswith("Create the PodCliqueSet with a shorter name")
    said([finding])


@pytest.mark.parametrize(
    ("first", "second", "shared"),
    [
        (("a", 1, "1-x"), ("a-0", 2, "x"), "a-0-1-x"),
        (("a-0", 2, "x"), ("a", 1, "1-x"), "a-0-1-x"),
        (("a", 1, "1-x"), ("a-0", 1, "x"), None),
        (("a", 1, "1-x"), ("a-0-zz", 2, "x"), None),
        (("a", 1, "x-0-1-y"), ("a-0-x", 1, "1-y"), "a-0-x-0-1-y"),
        (("a", 2, "b"), ("a-2", 1, "b"), None),
        (("a", 1, "01-x"), ("a-0", 2, "x"), None),
        (("a", 1, "9" * 5000 + "-x"), ("a-0", 2, "x"), None),
        (("a", 1, "b"), ("a", 1, "b"), None),
        (("a", 1, "b"), ("ab", 1, "b"), None),
        (("a", 1, "b"), ("a-x", 1, "b"), None),
        (("ab", 1, "b"), ("a", 1, "b"), None),
    ],
)
def test_compute_domains_of_one_name(first: Any, second: Any, shared: str | None) -> None:
    groups = first[2], second[2]
    ours = Domains(first[0], first[1], [groups[0], "other"])
    clashes = ours.shared_with((second[0], second[1], ["another", groups[1]]))
    assert clashes == ([] if shared is None else [(*groups, shared)])
    if shared is not None:
        names = [
            {f"{name}-{index}-{group}" for index in range(count)}
            for name, count, group in (first, second)
        ]
        assert shared in names[0] & names[1]


def test_compute_domains_are_shared_where_their_names_are_the_same() -> None:
    """Names of sets and groups are all that are short, with numbers and without."""
    pieces = ("0", "1", "2", "x")
    groups = ["-".join(parts) for n in (1, 2, 3) for parts in itertools.product(pieces, repeat=n)]
    names = [
        f"a{'-' * bool(n)}{'-'.join(p)}"
        for n in (0, 1, 2)
        for p in itertools.product(pieces, repeat=n)
    ]
    sizes = (0, 1, 2)

    def domains(name: str, replicas: int) -> dict[str, str]:
        """The groups, by the names of their ComputeDomains."""
        indices = range(max(replicas, 1))
        return {f"{name}-{index}-{group}": group for index in indices for group in groups}

    shared = 0
    for (first, ours), (second, theirs) in itertools.permutations(
        itertools.product(names, sizes), 2
    ):
        if first == second:
            continue
        left, right = domains(first, ours), domains(second, theirs)
        both = sorted((left[name], right[name], name) for name in left.keys() & right.keys())
        assert Domains(first, ours, groups).shared_with((second, theirs, groups)) == both
        shared += len(both)
    assert shared > 0


def test_two_sets_with_one_compute_domain() -> None:
    obj = pcs(clique("w"), name="a", group="1-x")
    other = pcs(clique("w"), name="a-0", replicas=2, group="x")
    assert findings(obj, None, other) == [OF_SET]
    assert findings(obj, None, pcs(clique("w"), name="a", group="1-x")) == []
    other["metadata"]["deletionTimestamp"] = "now"
    assert findings(obj, None, other) == []


@pytest.mark.untraced
def test_the_work_to_compare_the_groups_of_two_sets_grows_with_their_number() -> None:
    """Not with its square: four times as many take four times as many steps, and not sixteen."""

    def compare(number: int) -> None:
        obj = pcs(*(clique(f"c{at}", group=f"1-g{at}") for at in range(number)), name="a")
        cliques = (clique(f"c{at}", group=f"g{at}") for at in range(number))
        other = pcs(*cliques, name="a-0", replicas=2)
        assert len(findings(obj, None, other)) == min(number, MOST_COLLISIONS)

    assert steps(lambda: compare(2000)) < 5 * steps(lambda: compare(500))


def test_what_an_update_leaves_as_it_was_may_stay(said: Said) -> None:
    wrong = pcs(clique("worker"), group="g" * 60)
    errors, warnings = validate_annotations(read_template(wrong), read_template(wrong), [])
    assert (errors, [text.partition(": ")[0] for text in warnings]) == (
        [],
        ["already stored, so still allowed"],
    )
    assert findings(wrong, pcs(clique("worker"))) == [OF_SET]
    said(warnings)


FORMER = {"metadata": {"annotations": {"grove.io/auto-mnnvl": "enabled"}}}
FORMER_WARNING = "metadata.annotations[grove.io/auto-mnnvl] has no effect in this cluster; use grove.io/mnnvl-group or grove.io/mnnvl-enabled"
GROVES = {"name": "mnnvl-claim", "resourceClaimTemplateName": "nvl-0-train"}
THEIRS = {"name": "mnnvl-claim", "resourceClaimName": "mine"}


@pytest.mark.parametrize(
    ("annotations", "inherited", "claims", "both"),
    [
        pytest.param(
            {ENABLED: "true", GROUP: "train"}, NO_ANNOTATIONS, [], True, id="both of its own"
        ),
        pytest.param({ENABLED: "true", GROUP: "none"}, NO_ANNOTATIONS, [], False, id="opted out"),
        pytest.param(
            {ENABLED: "true"},
            NO_ANNOTATIONS,
            [3, {"name": "a"}, GROVES],
            True,
            id="Grove's claim is there",
        ),
        pytest.param(
            {ENABLED: "true"}, NO_ANNOTATIONS, [THEIRS], False, id="a claim that is not Grove's"
        ),
        pytest.param({}, MnnvlAnnotations("true"), [GROVES], True, id="ours is inherited"),
        pytest.param(
            {ENABLED: "false"}, MnnvlAnnotations("true"), [GROVES], False, id="ours is off"
        ),
        pytest.param({ENABLED: "true"}, NO_ANNOTATIONS, None, False, id="ours alone"),
    ],
)
def test_both_vocabularies_on_one_pod_clique(
    annotations: dict[str, str], inherited: MnnvlAnnotations, claims: Any, both: bool
) -> None:
    obj = {
        "metadata": {"annotations": annotations},
        "spec": {"podSpec": {"resourceClaims": claims}},
    }
    carrier = read_carrier(obj, "ns")
    facts = CliqueFacts(PodCliqueSet(mnnvl=inherited), reads_groups=True)
    assert bool(inject(carrier, None, facts, "auto").findings) is both


@pytest.mark.parametrize(
    ("obj", "groups_read", "warnings"),
    [
        pytest.param(pcs(clique("worker"), enabled="true", scope="clique"), True, [], id="ours"),
        pytest.param(pcs(clique("worker"), group="train"), True, [], id="Grove's"),
        pytest.param(
            pcs(clique("worker"), group="train"),
            False,
            [
                f"{OF_SET} is ignored by this cluster's release of Grove; use grove.io/mnnvl-enabled and grove.io/mnnvl-scope"
            ],
            id="Grove's, beside the Grove of the designs",
        ),
        pytest.param(FORMER, True, [FORMER_WARNING], id="an annotation that Grove no longer reads"),
        pytest.param(FORMER, False, [], id="an annotation that Grove may have written"),
        pytest.param(
            pcs(clique("a", gpus=0), clique("b", gpus="0"), group="train"),
            True,
            [
                f'{OF_SET} "train" is ignored: no container of clique "a", clique "b" requests nvidia.com/gpu'
            ],
            id="no GPUs at all",
        ),
        pytest.param(
            pcs(clique("worker", scope="clique", device_class="x")),
            True,
            [
                f'spec.template.cliques[0].annotations[{SCOPE}] has no effect: it applies to no clique for which {ENABLED} is "true"',
                f'spec.template.cliques[0].annotations[grove.io/mnnvl-device-class] has no effect: it applies to no clique for which {ENABLED} is "true"',
            ],
            id="a scope alone",
        ),
        pytest.param(
            pcs(clique("w", scope="clique"), enabled="true"),
            True,
            [],
            id="enabled for the whole set",
        ),
        pytest.param(
            pcs(clique("w", enabled="true"), scope="clique"),
            True,
            [],
            id="a scope for the whole set",
        ),
        pytest.param(
            pcs(clique("w", enabled="true", scope="clique"), scope="clique"),
            True,
            [
                f'metadata.annotations[{SCOPE}] has no effect: it applies to no clique for which {ENABLED} is "true"'
            ],
            id="a scope that each clique overrides",
        ),
        pytest.param(
            pcs(clique("worker"), enabled="True"),
            True,
            [
                f'metadata.annotations[{ENABLED}] is "True", which counts as "false"; only "true" enables MNNVL',
            ],
            id="almost true",
        ),
    ],
)
def test_annotations_that_nobody_reads(obj: Any, groups_read: bool, warnings: list[str]) -> None:
    ignored = ignored_annotations(read_template(obj), groups_read=groups_read, compute_domains=True)
    assert ignored == warnings


def test_mnnvl_without_the_driver() -> None:
    template = read_template(pcs(clique("a"), clique("b", gpus=0), enabled="true"))
    assert ignored_annotations(template, groups_read=True, compute_domains=False) == [
        "MNNVL is requested by clique \"a\", but NVIDIA's ComputeDomain API is not installed in this cluster: install NVIDIA's DRA driver, or remove the annotations"
    ]


def test_who_asks_for_mnnvl() -> None:
    mig = {"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.5gb": 1}}}]}
    cliques = clique("whole"), {"name": "mig", "spec": {"podSpec": mig}}, clique("none", gpus=0)
    ours = pcs(*cliques, enabled="true")
    groves = pcs(*cliques, group="train")
    assert [each.name for each in read_template(ours).asking] == ["whole", "mig"]
    assert [each.name for each in read_template(groves).asking] == ["whole"]
    assert read_template(groves, groups_read=False).asking == ()


@pytest.mark.untraced
def test_the_work_to_compare_many_sets_grows_with_their_number_only() -> None:
    """A tenant stores sets without number, and each set has up to 128 groups."""
    cliques = [clique(f"c{at}", group=f"{at}-x") for at in range(128)]
    template = read_template(pcs(*cliques, name="a", replicas=100_000))

    def compare(number: int, group: str) -> int:
        others = [
            read_pod_clique_set(pcs(clique("w"), name=f"a-{at}", replicas=1000, group=group))
            for at in range(number)
        ]
        return steps(lambda: group_findings(template, others))

    for group in ("y", "x"):  # none of their groups is like one of ours, all of ours are taken
        assert compare(1000, group) - compare(100, group) < 900 * 40
