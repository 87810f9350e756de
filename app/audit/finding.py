"""Define the findings of an audit, their remedies and their counts."""

import re
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import asdict

from app.base.safe_text import visible
from app.base.value import Value
from app.facts.identity import Key
from app.facts.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    QUEUE,
)
from app.objects.resource import POD

Outcome = Literal["refused", "warning", "undecided"]
ONLY_WARNINGS = 3
"""Exit code: there are findings, but no object would be rejected."""


class Finding(Value):
    """An object that would be rejected, can't be judged, or has another problem.

    The fields have the same names in JSON.
    """

    kind: str
    namespace: str
    name: str
    code: int
    """The HTTP code of the rejection or failure, or 0 if no webhook rejects the object."""
    problems: tuple[str, ...]
    """The messages of the rejection, or the warnings."""
    remedy: str
    """The remedies of all problems, as one text."""

    @property
    def outcome(self) -> Outcome:
        """The result: `refused`, `undecided` (no verdict) or `warning` (no webhook rejects it)."""
        if self.code >= 500:
            return "undecided"
        return "refused" if self.code else "warning"

    @property
    def place(self) -> str:
        """The name of the object, with its namespace if it has one."""
        return "/".join(filter(None, (self.namespace, self.name)))

    def text(self) -> str:
        """Return the finding as lines that are safe to print on a terminal."""
        lines = [
            f"{self.outcome:<9} {self.kind} {self.place}",
            *(f"    {problem}" for problem in self.problems),
        ]
        return "\n".join(map(visible, [*lines, f"    remedy: {self.remedy}"]))

    def json(self) -> dict[str, Any]:
        """Return the finding as JSON-serializable data."""
        return {**asdict(self), "outcome": self.outcome, "problems": list(self.problems)}


def warning(kind: str, key: Key, problem: str, remedy: str) -> Finding:
    """Return a finding with the code 0, about a stored object that no webhook rejects."""
    return Finding(kind, *key, 0, (problem,), remedy)


class AuditCounts(Struct, rename="camel"):
    """Numbers of objects of one kind. In JSON, the fields have the same names in camelCase."""

    looked_at: int
    """The number of objects that were checked."""
    found: int
    """The number of findings, without findings that are `undecided`.

    An object may have several findings, such as a ResourceClaim.
    """
    refused: int
    """The number of objects that would be rejected."""
    undecided: int
    """The number of objects without a verdict."""


class Tally(Struct):
    """The results of an audit so far."""

    counts: dict[str, AuditCounts] = {}
    """The numbers of objects, by kind."""
    unread: dict[str, str] = {}
    """The resources that could not be judged completely, each with the reason."""
    absent: list[str] = []
    """The resources that are not installed."""
    notes: list[str] = []
    """Sentences about the whole audit, for the summary."""

    @property
    def looked_at(self) -> int:
        """The number of all objects that were checked."""
        return sum(count.looked_at for count in self.counts.values())

    def count(self, kind: str) -> AuditCounts:
        """Return the counts of a kind. If it has none yet, add counts of 0."""
        return self.counts.setdefault(kind, AuditCounts(0, 0, 0, 0))

    def add(self, finding: Finding) -> None:
        """Add a finding to the counts of its kind."""
        count = self.count(finding.kind)
        if finding.outcome == "undecided":
            count.undecided += 1
        else:
            count.found += 1
            count.refused += finding.outcome == "refused"

    @property
    def exit_code(self) -> int:
        """The exit code of the command.

        It is 2 if not all objects could be judged, 1 if an object would be rejected, 3 if there are
        only warnings, and 0 without findings.
        """
        counts = self.counts.values()
        if self.unread or any(count.undecided for count in counts):
            return 2
        if any(count.refused for count in counts):
            return 1
        return ONLY_WARNINGS if any(count.found for count in counts) else 0

    def summary(self) -> str:
        """Return the results as lines that are safe to print on a terminal."""
        return "\n".join(map(visible, self._lines()))

    def _lines(self) -> Iterator[str]:
        for kind, count in self.counts.items():
            undecided = f", {count.undecided:,} without a verdict" if count.undecided else ""
            warnings = count.found - count.refused
            yield (
                f"{kind}: {count.looked_at:,} checked, {count.refused:,} refused,"
                f" {warnings:,} {'warning' if warnings == 1 else 'warnings'}{undecided}"
            )

        yield from self.notes
        yield from (f"not installed in this cluster: {name}" for name in self.absent)
        yield from (
            f"could not be checked: {name}: {reason}" for name, reason in self.unread.items()
        )

    def json(self) -> dict[str, Any]:
        """Return the results as JSON-serializable data."""
        return {
            "counts": to_builtins(self.counts),
            "notInstalled": self.absent,
            "unread": self.unread,
            "notes": self.notes,
        }


