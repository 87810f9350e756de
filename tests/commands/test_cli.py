"""The command line: what it prints and how it ends."""

import base64
import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from app import __version__
from app.certificates.issue import make_ca
from app.cli import main
from app.commands import COMMANDS
from tests.reviews import load

EXAMPLES = Path(__file__).parent.parent.parent / "manifests" / "examples"
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
        'must be as strict as packDomain "host" of the PodCliqueSet, or stricter; allowed: host'
        in printed
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
    assert 'ClusterTopology "grove-topology" does not exist yet' in printed
    assert (
        "1 without a verdict: put what they need (a ClusterTopology, a PodCliqueSet) among the documents"
        in printed
    )


def test_what_no_webhook_looks_at_is_said(capsys: Any, tmp_path: Path) -> None:
    file = str(EXAMPLES / "podgroup-refused.yaml")
    assert run(file, "--operation", "DELETE") == 0
    assert (
        "no webhook looks at the DELETE of scheduling.run.ai/v2alpha2 PodGroup"
        in capsys.readouterr().out
    )
    (tmp_path / "typo.yaml").write_text("apiVersion: scheduling.run/v2alpha2\nkind: PodGroup\n")
    assert run(str(tmp_path / "typo.yaml")) == 0
    assert (
        "nothing was judged: see whether apiVersion and kind are right" in capsys.readouterr().out
    )


