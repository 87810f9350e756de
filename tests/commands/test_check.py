"""The command `check`: documents are judged without a cluster.

Tests `app/commands/files.py`.
"""

import io
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.cli import main
from tests.commands.test_cli import EXAMPLES
from tests.reviews import load

FACTS = str(EXAMPLES / "facts")


def run(*arguments: str) -> int:
    return main(["check", *arguments])


def test_all_allowed_is_0(capsys: Any) -> None:
    assert (
        run(
            FACTS,
            str(EXAMPLES / "podclique-mnnvl.yaml"),
            str(EXAMPLES / "podcliqueset-three-levels.yaml"),
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert "PATCHED  PodClique default/distributed-training-0-worker" in printed
    assert "would create ComputeDomain default/distributed-training-0-cd" in printed
    assert printed.endswith("6 judged, 0 refused, 1 without a webhook\n")


def test_a_refusal_is_1_and_says_why(capsys: Any) -> None:
    assert run(FACTS, str(EXAMPLES / "podcliqueset-refused.yaml")) == 1
    printed = capsys.readouterr().out
    assert "REFUSED  PodCliqueSet default/inverted (422 Invalid)" in printed
    assert (
        'must not be broader than packDomain "host" of the PodCliqueSet; allowed: host' in printed
    )
    assert (
        'topology level not found in ClusterTopology "grove-topology", which has: zone, block, rack, host'
        in printed
    )


def test_json_is_for_programs(capsys: Any) -> None:
    assert run("--output", "json", str(EXAMPLES / "podgroup-refused.yaml")) == 1
    report = json.loads(capsys.readouterr().out)
    assert report["allowed"] is False
    (result,) = report["results"]
    assert result["file"].endswith("podgroup-refused.yaml")
    assert [cause["field"] for cause in result["causes"]] == [
        "spec.subGroups[0].name",
        "spec.subGroups[1].parent",
    ]


@pytest.mark.parametrize("of_set", [{}, {"namespace": "default"}], ids=["no namespace", "default"])
@pytest.mark.parametrize(
    "of_clique", [{}, {"namespace": "default"}], ids=["no namespace", "default"]
)
def test_a_document_without_a_namespace_is_in_default(
    of_set: dict[str, str], of_clique: dict[str, str], tmp_path: Path, capsys: Any
) -> None:
    labels = {"app.kubernetes.io/part-of": "train", "grove.io/podcliqueset-replica-index": "0"}
    gpus = {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": 8}}}]}
    annotations = {"grove.io/mnnvl-enabled": "true"}
    documents = [
        {
            "kind": "PodCliqueSet",
            "metadata": {"name": "train", "annotations": annotations, **of_set},
        },
        {"kind": "PodClique", "metadata": {"name": "train-0-w", "labels": labels, **of_clique}},
    ]
    documents[1]["spec"] = {"podSpec": gpus}
    file = tmp_path / "documents.yaml"
    file.write_text(
        yaml.safe_dump_all(
            [{"apiVersion": "grove.io/v1alpha1", **document} for document in documents]
        )
    )
    assert run(str(file)) == 0
    assert "would create ComputeDomain default/train-0-cd" in capsys.readouterr().out


def test_standard_input_is_a_file(capsys: Any, monkeypatch: Any) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO((EXAMPLES / "podgroup-refused.yaml").read_text()))
    assert run("-") == 1
    assert "PodGroup default/mixed-case" in capsys.readouterr().out


def test_levels_can_come_from_the_configuration(capsys: Any) -> None:
    arguments = (
        "--config",
        str(EXAMPLES / "configuration.yaml"),
        str(EXAMPLES / "podcliqueset-three-levels.yaml"),
    )
    assert run(*arguments) == 0
    capsys.readouterr()
    assert run(arguments[2]) == 2
    printed = capsys.readouterr().out
    assert (
        'add ClusterTopology "grove-topology" to the documents, or give --config with clusterTopology.levels: the verdict depends on it'
        in printed
    )
    assert "1 without a verdict: add the documents named above" in printed


def test_what_no_webhook_looks_at_is_said(capsys: Any, tmp_path: Path) -> None:
    file = str(EXAMPLES / "podgroup-refused.yaml")
    assert run(file, "--operation", "DELETE") == 0
    assert (
        "no webhook judges the DELETE of scheduling.run.ai/v2alpha2 PodGroup"
        in capsys.readouterr().out
    )
    (tmp_path / "typo.yaml").write_text("apiVersion: scheduling.run/v2alpha2\nkind: PodGroup\n")
    assert run(str(tmp_path / "typo.yaml")) == 0
    assert "nothing was judged: check apiVersion and kind" in capsys.readouterr().out


def test_findings_say_where(capsys: Any) -> None:
    assert run(str(EXAMPLES / "podgroup-refused.yaml")) == 1
    assert (
        'spec.subGroups[0].name: invalid subgroup name "DecodeWorkers"' in capsys.readouterr().out
    )


def test_a_user_may_be_refused_what_the_operator_may(capsys: Any) -> None:
    file = str(EXAMPLES / "facts" / "clustertopology.yaml")
    assert run(file) == 0
    assert run(file, "--user", "alice") == 1
    assert run(file, "--user", "alice", "--operation", "DELETE") == 1
    assert 'user "alice" may not delete it' in capsys.readouterr().out


def test_an_update_can_be_judged(tmp_path: Path, capsys: Any) -> None:
    new = load("podcliqueset.topology-update-to-invalid")["request"]
    files = {}
    for name in ("object", "oldObject"):
        files[name] = tmp_path / f"{name}.yaml"
        files[name].write_text(yaml.safe_dump(new[name]))
    arguments = (str(EXAMPLES / "facts"), str(files["object"]), "--operation", "UPDATE")
    assert run(*arguments) == 0
    assert "warning: stored topology constraint, still allowed" in capsys.readouterr().out
    assert run(*arguments, "--old", str(files["oldObject"])) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["no-such-file.yaml"], "no-such-file.yaml: can't be read", id="no file"),
        pytest.param(
            ["{empty}"], "no .yaml, .yml or .json file in this directory", id="an empty directory"
        ),
        pytest.param(["{broken}"], "broken.yaml: not valid YAML or JSON", id="broken YAML"),
        pytest.param(
            ["{broken}", "--config", "{broken}"],
            "can't be parsed as YAML",
            id="a broken configuration",
        ),
    ],
)
def test_unusable_input_is_2(arguments: list[str], text: str, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.yaml").write_text("a: [")
    places = {"empty": str(tmp_path / "empty"), "broken": str(tmp_path / "broken.yaml")}
    assert run(*(argument.format(**places) for argument in arguments)) == 2
    assert text in capsys.readouterr().err


UNITS = {
    "job.yaml": ["job-nccl-test-cd"],
    "jobset.yaml": ["jobset-pretrain-cd"],
    "leaderworkerset.yaml": ["lws-vllm-0-cd"],
    "podgroup.yaml": ["group-prefill-0-cd"],
    "pytorchjob.yaml": ["training-bert-cd"],
    "raycluster.yaml": ["raygroup-serve-prefill-cd", "raygroup-serve-decode-cd"],
}


def test_there_is_an_example_of_each_kind_of_workload() -> None:
    assert {path.name for path in (EXAMPLES / "units").glob("*.yaml")} == set(UNITS)


@pytest.mark.parametrize("name", UNITS)
def test_the_compute_domains_of_an_example(name: str, capsys: Any) -> None:
    assert run("--output", "json", str(EXAMPLES / "units" / name)) == 0
    results = json.loads(capsys.readouterr().out)["results"]
    made = [obj for result in results for obj in result.get("wouldCreate", ())]
    assert [obj["metadata"]["name"] for obj in made] == UNITS[name]
    assert all("warnings" not in result for result in results)


def workload(kind: str = "Job", **template: Any) -> str:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 4}}}
    spec = {"parallelism": 2, "template": {"spec": {"containers": [container]}, **template}}
    return json.dumps(
        {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": "a"}, "spec": spec}
    )


ENABLED = {"grove.io/mnnvl-enabled": "true"}


def test_a_constraint_in_the_template_of_a_job_keeps_its_pods_together(
    tmp_path: Path, capsys: Any
) -> None:
    job = json.loads(workload(metadata={"annotations": ENABLED}))
    kept = {"annotations": {"kai.scheduler/topology-required-placement": "nvidia.com/gpu.clique"}}
    jobs = [{"name": "workers", "template": {"metadata": kept, "spec": job["spec"]}}]
    spec = {"replicatedJobs": jobs}
    api = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet"}
    file = tmp_path / "jobset.json"
    file.write_text(json.dumps({**api, "metadata": {"name": "a"}, "spec": spec}))
    assert run(str(file)) == 0
    assert "warning" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "code", "printed"),
    [
        pytest.param(
            workload(metadata={"annotations": {**ENABLED, "grove.io/mnnvl-scope": "group"}}),
            1,
            "spec.template.metadata.annotations[grove.io/mnnvl-scope]: Unsupported value",
            id="a scope of another kind",
        ),
        pytest.param(workload(), 0, "no webhook judges batch/v1 Job", id="nothing is asked for"),
        pytest.param(
            workload(parallelism=2, metadata={"annotations": ENABLED}),
            0,
            'warning: MNNVL of unit "job-a": nothing keeps its pods within one NVLink domain (node label nvidia.com/gpu.clique)',
            id="no level of a topology",
        ),
        pytest.param(
            workload(kind="CronJob", metadata={"annotations": ENABLED}),
            0,
            "no webhook judges batch/v1 CronJob",
            id="no owner of units",
        ),
        pytest.param(
            workload().replace(
                '"name": "a"', '"name": "a", "annotations": {"grove.io/mnnvl-enabled": "true"}', 1
            ),
            0,
            "warning: grove.io/mnnvl-enabled has no effect in the metadata of a Job",
            id="the annotation of the workload itself",
        ),
    ],
)
def test_what_pod_templates_would_get(
    text: str, code: int, printed: str, tmp_path: Path, capsys: Any
) -> None:
    (tmp_path / "a.yaml").write_text(text)
    assert run(str(tmp_path / "a.yaml")) == code
    assert printed in capsys.readouterr().out


def test_offline_files_are_facts_and_not_judged(capsys: Any) -> None:
    refused = str(EXAMPLES / "podcliqueset-refused.yaml")
    assert run(refused, "--offline", FACTS) == 1
    printed = capsys.readouterr().out
    assert "topology level not found in ClusterTopology" in printed
    assert printed.endswith("1 judged, 1 refused, 0 without a webhook\n")


def test_facts_come_from_a_cluster_or_from_files(capsys: Any) -> None:
    assert run(FACTS, "--cluster", "--offline", FACTS) == 2
    assert "use --cluster or --offline, not both" in capsys.readouterr().err
