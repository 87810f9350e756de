"""Judge the Pod templates of workloads whose controllers have not created Pods yet.

Each template is judged as a Pod with the labels that the controller would write. Indexes in these
labels are 0.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Protocol

from msgspec.structs import replace

from app.admission.verdict import Effect, Verdict, judged, patched
from app.base.spelling import Comparisons
from app.base.value import Value
from app.facts.grove.unit_member import Carrier, read_carrier_of_pod
from app.facts.kinds import (
    COMPUTE_DOMAIN,
    DISAGGREGATED_SET,
    JOB_SET,
    LEADER_WORKER_SET,
    POD_CLIQUE_SET,
    RAY_CLUSTER,
)
from app.facts.kubernetes.node import GPUS
from app.facts.labels import GPU_COUNT, MNNVL_ENABLED, MNNVL_SCOPE, NVLINK_DOMAIN
from app.facts.unit_owners import OWNER_KINDS, ROLE, SLICE, OwnerKind
from app.facts.unit_sizes import labels_of_jobs, size_of_unit
from app.kube.api import Object
from app.objects.fields import FieldError, FieldPath, Findings, forbidden, required
from app.objects.resource import JOB, Resource
from app.objects.shape import annotations_of, labels_of, map_at, maps_at, text_at
from app.rules.mnnvl.claim import CliqueFacts, Injection, inject
from app.rules.mnnvl.colocation import OwnGroup, read_bounds
from app.rules.mnnvl.plan import desired_resource
from app.rules.mnnvl.warnings import AS_CONFIGURED, NvlinkDomains, unit_warnings
from app.rules.set_mistakes import SCHEDULERS, misspelt_annotations, unknown_scheduler
from app.rules.topology.coverage import Nodes
from app.rules.topology.levels import KNOWN
from app.rules.workload.kai_podgroup import TOPOLOGY_REQUIRED


class TemplateFacts(Protocol):
    """The facts of a cluster that verdicts on Pod templates need."""

    @property
    def nvlink(self) -> NvlinkDomains:
        """The configuration of NVLink domains."""

    def nodes_with(self, keys: Collection[str]) -> Nodes:
        """Return the nodes, grouped by the labels `keys`.

        The result is empty if nodes can't be read.
        """

    async def find_rival(self, pod: Carrier) -> FieldError | None:
        """Return a finding if another claim of `pod` needs the node's channel, otherwise None."""

    async def own_group(self, pod: Object, namespace: str) -> OwnGroup | None:
        """Return the PodGroup of KAI that `pod` names, or None if it names none.

        If the PodGroup does not exist or can't be read, its `levels` are None.
        """


# Kinds whose controllers create workloads.


class Maker(Value):
    """A kind whose controller creates workloads.

    Each part of a document of this kind, such as a role, describes one workload. Most documents
    have one part: the document itself.
    """

    group: str
    """The API group of the kind."""
    kind: str
    makes: Resource
    """The resource of the workloads."""
    spec: tuple[str, ...] = ()
    """The path from a part to the spec of its workload, or () if the document lacks this spec."""
    each: str = ""
    """The name of the list in the document's `spec` whose items are the parts.

    It is "" if the document is the only part.
    """
    metadata: tuple[str, ...] = ("metadata",)
    """The path from a part to the metadata of its workload, with labels and annotations."""

    @property
    def labelled_at(self) -> str:
        """The path in the document of the workload's metadata, such as `spec.roles[].metadata`."""
        part = ("spec", f"{self.each}[]") if self.each else ()
        return ".".join((*part, *self.metadata))


MAKERS = (
    Maker("ray.io", "RayService", RAY_CLUSTER, ("spec", "rayClusterConfig")),
    Maker("ray.io", "RayJob", RAY_CLUSTER, ("spec", "rayClusterSpec")),
    Maker(
        "batch",
        "CronJob",
        JOB,
        ("spec", "jobTemplate", "spec"),
        metadata=("spec", "jobTemplate", "metadata"),
    ),
    Maker("disaggregatedset.x-k8s.io", "DisaggregatedSet", LEADER_WORKER_SET, ("spec",), "roles"),
    Maker("trainer.kubeflow.org", "TrainJob", JOB_SET),
    Maker("nvidia.com", "DynamoGraphDeployment", POD_CLIQUE_SET),
)
"""The kinds whose controllers create workloads that webhooks judge.

Sources: https://github.com/ray-project/kuberay/tree/feeaf72f (its functions that construct
RayClusters), https://github.com/kubernetes-sigs/lws (api/disaggregatedset/v1, lws_manager.go),
https://github.com/kubernetes/kubernetes (pkg/controller/cronjob/utils.go) and
https://github.com/kubeflow/trainer.
"""


