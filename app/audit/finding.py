"""The findings of an audit, and their counts."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal

from msgspec import Struct, to_builtins
from msgspec.structs import asdict

from app.base.value import Value
from app.base.visible import visible
from app.facts.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
    QUEUE,
)
from app.facts.named import Key
from app.objects.resource import POD

Outcome = Literal["refused", "warning", "undecided"]
ONLY_WARNINGS = 3
"""Exit code: there are findings, but nothing would be refused."""


class Finding(Value):
    """An object that would be rejected, or that has a problem.

    `code` is that of the rejection, 5xx if there is no verdict, and 0 for a problem that no webhook
    reports. The names of the fields are those of the JSON.
    """

    kind: str
    namespace: str
    name: str
    code: int
    problems: tuple[str, ...]
    remedy: str

    @property
    def outcome(self) -> Outcome:
        """What the webhooks would say: `warning` also for what no webhook reports."""
        if self.code >= 500:
            return "undecided"
        return "refused" if self.code else "warning"

    @property
    def place(self) -> str:
        """Its name, with its namespace if it is in one."""
        return "/".join(filter(None, (self.namespace, self.name)))

    def text(self) -> str:
        lines = [
            f"{self.outcome:<9} {self.kind} {self.place}",
            *(f"    {problem}" for problem in self.problems),
        ]
        return "\n".join(map(visible, [*lines, f"    remedy: {self.remedy}"]))

    def json(self) -> dict[str, Any]:
        return {**asdict(self), "outcome": self.outcome, "problems": list(self.problems)}


def warning(kind: str, key: Key, problem: str, remedy: str) -> Finding:
    """Return a finding about a stored object that no webhook reports."""
    return Finding(kind, *key, 0, (problem,), remedy)


class AuditCounts(Struct, rename="camel"):
    """The objects of one resource, counted by verdict.

    All of them, those with findings, those that would be refused, and those without a verdict. The
    names of the fields are those of the JSON.
    """

    looked_at: int
    found: int
    refused: int
    undecided: int


class Tally(Struct):
    """The counts so far, by kind.

    `unread` has the reason for each resource that could not be judged, and `absent` the resources
    that aren't installed.
    """

    counts: dict[str, AuditCounts] = {}
    unread: dict[str, str] = {}
    absent: list[str] = []
    notes: list[str] = []

    @property
    def looked_at(self) -> int:
        return sum(count.looked_at for count in self.counts.values())

    def count(self, kind: str) -> AuditCounts:
        return self.counts.setdefault(kind, AuditCounts(0, 0, 0, 0))

    def add(self, finding: Finding) -> None:
        count = self.count(finding.kind)
        if finding.outcome == "undecided":
            count.undecided += 1
        else:
            count.found += 1
            count.refused += finding.outcome == "refused"

    @property
    def exit_code(self) -> int:
        """The exit code.

        0 without findings, 1 if an object would be refused, 2 if not all objects could be judged, 3
        if there are only warnings.
        """
        counts = self.counts.values()
        if self.unread or any(count.undecided for count in counts):
            return 2
        if any(count.refused for count in counts):
            return 1
        return ONLY_WARNINGS if any(count.found for count in counts) else 0

    def summary(self) -> str:
        return "\n".join(map(visible, self._lines()))

    def _lines(self) -> Iterator[str]:
        for kind, count in self.counts.items():
            undecided = f", {count.undecided:,} without a verdict" if count.undecided else ""
            warnings = count.found - count.refused
            yield (
                f"{kind}: {count.looked_at:,} looked at, {count.refused:,} refused,"
                f" {warnings:,} with warnings{undecided}"
            )

        yield from self.notes
        yield from (f"not installed in this cluster: {name}" for name in self.absent)
        yield from (
            f"could not be looked at: {name}: {reason}" for name, reason in self.unread.items()
        )

    def json(self) -> dict[str, Any]:
        return {
            "counts": to_builtins(self.counts),
            "notInstalled": self.absent,
            "unread": self.unread,
            "notes": self.notes,
        }


FORMER_API = "belongs to a former topology API of Grove, which nothing reads any more"

UNDECIDED = "Correct the problem, and run the audit again."

NEVER_ALLOCATED = (
    "Create the DeviceClass, or use claimMode: auto, delete its PodClique and create it again. It"
    " then gets a claim that the driver serves."
)

_NAME_LEVEL = "Name one of the levels that there are; until then, it can't be created again."
_NAME_DOMAIN = "Name one of the allowed domains; until then, it can't be created again."
_RENAME = (
    "Create it with lowercase, unique SubGroup names; until then, every change of it is rejected."
)
_PARENT = "Name a parent that exists; until then, every change of it is rejected."

BY_PROBLEM = (
    (
        FORMER_API,
        "Delete the CRD clustertopologies.grove.io: the KAI Topology is deleted with it, and a"
        " binding of that name can be created.",
    ),
    (
        "topology support is not enabled",
        "Set clusterTopology.enabled, or remove the constraint; until then, it can't be created"
        " again.",
    ),
    ("topology level not found", _NAME_LEVEL),
    ("not a level of", _NAME_LEVEL),
    ("must be as strict as", _NAME_DOMAIN),
    ("; allowed: ", _NAME_DOMAIN),
    (
        "KAI never places",
        "Remove the preferred domain, or name a narrower one; until then, its pods stay pending.",
    ),
    (
        "the name of a ClusterTopologyBinding is needed",
        "Add topologyName; until then, every update of it is rejected.",
    ),
    ("ClusterTopologyBinding not found", "Name a ClusterTopologyBinding that exists."),
    ("all topologyName values", "Give all constraints the same topologyName."),
    (
        "packDomain is allowed only in",
        "Move packDomain to pack.required; until then, it can't be created again.",
    ),
    ("packDomain is deprecated", "Move packDomain to pack.required when you next create it."),
    ("exclude each other", "Keep one of the two annotations."),
    ("invalid subgroup name", _RENAME),
    ("duplicate subgroup name", _RENAME),
    ("invalid parent name", _PARENT),
    ("was not found", _PARENT),
    ("cycle detected", "Break the cycle of parents; until then, every change of it is rejected."),
    ("no node has the label", "Correct the key of the level, or label the nodes."),
    (
        "never placed on the others",
        "Label the nodes that lack it; grove-admission topology names them.",
    ),
    ("are not a tree", "Give each domain a label value of its own."),
    ("is listed above", "List the broadest level first."),
    ("must fit into one", "Require a broader domain, or fewer or smaller replicas."),
    ("has no effect", "Remove it, or name what the message says."),
    (
        "is not an API of this cluster",
        "Install NVIDIA's DRA driver, or remove the annotations from its PodCliqueSet; until then,"
        " it can't be created again.",
    ),
)
"""Words of a problem, and what helps against it."""

_LARGER_PODS = "Use fewer, larger pods, one per node."

BY_WARNING = (
    (
        "add pack.preferred",
        "Delete it, and create it with a preferred domain too: Grove allows no correction.",
    ),
    (
        "which the part above requires",
        "Require a level that is as narrow; until then, its pods stay pending.",
    ),
    ("not a level of", "Name one of the levels that there are; until then, its pods stay pending."),
    (
        "GPUs under one topology constraint",
        "Give each scaling group or clique a constraint of its own, or all pods the same GPUs.",
    ),
    ("within one NVLink domain", "Require a level at or below the NVLink domain."),
    ("must be on one node", _LARGER_PODS),
    ("GPUs of a node", _LARGER_PODS),
    ("asks for one GPU", _LARGER_PODS),
    ("pods need", "Use fewer pods, or a narrower scope."),
    ("API is not installed", "Install NVIDIA's DRA driver, or remove the annotations."),
    ("characters long", "Create it anew with shorter names before Grove is upgraded."),
    ("neither pack.required nor", "Remove the constraint, or name a domain."),
    ("wants to avoid", "Require a domain that is as narrow as the preferred one above."),
)
"""Likewise for what would be allowed with a warning, before the words of a problem are looked for.
"""

_BY_KIND = {
    CLUSTER_TOPOLOGY_BINDING.kind: (
        "Correct its levels; until then, every change of its spec is rejected."
    ),
    CLUSTER_TOPOLOGY.kind: "Correct its levels; until then, every change of it is rejected.",
    POD_CLIQUE_SET.kind: "Correct it; until then, it can't be created again.",
    POD_GROUP.kind: (
        "Create it with lowercase, unique SubGroup names and parents that exist; until then, every"
        " change of it is rejected."
    ),
    POD_CLIQUE.kind: (
        "Correct it in the template of its PodCliqueSet; until then, every change of it is"
        " rejected."
    ),
    POD_GANG.kind: (
        "Correct the program that creates it; until then, every change of it is rejected."
    ),
    POD.kind: "Correct it in the Pod template of its workload; until then, no Pod replaces it.",
}

_BY_KIND_IF_ALLOWED = {
    CLUSTER_TOPOLOGY_BINDING.kind: "Correct its levels, or the labels of the nodes.",
    CLUSTER_TOPOLOGY.kind: "Correct its levels, or the labels of the nodes.",
    POD_CLIQUE_SET.kind: "Check its constraints and annotations; they may not have their effect.",
    POD_GROUP.kind: "Correct its levels where they come from: its PodCliqueSet, or its workload.",
    QUEUE.kind: "Set the limit: -1 is unlimited, and 0 lets no pod use any.",
    POD_GANG.kind: (
        "Write the constraint into the PodCliqueSet; the next change of its template resets the"
        " PodGang."
    ),
}


def remedy_for(kind: str, code: int, problems: Iterable[str]) -> str:
    """Return the remedy for an object of `kind`.

    The object is rejected with `code` for some problems, or has them as warnings if that is 0.
    """
    if code >= 500:
        return UNDECIDED

    of_kind = _BY_KIND_IF_ALLOWED[kind] if code == 0 else _BY_KIND[kind]
    table = (*BY_WARNING, *BY_PROBLEM) if code == 0 else BY_PROBLEM
    remedies = [
        next((remedy for words, remedy in table if words in problem), of_kind)
        for problem in problems
    ]
    return " ".join(dict.fromkeys(remedies))
