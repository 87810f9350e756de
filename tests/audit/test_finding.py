"""Findings of an audit: their text, what helps, and the exit code."""

from pathlib import Path

import pytest

from app.audit.auditor import JUDGED
from app.audit.finding import BY_PROBLEM, BY_WARNING, OLD_API, Finding, Tally, remedy_for
from app.facts.kinds import QUEUE
from app.objects.resource import Resource


@pytest.mark.parametrize(
    # a Queue is never refused
    "resource",
    [resource for resource in JUDGED if resource is not QUEUE],
    ids=lambda resource: resource.kind,
)
def test_every_kind_that_is_judged_has_a_remedy_that_says_what_holds_until_then(
    resource: Resource,
) -> None:
    assert "Until then" in remedy_for(resource.kind, 422, [""])


def test_a_finding_as_text() -> None:
    finding = Finding("PodGroup", "ns", "bad", 422, ("a: wrong", "b: wrong"), "Mend it.")
    assert finding.text() == (
        "refused   PodGroup ns/bad\n    a: wrong\n    b: wrong\n    remedy: Mend it."
    )
    assert (
        Finding("ComputeDomain", "", "x", 0, ("y",), "Z.").text()
        == "warning   ComputeDomain x\n    y\n    remedy: Z."
    )
    assert Finding("PodGang", "", "x", 503, ("y",), "Z.").text().startswith("undecided PodGang x\n")


@pytest.mark.parametrize(
    ("kind", "code", "problems", "remedy"),
    [
        (
            "PodCliqueSet",
            422,
            ['a: topology level not found in ClusterTopology "t", which has: zone', "b: odd"],
            "Name an existing level in the constraint. Until then, the object cannot be created again. Correct the PodCliqueSet. Until then, it cannot be created again.",
        ),
        (
            "ClusterTopology",
            0,
            ['level "rack": no node has the label r'],
            "Correct the key of the level, or label the nodes: kubectl label node NODE KEY=VALUE",
        ),
        (
            "PodGroup",
            0,
            [
                'spec.queue: queue "a" does not exist, and KAI schedules none of these pods until it does. Existing queues: b'
            ],
            "Create the queue, or name an existing one.",
        ),
        (
            "PodCliqueSet",
            422,
            [
                'spec: Invalid value: "zone": must not be broader than the required domain "rack", because KAI never places such pods. Remove pack.preferred, or use one of: rack'
            ],
            "Delete the PodCliqueSet, and create it again without the preferred domain or with a narrower one: Grove does not allow you to change it.",
        ),
        (
            "PodCliqueSet",
            0,
            [
                "MNNVL of a: 17 pods that must be scheduled together need 17 of the 18 nodes of an NVLink"
            ],
            "Create the PodCliqueSet again with fewer pods that must be scheduled together.",
        ),
        (
            "ClusterTopology",
            0,
            ["odd"],
            "Correct the levels of the ClusterTopology, or the labels of the nodes.",
        ),
        (
            "PodCliqueSet",
            0,
            [
                'a "rack": all nodes with the labels of its topology are in one "host", and KAI then places the pods only if a level is also preferred. Create the PodCliqueSet with pack.preferred: host'
            ],
            "Delete the PodCliqueSet, and create it again with a preferred domain: Grove does not allow you to add one later.",
        ),
        (
            "PodCliqueSet",
            0,
            [
                'the name of PodGang "a" would be 70 characters long, 7 more than a label holds: Grove never creates its PodCliques. Use shorter names'
            ],
            "Create the PodCliqueSet again with shorter names.",
        ),
        (
            "PodCliqueSet",
            0,
            [
                "the cliques use several schedulers (a, b): Grove rejects a PodCliqueSet with more than one. Use one schedulerName",
                'metadata.annotations[x] is "yes", which counts as "false"; only "true" enables MNNVL',
                "y is ignored by this cluster's release of Grove; use x",
                'y "g" is ignored: no container of clique "w" requests nvidia.com/gpu',
            ],
            "Create the PodCliqueSet again with the same schedulerName in all cliques. Correct the value of the annotation, or remove the annotation. Use the annotations that the message names. Request GPUs in the clique, or remove the annotation.",
        ),
        (
            "PodCliqueSet",
            0,
            ["a has neither pack.required nor pack.preferred, so it keeps no pods together"],
            "Set pack.required or pack.preferred when you next create the PodCliqueSet.",
        ),
        (
            "PodGroup",
            0,
            [
                'a "k/zone" is not a level of KAI Topology "t", so KAI never places these pods; its levels: k/rack'
            ],
            "Name an existing level in the constraint. Until then, the pods stay pending.",
        ),
        (
            "PodCliqueSet",
            0,
            [
                'MNNVL of clique "w": no required topology constraint keeps the pods of "w" within one NVLink domain (node label d): pods in different domains have no NVLink between them'
            ],
            "Create the workload again with a required level that is the NVLink domain or narrower.",
        ),
        (
            "PodClique",
            403,
            [
                'ComputeDomain "a" exists in namespace b, but was not created for this PodClique. If nothing else needs it, run: kubectl delete computedomain a -n b'
            ],
            "If nothing else needs the existing object, delete it as the message says. Until then, the object cannot be created again.",
        ),
        (
            "PodClique",
            403,
            ["ComputeDomain is not an API of this cluster (x). Remove the annotation"],
            "Install NVIDIA's DRA driver, or remove the MNNVL annotations at their source, such as the PodCliqueSet. Until then, the object cannot be created again.",
        ),
    ],
)
def test_a_remedy_is_that_of_the_problem(
    kind: str, code: int, problems: list[str], remedy: str
) -> None:
    assert remedy_for(kind, code, problems) == remedy


