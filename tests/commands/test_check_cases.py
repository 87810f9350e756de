"""The command `check` beside documents that are not all: named cases of workloads and nodes."""

from pathlib import Path
from typing import Any

import pytest

from app.cli import main

ENABLED = '{grove.io/mnnvl-enabled: "true"}'
GPUS = "spec: {containers: [{name: c, resources: {limits: {nvidia.com/gpu: 4}}}]}"
TEMPLATE = f"{{metadata: {{annotations: {ENABLED}}}, {GPUS}}}"
PLAIN = f"{{{GPUS}}}"
SUBGROUPS = TEMPLATE.replace("}}", ", grove.io/mnnvl-scope: subgroup}}", 1)


def nodes(*groups: tuple[int, str]) -> str:
    """Nodes with 4 GPUs each: so many, with these labels in YAML."""
    made: list[str] = []
    for number, labels in groups:
        for _ in range(number):
            name = f"n{len(made)}"
            made.append(
                f"apiVersion: v1\nkind: Node\nmetadata: {{name: {name}, labels:"
                f' {{kubernetes.io/hostname: {name}, nvidia.com/gpu.count: "4", {labels}}}}}\n'
            )
    return "---\n".join(made)


CLIQUES_OF_2 = nodes(
    (2, "nvidia.com/gpu.clique: a.0, example.com/block: b0"),
    (2, "nvidia.com/gpu.clique: a.1, example.com/block: b0"),
)


def lws(
    size: int = 2,
    *,
    replicas: int = 1,
    annotations: str = "leaderworkerset.sigs.k8s.io/exclusive-topology: nvidia.com/gpu.clique",
    leader: str = "",
    worker: str = TEMPLATE,
    version: str = "leaderworkerset.x-k8s.io/v1",
    kind: str = "LeaderWorkerSet",
) -> str:
    leading = f"leaderTemplate: {leader}, " if leader else ""
    return (
        f"apiVersion: {version}\nkind: {kind}\n"
        f"metadata: {{name: w, namespace: ml, annotations: {{{annotations}}}}}\n"
        f"spec: {{replicas: {replicas}, leaderWorkerTemplate:"
        f" {{size: {size}, {leading}workerTemplate: {worker}}}}}\n"
    )


KEPT = "alpha.jobset.sigs.k8s.io/exclusive-topology: nvidia.com/gpu.clique"
REQUIRED = "kai.scheduler/topology-required-placement"


def jobset(*jobs: tuple[str, int, int], scope: str = "") -> str:
    template = TEMPLATE
    if scope:
        template = template.replace('"true"', f'"true", grove.io/mnnvl-scope: {scope}')
    made = ", ".join(
        f"{{name: {name}, replicas: {replicas}, template: {{spec:"
        f" {{parallelism: {parallelism}, template: {template}}}}}}}"
        for name, replicas, parallelism in jobs
    )
    return (
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\n"
        f"metadata: {{name: j, annotations: {{{KEPT}}}}}\nspec: {{replicatedJobs: [{made}]}}\n"
    )


def ray(*groups: tuple[str, int, int], kind: str = "RayCluster", at: str = "") -> str:
    made = ", ".join(
        f"{{groupName: {name}, replicas: {replicas}, numOfHosts: {hosts}, template: {TEMPLATE}}}"
        for name, replicas, hosts in groups
    )
    cluster = f"{{headGroupSpec: {{template: {PLAIN}}}, workerGroupSpecs: [{made}]}}"
    spec = f"{{{at}: {cluster}}}" if at else cluster
    annotations = f"{{{REQUIRED}: nvidia.com/gpu.clique}}"
    return (
        f"apiVersion: ray.io/v1\nkind: {kind}\n"
        f"metadata: {{name: r, annotations: {annotations}}}\nspec: {spec}\n"
    )


def job(annotations: str = "", labels: str = "", of_job: str = "", pods: int = 2) -> str:
    template = TEMPLATE.replace(ENABLED, f'{{grove.io/mnnvl-enabled: "true", {annotations}}}')
    template = template.replace("metadata: {", f"metadata: {{labels: {{{labels}}}, ", 1)
    return (
        f"apiVersion: batch/v1\nkind: Job\nmetadata: {{name: j, annotations: {{{of_job}}}}}\n"
        f"spec: {{parallelism: {pods}, template: {template}}}\n"
    )


SKIP = 'kai.scheduler/skip-podgrouper: "true"'


