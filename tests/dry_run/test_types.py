"""Values in documents whose type API servers do not accept."""

import pytest

from app.dry_run.documents import read_documents
from app.dry_run.judge import Asker, judge
from app.dry_run.types import claimed_volumes, type_findings
from tests.reviews import cluster, default_routes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            "{apiVersion: v1, kind: Pod, metadata: {annotations: {a.b/c: true}}}",
            "metadata.annotations[a.b/c]: must be a string: put true in quotes",
            id="true",
        ),
        pytest.param(
            "{apiVersion: v1, kind: Pod, metadata: {labels: {a: 1.5, b: x}}}",
            "metadata.labels[a]: must be a string: put 1.5 in quotes",
            id="a number",
        ),
        pytest.param(
            "{apiVersion: batch/v1, kind: Job, spec: {template: {metadata: {labels: {a: no}}}}}",
            "spec.template.metadata.labels[a]: must be a string: put false in quotes",
            id="in a template",
        ),
        pytest.param(
            "{apiVersion: a/v1, kind: A, spec: {parts: [{}, {metadata: {labels: {a: 7}}}]}}",
            "spec.parts[1].metadata.labels[a]: must be a string: put 7 in quotes",
            id="in a list of a kind that nothing judges",
        ),
    ],
)
async def test_a_label_or_annotation_without_quotes_is_refused(text: str, said: str) -> None:
    (document,) = read_documents(text)
    verdict = (await judge(default_routes(cluster()), document, Asker("me"))).verdict
    assert verdict is not None
    assert (verdict.code, verdict.message) == (422, said)


async def test_labels_that_are_strings_or_null_are_not_refused() -> None:
    (document,) = read_documents(
        "{apiVersion: v1, kind: Pod, metadata: {labels: {a: 'true', b: }}}"
    )
    verdict = (await judge(default_routes(cluster()), document, Asker("me"))).verdict
    assert verdict is not None
    assert verdict.allowed


POD = "{apiVersion: v1, kind: Pod, spec: %s}"
SET = "{apiVersion: grove.io/v1alpha1, kind: PodCliqueSet, spec: %s}"
TEMPLATE = SET % "{template: %s}"
CLIQUE = TEMPLATE % "{cliques: [{name: w, spec: %s}]}"
AT_CLIQUE = "spec.template.cliques[0].spec"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            POD % "{containers: [{args: [--tp, 8], env: [{name: A, value: true}]}]}",
            [
                "spec.containers[0].args[1]: must be a string: put 8 in quotes",
                "spec.containers[0].env[0].value: must be a string: put true in quotes",
            ],
            id="arguments and variables",
        ),
        pytest.param(
            "{apiVersion: batch/v1, kind: Job, spec: {template: {spec: {containers: [],"
            " nodeSelector: {gpu: true}, tolerations: [{value: 1}]}}}}",
            [
                "spec.template.spec.nodeSelector[gpu]: must be a string: put true in quotes",
                "spec.template.spec.tolerations[0].value: must be a string: put 1 in quotes",
            ],
            id="in a template",
        ),
        pytest.param(
            POD % "{containers: [{resources: {limits: {nvidia.com/gpu: true, memory: 8Gi}}}]}",
            [
                "spec.containers[0].resources.limits[nvidia.com/gpu]: must be a quantity, such as"
                " 8 or 64Gi"
            ],
            id="a quantity",
        ),
        pytest.param(
            CLIQUE % '{replicas: "2", minAvailable: 1.5}',
            [
                f"{AT_CLIQUE}.replicas: must be an integer: remove the quotes",
                f"{AT_CLIQUE}.minAvailable: must be an integer",
            ],
            id="numbers of a clique",
        ),
        pytest.param(
            SET % "{replicas: 3000000000}",
            ["spec.replicas: must be an integer that fits into 32 bits"],
            id="a large number",
        ),
        pytest.param(
            CLIQUE % "{startsAfter: w, podSpec: {containers: {name: c}}}",
            [
                f"{AT_CLIQUE}.startsAfter: must be a list",
                f"{AT_CLIQUE}.podSpec.containers: must be a list",
            ],
            id="no lists",
        ),
        pytest.param(
            TEMPLATE % "{cliques: [w], headlessServiceConfig: {publishNotReadyAddresses: 'on'}}",
            [
                "spec.template.cliques[0]: must be a map",
                "spec.template.headlessServiceConfig.publishNotReadyAddresses: must be true or"
                " false, without quotes",
            ],
            id="no map, and no boolean",
        ),
        pytest.param(
            TEMPLATE % "{terminationDelay: 4, topologyConstraint: rack}",
            [
                "spec.template.terminationDelay: must be a string: put 4 in quotes",
                "spec.template.topologyConstraint: must be a map",
            ],
            id="a duration and a constraint",
        ),
        pytest.param(CLIQUE % "{replicas: 2.0, minAvailable: null}", [], id="an integer, and null"),
        pytest.param(SET % "7", ["spec: must be a map"], id="a spec that is no map"),
        pytest.param("{apiVersion: a/v1, kind: A, spec: {replicas: '2'}}", [], id="another kind"),
        pytest.param("{apiVersion: a/v1, kind: A, spec: {containers: 7}}", [], id="another field"),
    ],
)
def test_what_an_api_server_does_not_accept(text: str, said: list[str]) -> None:
    (document,) = read_documents(text)
    assert list(map(str, type_findings(document))) == said


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{kind: StatefulSet, spec: {volumeClaimTemplates: [{metadata: {name: a}}]}}", {"a"}),
        (
            "{kind: JobSet, spec: {volumeClaimPolicies: [{templates: [{metadata: {name: b}}]}]}}",
            {"b"},
        ),
        ("{kind: Pod, spec: {volumes: [{name: c}]}}", set()),
    ],
)
def test_volumes_that_a_controller_adds(text: str, names: set[str]) -> None:
    (document,) = read_documents(text)
    assert claimed_volumes(document) == names


DOUBLE = "{containers: [{name: c, resources: {limits: {nvidia.com/gpu: 8}}}, {name: c}]}"
IS_DOUBLE = "containers[1].name: API servers reject such pods: another container is called c too"


@pytest.mark.parametrize(
    ("text", "asker", "warning"),
    [
        pytest.param(
            CLIQUE % f"{{roleName: w, replicas: 1, podSpec: {DOUBLE}}}",
            Asker("me"),
            f"spec.template.cliques[0].spec.podSpec.{IS_DOUBLE}",
            id="a PodCliqueSet",
        ),
        pytest.param(
            "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {template: {metadata:"
            f" {{annotations: {{grove.io/mnnvl-enabled: 'true'}}}}, spec: {DOUBLE}}}}}}}",
            Asker("me"),
            f"spec.template.spec.{IS_DOUBLE}",
            id="a Job with MNNVL",
        ),
        pytest.param(POD % DOUBLE, Asker("me"), f"spec.{IS_DOUBLE}", id="a Pod"),
        pytest.param(POD % DOUBLE, Asker("me", reads_stored=True), "", id="a stored Pod"),
    ],
)
async def test_pods_that_can_not_be_created_are_warned_about(
    text: str, asker: Asker, warning: str
) -> None:
    (document,) = read_documents(text)
    verdict = (await judge(default_routes(cluster()), document, asker)).verdict
    assert verdict is not None
    assert [text for text in verdict.warnings if "such pods" in text] == [warning][: bool(warning)]
