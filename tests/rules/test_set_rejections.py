"""What Grove rejects in the document of a PodCliqueSet, and what it accepts without effect."""

from typing import Any

import pytest

from app.base.spelling import MOST_COMPARED
from app.rules.set_rejections import rejection_warnings
from tests.said import Said


def pcs(*cliques: Any, replicas: Any = 1, metadata: Any = None, **template: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "s", **(metadata or {})},
        "spec": {"replicas": replicas, "template": {"cliques": list(cliques), **template}},
    }


def clique(name: str = "a", **spec: Any) -> dict[str, Any]:
    return {"name": name, "spec": {"roleName": name, "replicas": 1, "podSpec": {}, **spec}}


def group(*members: str, **fields: Any) -> dict[str, Any]:
    return {"name": "g", "cliqueNames": list(members), **fields}


def scheduled(scheduler: str, name: str = "a", **metadata: Any) -> dict[str, Any]:
    return clique(name, podSpec={"schedulerName": scheduler}) | metadata


def labelled(queue: str) -> dict[str, Any]:
    return {"labels": {"kai.scheduler/queue": queue}}


def updated(type: str) -> dict[str, Any]:
    obj = pcs(clique())
    obj["spec"]["updateStrategy"] = {"type": type}
    return obj


EXPLICIT = {"cliqueStartupType": "CliqueStartupTypeExplicit"}
CLAIM = {"name": "x", "templateSpec": {"spec": {"devices": {"requests": [{"name": "gpu"}]}}}}
SHARED = {"name": "x", "scope": "PerReplica"}


