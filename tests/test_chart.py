"""The Helm chart: the same objects as those of the overlays, and values that a schema checks."""

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from app.config.schema import Configuration
from scripts import chart as generator
from tests.charts import CHART, RefusedError, Values, merged, render
from tests.rendered import MANIFESTS, Object, configuration, documents, rendered, with_components

pytestmark = pytest.mark.untraced

DEFAULTS = yaml.safe_load((CHART / "values.yaml").read_text())


MONITORING = {"enabled": True}


def by_name(objects: list[Object]) -> dict[tuple[str, str], Object]:
    """Return the objects by kind and name.

    The generated name of a ConfigMap depends on the text of the configuration, which is compared as
    a document. The order of volumes means nothing. Labels of a chart are omitted.
    """
    text = json.dumps([without_standard_labels(obj) for obj in objects])
    for obj in objects:
        name = obj["metadata"]["name"]
        if obj["kind"] == "ConfigMap" and name.startswith("grove-admission-configuration-"):
            text = text.replace(name, "grove-admission-configuration")
    named = {(obj["kind"], obj["metadata"]["name"]): obj for obj in json.loads(text)}

    generated = named.get(("ConfigMap", "grove-admission-configuration"))
    if generated is not None:
        generated["data"]["config.yaml"] = yaml.safe_load(generated["data"]["config.yaml"])

    deployment = named.get(("Deployment", "grove-admission"))
    if deployment is not None:
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        volumes.sort(key=lambda volume: str(volume["name"]))
    return named


STANDARD = {
    "app.kubernetes.io/name",
    "app.kubernetes.io/instance",
    "app.kubernetes.io/version",
    "app.kubernetes.io/managed-by",
    "helm.sh/chart",
}
"""The labels that Helm recommends for each object of a chart."""


def without_standard_labels(obj: Object) -> Object:
    metadata = dict(obj["metadata"])
    labels = {
        key: value for key, value in metadata.pop("labels", {}).items() if key not in STANDARD
    }
    return {**obj, "metadata": {**metadata, **({"labels": labels} if labels else {})}}


def in_overlay(overlay: str, *others: str) -> dict[tuple[str, str], Object]:
    objects = rendered(f"overlays/{overlay}")
    for other in others:
        objects += rendered(f"overlays/{other}")
    return by_name(objects)


def test_what_the_chart_repeats_is_up_to_date() -> None:
    stale = [name for name, text in generator.files().items() if read(name) != text]
    assert stale == [], "run scripts/chart.py"


def read(name: str) -> str:
    path = CHART / name
    return path.read_text() if path.exists() else ""


def test_the_chart_has_the_version_of_the_project() -> None:
    chart = yaml.safe_load(read("Chart.yaml"))
    project = tomllib.loads((CHART.parents[1] / "pyproject.toml").read_text())["project"]
    assert {chart["version"], chart["appVersion"]} == {project["version"]}


def test_no_other_file_is_in_the_chart() -> None:
    by_hand = {
        "Chart.yaml",
        "values.yaml",
        "templates/NOTES.txt",
        "templates/_names.tpl",
        "templates/configuration.yaml",
        "templates/dashboard.yaml",
        "templates/deployment.yaml",
        "templates/extra.yaml",
        "templates/service.yaml",
    }
    there = {str(path.relative_to(CHART)) for path in CHART.rglob("*") if path.is_file()}
    assert there == by_hand | generator.files().keys()


def test_a_text_that_is_not_there_as_often_as_stated_is_an_error() -> None:
    with pytest.raises(ValueError, match="'a' occurs 2 times, and not 1"):
        generator.replaced("aba", "a", "c")


@pytest.mark.parametrize(
    ("values", "overlays"),
    [
        pytest.param({}, ["self-managed"], id="self-managed"),
        pytest.param({"certificates": "cert-manager"}, ["cert-manager"], id="cert-manager"),
        pytest.param({"monitoring": MONITORING}, ["self-managed", "monitoring"], id="monitoring"),
        pytest.param(
            {"certificates": "cert-manager", "monitoring": MONITORING},
            ["cert-manager", "monitoring"],
            id="all",
        ),
    ],
)
def test_chart_and_overlays_are_the_same_objects(values: Values, overlays: list[str]) -> None:
    assert by_name(render(CHART, values)) == in_overlay(*overlays)


