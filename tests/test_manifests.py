"""The manifests as kustomize renders them: everything that they name is there, and an API server
takes them.

That their rules are those which the server needs is in `tests/doctor/test_permissions.py`.
"""

import copy
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from scripts.apiserver.real import RealApiServer, find_binaries
from tests.installation.readme import commands
from tests.rendered import (
    FOLDERS,
    MANIFESTS,
    OVERLAYS,
    Object,
    configuration,
    container,
    of_kind,
    permissions,
    rendered,
)

ROOT = Path(__file__).parents[1]
PREREQUISITES = "prerequisites"
INSTALLATIONS = [*(f"overlays/{name}" for name in OVERLAYS), "examples/overlay"]
HASH = re.compile(r"-[0-9a-z]{10}$")
"""What kustomize appends to the name of a generated object."""

Reference = tuple[str, str, str]
"""Kind, namespace ("" if it has none) and name."""


def named(obj: Object) -> Reference:
    return obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def references_of(obj: Object) -> Iterator[Reference]:
    """Every object that `obj` names, except those that a label selector selects."""
    namespace = obj["metadata"].get("namespace", "")
    if namespace:
        yield "Namespace", "", namespace
    if obj["kind"] in REFERENCES:
        yield from REFERENCES[obj["kind"]](obj, namespace)


def of_deployment(deployment: Object, namespace: str) -> Iterator[Reference]:
    pod = deployment["spec"]["template"]["spec"]
    yield "ServiceAccount", namespace, pod["serviceAccountName"]
    for volume in pod["volumes"]:
        if "configMap" in volume:
            yield "ConfigMap", namespace, volume["configMap"]["name"]
        if "secret" in volume:
            yield "Secret", namespace, volume["secret"]["secretName"]


def of_role(role: Object, namespace: str) -> Iterator[Reference]:
    for rule in role["rules"]:
        for name in rule.get("resourceNames", ()):
            for resource in rule["resources"]:
                yield GUARDED[resource], namespace, name


def of_binding(binding: Object, namespace: str) -> Iterator[Reference]:
    kind = binding["roleRef"]["kind"]
    yield kind, "" if kind == "ClusterRole" else namespace, binding["roleRef"]["name"]
    for subject in binding["subjects"]:
        yield subject["kind"], subject["namespace"], subject["name"]


def of_webhooks(webhooks: Object, namespace: str) -> Iterator[Reference]:
    for webhook in webhooks["webhooks"]:
        service = webhook["clientConfig"]["service"]
        yield "Service", service["namespace"], service["name"]
    source = webhooks["metadata"].get("annotations", {}).get("cert-manager.io/inject-ca-from")
    if source:
        yield "Certificate", *source.split("/")


def of_certificate(certificate: Object, namespace: str) -> Iterator[Reference]:
    yield (
        certificate["spec"]["issuerRef"]["kind"],
        namespace,
        certificate["spec"]["issuerRef"]["name"],
    )


def of_issuer(issuer: Object, namespace: str) -> Iterator[Reference]:
    if "ca" in issuer["spec"]:
        yield "Secret", namespace, issuer["spec"]["ca"]["secretName"]


def of_monitor(monitor: Object, namespace: str) -> Iterator[Reference]:
    for endpoint in monitor["spec"]["endpoints"]:
        yield "Secret", namespace, endpoint["tlsConfig"]["ca"]["secret"]["name"]


def of_policy_binding(binding: Object, namespace: str) -> Iterator[Reference]:
    yield "ValidatingAdmissionPolicy", "", binding["spec"]["policyName"]


REFERENCES: dict[str, Callable[[Object, str], Iterator[Reference]]] = {
    "Deployment": of_deployment,
    "Role": of_role,
    "ClusterRole": of_role,
    "RoleBinding": of_binding,
    "ClusterRoleBinding": of_binding,
    "MutatingWebhookConfiguration": of_webhooks,
    "ValidatingWebhookConfiguration": of_webhooks,
    "Certificate": of_certificate,
    "Issuer": of_issuer,
    "ServiceMonitor": of_monitor,
    "ValidatingAdmissionPolicyBinding": of_policy_binding,
}
"""The objects that one of a kind refers to, given its namespace."""

NO_REFERENCES = {
    "ConfigMap",
    "CustomResourceDefinition",
    "Namespace",
    "NetworkPolicy",
    "PodDisruptionBudget",
    "PrometheusRule",
    "Service",
    "ServiceAccount",
    "ValidatingAdmissionPolicy",
}