@pytest.mark.parametrize(
    ("obj", "starts"),
    [
        pytest.param(pcs(clique(), clique("b")), [], id="nothing"),
        pytest.param(pcs(clique(), replicas=0), [], id="no replicas, as somebody wrote"),
        pytest.param(pcs(clique(), replicas=-1), ["spec.replicas"], id="negative replicas"),
        pytest.param(pcs(), ["spec.template.cliques: "], id="no cliques"),
        pytest.param(
            pcs(clique(), cliqueStartupType="InOrder"),
            ["spec.template.cliqueStartupType"],
            id="a startup type",
        ),
        pytest.param(
            updated("RollingUpdate"), ["spec.updateStrategy.type"], id="an update of Deployments"
        ),
        pytest.param(updated("OnDelete"), [], id="an update by deletion"),
        pytest.param(updated("Coherent"), [], id="an update of a later release"),
        pytest.param(
            pcs(clique(), terminationDelay="0s"),
            ["spec.template.terminationDelay"],
            id="a delay of 0",
        ),
        pytest.param(
            pcs(clique(), terminationDelay=4),
            ["spec.template.terminationDelay"],
            id="a delay without a unit",
        ),
        pytest.param(pcs(clique(), terminationDelay="1h30m"), [], id="a delay"),
        pytest.param(
            pcs(clique(), clique(), clique()),
            ["spec.template.cliques[0].name", "spec.template.cliques[0].spec.roleName"],
            id="a name of three cliques, once",
        ),
        pytest.param(
            pcs(clique(), clique("b", roleName="a")),
            ["spec.template.cliques[0].spec.roleName"],
            id="a role of two cliques",
        ),
        pytest.param(
            pcs(clique(), podCliqueScalingGroups=[group("a"), group()]),
            ["spec.template.podCliqueScalingGroups[0].name"],
            id="a name of two groups",
        ),
        pytest.param(
            pcs(clique(), podCliqueScalingGroups=[group("a"), group("a", name="h")]),
            ["spec.template.podCliqueScalingGroups[1].cliqueNames"],
            id="a clique of two groups",
        ),
        pytest.param(
            pcs(clique(), podCliqueScalingGroups=[group("a", "a")]),
            ["spec.template.podCliqueScalingGroups[0].cliqueNames"],
            id="a clique twice in a group",
        ),
        # the order of the start
        pytest.param(
            pcs(clique(), clique("b", startsAfter=["a"]), **EXPLICIT), [], id="one after another"
        ),
        pytest.param(
            pcs(clique("prefill"), clique("b", startsAfter=["prefil", "", "b"]), **EXPLICIT),
            ["spec.template.cliques[1].spec.startsAfter"] * 3,
            id="after a misspelt one, none and itself",
        ),
        pytest.param(
            pcs(clique(), clique("b", startsAfter=["a", "a", "x", "x"]), **EXPLICIT),
            ["spec.template.cliques[1].spec.startsAfter"] * 3,
            id="after one twice, and after an unknown one twice",
        ),
        pytest.param(
            pcs(
                clique(startsAfter=["b"]),
                clique("b", startsAfter=["c"]),
                clique("c", startsAfter=["a"]),
                clique("d", startsAfter=["a"]),
                **EXPLICIT,
            ),
            ["spec.template.cliques: "],
            id="a circle, and one that waits for it",
        ),
        pytest.param(
            pcs(clique(startsAfter=["b"]), clique("b", startsAfter=["a"])),
            ["spec.template.cliques[0].spec.startsAfter", "spec.template.cliques[1].spec"],
            id="a circle of another startup type",
        ),
        # cliques
        pytest.param(
            pcs(clique("A_b"), {"spec": clique()["spec"] | {"roleName": "c"}}),
            ["spec.template.cliques[0].name", "spec.template.cliques[1].name"],
            id="a name that is not valid, and no name",
        ),
        pytest.param(
            pcs(clique() | {"labels": {"a b": "c", "d": "e f", "e": ""}, "annotations": {"/": ""}}),
            [
                "spec.template.cliques[0].labels[a b]",
                "spec.template.cliques[0].labels[d]",
                "spec.template.cliques[0].annotations[/]",
            ],
            id="labels and annotations",
        ),
        pytest.param(
            pcs({"name": "a", "spec": {}}),
            [f"spec.template.cliques[0].spec.{name}" for name in ("podSpec", "replicas")],
            id="what the CRD requires",
        ),
        pytest.param(
            pcs({"name": "a", "spec": {"podSpec": {}, "minAvailable": 1}}),
            [],
            id="no role and no replicas, which Grove sets",
        ),
        pytest.param(
            pcs(clique(), clique("b", roleName=""), {"name": "c", "spec": clique()["spec"]}),
            ["spec.template.cliques[0].spec.roleName"],
            id="one clique without a role",
        ),
        pytest.param(
            pcs(clique(), clique("b", roleName=""), clique("c", roleName="")),
            ["spec.template.cliques[1].spec.roleName"],
            id="two cliques without a role",
        ),
        pytest.param(
            pcs(clique(replicas=0)), ["spec.template.cliques[0].spec.replicas"], id="no pods"
        ),
        pytest.param(
            pcs(clique(replicas=0, minAvailable=1)), [], id="no pods, which Grove sets to one"
        ),
        pytest.param(
            pcs(clique(replicas=-1, minAvailable=0)),
            [
                "spec.template.cliques[0].spec.replicas",
                "spec.template.cliques[0].spec.minAvailable",
            ],
            id="numbers that are too small",
        ),
        pytest.param(
            pcs(clique(podSpec={"nodeName": "n", "topologySpreadConstraints": [{}]})),
            [
                "spec.template.cliques[0].spec.podSpec.topologySpreadConstraints",
                "spec.template.cliques[0].spec.podSpec.nodeName",
            ],
            id="pods with a node, and with constraints of Kubernetes",
        ),
        pytest.param(
            pcs(
                clique(
                    podSpec={
                        "initContainers": [{"env": [{"name": "1A"}, {"name": ".."}, {}]}],
                        "containers": [{"env": [{"name": "A"}, {"name": "B.c-d"}, {"name": "A"}]}],
                    }
                )
            ),
            [
                "spec.template.cliques[0].spec.podSpec.initContainers[0].env",
                "spec.template.cliques[0].spec.podSpec.initContainers[0].env",
                "spec.template.cliques[0].spec.podSpec.initContainers[0].env",
                "spec.template.cliques[0].spec.podSpec.containers[0].env",
            ],
            id="variables",
        ),
        # scaling groups
        pytest.param(
            pcs(clique(), podCliqueScalingGroups=[{"replicas": 0, "minAvailable": 0}]),
            [
                "spec.template.podCliqueScalingGroups[0].name",
                "spec.template.podCliqueScalingGroups[0].cliqueNames",
                "spec.template.podCliqueScalingGroups[0].replicas",
                "spec.template.podCliqueScalingGroups[0].minAvailable",
            ],
            id="a group without anything",
        ),
        # autoscalers
        pytest.param(
            pcs(clique(replicas=2, autoScalingConfig={"maxReplicas": 2})), [], id="an autoscaler"
        ),
        pytest.param(
            pcs(clique(replicas=2, autoScalingConfig={"minReplicas": 1})),
            [
                "spec.template.cliques[0].spec.autoScalingConfig.minReplicas",
                "spec.template.cliques[0].spec.autoScalingConfig.maxReplicas",
            ],
            id="an autoscaler below minAvailable, which is replicas, and without a maximum",
        ),
        pytest.param(
            pcs(
                clique(
                    replicas=2,
                    minAvailable=1,
                    autoScalingConfig={"minReplicas": 1, "maxReplicas": 1},
                ),
                clique("b", autoScalingConfig={"minReplicas": 3, "maxReplicas": 2}),
            ),
            [
                "spec.template.cliques[0].spec.autoScalingConfig.maxReplicas",
                "spec.template.cliques[1].spec.autoScalingConfig.maxReplicas",
            ],
            id="a maximum below replicas, and one below minReplicas",
        ),
        pytest.param(
            pcs(clique(autoScalingConfig={"maxReplicas": 2}), podCliqueScalingGroups=[group("a")]),
            ["spec.template.cliques[0].spec.autoScalingConfig: "],
            id="an autoscaler of a clique in a group",
        ),
        pytest.param(
            pcs(
                clique(),
                podCliqueScalingGroups=[
                    group(
                        "a",
                        replicas=4,
                        minAvailable=2,
                        scaleConfig={"minReplicas": 1, "maxReplicas": 4},
                    )
                ],
            ),
            ["spec.template.podCliqueScalingGroups[0].scaleConfig.minReplicas"],
            id="an autoscaler of a group, below minAvailable",
        ),
        pytest.param(
            pcs(
                clique(),
                podCliqueScalingGroups=[group("a", replicas=4, scaleConfig={"maxReplicas": 2})],
            ),
            ["spec.template.podCliqueScalingGroups[0].scaleConfig.maxReplicas: Grove can't create"],
            id="an autoscaler of a group that no API server accepts",
        ),
        # shared claims
        pytest.param(
            pcs(
                clique() | {"resourceSharing": [SHARED]},
                resourceClaimTemplates=[CLAIM],
                resourceSharing=[SHARED | {"filter": {"childCliqueNames": ["a"]}}],
                podCliqueScalingGroups=[group("a", resourceSharing=[SHARED])],
            ),
            [],
            id="a claim",
        ),
        pytest.param(
            pcs(clique(), resourceClaimTemplates=[CLAIM, CLAIM, {}]),
            [
                "spec.template.resourceClaimTemplates[1].name",
                "spec.template.resourceClaimTemplates[2].name",
                "spec.template.resourceClaimTemplates[2].templateSpec.spec.devices.requests",
            ],
            id="templates of claims",
        ),
        pytest.param(
            pcs(
                clique() | {"resourceSharing": [{}, SHARED, SHARED]},
                resourceClaimTemplates=[CLAIM],
                resourceSharing=[SHARED | {"namespace": "n", "scope": "All"}],
            ),
            [
                "spec.template.resourceSharing[0].namespace",
                "spec.template.resourceSharing[0].scope",
                "spec.template.cliques[0].resourceSharing[0].name",
                "spec.template.cliques[0].resourceSharing[0].scope",
                "spec.template.cliques[0].resourceSharing[2].name",
            ],
            id="entries about claims",
        ),
        pytest.param(
            pcs(
                clique(),
                clique("b"),
                resourceSharing=[
                    SHARED | {"filter": {}},
                    {
                        **SHARED,
                        "name": "y",
                        "filter": {"childCliqueNames": ["c"], "childScalingGroupNames": ["h"]},
                    },
                ],
                podCliqueScalingGroups=[
                    group(
                        "a",
                        resourceSharing=[
                            SHARED | {"filter": {"childScalingGroupNames": ["g"]}},
                            {**SHARED, "name": "y", "filter": {"childCliqueNames": ["b"]}},
                        ],
                    )
                ],
            ),
            [
                "spec.template.resourceSharing[0].filter: ",
                "spec.template.resourceSharing[1].filter.childCliqueNames",
                "spec.template.resourceSharing[1].filter.childScalingGroupNames",
                "spec.template.podCliqueScalingGroups[0].resourceSharing[0].filter: ",
                "spec.template.podCliqueScalingGroups[0].resourceSharing[1].filter.childCliqueNames",
            ],
            id="filters of claims",
        ),
        # schedulers
        pytest.param(
            pcs(scheduled("kai-scheduler"), metadata=labelled("q")), [], id="a queue of the set"
        ),
        pytest.param(
            pcs(scheduled("kai-scheduler", annotations=labelled("q")["labels"])),
            [],
            id="a queue of a clique, by an annotation",
        ),
        pytest.param(
            pcs(scheduled("kai-scheduler")),
            ["metadata.labels[kai.scheduler/queue]"],
            id="no queue",
        ),
        pytest.param(pcs(scheduled("kueue")), [], id="no queue of KAI, with another scheduler"),
        pytest.param(
            pcs(
                scheduled("kai-scheduler", **labelled("r")),
                scheduled("kai-scheduler", "b", **labelled("q")),
                metadata=labelled("q"),
            ),
            ["spec.template.cliques[0].labels[kai.scheduler/queue]"],
            id="two queues",
        ),
        pytest.param(
            pcs(
                scheduled("volcano", topologyConstraint={}),
                scheduled("volcano", "b"),
                topologyConstraint={},
                podCliqueScalingGroups=[group("a", topologyConstraint={})],
            ),
            [
                "spec.template.topologyConstraint",
                "spec.template.podCliqueScalingGroups[0].topologyConstraint",
                "spec.template.cliques[0].topologyConstraint",
            ],
            id="constraints of a scheduler that has none",
        ),
        # what Grove accepts
        pytest.param(
            {"spec": {"template": pcs(clique())["spec"]["template"]}},
            ["spec.replicas"],
            id="replicas that are missing",
        ),
        pytest.param(
            pcs(
                clique("b.c"),
                metadata={"name": "s.1"},
                podCliqueScalingGroups=[group("b.c", name="g.h")],
            ),
            [
                "metadata.name",
                "spec.template.cliques[0].name",
                "spec.template.podCliqueScalingGroups[0].name",
            ],
            id="names that no hostname can have",
        ),
        pytest.param(
            pcs(7, None, podCliqueScalingGroups=7, resourceSharing=[7]),
            [
                "spec.template.cliques[0].spec.roleName",
                "spec.template.cliques[0].name",
                "spec.template.cliques[0].spec.podSpec",
                "spec.template.cliques[0].spec.replicas",
                "spec.template.cliques[1].name",
                "spec.template.cliques[1].spec.podSpec",
                "spec.template.cliques[1].spec.replicas",
                "spec.template.resourceSharing[0].name",
                "spec.template.resourceSharing[0].scope",
            ],
            id="odd values",
        ),
    ],
)
def test_warnings(obj: dict[str, Any], starts: list[str], said: Said) -> None:
    found = rejection_warnings(obj)
    assert len(found) == len(starts), found
    assert all(text.startswith(start) for text, start in zip(found, starts, strict=True)), found
    said(found)