def test_components_are_the_same_objects_in_chart_and_overlay(tmp_path: Path) -> None:
    text = with_components("self-managed", tmp_path)
    values = {
        "flowControl": {"enabled": True},
        "networkPolicy": {"egress": {"enabled": True}},
    }
    assert by_name(render(CHART, values)) == by_name(documents(text))


def test_the_rights_of_waiting_come_with_the_option(tmp_path: Path) -> None:
    text = with_components("self-managed", tmp_path, ["waiting"])
    expected = by_name(documents(text))
    config = {**DEFAULTS["config"], "waiting": {"enabled": True}}
    chart = by_name(render(CHART, {"config": config}))
    added = {key for key in expected if key[1] == "grove-admission-waiting"}
    assert {key: chart[key] for key in added} == {key: expected[key] for key in added}
    assert len(added) == 2
    assert by_name(render(CHART, {})).keys() & added == set()


def test_the_namespace_of_the_release_is_the_only_difference_of_another_one() -> None:
    values = {"certificates": "cert-manager", "monitoring": {"enabled": True}}
    text = json.dumps(render(CHART, values))
    expected = by_name(json.loads(text.replace("grove-system", "elsewhere")))

    assert by_name(render(CHART, values, "elsewhere")) == expected


def test_the_webhooks_come_in_a_second_step_or_in_a_release_of_their_own() -> None:
    whole = by_name(render(CHART, {})).keys()
    without = by_name(render(CHART, {"webhooks": {"enabled": False}})).keys()
    alone = by_name(render(CHART, {"server": {"enabled": False}})).keys()
    assert alone == {
        ("MutatingWebhookConfiguration", "grove-admission"),
        ("ValidatingWebhookConfiguration", "grove-admission"),
    }
    assert without | alone == whole
    assert without & alone == set()


def test_nothing_is_random_and_the_name_of_the_release_is_in_one_label_only() -> None:
    first, second = (render(CHART, {}, release=name) for name in ("first", "second"))
    instances = {obj["metadata"]["labels"]["app.kubernetes.io/instance"] for obj in first}
    assert instances == {"first"}
    assert list(map(without_standard_labels, first)) == list(map(without_standard_labels, second))


def test_every_object_has_the_standard_labels_and_those_of_the_values() -> None:
    values = {
        "commonLabels": {"team": "gpu"},
        "monitoring": {"enabled": True},
        "policies": {"enabled": True},
        "queueGuard": {"mode": "refuse"},
        "flowControl": {"enabled": True},
        "networkPolicy": {"egress": {"enabled": True}},
        "config": {**DEFAULTS["config"], "waiting": {"enabled": True}},
    }
    for certificates in ("self-managed", "cert-manager"):
        objects = render(CHART, {**values, "certificates": certificates})
        assert len(objects) > 60
        assert [
            (obj["kind"], obj["metadata"]["name"])
            for obj in objects
            if not STANDARD | {"team"} <= obj["metadata"].get("labels", {}).keys()
        ] == []


def test_settings_of_the_pod_are_where_they_belong() -> None:
    constraint = {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    values: Values = {
        "commonLabels": {"team": "gpu"},
        "podLabels": {"mesh": "off"},
        "podAnnotations": {"scrape": "no"},
        "topologySpreadConstraints": [constraint],
        "podDisruptionBudget": {"minAvailable": 1},
        "hostNetwork": True,
        "dnsPolicy": "ClusterFirstWithHostNet",
        "podSecurityContext": {"runAsUser": None, "runAsGroup": None, "fsGroup": None},
        "securityContext": {"privileged": False},
        "updateStrategy": {"rollingUpdate": {"maxSurge": 2}},
        "logLevel": "debug",
        "extraArgs": ["--log-format=json"],
        "extraEnv": [{"name": "TZ", "value": "UTC"}],
        "serviceAccount": {"annotations": {"role": "x"}},
        "extraObjects": [
            {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "{{ .Release.Name }}"}},
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: extra}\n",
        ],
    }
    objects = {(obj["kind"], obj["metadata"]["name"]): obj for obj in render(CHART, values)}
    deployment = objects["Deployment", "grove-admission"]["spec"]
    metadata = deployment["template"]["metadata"]
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    assert metadata["labels"] == {
        "app.kubernetes.io/name": "grove-admission",
        "team": "gpu",
        "mesh": "off",
    }
    assert metadata["annotations"] == {
        "grove-admission.grove.io/takes-tokens": "all",
        "scrape": "no",
    }
    assert pod["topologySpreadConstraints"] == [constraint]
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert pod["securityContext"] == {
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    assert container["securityContext"]["privileged"] is False
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 2}
    assert container["args"][-2:] == ["--log-level=debug", "--log-format=json"]
    assert {"name": "TZ", "value": "UTC"} in container["env"]
    account = objects["ServiceAccount", "grove-admission"]["metadata"]
    assert account["annotations"] == {"role": "x"}
    assert objects["PodDisruptionBudget", "grove-admission"]["spec"]["minAvailable"] == 1
    assert {("Secret", "release"), ("ConfigMap", "extra")} <= objects.keys()


