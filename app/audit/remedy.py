"""The remedy for a stored object that would be rejected, in one sentence for each kind."""

from app.rules.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    POD_GANG,
    POD_GROUP,
)

UNDECIDED = "Correct the problem, and run the audit again."

NEVER_ALLOCATED = (
    "Create the DeviceClass, or use claimMode: auto, delete its PodClique and create it again. It"
    " then gets a claim that the driver serves."
)

_BY_KIND = {
    CLUSTER_TOPOLOGY_BINDING.kind: (
        "Correct its levels; until then, every change of its spec is rejected."
    ),
    CLUSTER_TOPOLOGY.kind: "Correct its levels; until then, every change of it is rejected.",
    POD_CLIQUE_SET.kind: (
        "Use levels that exist. If the cluster has ClusterTopologyBindings, add topologyName,"
        " without which every update is rejected, and move packDomain to pack.required; until then,"
        " it can't be created again."
    ),
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
}

_BY_KIND_IF_ALLOWED = {
    CLUSTER_TOPOLOGY_BINDING.kind: "Correct its levels, or the labels of the nodes.",
    CLUSTER_TOPOLOGY.kind: (
        "If the cluster has ClusterTopologyBindings, delete the CRD clustertopologies.grove.io: the"
        " KAI Topology is deleted with it, and a binding of that name can be created. Otherwise,"
        " correct the labels of the nodes."
    ),
    POD_CLIQUE_SET.kind: "Check its constraints and annotations; they may not have their effect.",
    POD_GROUP.kind: "Correct its levels where they come from: its PodCliqueSet, or its workload.",
    POD_GANG.kind: (
        "Write the constraint into the PodCliqueSet; the next change of its template resets the"
        " PodGang."
    ),
}


def remedy_for(kind: str, code: int) -> str:
    """Returns the remedy for an object of `kind` that is rejected with `code`, or that has a
    warning if that is 0.
    """
    if code == 0:
        return _BY_KIND_IF_ALLOWED[kind]
    return UNDECIDED if code >= 500 else _BY_KIND[kind]