def named(set_name: str, *cliques: str, **groups: list[str]) -> dict[str, Any]:
    return pcs(
        *map(clique, cliques),
        metadata={"name": set_name},
        podCliqueScalingGroups=[
            {"name": name, "cliqueNames": members} for name, members in groups.items()
        ],
    )


CLIQUE_NAMES = "spec.template.podCliqueScalingGroups[0].cliqueNames: Grove rejects this: "


@pytest.mark.parametrize(
    ("obj", "expected"),
    [
        pytest.param(named("s" * 20, "c" * 25), [], id="45 characters"),
        pytest.param(
            named("s" * 20, "frontend", "c" * 26),
            [
                "spec.template.cliques[1].name: Grove rejects this: the names of the PodCliqueSet,"
                " of this clique and of its scaling group have 46 characters together, more than 45"
            ],
            id="46 characters",
        ),
        pytest.param(
            named("s" * 30, "leader", "worker", pool=["leader", "worker"]), [], id="with a group"
        ),
        pytest.param(
            named("s" * 30, "w" * 12, prefill=["w" * 12]),
            [
                "spec.template.cliques[0].name: Grove rejects this: the names of the PodCliqueSet,"
                " of this clique and of its scaling group have 49 characters together, more than 45"
            ],
            id="too long with the group",
        ),
        pytest.param(
            named("a" * 30, "b" * 20, "c" * 30),
            [
                "spec.template.cliques[1].name: Grove rejects this: the names of the PodCliqueSet,"
                " of this clique and of its scaling group have 60 characters together, more than 45"
            ],
            id="the longest one, once",
        ),
        pytest.param(
            named("s", "prefill", p=["prefil"]),
            [CLIQUE_NAMES + "no clique has the name prefil. Did you mean prefill?"],
            id="a misspelt clique",
        ),
        pytest.param(
            named("s", "a", p=["a", "decode"]),
            [CLIQUE_NAMES + "no clique has the name decode"],
            id="a missing clique",
        ),
        pytest.param(named("s", "a", p=[""]), [], id="no name"),
    ],
)
def test_names_of_cliques_that_grove_rejects(obj: dict[str, Any], expected: list[str]) -> None:
    assert rejection_warnings(obj) == expected