OLD_API = "belongs to an old topology API of Grove that no component reads any more"
"""The problem of a ClusterTopology if Grove uses another topology API."""

UNDECIDED = "Correct the problem that the message names, and run the audit again."
"""The remedy for an object without a verdict."""

NEVER_ALLOCATED = (
    "Create the DeviceClass. Or, if NVIDIA's DRA driver is installed, set mnnvl.claimMode: auto and"
    " delete the PodClique of the claim: Grove creates it again, with a claim that the driver can"
    " allocate."
)

_NAME_LEVEL = (
    "Name an existing level in the constraint. Until then, the object cannot be created again."
)
_NAME_DOMAIN = "Use one of the allowed domains. Until then, the object cannot be created again."
_RENAME = (
    "Give the SubGroups lowercase, unique names. Until then, every change to the PodGroup is"
    " rejected."
)
_PARENT = (
    "Name an existing SubGroup as the parent. Until then, every change to the PodGroup is rejected."
)

_DELETE_CRD = (
    "Delete the CRD: kubectl delete crd clustertopologies.grove.io. All ClusterTopologies and their"
    " KAI Topologies are deleted with the CRD, and a ClusterTopologyBinding with the same name can"
    " then be created."
)
"""The remedy of OLD_API."""

BY_PROBLEM = (
    (
        "topology support is not enabled",
        "Set clusterTopology.enabled: true in the configuration of the server, or remove the"
        " constraint. Until then, the PodCliqueSet cannot be created again.",
    ),
    ("topology level not found", _NAME_LEVEL),
    ("not a level of", _NAME_LEVEL),
    ("must not be broader than packDomain", _NAME_DOMAIN),
    ("; allowed: ", _NAME_DOMAIN),
    (
        "must not be broader than the required domain",
        "Delete the PodCliqueSet, and create it again without the preferred domain or with a"
        " narrower one: Grove does not allow you to change it.",
    ),
    (
        "KAI never places",
        "Remove the preferred level, or use a narrower one. Until then, the pods stay pending.",
    ),
    (
        "set the name of a ClusterTopologyBinding",
        "Add topologyName to the constraint. Until then, every update of the PodCliqueSet is"
        " rejected.",
    ),
    (
        "ClusterTopologyBinding not found",
        "Set topologyName to the name of an existing ClusterTopologyBinding, or create one with the"
        " given name.",
    ),
    ("all topologyName values", "Give all constraints the same topologyName."),
    (
        "packDomain is allowed only in",
        "Move packDomain to pack.required. Until then, the PodCliqueSet cannot be created again.",
    ),
    (
        "packDomain is deprecated",
        "Move packDomain to pack.required when you next create the PodCliqueSet.",
    ),
    ("exclude each other", "Keep one of the two annotations."),
    ("invalid subgroup name", _RENAME),
    ("duplicate subgroup name", _RENAME),
    ("invalid parent name", _PARENT),
    ("was not found", _PARENT),
    (
        "cycle detected",
        "Break the cycle of parents. Until then, every change to the PodGroup is rejected.",
    ),
    (
        "no node has the label",
        "Correct the key of the level, or label the nodes: kubectl label node NODE KEY=VALUE",
    ),
    (
        "KAI ignores the other nodes",
        "Label the nodes that lack the label of the level. List them: grove-admission topology",
    ),
    ("are not a tree", "Give each domain its own label value."),
    ("is listed above", "List the broadest level first."),
    (
        "must fit into one",
        "Request fewer pods or GPUs per replica, or create the PodCliqueSet again with a broader"
        " domain.",
    ),
    ("unknown field", "Correct the name of the field, or remove it."),
    ("has no effect", "Remove the setting that has no effect, or correct it as the message says."),
    (
        "but was not created for this",
        "If nothing else needs the existing object, delete it as the message says. Until then, the"
        " object cannot be created again.",
    ),
    (
        "is not an API of this cluster",
        "Install NVIDIA's DRA driver, or remove the MNNVL annotations at their source, such as the"
        " PodCliqueSet. Until then, the object cannot be created again.",
    ),
)
"""The remedies of problems: (a part of the message, the remedy). The first match applies."""

