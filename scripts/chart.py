"""Write the files of `manifests/chart` that repeat long manifests: RBAC, policies and webhooks.

These templates are the files of `manifests/base` and `manifests/overlays` with placeholders for the
values of the chart. `values.schema.json` contains the schema of the configuration, as the server
reads it. A text that a placeholder replaces must be in its file exactly as often as stated here: a
change of the manifests that this script does not expect ends with a ValueError. All other templates are
written by hand, and `tests/test_chart.py` compares their objects with those of the overlays.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from app.commands.policies import documents  # noqa: E402
from app.config.schema import Configuration  # noqa: E402
from app.webhooks.policies import (  # noqa: E402
    admission_policies,
    marking_policies,
    queue_policies,
)

MANIFESTS = ROOT / "manifests"
CHART = MANIFESTS / "chart"

HEADER = "# Made by scripts/chart.py from manifests/{source}. Don't edit it.\n"
WEBHOOKS = ".Values.webhooks.enabled"
SERVER = ".Values.server.enabled"
CERT_MANAGER = '(eq .Values.certificates "cert-manager")'
NAMESPACE = "{{ .Release.Namespace }}"
RUNBOOKS = "https://REPOSITORY/manifests/guide"
"""Where the guide is, in the comments of the alerts of the overlay."""


def replaced(text: str, former: str, new: str, times: int = 1) -> str:
    """Return `text` with `new` instead of `former`.

    Raise ValueError unless `former` occurs exactly `times` times.
    """
    if text.count(former) != times:
        raise ValueError(f"{former!r} occurs {text.count(former)} times, and not {times}")
    return text.replace(former, new)


def source(path: str) -> str:
    """Return the text of a manifest, with its braces of templates as text."""
    text = (MANIFESTS / path).read_text()
    return re.sub(r"\{\{(.*?)\}\}", r'{{ "{{" }}\1{{ "}}" }}', text)


def template(path: str, text: str, condition: str) -> str:
    """Return a template made of the manifest at `path`, which is rendered under a condition.

    Every object has the labels of the chart.
    """
    header = HEADER.format(source=path)
    body = labelled(text.removeprefix("---\n").rstrip("\n"))
    return f"{header}{{{{- if {condition} }}}}\n{body}\n{{{{- end }}}}\n"


LABELS = '  labels: {{- include "grove-admission.labels" . | nindent 4 }}\n'


def labelled(text: str) -> str:
    """Return manifests in which the metadata of each object has the labels of the chart.

    The label of the name is one of them; other labels stay.
    """
    own = "    app.kubernetes.io/name: grove-admission\n"
    flow = r"  labels: \{app\.kubernetes\.io/name: grove-admission(?:, ([^,}]+))?\}\n"
    text = re.sub(flow, lambda found: LABELS + (f"    {found[1]}\n" if found[1] else ""), text)
    text = text.replace(f"  labels:\n{own}", LABELS)
    objects = re.split(r"^(?=---$)", text, flags=re.MULTILINE)
    return "".join(
        part
        if LABELS in part
        else re.sub(r"^(metadata:\n)", lambda found: found[1] + LABELS, part, count=1, flags=re.M)
        for part in objects
    )


def in_namespace(text: str) -> str:
    """Return `text` with the namespace of the release instead of `grove-system`."""
    return text.replace("grove-system", NAMESPACE)


def rbac() -> str:
    text = in_namespace(source("base/rbac.yaml"))
    account = f"metadata:\n  name: grove-admission\n  namespace: {NAMESPACE}\n"
    annotations = (
        "  {{- with .Values.serviceAccount.annotations }}\n"
        "  annotations: {{- toYaml . | nindent 4 }}\n"
        "  {{- end }}\n"
    )
    kind = "kind: ServiceAccount\n"
    text = replaced(text, f"{kind}{account}", f"{kind}{account}{annotations}")
    # the last rules of the Role are about Secrets, which cert-manager makes
    start = text.index('  - apiGroups: [""]\n    resources: [secrets]\n')
    end = text.index("---\n", start)
    rules = f"  {{{{- if not {CERT_MANAGER} }}}}\n{text[start:end]}  {{{{- end }}}}\n"
    text = text[:start] + rules + text[end:]
    return template("base/rbac.yaml", text, SERVER)


def account() -> str:
    return template("base/account.yaml", in_namespace(source("base/account.yaml")), SERVER)


def viewer() -> str:
    return template("base/viewer.yaml", source("base/viewer.yaml"), SERVER)


def webhooks() -> str:
    text = in_namespace(source("base/webhooks.yaml"))
    text = text.replace(
        "      - kube-system\n",
        "      - kube-system\n"
        "    {{- with .Values.webhooks.namespaceSelector }}\n"
        "    {{- toYaml . | nindent 4 }}\n"
        "    {{- end }}\n",
    )
    label = "    app.kubernetes.io/name: grove-admission\n"
    kinds = 2
    text = replaced(
        text,
        label,
        f"{label}    app.kubernetes.io/component: webhooks\n"
        "  annotations:\n"
        '    argocd.argoproj.io/sync-wave: "1"\n'
        f"    {{{{- if {CERT_MANAGER} }}}}\n"
        f"    cert-manager.io/inject-ca-from: {NAMESPACE}/grove-admission\n"
        "    {{- end }}\n",
        kinds,
    )
    ours = "    grove-admission.grove.io/paths: managed\n"
    end = "    {{- end }}\n"
    of_values = (
        "    {{- with .Values.webhooks.annotations }}\n"
        "    {{- toYaml . | nindent 4 }}\n"
        "    {{- end }}\n"
    )
    text = replaced(text, f"{end}  annotations:\n{ours}", f"{end}{ours}{of_values}", kinds)

    return template("base/webhooks.yaml", _with_policies(text), WEBHOOKS)


def _with_policies(text: str) -> str:
    """Return the webhook configurations with a value for the failurePolicy of each webhook."""
    name = ""
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("- name: "):
            name = line.removeprefix("- name: ")
        if line.startswith("  failurePolicy: "):
            policy = line.split(": ")[1]
            value = f'index .Values.webhooks.failurePolicy "{name}" | default "{policy}"'
            line = f"  failurePolicy: {{{{ {value} }}}}"
        lines.append(line)
    return "\n".join(lines)


MARKED_USER = "AUTHORIZED-USER"
MARKED_TOPOLOGY = "managed-topology"
KEYS_OF_MODES = {
    "clustertopology-": "clusterTopology",
    "clustertopologybinding-": "clusterTopology",
    "podcliqueset-": "podCliqueSet",
    "podgroup-": "podGroup",
}
"""The keys of `enforcement.webhooks`, by the beginning of the names of policies."""


USERS = '{{ include "grove-admission.users" . }}'
KAI_GROUPS = '{{ include "grove-admission.kaiGroups" . }}'


def policies() -> str:
    """Return the policies, with placeholders for the values of the configuration."""
    marked = Configuration.model_validate(
        {
            "clusterTopology": {"name": MARKED_TOPOLOGY},
            "authorization": {"authorizedUsers": [MARKED_USER]},
        }
    )
    text = in_namespace(_documents(admission_policies(marked)))
    for former, new in (
        (f'["{MARKED_USER}"]', USERS),
        (MARKED_TOPOLOGY, '{{ include "grove-admission.topology" . }}'),
    ):
        text = text.replace(former, new)
    guarded = "      - clustertopologies\n"
    text = text.replace(
        guarded,
        f"{guarded}      {{{{- if .Values.config.clusterTopology.enabled }}}}\n"
        "      - clustertopologybindings\n"
        "      {{- end }}\n",
        1,
    )
    body = "---\n".join(_with_actions(document) for document in text.split("---\n"))
    marking = _with_workloads(_documents(marking_policies(_with_marked_workloads())))
    is_enabled = configured("true", "workloads", "enabled")
    body += f"""{{{{- if and (.Capabilities.APIVersions.Has "{MARKING}") ({is_enabled}) }}}}