GUARDED = {
    "leases": "Lease",
    "secrets": "Secret",
    "mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
    "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
}
"""The kinds of which a rule allows named objects only, by resource."""


def made_later(objects: list[Object]) -> Iterator[Reference]:
    """What the server makes under the names of its configuration, and cert-manager for
    Certificates.
    """
    used = configuration(objects)
    yield "Lease", used.leader_election.namespace, used.leader_election.name
    if used.certificates.mode == "self-managed":
        yield "Secret", used.certificates.namespace, used.certificates.secret_name
    for obj in objects:
        if obj["kind"] == "Certificate":
            yield "Secret", obj["metadata"]["namespace"], obj["spec"]["secretName"]


def installed(folder: str) -> list[Object]:
    """An installation with all that goes with it: the prerequisites and the monitoring."""
    return [
        obj for part in (PREREQUISITES, folder, "overlays/monitoring") for obj in rendered(part)
    ]


@pytest.mark.parametrize("folder", INSTALLATIONS)
def test_every_object_that_is_named_is_there(folder: str) -> None:
    objects = installed(folder)
    assert {obj["kind"] for obj in objects} - set(REFERENCES) <= NO_REFERENCES
    present = {named(obj) for obj in objects} | set(made_later(objects))
    assert {reference for obj in objects for reference in references_of(obj)} - present == set()


@pytest.mark.parametrize("folder", INSTALLATIONS)
def test_the_configuration_names_the_webhook_configurations_that_are_installed(folder: str) -> None:
    objects = rendered(folder)
    names = {
        obj["metadata"]["name"] for obj in objects if obj["kind"].endswith("WebhookConfiguration")
    }
    assert names == {configuration(objects).certificates.webhook_configurations}


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_generated_object_shares_its_name_with_no_other(folder: str) -> None:
    """kustomize renames what it takes for a reference to a generated object, so a shared name
    renames too much.
    """
    generated = {named(obj) for obj in rendered(folder) if obj["kind"] in ("ConfigMap", "Secret")}
    others = {
        obj["metadata"]["name"]
        for other in FOLDERS
        for obj in rendered(other)
        if named(obj) not in generated
    }
    others |= {name for other in INSTALLATIONS for _, _, _, name, _ in permissions(rendered(other))}
    shared = {name for _, _, name in generated if HASH.sub("", name) in others or name in others}
    assert shared == set()