_AS_TOLD = "Create the PodCliqueSet again as the message says, if its pods must stay together."

_IN_ONE_DOMAIN = (
    "Create the workload again with a required level that is the NVLink domain or narrower."
)

_LARGER_PODS = "Use fewer, larger pods, one per node."

BY_WARNING = (
    (
        "Create the PodCliqueSet with pack.preferred",
        "Delete the PodCliqueSet, and create it again with a preferred domain: Grove does not allow"
        " you to add one later.",
    ),
    (
        "which the enclosing group requires",
        "Require the level of the enclosing group or a narrower one. Until then, the pods stay"
        " pending.",
    ),
    (
        "not a level of",
        "Name an existing level in the constraint. Until then, the pods stay pending.",
    ),
    (
        "GPUs under one topology constraint",
        "Create the PodCliqueSet again with a constraint for each scaling group or clique, or with"
        " the same number of GPUs in all pods.",
    ),
    ("no required topology constraint keeps", _IN_ONE_DOMAIN),
    ("nothing keeps its pods", _IN_ONE_DOMAIN),
    ("must run on one node", _LARGER_PODS),
    ("of a node's", _LARGER_PODS),
    ("requests one GPU", _LARGER_PODS),
    ("pods need", "Use fewer pods, or a narrower scope."),
    (
        "that must be scheduled together need",
        "Create the PodCliqueSet again with fewer pods that must be scheduled together.",
    ),
    (
        "KAI schedules none of these pods",
        "Create the queue, or name an existing one.",
    ),
    (
        "is ignored by KAI, because no topology is named for it",
        "Name a KAI Topology in the topologyConstraint that the message names, or in the workload"
        " from which a controller copies the constraint.",
    ),
    ("unknown annotation", "Correct the name of the annotation."),
    (
        "unknown scheduler",
        "Create the PodCliqueSet again with another schedulerName, or start that scheduler.",
    ),
    (
        "has room for all pods together",
        "Create the PodCliqueSet again with a broader domain or fewer pods, if its pods must stay"
        " together.",
    ),
    ("minAvailable form their own PodGangs", _AS_TOLD),
    ("applies per clique", _AS_TOLD),
    ("CUDA may fail with", "Create the PodCliqueSet again as the message says."),
    (
        "cannot check capacity",
        "Check that the GPU driver and the device plugin run on the nodes, unless an autoscaler"
        " adds nodes later.",
    ),
    ("API is not installed", "Install NVIDIA's DRA driver, or remove the MNNVL annotations."),
    ("characters long", "Create the PodCliqueSet again with shorter names."),
    (
        "use several schedulers",
        "Create the PodCliqueSet again with the same schedulerName in all cliques.",
    ),
    ("which counts as", "Correct the value of the annotation, or remove the annotation."),
    ("is ignored by this cluster's release", "Use the annotations that the message names."),
    ("is ignored: no container", "Request GPUs in the clique, or remove the annotation."),
    # Grove does not let stored constraints be changed
    (
        "neither pack.required nor",
        "Set pack.required or pack.preferred when you next create the PodCliqueSet.",
    ),
    (
        "is broader than the preferred domain",
        "Require the preferred domain or a narrower one when you next create the PodCliqueSet.",
    ),
)
"""The remedies of warnings about allowed objects: (a part of the message, the remedy).

The first match applies. For warnings, this table is searched before BY_PROBLEM.
"""