def test_without_a_budget_or_a_spread_there_is_none() -> None:
    values: Values = {"podDisruptionBudget": None, "topologySpreadConstraints": []}
    objects = by_name(render(CHART, values))
    assert ("PodDisruptionBudget", "grove-admission") not in objects
    pod = objects["Deployment", "grove-admission"]["spec"]["template"]["spec"]
    assert "topologySpreadConstraints" not in pod


def test_each_setting_is_where_it_belongs() -> None:
    name = "pod.mutate.grove-admission.grove.io"
    selector = {"key": "team", "operator": "In", "values": ["a"]}
    digest = "sha256:" + "0" * 64
    toleration = {"key": "control-plane", "operator": "Exists"}
    values = {
        "config": {"mnnvl": {"claimMode": "template"}},
        "image": {
            "repository": "registry.example/grove-admission",
            "digest": digest,
            "pullPolicy": "Always",
            "pullSecrets": [{"name": "registry"}],
        },
        "replicas": 3,
        "resources": {"limits": {"memory": "1Gi"}, "requests": None},
        "priorityClassName": "",
        "nodeSelector": {"role": "control"},
        "tolerations": [toleration],
        "affinity": {"podAntiAffinity": {}},
        "networkPolicy": {
            "from": [{"ipBlock": {"cidr": "192.0.2.0/24"}}],
            "toolsFrom": [{"podSelector": {"matchLabels": {"app": "metrics"}}}],
            "egress": {"enabled": True, "to": [{"ipBlock": {"cidr": "198.51.100.0/24"}}]},
        },
        "webhooks": {"failurePolicy": {name: "Fail"}, "namespaceSelector": [selector]},
        "monitoring": {"enabled": True, "labels": {"release": "prometheus"}},
    }
    objects = by_name(render(CHART, values))

    deployment = objects["Deployment", "grove-admission"]["spec"]
    pod = deployment["template"]["spec"]
    (container,) = pod["containers"]
    assert deployment["replicas"] == 3
    assert container["image"] == f"registry.example/grove-admission@{digest}"
    assert container["imagePullPolicy"] == "Always"
    assert container["resources"] == {"limits": {"memory": "1Gi"}}
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["nodeSelector"] == {"role": "control"}
    assert pod["tolerations"] == [toleration]
    assert pod["affinity"] == {"podAntiAffinity": {}}
    assert "priorityClassName" not in pod

    policy = objects["NetworkPolicy", "grove-admission"]["spec"]
    assert policy["ingress"][0]["from"] == [{"ipBlock": {"cidr": "192.0.2.0/24"}}]
    assert policy["ingress"][1]["from"] == [
        {"podSelector": {}},
        {"podSelector": {"matchLabels": {"app": "metrics"}}},
    ]
    egress = objects["NetworkPolicy", "grove-admission-egress"]["spec"]["egress"]
    assert [rule["to"] for rule in egress] == [[{"ipBlock": {"cidr": "198.51.100.0/24"}}]]
    for kind in ("Mutating", "Validating"):
        for webhook in objects[f"{kind}WebhookConfiguration", "grove-admission"]["webhooks"]:
            assert webhook["namespaceSelector"]["matchExpressions"][1:] == [selector]
            assert webhook["name"] != name or webhook["failurePolicy"] == "Fail"
    for kind in ("PrometheusRule", "ServiceMonitor"):
        assert objects[kind, "grove-admission"]["metadata"]["labels"] == {"release": "prometheus"}
    assert configuration(render(CHART, values)).mnnvl.claim_mode == "template"