@pytest.mark.parametrize("folder", INSTALLATIONS)
def test_every_selector_selects_our_pods_or_our_service(folder: str) -> None:
    objects = installed(folder)
    deployment = of_kind(objects, "Deployment")
    service = of_kind(objects, "Service")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    spread = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
    selectors = [
        deployment["spec"]["selector"]["matchLabels"],
        service["spec"]["selector"],
        of_kind(objects, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        of_kind(objects, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
        *(constraint["labelSelector"]["matchLabels"] for constraint in spread),
    ]
    assert [
        selector for selector in selectors if not selector or not selector.items() <= labels.items()
    ] == []
    monitored = of_kind(objects, "ServiceMonitor")["spec"]
    assert monitored["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    assert {endpoint["port"] for endpoint in monitored["endpoints"]} <= {
        port["name"] for port in service["spec"]["ports"]
    }


@pytest.mark.parametrize("folder", INSTALLATIONS)
def test_only_monitoring_and_our_own_namespace_reach_the_tools(folder: str) -> None:
    https, tools = of_kind(rendered(folder), "NetworkPolicy")["spec"]["ingress"]
    assert https == {"ports": [{"port": "https"}]}
    monitoring = {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}
    assert tools == {
        "ports": [{"port": "tools"}],
        "from": [{"podSelector": {}}, {"namespaceSelector": monitoring}],
    }


@pytest.mark.parametrize("folder", INSTALLATIONS)
def test_ports_and_mounts_are_those_of_the_container(folder: str) -> None:
    objects = rendered(folder)
    running = container(objects)
    service = of_kind(objects, "Service")
    probes = ("readinessProbe", "livenessProbe", "startupProbe")
    asked = {running[probe]["httpGet"]["port"] for probe in probes}
    asked |= {port["targetPort"] for port in service["spec"]["ports"]}
    asked |= {
        port["port"]
        for rule in of_kind(objects, "NetworkPolicy")["spec"]["ingress"]
        for port in rule["ports"]
    }
    assert asked == {port["name"] for port in running["ports"]}
    server = configuration(objects).server
    assert [port["containerPort"] for port in running["ports"]] == [server.port, server.tools_port]
    volumes = of_kind(objects, "Deployment")["spec"]["template"]["spec"]["volumes"]
    assert {mount["name"] for mount in running["volumeMounts"]} == {
        volume["name"] for volume in volumes
    }


@pytest.mark.parametrize("folder", INSTALLATIONS)
def test_every_webhook_calls_a_port_of_the_service(folder: str) -> None:
    objects = rendered(folder)
    ports = of_kind(objects, "Service")["spec"]["ports"]
    webhooks = [webhook for obj in objects for webhook in obj.get("webhooks", ())]
    assert {webhook["clientConfig"]["service"]["port"] for webhook in webhooks} == {
        port["port"] for port in ports if port["name"] == "https"
    }


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_configuration_can_be_used_and_drains_within_the_grace_period(overlay: str) -> None:
    objects = rendered(f"overlays/{overlay}")
    used = configuration(objects)
    grace = of_kind(objects, "Deployment")["spec"]["template"]["spec"][
        "terminationGracePeriodSeconds"
    ]
    assert used.server.drain_seconds + 20 < grace
    assert used.certificates.mode == ("files" if overlay == "cert-manager" else "self-managed")


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_overlay_decides_who_makes_certificates_whatever_the_configuration_says(
    overlay: str,
) -> None:
    example = (MANIFESTS / "examples" / "configuration.yaml").read_text()
    objects = copy.deepcopy(rendered(f"overlays/{overlay}"))
    for obj in objects:
        if "config.yaml" in obj.get("data", ()):
            obj["data"]["config.yaml"] = example
    assert "mode: files" in example
    mode = "files" if overlay == "cert-manager" else "self-managed"
    assert configuration(objects).certificates.mode == mode


def test_a_node_can_be_drained_of_a_single_replica() -> None:
    budget = of_kind(rendered("overlays/self-managed"), "PodDisruptionBudget")["spec"]
    assert (budget["maxUnavailable"], "minAvailable" in budget) == (1, False)


def exposed() -> set[str]:
    """Every metric name that the code can expose, read from where it is written."""
    named = re.compile(r'\b(?:gauge|counter)\(\s*"([a-z_]+)"|PREFIX}_([a-z_]+)"')
    names: set[str] = set()
    for path in (ROOT / "app").rglob("*.py"):
        for match in named.finditer(path.read_text()):
            names.add(f"grove_admission_{match[1] or match[2]}")
    histograms = {
        f"grove_admission_{name}_duration_seconds_bucket" for name in ("request", "reconcile")
    }
    return names | histograms | {f"{name}_total" for name in names}


def alerts() -> list[Object]:
    groups = of_kind(rendered("overlays/monitoring"), "PrometheusRule")["spec"]["groups"]
    return [alert for group in groups for alert in group["rules"]]


def test_alerts_and_dashboard_ask_for_metrics_that_there_are() -> None:
    objects = rendered("overlays/monitoring")
    expressions = [alert["expr"] for alert in alerts()]
    dashboard = json.loads(of_kind(objects, "ConfigMap")["data"]["dashboard.json"])
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    expressions += [target["expr"] for panel in panels for target in panel["targets"]]
    asked = {name for text in expressions for name in re.findall(r"grove_admission_[a-z_]+", text)}
    assert len(asked) > 10
    assert asked - exposed() == set()


def test_the_alerts_are_rules_that_prometheus_reads(tmp_path: Path) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("needs promtool, of the package prometheus")
    spec = of_kind(rendered("overlays/monitoring"), "PrometheusRule")["spec"]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump(spec))
    ended = subprocess.run(
        [promtool, "check", "rules", str(tmp_path / "rules.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_every_alert_leads_to_its_section_of_the_runbook() -> None:
    page = (MANIFESTS / "guide/alerts.md").read_text()
    for alert in alerts():
        name = alert["alert"]
        annotations = alert["annotations"]
        assert set(annotations) == {"summary", "description"}
        assert f"\n## {name}\n" in page
    assert page.count("\n## ") == len(alerts())


def test_the_page_says_how_alerts_lead_to_their_section_of_the_runbook(tmp_path: Path) -> None:
    (command,) = [line for line in commands("Runbooks") if line.startswith("sed ")]
    copy = tmp_path / "alerts.yaml"
    copy.write_text((MANIFESTS / "overlays/monitoring/alerts.yaml").read_text())
    subprocess.run(command, shell=True, cwd=tmp_path, check=True)
    ((rules,),) = [
        [group["rules"] for group in document["spec"]["groups"]]
        for document in yaml.safe_load_all(copy.read_text())
    ]
    guide = "https://git.example/grove-admission/manifests/guide"
    assert [rule["annotations"]["runbook_url"] for rule in rules] == [
        f"{guide}/alerts.md#{rule['alert'].lower()}" for rule in rules
    ]


def test_no_manifest_has_a_link_to_a_placeholder() -> None:
    """Words in capitals stand for what a reader has to write."""
    lines = [
        line.partition("# ")[0]
        for path in sorted(MANIFESTS.rglob("*.yaml"))
        for line in path.read_text().splitlines()
    ]
    assert len(lines) > 1_000
    assert [line for line in lines if re.search(r"\w+://[A-Z]", line)] == []


def test_with_cert_manager_a_renewed_certificate_needs_no_new_ca_bundle() -> None:
    """It is signed by a CA that has a Certificate, and a Secret, of its own."""
    objects = rendered("overlays/cert-manager")
    specs = {(obj["kind"], obj["metadata"]["name"]): obj.get("spec", {}) for obj in objects}
    leaf = specs["Certificate", "grove-admission"]
    issuer = specs["Issuer", leaf["issuerRef"]["name"]]
    (ca,) = [
        spec for (kind, _), spec in specs.items() if kind == "Certificate" and spec.get("isCA")
    ]
    assert issuer == {"ca": {"secretName": ca["secretName"]}}
    assert ca["secretName"] != leaf["secretName"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_what_others_use_too_is_in_no_overlay(folder: str) -> None:
    """`kubectl delete -k` would take Grove's namespace and its ClusterTopology along."""
    shared = {"Namespace", "CustomResourceDefinition"}
    kinds = {obj["kind"] for obj in rendered(folder)}
    assert kinds & shared == (shared if folder == PREREQUISITES else set())


@pytest.mark.parametrize("folder", INSTALLATIONS)
def test_the_pod_runs_with_as_little_as_it_needs(folder: str) -> None:
    objects = rendered(folder)
    pod = of_kind(objects, "Deployment")["spec"]["template"]["spec"]
    assert container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert (pod["securityContext"]["runAsNonRoot"], pod["securityContext"]["seccompProfile"]) == (
        True,
        {"type": "RuntimeDefault"},
    )


@pytest.mark.parametrize("folder", INSTALLATIONS)
def test_secrets_leases_and_webhook_configurations_are_guarded_by_name(folder: str) -> None:
    rights = list(permissions(rendered(folder)))
    assert "*" not in {part for right in rights for part in right}
    assert [
        right for right in rights if right[2] in GUARDED and not right[3] and right[4] != "create"
    ] == []


@pytest.mark.parametrize("folder", FOLDERS[1:])
async def test_a_real_api_server_takes_every_overlay_and_knows_all_of_its_fields(
    folder: str, tmp_path: Path
) -> None:
    """Server-side apply refuses fields that no schema declares.

    INTEGRATION_CRDS names a folder with the CRDs of cert-manager and the Prometheus operator, which
    the other two overlays need.
    """
    objects = rendered(folder)
    crds = None
    foreign = {obj["apiVersion"].partition("/")[0] for obj in objects} & {
        "cert-manager.io",
        "monitoring.coreos.com",
    }
    if foreign:
        crds = Path(os.environ.get("INTEGRATION_CRDS") or os.devnull)
        defined = "".join(path.read_text() for path in crds.glob("*.yaml"))
        if not all(f"group: {group}" in defined for group in foreign):
            pytest.skip(
                f"needs the CRDs of {', '.join(sorted(foreign))} in the folder INTEGRATION_CRDS"
            )
    try:
        binaries = find_binaries(os.environ)
    except FileNotFoundError as missing:
        pytest.skip(f"needs a real API server: {missing}")
    server = RealApiServer(binaries=binaries, state_dir=tmp_path, crds=crds)
    try:
        await server.start()
        await server.apply(rendered(PREREQUISITES))
        await server.apply(objects)
    finally:
        await server.stop()


@pytest.mark.untraced
def test_tests_that_read_manifests_are_skipped_without_kubectl() -> None:
    """Some files render manifests when they are collected: without kubectl, that was an error."""
    files = ("tests/integration/test_account.py", "tests/policies/test_account.py")
    command = [sys.executable, "-m", "pytest", "-q", "-n", "0", "--collect-only", *files]
    told = subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, "PATH": ""}
    )
    assert "needs kubectl" in told.stdout
    assert "error" not in told.stdout.lower()