_BY_KIND = {
    CLUSTER_TOPOLOGY_BINDING.kind: (
        "Correct the levels of the ClusterTopologyBinding. Until then, every change to its spec is"
        " rejected."
    ),
    CLUSTER_TOPOLOGY.kind: (
        "Correct the levels of the ClusterTopology. Until then, every change to it is rejected."
    ),
    POD_CLIQUE_SET.kind: "Correct the PodCliqueSet. Until then, it cannot be created again.",
    POD_GROUP.kind: (
        "Give the SubGroups lowercase, unique names and existing parents. Until then, every change"
        " to the PodGroup is rejected."
    ),
    POD_CLIQUE.kind: (
        "Correct the template in the PodCliqueSet. Until then, the PodClique cannot be created"
        " again."
    ),
    POD_GANG.kind: (
        "Correct the program that creates the PodGang. Until then, every change to it is rejected."
    ),
    POD.kind: "Correct the pod template of the workload. Until then, the Pod cannot be replaced.",
}

_BY_KIND_IF_ALLOWED = {
    CLUSTER_TOPOLOGY_BINDING.kind: (
        "Correct the levels of the ClusterTopologyBinding, or the labels of the nodes."
    ),
    CLUSTER_TOPOLOGY.kind: "Correct the levels of the ClusterTopology, or the labels of the nodes.",
    POD_CLIQUE_SET.kind: (
        "Correct the constraint or annotation of the PodCliqueSet that the message names."
    ),
    POD_GROUP.kind: "Correct the levels in the PodCliqueSet or workload of the PodGroup.",
    QUEUE.kind: "Set the limit in the Queue: -1 means unlimited, 0 means none.",
    POD_GANG.kind: (
        "Set the constraint in the PodCliqueSet. The next change to the template of the"
        " PodCliqueSet resets the PodGang."
    ),
}


def remedy_for(kind: str, code: int, problems: Iterable[str]) -> str:
    """Return the remedies for the `problems` of an object, as one text.

    `code` is the HTTP code of the rejection or failure, or 0 if the object is allowed and the
    problems are warnings. Each remedy is included once, in the order of the problems. From code 500
    on, the only remedy is UNDECIDED.
    """
    if code >= 500:
        return UNDECIDED

    of_kind = _BY_KIND_IF_ALLOWED[kind] if code == 0 else _BY_KIND[kind]
    table = (*BY_WARNING, *BY_PROBLEM) if code == 0 else BY_PROBLEM
    remedies = [
        _DELETE_CRD if problem == OLD_API else _remedy_of(problem, table) or of_kind
        for problem in problems
    ]
    return " ".join(dict.fromkeys(remedies))


_VALUE = re.compile(r'"(?:[^"\\]|\\.)*+"?')
"""A quoted value in a message, or the rest of the message after an unpaired quote."""


def _remedy_of(problem: str, table: Iterable[tuple[str, str]]) -> str:
    """Return the first remedy in `table` whose words are in a message, or "".

    Quoted values are ignored, because tenants choose them: a level of a PodGroup can be any text.
    """
    message = _VALUE.sub('""', problem)
    return next((remedy for words, remedy in table if words in message), "")