def test_the_server_reads_the_client_ca_where_it_is_mounted() -> None:
    objects = render(CHART, {"clientCaConfigMap": "callers"})
    pod = by_name(objects)["Deployment", "grove-admission"]["spec"]["template"]["spec"]
    (folder,) = [
        mount["mountPath"]
        for mount in pod["containers"][0]["volumeMounts"]
        if mount["name"] == "client-ca"
    ]
    read = configuration(objects).server
    assert {"name": "client-ca", "configMap": {"name": "callers"}} in pod["volumes"]
    assert read.client_ca_file == f"{folder}/ca.crt"
    assert read.drain_seconds == DEFAULTS["config"]["server"]["drainSeconds"]


@pytest.mark.parametrize(
    ("server", "port", "grace"),
    [
        pytest.param(
            {"port": 9443, "toolsPort": 9444, "drainSeconds": 600}, 9443, 630, id="other values"
        ),
        pytest.param({"drainSeconds": 0.5}, 8443, 31, id="a part of a second"),
        pytest.param({"drainSeconds": None}, 8443, 40, id="the default of the server"),
        pytest.param(None, 8443, 40, id="no section"),
    ],
)
def test_the_deployment_follows_the_port_and_the_time_to_drain(
    server: dict[str, Any] | None, port: int, grace: int
) -> None:
    objects = by_name(render(CHART, {"config": {"server": server}}))
    pod = objects["Deployment", "grove-admission"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["ports"] == [
        {"name": "https", "containerPort": port},
        {"name": "tools", "containerPort": port + 1},
    ]
    assert pod["terminationGracePeriodSeconds"] == grace


def test_a_change_of_the_configuration_replaces_the_replicas() -> None:
    def name(drain_seconds: int) -> str:
        objects = render(CHART, {"config": {"server": {"drainSeconds": drain_seconds}}})
        (config_map,) = [obj["metadata"]["name"] for obj in objects if obj["kind"] == "ConfigMap"]
        return str(config_map)

    assert name(5) == name(5) != name(6)


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"config": {"mnnvl": {"claimMode": "both"}}}, "/config/mnnvl/claimMode"),
        ({"config": {"mnnvl": {"mode": "auto"}}}, "/config/mnnvl"),
        ({"config": {"server": {"drainSeconds": -1}}}, "/config/server/drainSeconds"),
        ({"config": {"clusterTopology": {"levels": [{"domain": "zone"}]}}}, "levels/0"),
        ({"certificates": "files"}, "/certificates"),
        ({"replicas": 0}, "/replicas"),
        ({"image": {"digest": "latest"}}, "/image/digest"),
        ({"webhooks": {"failurePolicy": {"pod": "Fail"}}}, "/webhooks/failurePolicy"),
        ({"monitoring": {"enabled": "yes"}}, "/monitoring/enabled"),
        ({"replica": 2}, "replica"),
        ({"replicaCount": 2}, "replicaCount: did you mean replicas"),
        ({"config": {"leaderElection": {"name": "other"}}}, "config.leaderElection.name"),
        ({"config": {"certificates": {"namespace": "a"}}}, "config.certificates.namespace"),
    ],
)
def test_a_bad_value_is_refused_with_its_path(values: Values, path: str) -> None:
    with pytest.raises(RefusedError, match=path):
        render(CHART, values)


WHOLE = (
    "config",
    "podDisruptionBudget",
    "podSecurityContext",
    "resources",
    "securityContext",
    "updateStrategy",
)
"""Values whose keys are those of Kubernetes, or of the configuration."""