def own_group(level: str = "", of_subgroup: str = "", of_parent: str = "") -> str:
    def constraint(value: str) -> str:
        if not value:
            return ""
        return f"topologyConstraint: {{topology: t, requiredTopologyLevel: {value}}}, "

    return (
        "apiVersion: scheduling.run.ai/v2alpha2\nkind: PodGroup\nmetadata: {name: own}\n"
        f"spec: {{{constraint(level)}queue: q, subGroups:"
        f" [{{name: above, {constraint(of_parent)}minSubGroup: 1}},"
        f" {{name: w, {constraint(of_subgroup)}parent: above, minMember: 2}}]}}\n"
    )


def domain(template: str, labels: str = "") -> str:
    return (
        "apiVersion: resource.nvidia.com/v1beta1\nkind: ComputeDomain\n"
        f"metadata: {{name: d, namespace: ml, labels: {{{labels}}}}}\n"
        f"spec: {{numNodes: 0, channel: {{resourceClaimTemplate: {{name: {template}}}}}}}\n"
    )


def claiming(template: str) -> str:
    claims = f"resourceClaims: [{{name: x, resourceClaimTemplateName: {template}}}], "
    return TEMPLATE.replace("spec: {", f"spec: {{{claims}", 1)


def pcs(constraint: str = "", *, annotations: str = "", clique: str = "", name: str = "s") -> str:
    top = f"topologyConstraint: {constraint}, " if constraint else ""
    return (
        "apiVersion: grove.io/v1alpha1\nkind: PodCliqueSet\n"
        f"metadata: {{name: {name}, annotations: {{{annotations}}}}}\n"
        f"spec: {{replicas: 1, template: {{{top}cliques: [{{name: c, spec: {{replicas: 2,"
        f" {clique} podSpec: {{containers: [{{name: c, resources:"
        " {limits: {nvidia.com/gpu: 8}}}]}}}]}}\n"
    )


def binding(name: str, *levels: str) -> str:
    made = ", ".join(f"{{domain: {level}, key: example.com/{level}}}" for level in levels)
    return (
        "apiVersion: grove.io/v1alpha1\nkind: ClusterTopologyBinding\n"
        f"metadata: {{name: {name}}}\nspec: {{levels: [{made}]}}\n"
    )


TOPOLOGY = binding("t", "block", "rack").replace("ClusterTopologyBinding", "ClusterTopology")

_OF_ROLE = TEMPLATE.replace('"true"', '"true", grove.io/mnnvl-scope: SCOPE')
DISAGGREGATED = (
    "apiVersion: disaggregatedset.x-k8s.io/v1\nkind: DisaggregatedSet\nmetadata: {name: d}\n"
    "spec: {roles: ["
    + ", ".join(
        f"{{name: {role}, spec: {{leaderWorkerTemplate: {{size: 2, workerTemplate: {_OF_ROLE}}}}}}}"
        for role in ("prefill", "decode")
    )
    + "]}\n"
)

CRON_JOB = (
    "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: c}\nspec: {jobTemplate: {metadata:"
    f" {{annotations: {{ANNOTATIONS}}}}, spec: {{parallelism: 2, template: {TEMPLATE}}}}}}}\n"
)