class PodTemplate(Value):
    """A Pod template in a workload."""

    path: FieldPath
    """The path of the template in the workload."""
    part: str
    """The name of the part of the workload with the template, such as a worker group, or ""."""
    object: Object
    """The template, with its metadata and spec."""
    above: tuple[Object, ...]
    """The maps that contain the template, outermost first. The first one is the workload."""


MOST_TEMPLATES = 128
"""The maximum number of Pod templates in a workload. The cost of judging grows quadratically."""


TOO_MANY = patched(
    [],
    warnings=[f"the workload has more than {MOST_TEMPLATES} Pod templates, so they are not judged"],
)
"""The verdict on a workload with more than MOST_TEMPLATES Pod templates."""

NOT_REQUESTED = (
    f'workloads are judged only if a Pod template has the annotation {MNNVL_ENABLED}: "true"'
)
"""The note on a workload without a verdict, because its Pod templates do not request MNNVL."""


def templates_of(workload: Object) -> Iterator[PodTemplate]:
    """Yield the Pod templates in a workload: the maps in it whose `spec` has `containers`."""
    yield from _templates(workload, FieldPath(""), "", ())


def _first_templates(workload: Object) -> list[PodTemplate]:
    """Return the first Pod templates in a workload, at most one more than MOST_TEMPLATES."""
    return list(islice(templates_of(workload), MOST_TEMPLATES + 1))


def _templates(
    value: Any, path: FieldPath, part: str, above: tuple[Object, ...]
) -> Iterator[PodTemplate]:
    """Yield the Pod templates in a value of a workload.

    `path`, `part` and `above` describe the value, like the fields of a PodTemplate.
    """
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _templates(item, path.index(position), part, above)
    elif isinstance(value, dict) and "containers" in map_at(value, "spec"):
        yield PodTemplate(path, part, value, above)
    elif isinstance(value, dict):
        part = text_at(value, "groupName") or text_at(value, "name") or part
        for key, item in value.items():
            yield from _templates(item, path.child(key), part, (*above, value))


_MAKER = "disaggregatedset.x-k8s.io/name"
"""The label that names the DisaggregatedSet of a LeaderWorkerSet and of its Pods."""


def kind_of(resource: Resource) -> OwnerKind | None:
    """Return the row of OWNER_KINDS for workloads of `resource`, or None.

    The Pods of such a workload can share a ComputeDomain. Return None for DisaggregatedSets too,
    because they do not create Pods themselves.
    """
    if resource is DISAGGREGATED_SET:
        return None
    return next((kind for kind in OWNER_KINDS if resource in kind.resources), None)


async def judge_templates(
    workload: Object, kind: OwnerKind, facts: TemplateFacts | None
) -> Verdict | None:
    """Return the verdict on the Pods of a workload.

    Return None if its templates have no problems and do not request MNNVL. Other tasks can run
    between two templates, because anybody can send large documents.
    """
    findings: Findings = []
    warnings = []
    templates = await asyncio.to_thread(_first_templates, workload)
    if len(templates) > MOST_TEMPLATES:
        return TOO_MANY
    if MNNVL_ENABLED in annotations_of(workload):
        warnings.append(
            f"{MNNVL_ENABLED} has no effect in the metadata of a {workload['kind']}, because no"
            " controller copies it to Pods: write it into the metadata of the Pod templates"
        )
    effects: dict[str, Effect] = {}
    names = Comparisons()
    warnings += misspelt_annotations(
        annotations_of(workload), labels_of(workload), FieldPath("metadata"), names
    )
    for template in templates:
        await asyncio.sleep(0)
        warnings += _mistakes(template, names)
        injection = await _injection(template, kind, facts)
        at = template.path
        findings += (replace(found, field=f"{at}.{found.field}") for found in injection.findings)
        warnings += injection.warnings
        if _lacks_subgroups(workload, injection):
            findings.append(_NO_SUBGROUPS)
        elif injection.plan is not None:
            domain = desired_resource(injection.plan, COMPUTE_DOMAIN, COMPUTE_DOMAIN.versions[0])
            effects[injection.plan.compute_domain] = Effect("create", domain)

    warnings = [*dict.fromkeys(warnings)]
    if findings:
        return judged(findings, warnings)
    told = [*warnings, *effects]
    return patched([], warnings=warnings, effects=[*effects.values()]) if told else None


_NO_SUBGROUPS = required(
    FieldPath("spec.leaderWorkerTemplate.subGroupPolicy"),
    "without it, the Pods have no subgroups, which their scope needs: set it, or choose another"
    f" {MNNVL_SCOPE}",
)