PEER: Values = {"podSelector": {}}
CHANGED: dict[str, Any] = {
    "affinity": {"podAntiAffinity": {}},
    "certificates": "cert-manager",
    "clientCaConfigMap": "client-ca",
    "commonLabels": {"team": "gpu"},
    "config": {"mnnvl": {"claimMode": "template"}},
    "deploymentAnnotations": {"reloader": "off"},
    "dnsConfig": {"options": [{"name": "ndots", "value": "1"}]},
    "dnsPolicy": "Default",
    "extraArgs": ["--log-format=json"],
    "extraEnv": [{"name": "TZ", "value": "UTC"}],
    "extraObjects": ["{apiVersion: v1, kind: ConfigMap, metadata: {name: extra}}"],
    "extraVolumeMounts": [{"name": "ca", "mountPath": "/ca"}],
    "extraVolumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "flowControl.enabled": True,
    "hostNetwork": True,
    "image.digest": "sha256:" + "0" * 64,
    "image.pullPolicy": "Always",
    "image.pullSecrets": [{"name": "registry"}],
    "image.repository": "elsewhere",
    "image.tag": "edge",
    "logLevel": "debug",
    "monitoring.enabled": True,
    "monitoring.interval": "15s",
    "monitoring.labels": {"release": "prometheus"},
    "monitoring.runbooks": "https://git.example/guide",
    "networkPolicy.egress.enabled": True,
    "networkPolicy.egress.to": [PEER],
    "networkPolicy.from": [PEER],
    "networkPolicy.toolsFrom": [],
    "nodeSelector": {"role": "control"},
    "podAnnotations": {"scrape": "no"},
    "podDisruptionBudget": {"maxUnavailable": 2},
    "podLabels": {"mesh": "off"},
    "podSecurityContext": {"fsGroup": None},
    "policies.enabled": True,
    "priorityClassName": "high",
    "queueGuard.kaiNamespace": "kai",
    "queueGuard.mode": "refuse",
    "replicas": 3,
    "resources": {"requests": {"cpu": "1"}},
    "revisionHistoryLimit": 0,
    "runtimeClassName": "gvisor",
    "securityContext": {"privileged": False},
    "server.enabled": False,
    "service.annotations": {"mesh": "off"},
    "serviceAccount.annotations": {"role": "x"},
    "tolerations": [{"operator": "Exists"}],
    "topologySpreadConstraints": [],
    "updateStrategy": {"rollingUpdate": {"maxSurge": 2}},
    "webhooks.annotations": {"owner": "platform"},
    "webhooks.enabled": False,
    "webhooks.failurePolicy": {"pod.mutate.grove-admission.grove.io": "Fail"},
    "webhooks.namespaceSelector": [{"key": "team", "operator": "Exists"}],
}
"""Another value of each value of the chart, by its path."""

NEEDS: dict[str, Values] = {
    "monitoring.interval": {"monitoring": {"enabled": True}},
    "monitoring.labels": {"monitoring": {"enabled": True}},
    "monitoring.runbooks": {"monitoring": {"enabled": True}},
    "networkPolicy.egress.to": {"networkPolicy": {"egress": {"enabled": True}}},
    "queueGuard.kaiNamespace": {"queueGuard": {"mode": "warn"}},
}
"""Values without which others have no effect."""


def paths(values: Values, above: str = "") -> Iterator[str]:
    """Yield the paths of all values."""
    for name, value in values.items():
        path = f"{above}{name}"
        if isinstance(value, dict) and value and path not in WHOLE:
            yield from paths(value, f"{path}.")
        else:
            yield path


def at(path: str, value: Any) -> dict[str, Any]:
    """Return values with one at a path."""
    first, _, rest = path.partition(".")
    return {first: at(rest, value) if rest else value}


def test_helm_lint_has_nothing_but_the_advice_of_an_icon() -> None:
    helm = pytest.importorskip("helm_python", reason="needs the package helm-python-sdk")
    found = helm.lint(str(CHART))
    assert [message["error"] for message in found["messages"]] == ["icon is recommended"]
    assert found["errors"] == []


def test_the_table_has_every_value() -> None:
    assert sorted(paths(DEFAULTS)) == sorted(CHANGED)


@pytest.mark.parametrize("path", CHANGED)
def test_every_value_changes_what_is_rendered(path: str) -> None:
    needed = NEEDS.get(path, {})
    changed = merged(needed, at(path, CHANGED[path]))
    before, after = render(CHART, needed), render(CHART, changed)
    assert by_name(before) != by_name(after)