CASES: list[Any] = [
    # what is not among the documents
    (
        "a binding that is not there",
        [pcs("{topologyName: t, pack: {required: rack}}")],
        2,
        ['add ClusterTopologyBinding "t" to the documents', "1 without a verdict"],
        ["REFUSED", "none in this cluster"],
    ),
    (
        "a binding beside another one",
        [binding("other", "block", "rack"), pcs("{topologyName: t, pack: {required: rack}}")],
        2,
        ['add ClusterTopologyBinding "t" to the documents'],
        ["REFUSED"],
    ),
    (
        "a binding that is there",
        [binding("t", "block", "rack"), pcs("{topologyName: t, pack: {required: rack}}")],
        0,
        ["ALLOWED  PodCliqueSet s"],
        [],
    ),
    (
        "a level that the binding lacks",
        [binding("t", "block", "rack"), pcs("{topologyName: t, pack: {required: host}}")],
        1,
        ['not a level of ClusterTopologyBinding "t"'],
        [],
    ),
    (
        "a mistake that holds without the binding",
        [pcs("{pack: {required: rack}}")],
        1,
        ["set the name of a ClusterTopologyBinding"],
        [],
    ),
    (
        "a managed topology that is not there",
        [pcs("{packDomain: rack}")],
        2,
        ['add ClusterTopology "grove-topology" to the documents', "give --config"],
        ["the operator creates it"],
    ),
    (
        "a Pod whose Job is not there",
        [
            f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {ENABLED},"
            " labels: {batch.kubernetes.io/job-name: j}, ownerReferences: [{apiVersion: batch/v1,"
            f" kind: Job, name: j, uid: u, controller: true}}]}}\n{GPUS}\n"
        ],
        2,
        ['add Job "j" to the documents'],
        ["REFUSED"],
    ),
    (
        "a Pod that no Job controls",
        [
            f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p, annotations: {ENABLED},"
            f" labels: {{batch.kubernetes.io/job-name: j}}}}\n{GPUS}\n"
        ],
        1,
        ["no Job with this name controls the Pod"],
        [],
    ),
    # one misspelt field decides nothing
    (
        "a misspelt packDomain",
        [pcs("{packdomain: rack}")],
        0,
        ["topologyConstraint.packdomain: unknown field", "Did you mean packDomain?"],
        ["ClusterTopologyBinding"],
    ),
    (
        "a misspelt packDomain beside a set with a right one",
        [
            TOPOLOGY.replace("name: t", "name: grove-topology"),
            pcs("{packDomain: rack}"),
            pcs("{packdomain: rack}", name="other"),
        ],
        0,
        ["ALLOWED  PodCliqueSet s", "Did you mean packDomain?"],
        ["ClusterTopologyBinding"],
    ),
    (
        "a misspelt level of a pack",
        [binding("t", "block"), pcs("{topologyName: t, pack: {requierd: block}}")],
        0,
        ["topologyConstraint.pack.requierd: unknown field", "Did you mean required?"],
        [],
    ),
    (
        "a misspelt topologyConstraint",
        [pcs().replace("template: {", "template: {topologyConstrain: {packDomain: rack}, ")],
        0,
        ["spec.template.topologyConstrain: unknown field", "Did you mean topologyConstraint?"],
        [],
    ),
    (
        "a field that is like no other",
        [pcs("{zzz: 1}")],
        0,
        ["topologyConstraint.zzz: unknown field"],
        ["Did you mean"],
    ),
    # which Grove it is for is not known
    (
        "Grove's group without a known Grove",
        [pcs(annotations="grove.io/mnnvl-group: pool")],
        0,
        ["ALLOWED"],
        ["is ignored"],
    ),
    (
        "Grove's group that is no name",
        [pcs(annotations='grove.io/mnnvl-group: "a b"')],
        1,
        ['must be "none" or a name'],
        [],
    ),
    (
        "Grove's group beside a topology of the designs",
        [TOPOLOGY, pcs(annotations="grove.io/mnnvl-group: pool")],
        0,
        ["is ignored by this cluster's release of Grove"],
        [],
    ),
    # queues
    (
        "a queue that is not among the documents",
        [
            "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: other}\n"
            "spec: {resources: {gpu: {limit: 8}, cpu: {limit: -1}, memory: {limit: -1}}}\n",
            pcs().replace("annotations: {}", "labels: {kai.scheduler/queue: team}"),
        ],
        0,
        [
            'queue "team" is not among the documents. Queues in the documents: other',
            "no webhook judges",
        ],
        ["does not exist"],
    ),
    (
        "a queue without limits",
        [
            "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: q}\n"
            "spec: {resources: {gpu: {quota: 8, limit: 8}}}\n"
        ],
        0,
        ["the limit of cpu and memory is not set, which KAI reads as 0"],
        ["limit of gpu"],
    ),
    (
        "a queue with limits in CPUs and gigabytes",
        [
            "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: q}\n"
            "spec: {resources: {gpu: {limit: 8}, cpu: {limit: 64}, memory: {limit: 512}}}\n"
        ],
        0,
        [
            "spec.resources.cpu.limit: KAI reads 64 as 64 millicores. For 64 CPUs, set 64000",
            "spec.resources.memory.limit: KAI reads 512 as 512 megabytes. For 512 GB, set 512000",
        ],
        ["gpu"],
    ),
    # what Grove would refuse
    (
        "a minimum above the replicas",
        [pcs(clique="minAvailable: 3,")],
        1,
        ["cliques[0].spec.minAvailable: Invalid value: 3: must not be greater than replicas (2)"],
        [],
    ),
    ("a minimum of all replicas", [pcs(clique="minAvailable: 2,")], 0, ["ALLOWED"], ["minAvail"]),
    (
        "a misspelt scheduler",
        [pcs().replace("podSpec: {", "podSpec: {schedulerName: kai-schedular, ")],
        0,
        ['unknown scheduler "kai-schedular"', "Did you mean kai-scheduler?"],
        [],
    ),
    (
        "a scheduler of Kubernetes",
        [pcs().replace("podSpec: {", "podSpec: {schedulerName: default-scheduler, ")],
        0,
        ["ALLOWED"],
        ["unknown scheduler"],
    ),
    (
        "a misspelt annotation of a set",
        [pcs(annotations='grove.io/mnnvl-enabeld: "true"')],
        0,
        ["annotations[grove.io/mnnvl-enabeld]", "Did you mean grove.io/mnnvl-enabled?"],
        [],
    ),
    (
        "a misspelt annotation of a Pod template",
        [lws().replace("mnnvl-enabled", "mnnvl-enabeld")],
        0,
        ["workerTemplate.metadata.annotations[grove.io/mnnvl-enabeld]"],
        [],
    ),
    (
        "an annotation as a label",
        [pcs().replace("annotations: {}", 'labels: {grove.io/mnnvl-enabled: "true"}')],
        0,
        ["metadata.labels[grove.io/mnnvl-enabled]: has no effect as a label"],
        [],
    ),
    # sizes of units
    (
        "a group of the size of a domain",
        [CLIQUES_OF_2, lws(2)],
        0,
        ["lws-w-0-cd"],
        ["warning"],
    ),
    (
        "a group larger than a domain",
        [CLIQUES_OF_2, lws(3)],
        0,
        ['MNNVL of unit "lws-w-0": 3 pods need 3 nodes', "in this cluster has at most 2"],
        [],
    ),
    (
        "a leader that needs no channel",
        [CLIQUES_OF_2, lws(3, leader=PLAIN)],
        0,
        ["lws-w-0-cd"],
        ["need 3 nodes", "need 2 nodes"],
    ),
    (
        "a JobSet of two jobs",
        [CLIQUES_OF_2, jobset(("a", 1, 2), ("b", 2, 1))],
        0,
        ["4 pods need 4 nodes", "puts each of its Jobs into a separate domain"],
        ["nothing keeps its pods"],
    ),
    (
        "a JobSet with a domain for each job",
        [CLIQUES_OF_2, jobset(("a", 3, 2), scope="job")],
        0,
        ["jobsetjob-j-a-0-cd"],
        ["need", "separate domain"],
    ),
    (
        "a JobSet with a domain for the jobs of a template that has one",
        [CLIQUES_OF_2, jobset(("a", 1, 2), ("b", 2, 1), scope="replicatedJob")],
        0,
        ['unit "jobsetrj-j-b": the annotation'],
        ['unit "jobsetrj-j-a": the annotation'],
    ),
    (
        "a worker group of several hosts",
        [CLIQUES_OF_2, ray(("g", 2, 2))],
        0,
        ["4 pods need 4 nodes"],
        [],
    ),
    (
        "a Job that completes before it is as large",
        [
            CLIQUES_OF_2,
            job(of_job=f"{REQUIRED}: nvidia.com/gpu.clique", pods=9).replace(
                "parallelism: 9", "completions: 2, parallelism: 9"
            ),
        ],
        0,
        ["job-j-cd"],
        ["need"],
    ),
    (
        "a level with several NVLink domains",
        [CLIQUES_OF_2, lws(2, annotations=f"{REQUIRED}: example.com/block")],
        0,
        ["warning: MNNVL", "domain of example.com/block, which can have several NVLink domains"],
        [],
    ),
    (
        "a level that no node has",
        [CLIQUES_OF_2, lws(2, annotations=f"{REQUIRED}: example.com/blok")],
        0,
        ["example.com/blok, which no node has"],
        [],
    ),
    (
        "a level whose domains are too small",
        [
            nodes((4, "nvidia.com/gpu.clique: a.0, example.com/rack: r0")),
            lws(5, annotations=f"{REQUIRED}: example.com/rack"),
        ],
        0,
        ["must be in one domain of example.com/rack, and none has GPUs for more than 4"],
        [],
    ),
    (
        "several groups in one NVLink domain",
        [
            nodes((8, "nvidia.com/gpu.clique: a.0")),
            lws(2, replicas=3, annotations=f"{REQUIRED}: nvidia.com/gpu.clique"),
        ],
        0,
        ["3 units, such as", "issue 892"],
        [],
    ),
    (
        "subgroups that the LeaderWorkerSet does not have",
        [lws(4, worker=SUBGROUPS)],
        1,
        ["REFUSED", "spec.leaderWorkerTemplate.subGroupPolicy: Required value: without it"],
        ["would create"],
    ),
    (
        "subgroups that the LeaderWorkerSet has",
        [lws(4, worker=f"{SUBGROUPS}, subGroupPolicy: {{subGroupSize: 2}}")],
        0,
        ["would create ComputeDomain ml/lwssub-w-0-0-cd"],
        ["REFUSED"],
    ),
    (
        "a template without GPUs and without a name",
        [lws(worker=TEMPLATE.replace("nvidia.com/gpu", "cpu"))],
        0,
        ['warning: the Pod has the annotation grove.io/mnnvl-enabled: "true", but no container'],
        ["would create"],
    ),
    # PodGroups that are made by hand
    (
        "a subgroup that is kept together",
        [
            own_group(of_subgroup="nvidia.com/gpu.clique"),
            job("pod-group-name: own", "kai.scheduler/subgroup-name: w", SKIP),
        ],
        0,
        ["job-j-cd"],
        ["warning"],
    ),
    (
        "a subgroup above that is kept together",
        [
            own_group(of_parent="nvidia.com/gpu.clique"),
            job("pod-group-name: own", "kai.scheduler/subgroup-name: w", SKIP),
        ],
        0,
        [],
        ["warning"],
    ),
    (
        "a PodGroup that is kept together",
        [own_group("nvidia.com/gpu.clique"), job("pod-group-name: own", "", SKIP)],
        0,
        [],
        ["warning"],
    ),
    (
        "another subgroup that is kept together",
        [
            own_group(of_subgroup="nvidia.com/gpu.clique"),
            job("pod-group-name: own", "kai.scheduler/subgroup-name: above", SKIP),
        ],
        0,
        ['Set topologyConstraint.requiredTopologyLevel of the PodGroup "own"'],
        ["Annotate the Job"],
    ),
    (
        "a PodGroup that is not there",
        [job("pod-group-name: own", "", SKIP)],
        0,
        ["job-j-cd"],
        ["nothing keeps"],
    ),
    (
        "no PodGroup at all",
        [job("", "", SKIP)],
        0,
        ["KAI never schedules them"],
        [],
    ),
    (
        "an annotation that KAI's pod-grouper skips",
        [
            own_group(),
            job("pod-group-name: own", "", f"{SKIP}, {REQUIRED}: nvidia.com/gpu.clique"),
        ],
        0,
        ["nothing keeps its pods", 'of the PodGroup "own"'],
        [],
    ),
    # channels of ComputeDomains that are made by hand
    (
        "a claim of a ComputeDomain",
        [domain("t"), lws(worker=claiming("t"))],
        1,
        [
            "REFUSED  LeaderWorkerSet ml/w",
            "this claim also requests the only NVLink channel of the node",
        ],
        [],
    ),
    (
        "a claim of something else",
        [domain("t"), lws(worker=claiming("other"))],
        0,
        ["lws-w-0-cd"],
        [],
    ),
    # documents that nothing judges
    (
        "a workload without the annotation",
        [lws(worker=PLAIN)],
        0,
        ["workloads are judged only if a Pod template has the annotation grove.io/mnnvl-enabled"],
        ["check apiVersion"],
    ),
    (
        "a RayJob",
        [CLIQUES_OF_2, ray(("g", 3, 1), kind="RayJob", at="rayClusterSpec")],
        0,
        ["each RayCluster that this RayJob creates is checked", "3 pods need 3 nodes"],
        ["would create"],
    ),
    (
        "a RayJob whose annotations its RayCluster gets",
        [CLIQUES_OF_2, ray(("g", 2, 1), kind="RayJob", at="rayClusterSpec")],
        0,
        [
            "each RayCluster that this RayJob creates is checked, with the labels and annotations of metadata"
        ],
        ["nothing keeps its pods"],
    ),
    (
        "a CronJob whose template annotates its Jobs",
        [CLIQUES_OF_2, CRON_JOB.replace("ANNOTATIONS", f"{REQUIRED}: nvidia.com/gpu.clique")],
        0,
        ["is checked, with the labels and annotations of spec.jobTemplate.metadata"],
        ["nothing keeps its pods"],
    ),
    (
        "a CronJob whose Jobs have no annotations",
        [CLIQUES_OF_2, CRON_JOB.replace("ANNOTATIONS", "x: y")],
        0,
        ["nothing keeps its pods"],
        [],
    ),
    (
        "a RayService without the annotation",
        [ray(("g", 3, 1), kind="RayService", at="rayClusterConfig").replace('"true"', '"false"')],
        0,
        ["each RayCluster that this RayService creates is checked only if"],
        ["check apiVersion"],
    ),
    (
        "a RayJob with a mistake",
        [
            ray(("g", 1, 1), kind="RayJob", at="rayClusterSpec").replace(
                '"true"', '"true", grove.io/mnnvl-scope: group'
            )
        ],
        1,
        [
            "spec.rayClusterSpec.workerGroupSpecs[0].template.metadata.annotations"
            "[grove.io/mnnvl-scope]: Unsupported value"
        ],
        [],
    ),
    (
        "a TrainJob",
        [
            "apiVersion: trainer.kubeflow.org/v1alpha1\nkind: TrainJob\nmetadata: {name: t}\n"
            "spec: {runtimeRef: {name: r}}\n"
        ],
        0,
        ["instead, check the JobSet that the controller of this TrainJob creates"],
        ["check apiVersion"],
    ),
    (
        "a DisaggregatedSet",
        [
            CLIQUES_OF_2,
            "apiVersion: disaggregatedset.x-k8s.io/v1\nkind: DisaggregatedSet\n"
            "metadata: {name: d}\nspec: {roles: [{name: prefill, spec: {replicas: 1,"
            f" leaderWorkerTemplate: {{size: 3, workerTemplate: {TEMPLATE}}}}}}},"
            f" {{name: decode, spec: {{leaderWorkerTemplate: {{size: 1, workerTemplate: {PLAIN}}}"
            "}}]}\n",
        ],
        0,
        [
            "each LeaderWorkerSet that this DisaggregatedSet creates is checked",
            "3 pods need 3 nodes",
        ],
        [],
    ),
    (
        "a deployment of Dynamo",
        ["apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nmetadata: {name: d}\n"],
        0,
        [
            "instead, check the PodCliqueSet that the controller of this DynamoGraphDeployment creates"
        ],
        ["check apiVersion"],
    ),
    (
        "a kind that no webhook is about",
        ["apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"],
        0,
        ["no webhook judges v1 ConfigMap", "nothing was judged"],
        ["check apiVersion"],
    ),
    (
        "many nodes",
        [nodes((4, "x: y")), lws(worker=PLAIN), nodes((3, "x: y"))],
        0,
        [
            "-        4 of v1 Node: no webhook judges these",
            "-        Node n2: no webhook judges v1 Node",
        ],
        ["Node n3"],
    ),
    (
        "a kind of a stranger",
        ["apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: c}\n"],
        0,
        ["no webhook judges example.com/v1 Thing", "nothing was judged"],
        ["check apiVersion"],
    ),
    (
        "a kind of Kueue that has the name of another one",
        ["apiVersion: kueue.x-k8s.io/v1beta1\nkind: Workload\nmetadata: {name: w}\n"],
        0,
        ["no webhook judges kueue.x-k8s.io/v1beta1 Workload"],
        ["is a kind of", "check apiVersion"],
    ),
    ("a map as the kind", ["apiVersion: v1\nkind: {a: 1}\n"], 0, ["check apiVersion"], []),
    ("a list as the version", ["apiVersion: [1]\nkind: Pod\n"], 0, [], ["Traceback"]),
    ("no kind at all", ["metadata: {name: c}\n"], 0, ["check apiVersion"], []),
    (
        "a clique with the channel of a ComputeDomain, and the annotation",
        [
            domain("t").replace("namespace: ml", "namespace: default"),
            pcs(annotations='grove.io/mnnvl-enabled: "true"').replace(
                "podSpec: {",
                "podSpec: {resourceClaims: [{name: x, resourceClaimTemplateName: t}], ",
            ),
        ],
        1,
        [
            "REFUSED  PodCliqueSet s",
            "cliques[0].spec.podSpec.resourceClaims[0]: Forbidden: this claim also requests the only NVLink channel",
        ],
        [],
    ),
    (
        "a clique with the channel of a ComputeDomain only",
        [
            domain("t").replace("namespace: ml", "namespace: default"),
            pcs().replace(
                "podSpec: {",
                "podSpec: {resourceClaims: [{name: x, resourceClaimTemplateName: t}], ",
            ),
        ],
        0,
        ["ALLOWED  PodCliqueSet s"],
        [],
    ),
    (
        "a DisaggregatedSet with one NVLink domain for all roles",
        [DISAGGREGATED.replace("SCOPE", "slice")],
        0,
        [
            "each LeaderWorkerSet that this DisaggregatedSet creates is checked",
            'MNNVL of unit "disagg-d-0": nothing keeps its pods',
            "Set spec.placementPolicy: {type: ExclusiveSlice, topology: nvidia.com/gpu.clique}, or annotate the DisaggregatedSet with kai.scheduler/topology-required-placement",
        ],
        ["Unsupported"],
    ),
    (
        "a DisaggregatedSet with one NVLink domain for each role",
        [DISAGGREGATED.replace("SCOPE", "role")],
        0,
        ['MNNVL of unit "disaggrole-d-0-prefill"', 'MNNVL of unit "disaggrole-d-0-decode"'],
        ["Unsupported"],
    ),
    (
        "a DisaggregatedSet with a scope of another kind",
        [DISAGGREGATED.replace("SCOPE", "set")],
        1,
        [
            "spec.roles[0].spec.leaderWorkerTemplate.workerTemplate",
            'supported values: "group", "subgroup", "slice", "role"',
        ],
        [],
    ),
    (
        "a DisaggregatedSet whose controller keeps each slice within one NVLink domain",
        [
            DISAGGREGATED.replace("SCOPE", "slice").replace(
                "spec: {",
                "spec: {placementPolicy: {type: ExclusiveSlice, topology: nvidia.com/gpu.clique}, ",
                1,
            )
        ],
        0,
        ["ALLOWED  DisaggregatedSet d"],
        ["nothing keeps its pods"],
    ),
    (
        "a DisaggregatedSet that KAI keeps within one NVLink domain",
        [
            DISAGGREGATED.replace("SCOPE", "slice").replace(
                "{name: d}",
                "{name: d, annotations: {kai.scheduler/topology-required-placement: nvidia.com/gpu.clique}}",
                1,
            )
        ],
        0,
        ["ALLOWED  DisaggregatedSet d"],
        ["nothing keeps its pods"],
    ),
    (
        "a Deployment with the annotation",
        [
            "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\n"
            f"spec: {{template: {TEMPLATE}}}\n"
        ],
        1,
        ["the Pods of a Deployment would be rejected"],
        [],
    ),
    (
        "a misspelt kind",
        [lws(kind="LeaderWorkerset")],
        0,
        ["did you mean LeaderWorkerSet?", "check apiVersion and kind"],
        [],
    ),
    (
        "a kind of another group",
        [lws(version="apps/v1")],
        0,
        ["LeaderWorkerSet is a kind of leaderworkerset.x-k8s.io"],
        [],
    ),
]


@pytest.mark.parametrize(
    ("documents", "code", "said", "unsaid"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
def test_what_check_says(
    documents: list[str],
    code: int,
    said: list[str],
    unsaid: list[str],
    tmp_path: Path,
    capsys: Any,
) -> None:
    file = tmp_path / "in.yaml"
    file.write_text("---\n".join(documents))
    found = main(["check", str(file)])
    printed = capsys.readouterr().out
    assert [text for text in said if text not in printed] == [], printed
    assert [text for text in unsaid if text in printed] == [], printed
    assert found == code, printed


def test_spare_nodes_come_from_the_configuration(tmp_path: Path, capsys: Any) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: config.grove.io/v1alpha1\nkind: OperatorConfiguration\n"
        "clusterTopology: {enabled: false}\nmnnvl: {spareNodes: 1}\n"
    )
    file = tmp_path / "in.yaml"
    file.write_text("---\n".join([CLIQUES_OF_2, lws(2)]))
    assert main(["check", str(file), "--config", str(config)]) == 0
    assert "mnnvl.spareNodes: 1 leaves 1 node for such pods" in capsys.readouterr().out
    assert main(["check", str(file)]) == 0
    assert "spareNodes" not in capsys.readouterr().out