def _lacks_subgroups(workload: Object, injection: Injection) -> bool:
    """Return whether the Pods of a LeaderWorkerSet would lack the label that their scope needs."""
    if injection.plan is None or injection.plan.scope != "subgroup":
        return False
    return not map_at(workload, "spec", "leaderWorkerTemplate", "subGroupPolicy")


def _mistakes(template: PodTemplate, names: Comparisons) -> Iterator[str]:
    """Yield warnings about annotations and schedulers of a template that look misspelt."""
    pod = template.object
    at = template.path.child("metadata")
    yield from misspelt_annotations(annotations_of(pod), labels_of(pod), at, names)
    scheduler = text_at(map_at(pod, "spec"), "schedulerName")
    if names.nearest(scheduler, SCHEDULERS):
        yield unknown_scheduler(scheduler, template.path.child("spec.schedulerName"))


async def _injection(
    template: PodTemplate, kind: OwnerKind, facts: TemplateFacts | None
) -> Injection:
    """Return what the webhook would inject into a Pod of a template, with findings and warnings.

    `kind` is the row of OWNER_KINDS for the workload.
    """
    workload = template.above[0]
    of_workload = map_at(workload, "metadata")
    labels = {key: "0" if key.endswith("-index") else template.part for key in kind.keys}
    labels[kind.key] = text_at(of_workload, "name")
    if JOB_SET in kind.resources:
        labels |= labels_of_jobs(map_at(workload, "spec"), template.part)
    labels |= labels_of_maker(workload)
    own_metadata = map_at(template.object, "metadata")
    metadata = {
        "annotations": annotations_of(template.object),
        "labels": {**map_at(own_metadata, "labels"), **labels},
        "name": template.part,
    }
    namespace = text_at(of_workload, "namespace") or "default"
    obj = {**template.object, "metadata": metadata}
    pod = read_carrier_of_pod(obj, namespace)

    injection = inject(pod, None, CliqueFacts(), "template")
    plan = injection.plan
    if plan is None:
        return injection

    rival = await facts.find_rival(pod) if facts else None
    if rival is not None:
        return replace(injection, plan=None, findings=[*injection.findings, rival])

    named = plan.member.named
    spec = map_at(workload, "spec")
    size = size_of_unit(named, plan.scope, spec) if named is not None else None
    group = await facts.own_group(obj, namespace) if facts else None
    bounds = read_bounds(obj, template.above, group, size, scope=plan.scope)
    nodes = Nodes()
    nvlink = AS_CONFIGURED
    if facts is not None:
        nvlink = facts.nvlink
        nodes = facts.nodes_with((*bounds.levels, *KNOWN, GPU_COUNT, GPUS, NVLINK_DOMAIN))
    warnings = [*injection.warnings, *unit_warnings(plan, bounds, nodes, nvlink)]
    return replace(injection, warnings=warnings)


# Documents whose controllers create workloads, and workloads whose Pods would be rejected.


def maker_of(document: Object) -> Maker | None:
    """Return the row of MAKERS for a document, or None if its kind has none."""
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    identity = (group, str(document.get("kind")))
    return next((maker for maker in MAKERS if (maker.group, maker.kind) == identity), None)


def made_by(maker: Maker, document: Object) -> Iterator[tuple[FieldPath, Object]]:
    """Yield the workloads that the controller of a document would create.

    Each comes with the path of its spec in the document. Parts without a spec are skipped. The
    controller would choose other names for the workloads.
    """
    metadata = map_at(document, "metadata")
    parts: list[tuple[FieldPath, Mapping[str, Any]]] = [(FieldPath(""), document)]
    if maker.each:
        at = FieldPath("spec").child(maker.each)
        roles = enumerate(maps_at(map_at(document, "spec"), maker.each))
        parts = [(at.index(position), role) for position, role in roles]

    for path, part in parts:
        spec = map_at(part, *maker.spec) if maker.spec else {}
        if not spec:
            continue
        name = "-".join(filter(None, (text_at(metadata, "name"), text_at(part, "name"))))
        for step in maker.spec:
            path = path.child(step)
        given = {"metadata": map_at(part, *maker.metadata)}
        annotations = annotations_of(given)
        if maker.each:
            annotations = {**_kept_annotations(document), **annotations}
            spec = _placed(spec, text_at(map_at(document, "spec", "placementPolicy"), "topology"))
        made = {
            "apiVersion": maker.makes.api_version(),
            "kind": maker.makes.kind,
            "metadata": {
                "name": name,
                "namespace": text_at(metadata, "namespace"),
                "annotations": annotations,
                "labels": {
                    **labels_of(given),
                    **(_labels_of_role(metadata, part) if maker.each else {}),
                },
            },
            "spec": spec,
        }
        yield path, made