---
{in_namespace(marking)}{{{{- end }}}}
"""

    return template("policies/rules", body, ".Values.policies.enabled")


MARKING = "admissionregistration.k8s.io/v1/MutatingAdmissionPolicy"


def _with_actions(document: str) -> str:
    """Return a binding with the mode of its webhook in the configuration."""
    name = re.search(r"^  name: (\S+)", document, re.MULTILINE)
    keys = [
        key
        for start, key in KEYS_OF_MODES.items()
        if name is not None and name[1].startswith(start)
    ]
    former = "  validationActions:\n  - Deny\n"
    if not keys or former not in document:
        return document
    actions = f'{{{{ include "grove-admission.actions" (list . "{keys[0]}") }}}}'
    return replaced(document, former, f"  validationActions: {actions}\n")


def configured(default: str, *path: str) -> str:
    """Return the expression of a value of the configuration. `default` is an expression too."""
    return f"dig {' '.join(map(json.dumps, path))} {default} .Values.config"


def _with_marked_workloads() -> Configuration:
    labels = {key: f"marked-{key.lower()}" for key in LABELS_OF_QUEUES}
    workloads = {"schedulerName": "marked-scheduler", "labels": labels}
    authorization = {"authorizedUsers": [MARKED_USER]}
    return Configuration.model_validate({"workloads": workloads, "authorization": authorization})


def _with_workloads(text: str) -> str:
    """Return policies whose marked parts are replaced by the section `workloads` of the values."""
    defaults = Configuration().model_dump(by_alias=True)["workloads"]
    name = configured(json.dumps(defaults["schedulerName"]), "workloads", "schedulerName")
    text = text.replace("marked-scheduler", f"{{{{ {name} }}}}")
    for key in LABELS_OF_QUEUES:
        label = configured(json.dumps(defaults["labels"][key]), "workloads", "labels", key)
        text = text.replace(f"marked-{key.lower()}", f"{{{{ {label} }}}}")
    return text


LABELS_OF_QUEUES = ("queue", "project", "nodePool")
"""The keys of `workloads.labels` on which the queue guard depends."""


def queue_guard() -> str:
    marked = "kai-namespace"
    policies = queue_policies(_with_marked_workloads(), "refuse", marked)
    text = _with_workloads(in_namespace(_documents(policies)))
    text = text.replace(f'"system:serviceaccounts:{marked}"', KAI_GROUPS)
    text = text.replace(f'["{MARKED_USER}"]', USERS)
    text = text.replace(
        "  validationActions:\n  - Deny\n",
        '  validationActions: {{ eq .Values.queueGuard.mode "warn" |'
        ' ternary "[Warn, Audit]" "[Deny]" }}\n',
    )
    text = text.replace(
        "  failurePolicy: Fail\n",
        '  failurePolicy: {{ eq .Values.queueGuard.mode "warn" | ternary "Ignore" "Fail" }}\n',
    )
    return template("policies/queues", text, 'ne .Values.queueGuard.mode "off"')


def queue_names() -> str:
    path = "overlays/queue-guard/queuenames.yaml"
    return template(path, source(path), 'ne .Values.queueGuard.mode "off"')


def _documents(objects: list[dict[str, Any]]) -> str:
    """Return YAML in which no text is folded, so that placeholders stay whole."""
    text = documents(objects, width=1_000_000)
    return re.sub(r"\{\{(.*?)\}\}", r'{{ "{{" }}\1{{ "}}" }}', text)


def flow_control() -> str:
    path = "components/flow-control/flow-control.yaml"
    return template(path, in_namespace(source(path)), f"and {SERVER} .Values.flowControl.enabled")


def waiting() -> str:
    path = "components/waiting/rbac.yaml"
    enabled = configured("false", "waiting", "enabled")
    return template(path, in_namespace(source(path)), f"and {SERVER} ({enabled})")


def egress() -> str:
    path = "components/egress/network-policy.yaml"
    first = "    - ports:\n"
    text = replaced(
        in_namespace(source(path)),
        first,
        "    - {{- with .Values.networkPolicy.egress.to }}\n"
        "      to: {{- toYaml . | nindent 8 }}\n"
        "      {{- end }}\n"
        "      ports:\n",
    )
    return template(path, text, f"and {SERVER} .Values.networkPolicy.egress.enabled")


def certificate() -> str:
    path = "overlays/cert-manager/certificate.yaml"
    return template(path, in_namespace(source(path)), f"and {SERVER} {CERT_MANAGER}")


def monitoring(name: str) -> str:
    path = f"overlays/monitoring/{name}.yaml"
    text = in_namespace(source(path))
    text = replaced(
        text,
        "metadata:\n  name: grove-admission\n",
        f"metadata:\n  name: grove-admission\n  namespace: {NAMESPACE}\n{LABELS}"
        "    {{- with .Values.monitoring.labels }}\n"
        "    {{- toYaml . | nindent 4 }}\n"
        "    {{- end }}\n",
    )
    if name == "servicemonitor":
        path_of_metrics = "      path: /metrics\n"
        interval = (
            "      {{- with .Values.monitoring.interval }}\n"
            "      interval: {{ . }}\n"
            "      {{- end }}\n"
        )
        text = replaced(text, path_of_metrics, f"{path_of_metrics}{interval}")
    if name == "alerts":
        text = re.sub(
            rf"^( +)# runbook_url: {re.escape(RUNBOOKS)}(/\S+)\n",
            r"\1{{- with $.Values.monitoring.runbooks }}\n"
            r"\1runbook_url: {{ . }}\2\n"
            r"\1{{- end }}\n",
            text,
            flags=re.MULTILINE,
        )
    return template(path, text, f"and {SERVER} .Values.monitoring.enabled")


def schema() -> str:
    """Return the schema of the values, which includes the schema of the configuration."""
    configuration = Configuration.model_json_schema(by_alias=True)
    definitions = configuration.pop("$defs")
    for section in (*definitions.values(), configuration):
        section.pop("description", None)
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Values of the chart grove-admission",
        **_object(_properties()),
        "$defs": {**definitions, "Configuration": configuration},
    }
    return json.dumps(document, indent=2) + "\n"


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _properties() -> dict[str, Any]:
    text = {"type": "string"}
    switch = {"type": "boolean"}
    anything = {"type": "object"}
    objects = {"type": "array", "items": anything}
    labels = {"type": "object", "additionalProperties": text}
    policy = {"enum": ["Fail", "Ignore"]}
    names = [webhook["name"] for webhook in _all_webhooks()]
    image = {
        "repository": {**text, "minLength": 1},
        "tag": text,
        "digest": {**text, "pattern": "^(sha256:[0-9a-f]{64})?$"},
        "pullPolicy": {"enum": ["", "Always", "IfNotPresent", "Never"]},
        "pullSecrets": objects,
    }
    selector = {**objects, "description": "matchExpressions, in addition to ours"}

    return {
        "config": {"$ref": "#/$defs/Configuration"},
        "certificates": {"enum": ["self-managed", "cert-manager"]},
        "image": _object(image),
        "replicas": {"type": "integer", "minimum": 1},
        "resources": anything,
        "priorityClassName": text,
        "nodeSelector": labels,
        "tolerations": objects,
        "affinity": anything,
        "topologySpreadConstraints": {"type": ["array", "null"], "items": anything},
        "podDisruptionBudget": anything,
        "deploymentAnnotations": labels,
        "podLabels": labels,
        "podAnnotations": labels,
        "commonLabels": labels,
        "hostNetwork": switch,
        "dnsPolicy": text,
        "dnsConfig": anything,
        "runtimeClassName": text,
        "podSecurityContext": anything,
        "securityContext": anything,
        "updateStrategy": anything,
        "revisionHistoryLimit": {"type": ["integer", "null"], "minimum": 0},
        "logLevel": {"enum": ["debug", "info", "warning", "error"]},
        "extraArgs": {"type": "array", "items": text},
        "extraEnv": objects,
        "extraVolumes": objects,
        "extraVolumeMounts": objects,
        "extraObjects": {"type": "array", "items": {"type": ["object", "string"]}},
        "serviceAccount": _object({"annotations": labels}),
        "service": _object({"annotations": labels}),
        "replicaCount": {"description": "A common name of other charts; here it is replicas."},
        "networkPolicy": _object(
            {
                "from": objects,
                "toolsFrom": objects,
                "egress": _object({"enabled": switch, "to": objects}),
            }
        ),
        "clientCaConfigMap": text,
        "flowControl": _object({"enabled": switch}),
        "server": _object({"enabled": switch}),
        "webhooks": _object(
            {
                "enabled": switch,
                "failurePolicy": _object(dict.fromkeys(names, policy)),
                "namespaceSelector": selector,
                "annotations": labels,
            }
        ),
        "policies": _object({"enabled": switch}),
        "queueGuard": _object(
            {
                "mode": {"enum": ["off", "warn", "refuse"]},
                "kaiNamespace": {
                    "anyOf": [
                        {**text, "minLength": 1},
                        {"type": "array", "items": {**text, "minLength": 1}, "minItems": 1},
                    ]
                },
            }
        ),
        "monitoring": _object(
            {
                "enabled": switch,
                "labels": labels,
                "interval": text,
                "runbooks": {**text, "pattern": "^(https?://.*[^/])?$"},
            }
        ),
        "global": anything,
    }


def _all_webhooks() -> list[dict[str, Any]]:
    documents = yaml.safe_load_all((MANIFESTS / "base/webhooks.yaml").read_text())
    return [webhook for document in documents for webhook in document["webhooks"]]


def crd() -> str:
    return (MANIFESTS / "crds/grove.io_clustertopologies.yaml").read_text()


def files() -> dict[str, str]:
    """Return the text of each generated file of the chart, by its path."""
    return {
        "crds/grove.io_clustertopologies.yaml": crd(),
        "dashboard.json": (MANIFESTS / "overlays/monitoring/dashboard.json").read_text(),
        "templates/account.yaml": account(),
        "templates/alerts.yaml": monitoring("alerts"),
        "templates/certificate.yaml": certificate(),
        "templates/egress.yaml": egress(),
        "templates/flow-control.yaml": flow_control(),
        "templates/policies.yaml": policies(),
        "templates/queue-guard.yaml": queue_guard(),
        "templates/queue-names.yaml": queue_names(),
        "templates/rbac.yaml": rbac(),
        "templates/servicemonitor.yaml": monitoring("servicemonitor"),
        "templates/viewer.yaml": viewer(),
        "templates/waiting.yaml": waiting(),
        "templates/webhooks.yaml": webhooks(),
        "values.schema.json": schema(),
    }


def main() -> None:
    """Write the generated files that differ, and print their names."""
    for name, text in files().items():
        path = CHART / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