def test_what_helps_is_looked_for_by_words_of_refusals_and_warnings() -> None:
    """The pages of the webhooks list them all; another test compares it with the code."""
    pages = [Path("app/webhooks", name).read_text() for name in ("REJECTIONS.md", "WARNINGS.md")]
    readme = " ".join(" ".join(pages).split())
    known = [words for words, _ in (*BY_WARNING, *BY_PROBLEM)]
    assert [words for words in known if words not in readme] == []


def test_only_what_is_left_of_a_former_api_is_to_be_deleted_with_its_crd() -> None:
    assert "delete the CRD" in remedy_for("ClusterTopology", 0, [OLD_API]).lower().replace(
        "crd", "CRD"
    )
    assert "CRD" not in remedy_for("ClusterTopology", 0, ["level"])


@pytest.mark.parametrize("kind", ["PodGroup", "PodGang"])
def test_the_words_of_a_tenant_choose_no_remedy(kind: str) -> None:
    """A level may be any text, and the remedy may be to delete a CRD."""
    usual = remedy_for(kind, 0, ['level "a" is ignored by KAI'])
    for level in (
        OLD_API,
        "Create the PodCliqueSet with pack.preferred",
        r"a\" are not a tree",
        'a" and ' + OLD_API,
    ):
        assert remedy_for(kind, 0, [f'level "{level}" is ignored by KAI']) == usual


def test_the_exit_code_tells_refusals_from_warnings() -> None:
    warning = Finding("PodGang", "ns", "a", 0, ("y",), "Z.")
    refusal = Finding("PodGang", "ns", "b", 422, ("y",), "Z.")
    codes = []
    for findings in ([], [warning], [warning, refusal]):
        tally = Tally()
        for finding in findings:
            tally.add(finding)
        codes.append((tally.exit_code, tally.summary()))
    assert codes == [
        (0, ""),
        (3, "PodGang: 0 checked, 0 refused, 1 warning"),
        (1, "PodGang: 0 checked, 1 refused, 1 warning"),
    ]
