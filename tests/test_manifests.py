"""The manifests: what kustomize renders, that everything they name is there, and that an API server takes them."""

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config.environment import with_overrides
from app.config.read import read_configuration
from app.sandbox.manifests import OWN
from app.sandbox.real import RealApiServer, find_binaries
from app.webhooks.configurations import ServiceTarget

ROOT = Path(__file__).parents[1]
OVERLAYS = ("self-managed", "cert-manager")
Object = dict[str, Any]


def rendered(overlay: str) -> list[Object]:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("needs kubectl, which renders kustomizations")
    command = [kubectl, "kustomize", str(ROOT / "manifests" / "overlays" / overlay)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return [obj for obj in yaml.safe_load_all(text) if obj]


def base() -> list[Object]:
    """Every document of the base, for machines without kubectl."""
    folder = ROOT / "manifests" / "base"
    named = yaml.safe_load((folder / "kustomization.yaml").read_text())["resources"]
    files = [folder / name for name in named if name.endswith(".yaml")]
    return [obj for path in files for obj in yaml.safe_load_all(path.read_text()) if obj]


def one(objects: list[Object], kind: str) -> Object:
    (found,) = [obj for obj in objects if obj["kind"] == kind]
    return found


def check(objects: list[Object]) -> None:
    """What names something names what is there."""
    deployment, service = one(objects, "Deployment"), one(objects, "Service")
    pod = deployment["spec"]["template"]
    labels, (container,) = pod["metadata"]["labels"], pod["spec"]["containers"]
    for kind, path in (("Service", ("selector",)), ("PodDisruptionBudget", ("selector", "matchLabels"))):
        found = one(objects, kind)["spec"]
        for step in path:
            found = found[step]
        assert found.items() <= labels.items(), kind
    assert one(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"].items() <= labels.items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert pod["spec"]["serviceAccountName"] == one(objects, "ServiceAccount")["metadata"]["name"]
    ports = {port["name"] for port in container["ports"]}
    assert service["spec"]["ports"][0]["targetPort"] in ports
    assert {
        container[probe]["httpGet"]["port"] for probe in ("readinessProbe", "livenessProbe", "startupProbe")
    } <= ports
    assert {mount["name"] for mount in container["volumeMounts"]} == {v["name"] for v in pod["spec"]["volumes"]}
    target = ServiceTarget()
    assert (service["metadata"]["namespace"], service["metadata"]["name"]) == (target.namespace, target.name)
    spaces = {obj["metadata"].get("namespace") for obj in objects} - {None}
    assert spaces == {target.namespace}


def test_everything_that_the_base_names_is_there() -> None:
    check(base())


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_overlay_renders_and_names_what_is_there(overlay: str) -> None:
    check(rendered(overlay))


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_configuration_of_every_overlay_can_be_used_and_drains_within_the_grace_period(overlay: str) -> None:
    objects = rendered(overlay)
    text = one(objects, "ConfigMap")["data"]["config.yaml"]
    (container,) = one(objects, "Deployment")["spec"]["template"]["spec"]["containers"]
    environment = {variable["name"]: variable["value"] for variable in container["env"] if "value" in variable}
    configuration = with_overrides(read_configuration(text, overlay), environment, {})
    grace = one(objects, "Deployment")["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert configuration.server.drain_seconds + 20 < grace
    assert configuration.certificates.mode == ("files" if overlay == "cert-manager" else "self-managed")


def exposed() -> set[str]:
    """Every metric name that the code can expose, read from where it is written."""
    named = re.compile(r'yield "([a-z_]+)"|PREFIX}_([a-z_]+)"')
    found: set[str] = set()
    for path in (ROOT / "app").rglob("*.py"):
        for match in named.finditer(path.read_text()):
            found.add(f"grove_admission_{match[1] or match[2]}")
    histograms = {f"grove_admission_{name}_duration_seconds_bucket" for name in ("request", "reconcile")}
    return found | histograms | {f"{name}_total" for name in found}


def test_alerts_and_dashboard_ask_for_metrics_that_there_are() -> None:
    folder = ROOT / "manifests" / "overlays" / "monitoring"
    (rule,) = yaml.safe_load_all((folder / "alerts.yaml").read_text())
    expressions = [one["expr"] for group in rule["spec"]["groups"] for one in group["rules"]]
    dashboard = json.loads((folder / "dashboard.json").read_text())
    expressions += [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = {name for text in expressions for name in re.findall(r"grove_admission_[a-z_]+", text)}
    assert len(asked) > 10
    assert asked - exposed() == set()


def test_the_alerts_are_rules_that_prometheus_reads(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool, of the package prometheus")
    (rule,) = yaml.safe_load_all((ROOT / "manifests/overlays/monitoring/alerts.yaml").read_text())
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rule["spec"]))
    ended = subprocess.run(
        [promtool, "check", "rules", str(tmp_path / "rules.yaml")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_alert_says_what_to_do() -> None:
    (rule,) = yaml.safe_load_all((ROOT / "manifests/overlays/monitoring/alerts.yaml").read_text())
    annotations = {one["alert"]: set(one["annotations"]) for group in rule["spec"]["groups"] for one in group["rules"]}
    assert {name for name, said in annotations.items() if said != {"summary", "runbook"}} == set()


def test_with_cert_manager_a_renewed_certificate_needs_no_new_ca_bundle() -> None:
    """It is signed by a CA that has a Certificate, and a Secret, of its own."""
    folder = ROOT / "manifests" / "overlays" / "cert-manager"
    objects = [obj for obj in yaml.safe_load_all((folder / "certificate.yaml").read_text()) if obj]
    specs = {(obj["kind"], obj["metadata"]["name"]): obj["spec"] for obj in objects}
    leaf = specs["Certificate", "grove-admission"]
    issuer = specs["Issuer", leaf["issuerRef"]["name"]]
    (ca,) = [spec for (kind, _), spec in specs.items() if kind == "Certificate" and spec.get("isCA")]
    assert issuer == {"ca": {"secretName": ca["secretName"]}}
    assert ca["secretName"] != leaf["secretName"]


@pytest.mark.parametrize("overlay", [*OVERLAYS, "monitoring"])
def test_what_others_use_too_is_in_no_overlay(overlay: str) -> None:
    """`kubectl delete -k` would take Grove's namespace and its ClusterTopology along."""
    shared = {"Namespace", "CustomResourceDefinition"}
    assert {obj["kind"] for obj in rendered("../prerequisites")} == shared
    assert {obj["kind"] for obj in rendered(overlay)} & shared == set()


def test_the_sandbox_has_the_crds_that_are_installed() -> None:
    folders = (ROOT / "manifests" / "crds", OWN)
    ours, copied = ({path.name: path.read_text() for path in folder.glob("*_*.yaml")} for folder in folders)
    assert ours
    assert ours == copied


def test_the_pod_runs_with_as_little_as_it_needs() -> None:
    pod = one(base(), "Deployment")["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["seccompProfile"]) == (
        True,
        {"type": "RuntimeDefault"},
    )


def test_no_rule_gives_more_than_a_named_secret_or_a_named_configuration() -> None:
    rules = [rule for obj in base() if obj["kind"] in ("Role", "ClusterRole") for rule in obj["rules"]]
    for rule in rules:
        assert "*" not in rule["verbs"]
        guarded = {"secrets", "leases", "mutatingwebhookconfigurations", "validatingwebhookconfigurations"}
        if guarded & set(rule["resources"]) and rule["verbs"] != ["create"]:
            assert rule["resourceNames"]


@pytest.mark.parametrize("overlay", [*OVERLAYS, "monitoring"])
async def test_a_real_api_server_takes_every_overlay_and_knows_all_of_its_fields(overlay: str, tmp_path: Path) -> None:
    """Server-side apply refuses fields that no schema declares. INTEGRATION_CRDS names a folder with the CRDs of
    cert-manager and the Prometheus operator, which the other two overlays need."""
    objects, crds = rendered(overlay), None
    foreign = {obj["apiVersion"].partition("/")[0] for obj in objects} & {"cert-manager.io", "monitoring.coreos.com"}
    if foreign:
        crds = Path(os.environ.get("INTEGRATION_CRDS") or os.devnull)
        defined = "".join(path.read_text() for path in crds.glob("*.yaml"))
        if not all(f"group: {group}" in defined for group in foreign):
            pytest.skip(f"needs the CRDs of {', '.join(sorted(foreign))} in the folder INTEGRATION_CRDS")
    try:
        binaries = find_binaries(os.environ)
    except FileNotFoundError as missing:
        pytest.skip(f"needs a real API server: {missing}")
    server = RealApiServer(binaries=binaries, state_dir=tmp_path, crds=crds)
    try:
        await server.start()
        await server.apply(rendered("../prerequisites"))
        await server.apply(objects)
    finally:
        await server.stop()