def test_annotations_volumes_and_dns_are_where_they_belong() -> None:
    wanted = [
        "deploymentAnnotations",
        "dnsConfig",
        "extraVolumeMounts",
        "extraVolumes",
        "monitoring.interval",
        "monitoring.enabled",
        "revisionHistoryLimit",
        "runtimeClassName",
        "service.annotations",
        "webhooks.annotations",
    ]
    values = merged(*(at(path, CHANGED[path]) for path in wanted))
    objects = by_name(render(CHART, values))
    deployment = objects["Deployment", "grove-admission"]
    assert deployment["metadata"]["annotations"] == {"reloader": "off"}
    assert deployment["spec"]["revisionHistoryLimit"] == 0
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["dnsConfig"] == {"options": [{"name": "ndots", "value": "1"}]}
    assert pod["runtimeClassName"] == "gvisor"
    assert {"name": "ca", "configMap": {"name": "ca"}} in pod["volumes"]
    assert container["volumeMounts"][-1] == {"name": "ca", "mountPath": "/ca"}
    service = objects["Service", "grove-admission"]["metadata"]
    assert service["annotations"] == {"mesh": "off"}
    for kind in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        annotations = objects[kind, "grove-admission"]["metadata"]["annotations"]
        assert annotations["owner"] == "platform"
        assert annotations["grove-admission.grove.io/paths"] == "managed"
    (endpoint,) = objects["ServiceMonitor", "grove-admission"]["spec"]["endpoints"]
    assert endpoint["interval"] == "15s"


def test_alerts_lead_to_the_guide_only_where_it_is_known() -> None:
    def urls(values: Values) -> list[str]:
        rule = by_name(render(CHART, {"monitoring": values}))["PrometheusRule", "grove-admission"]
        rules = [rule for group in rule["spec"]["groups"] for rule in group["rules"]]
        return [each["annotations"].get("runbook_url", "") for each in rules]

    assert set(urls({"enabled": True})) == {""}
    guide = urls({"enabled": True, "runbooks": "https://git.example/guide"})
    assert guide[0] == "https://git.example/guide/alerts.md#groveadmissiondown"
    assert all(url.startswith("https://git.example/guide/alerts.md#") for url in guide)


def test_the_schema_knows_each_key_of_the_configuration() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    keys = schema["$defs"]["Configuration"]["properties"].keys()
    assert keys == {field.alias or name for name, field in Configuration.model_fields.items()}


def test_every_value_has_a_default_that_the_schema_accepts() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    assert DEFAULTS.keys() | {"global", "replicaCount"} == schema["properties"].keys()
    assert render(CHART, DEFAULTS) == render(CHART, {})


KNOWN = {
    "range and with": (
        "{{- range $i, $x := .Values.list }}\n{{ $i }}: {{ $x | quote }}\n{{- end }}\n"
        "{{- with .Values.none }}\nnever: {{ . }}\n{{- end }}\n",
        {0: "a", 1: "b"},
    ),
    "include and nindent": (
        '{{- define "labels" }}app: x\ntier: {{ .Values.tier }}{{ end }}\n'
        'labels: {{- include "labels" . | nindent 2 }}\n',
        {"labels": {"app": "x", "tier": "front"}},
    ),
    "toYaml, default and the release": (
        "list: {{- toYaml .Values.list | nindent 2 }}\n"
        'name: {{ .Values.none | default "d" }}\nin: {{ .Release.Namespace }}\n',
        {"list": ["a", "b"], "name": "d", "in": "ns"},
    ),
    "sha256sum and trunc": (
        'sum: {{ "abc" | sha256sum | trunc 12 }}\n',
        {"sum": "ba7816bf8f01"},
    ),
}
"""Templates in the language that Helm documents, and what they are."""


@pytest.mark.parametrize(("text", "expected"), KNOWN.values(), ids=KNOWN.keys())
def test_the_engine_renders_known_charts_as_helm_does(
    text: str, expected: Object, tmp_path: Path
) -> None:
    (tmp_path / "templates").mkdir()
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: known, version: 1.0.0}")
    (tmp_path / "values.yaml").write_text("{list: [a, b], none: null, tier: front}")
    (tmp_path / "templates" / "known.yaml").write_text(text)
    assert render(tmp_path, {}, "ns") == [expected]


def test_an_upgrade_takes_the_defaults_of_new_values() -> None:
    text = (MANIFESTS / "guide" / "install.md").read_text()
    upgrades = re.findall(r"^    helm upgrade (?:.+\\\n)*.+$", text, re.MULTILINE)
    assert [" --reset-then-reuse-values" in upgrade for upgrade in upgrades] == [True]