def test_findings_say_where(capsys: Any) -> None:
    assert run(str(EXAMPLES / "podgroup-refused.yaml")) == 1
    assert (
        'spec.subGroups[0].name: invalid subgroup name "DecodeWorkers"' in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", str(EXAMPLES)),
        ("explain", "three-levels", "--offline", str(EXAMPLES / "podcliqueset-three-levels.yaml")),
    ],
    ids=["check", "explain"],
)
def test_a_reader_that_went_away_gets_no_traceback(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "app", *arguments]
    with subprocess.Popen(
        command, cwd=EXAMPLES.parent.parent, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        said = process.stderr.read()
    assert (process.returncode, said) == (141, b"")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["explain"], "there is no kubeconfig HOME/.kube/config; give --kubeconfig FILE"),
        (["topology", "--kubeconfig", "nowhere"], "there is no file nowhere"),
        (
            ["doctor", "--kubeconfig", "CONFIG", "--context", "c"],
            "no context is called c, but a, b",
        ),
        (
            ["audit", "--kubeconfig", "UNCHOSEN"],
            "no context is current; give --context, of a, b",
        ),
    ],
)
def test_a_cluster_that_is_not_named_is_said_in_one_line(
    arguments: list[str], message: str, tmp_path: Path
) -> None:
    contexts = [{"name": name, "context": {"cluster": "c", "user": "u"}} for name in ("a", "b")]
    lists = {
        "contexts": contexts,
        "users": [{"name": "u", "user": {}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://localhost:1"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump({"current-context": "a", **lists}))
    (tmp_path / "unchosen").write_text(yaml.safe_dump(lists))
    files = {"CONFIG": str(tmp_path / "config"), "UNCHOSEN": str(tmp_path / "unchosen")}
    words = [files.get(word, word) for word in arguments]
    environment = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    ended = subprocess.run(
        [sys.executable, "-m", "app", *words],
        capture_output=True,
        text=True,
        check=False,
        env={**environment, "HOME": str(tmp_path)},
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    said = ended.stderr.replace(str(tmp_path), "HOME")
    assert said.endswith(f": no credentials for the cluster: {message}\n")
    assert said.count("\n") == 1


def test_a_user_may_be_refused_what_the_operator_may(capsys: Any) -> None:
    file = str(EXAMPLES / "facts" / "clustertopology.yaml")
    assert run(file) == 0
    assert run(file, "--user", "alice") == 1
    assert run(file, "--user", "alice", "--operation", "DELETE") == 1
    assert 'user "alice" cannot delete it' in capsys.readouterr().out


def test_an_update_can_be_judged(tmp_path: Path, capsys: Any) -> None:
    new = load("podcliqueset.topology-update-to-invalid")["request"]
    files = {}
    for name in ("object", "oldObject"):
        files[name] = tmp_path / f"{name}.yaml"
        files[name].write_text(yaml.safe_dump(new[name]))
    arguments = (str(EXAMPLES / "facts"), str(files["object"]), "--operation", "UPDATE")
    assert run(*arguments) == 0
    assert "warning: topology constraint ignored, it was stored before" in capsys.readouterr().out
    assert run(*arguments, "--old", str(files["oldObject"])) == 1


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param(["no-such-file.yaml"], "no-such-file.yaml: can't be read", id="no file"),
        pytest.param(
            ["{empty}"], "no .yaml, .yml, .json file in this directory", id="an empty directory"
        ),
        pytest.param(
            ["{broken}"], "broken.yaml: not YAML or JSON that can be read", id="broken YAML"
        ),
        pytest.param(
            ["{broken}", "--config", "{broken}"],
            "not YAML that can be read",
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


@pytest.mark.parametrize(
    "arguments", [[], ["check"], ["serve", "--port", "x"], ["check", "f", "--operation", "PATCH"]]
)
def test_wrong_arguments_are_2(arguments: list[str], capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert "usage: grove-admission" in capsys.readouterr().err


def test_the_version(capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"grove-admission {__version__}\n"


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_keeps_to_the_width(
    command: str, width: int, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    with pytest.raises(SystemExit) as ended:
        main([*filter(None, [command]), "--help"])
    usage, _, described = capsys.readouterr().out.partition("\n\n")
    assert ended.value.code == 0
    assert usage.startswith(f"usage: grove-admission {command}".rstrip())
    assert [line for line in described.splitlines() if len(line) > width] == []


def test_serve_outside_a_cluster_says_so(tmp_path: Path) -> None:
    options = [
        "--config",
        str(EXAMPLES / "configuration.yaml"),
        "--port",
        "0",
        "--certs",
        str(tmp_path),
    ]
    command = [sys.executable, "-m", "app", "serve", *options]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("KUBERNETES_")
    }
    ended = subprocess.run(
        command,
        cwd=EXAMPLES.parent.parent,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1
    assert "can't serve: " in ended.stderr


def test_serve_of_a_cluster_needs_a_configuration(capsys: Any) -> None:
    """Without one it would not know the levels of the ClusterTopology that it keeps."""
    assert main(["serve"]) == 2
    assert "serve needs --config FILE" in capsys.readouterr().err


def test_the_webhook_configurations_are_those_of_the_manifests(capsys: Any) -> None:
    assert main(["webhooks"]) == 0
    assert capsys.readouterr().out == (EXAMPLES.parent / "base" / "webhooks.yaml").read_text()


def test_webhook_configurations_for_a_url(capsys: Any, tmp_path: Path) -> None:
    bundle = make_ca("ca", datetime.now(UTC), datetime.now(UTC) + timedelta(days=1)).cert_pem
    (tmp_path / "ca.crt").write_bytes(bundle)
    assert (
        main(
            ["webhooks", "--url", "https://localhost:8443/", "--ca-file", str(tmp_path / "ca.crt")]
        )
        == 0
    )
    mutating, validating = yaml.safe_load_all(capsys.readouterr().out)
    targets = [hook["clientConfig"] for hook in [*mutating["webhooks"], *validating["webhooks"]]]
    assert {base64.b64decode(target["caBundle"]) for target in targets} == {bundle}
    assert targets[0]["url"] == "https://localhost:8443/mutate/podclique"


@pytest.mark.parametrize(
    "arguments",
    [["--url", "http://x", "--ca-file", "f"], ["--url", "https://x"], ["--service", "x"]],
)
def test_webhook_configurations_need_a_whole_target(arguments: list[str], capsys: Any) -> None:
    assert main(["webhooks", *arguments]) == 2
    assert " takes " in capsys.readouterr().err


@pytest.mark.parametrize("command", ["explain", "topology"])
def test_commands_that_read_no_configuration_load_no_schema_of_it(command: str) -> None:
    code = f"import sys, app.cli, app.commands.{command}; sys.exit('pydantic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_nothing_is_examined_for_garbage_at_exit() -> None:
    """What is registered last is called first at exit, so that the program has frozen all by then."""
    code = "import atexit, gc; atexit.register(lambda: print(gc.get_freeze_count() > 10_000)); from app import cli; cli.main(['explain', '--help'])"
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.stdout.splitlines()[-1] == "True", ended.stderr


def test_errors_keep_to_the_width_and_lose_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ["explain", "llm", "--offline", "no-such-file.yaml", "--all-namespaces"]
    assert main(asked) == 2
    whole = capsys.readouterr().err
    monkeypatch.setenv("COLUMNS", "40")
    assert main(asked) == 2
    ended = capsys.readouterr().err
    assert max(map(len, ended.splitlines())) <= 40 < len(whole)
    assert ended.split() == whole.split()