def test_only_the_first_of_many_unknown_names_are_compared() -> None:
    """A list of names has no bound, and each comparison takes time."""
    wrong = [f"prefil{number:04}" for number in range(3 * MOST_COMPARED)]
    known = [clique(f"prefill{number:04}") for number in range(3)]
    found = rejection_warnings(pcs(*known, clique("x", startsAfter=wrong), **EXPLICIT))
    assert len(found) == len(wrong)
    assert sum("Did you mean" in text for text in found) == 3
    last = rejection_warnings(pcs(*known, clique("x", startsAfter=wrong[::-1]), **EXPLICIT))
    assert sum("Did you mean" in text for text in last) == 0


def test_an_update_reports_only_what_is_not_stored_yet() -> None:
    spread: dict[str, Any] = {"topologySpreadConstraints": [{}]}
    old = pcs(clique(roleName="r"), clique("b", roleName="r", podSpec=spread))
    new = pcs(clique(roleName="r", replicas=-1), clique("b", roleName="r", podSpec=spread))
    assert len(rejection_warnings(new)) == 3
    assert rejection_warnings(new, old) == [
        "spec.template.cliques[0].spec.replicas: Grove rejects this: it must be at least 1"
    ]
    assert len(rejection_warnings(new, new)) == 2, "without the stored object"