def _kept_annotations(document: Object) -> Mapping[str, Any]:
    """Return the document's annotation TOPOLOGY_REQUIRED, or {} if it lacks this annotation.

    KAI applies it to all Pods of the document.
    """
    annotations = annotations_of(document)
    return {key: annotations[key] for key in (TOPOLOGY_REQUIRED,) if key in annotations}


def _placed(spec: Mapping[str, Any], topology: str) -> Mapping[str, Any]:
    """Return the spec of a LeaderWorkerSet with affinities that keep its Pods in one domain.

    `topology` is the node label of the level, or "" for no affinity. The controller of
    DisaggregatedSets adds such an affinity to all roles of a slice:
    https://github.com/kubernetes-sigs/lws/pull/916.
    """
    if not topology:
        return spec
    group = map_at(spec, "leaderWorkerTemplate")
    templates = {
        key: _with_affinity(map_at(group, key), topology)
        for key in ("leaderTemplate", "workerTemplate")
        if key in group
    }
    return {**spec, "leaderWorkerTemplate": {**group, **templates}}


def _with_affinity(template: Mapping[str, Any], topology: str) -> Object:
    """Return a Pod template with a required pod affinity whose topologyKey is `topology`."""
    spec = map_at(template, "spec")
    affinity = map_at(spec, "affinity")
    pods = map_at(affinity, "podAffinity")
    terms = [*maps_at(pods, _REQUIRED), {"topologyKey": topology}]
    affinity = {**affinity, "podAffinity": {**pods, _REQUIRED: terms}}
    return {**template, "spec": {**spec, "affinity": affinity}}


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _labels_of_role(metadata: Mapping[str, Any], role: Mapping[str, Any]) -> dict[str, str]:
    """Return the labels of the LeaderWorkerSet that a DisaggregatedSet creates for a role.

    `metadata` is that of the DisaggregatedSet.
    """
    return {_MAKER: text_at(metadata, "name"), SLICE: "0", ROLE: text_at(role, "name")}


def labels_of_maker(workload: Object) -> dict[str, str]:
    """Return the labels that a LeaderWorkerSet has from its DisaggregatedSet.

    Its Pods get them too.
    """
    return {
        key: value for key, value in labels_of(workload).items() if key in (_MAKER, SLICE, ROLE)
    }


def note_on_created(maker: Maker, *, is_judged: bool) -> str:
    """Return the note that says how the workloads that `maker` creates are judged."""
    made = maker.makes.kind
    if is_judged:
        return (
            f"each {made} that this {maker.kind} creates is checked, with the labels and"
            f" annotations of {maker.labelled_at}"
        )
    if maker.spec:
        return (
            f"each {made} that this {maker.kind} creates is checked only if a Pod template has the"
            f' annotation {MNNVL_ENABLED}: "true"'
        )
    return f"instead, check the {made} that the controller of this {maker.kind} creates"


def joined(verdicts: Sequence[tuple[FieldPath, Verdict]]) -> Verdict | None:
    """Combine the verdicts on the workloads that a document's controller would create.

    Each verdict comes with the path of the workload's spec in the document. Return None if there
    are no verdicts. The names of the workloads are not known yet, so the result does not name their
    ComputeDomains.
    """
    if not verdicts:
        return None
    findings = [
        replace(cause, field=f"{path}{cause.field.removeprefix('spec')}")
        for path, verdict in verdicts
        for cause in verdict.causes
    ]
    warnings = [*dict.fromkeys(text for _, verdict in verdicts for text in verdict.warnings)]
    return judged(findings, warnings)


async def judge_ownerless(document: Object) -> Verdict | None:
    """Return the rejection of a document of a kind in OWNERLESS whose template requests MNNVL.

    The Pods of such a document would be rejected. Return None for all other documents.
    """
    group = str(document.get("apiVersion", "")).rpartition("/")[0]
    if (group, str(document.get("kind"))) not in OWNERLESS:
        return None
    return await asyncio.to_thread(_refuse_ownerless, document)


def _refuse_ownerless(document: Object) -> Verdict | None:
    """Return a rejection if a Pod template in `document` requests MNNVL, otherwise None."""
    kinds = ", ".join(kind.title for kind in OWNER_KINDS)
    findings = [
        forbidden(
            template.path.child("metadata.annotations").key(MNNVL_ENABLED),
            f"the Pods of a {document['kind']} would be rejected, because only Pods of these kinds"
            f" can share a ComputeDomain: {kinds}. Use such a kind, or remove the annotation",
        )
        for template in templates_of(document)
        if annotations_of(template.object).get(MNNVL_ENABLED) == "true"
    ]
    return judged(findings) if findings else None


OWNERLESS = {("apps", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")}
"""The kinds, as (group, kind), whose Pods belong to no workload of a kind in OWNER_KINDS."""
