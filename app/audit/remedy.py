"""The remedy for a stored object that would be rejected, in one sentence for each kind."""

from app.rules.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING, POD_CLIQUE, POD_CLIQUE_SET, POD_GANG, POD_GROUP

UNDECIDED = "Look at what stands in the way, and run the audit again."

NEVER_ALLOCATED = (
    "Create the DeviceClass, or use claimMode: auto and make its PodClique anew, which then gets a claim that the "
    "driver serves."
)

_BY_KIND = {
    CLUSTER_TOPOLOGY_BINDING.kind: "Correct its levels; until then every change of its spec is refused.",
    CLUSTER_TOPOLOGY.kind: "Correct its levels; until then every change of it is refused.",
    POD_CLIQUE_SET.kind: (
        "Use levels that exist. If the cluster has ClusterTopologyBindings, add topologyName, without which every "
        "update is refused, and move packDomain to pack.required; until then it can be deleted, but not made anew."
    ),
    POD_GROUP.kind: (
        "Have it made with lowercase, unique SubGroup names and parents that exist; until then every change of it is "
        "refused."
    ),
    POD_CLIQUE.kind: "Correct it in the template of its PodCliqueSet; until then every change of it is refused.",
    POD_GANG.kind: "See what its maker writes; until then every change of it is refused.",
}


_BY_KIND_IF_ALLOWED = {
    CLUSTER_TOPOLOGY_BINDING.kind: "Correct its levels, or the labels of the nodes.",
    CLUSTER_TOPOLOGY.kind: (
        "If the cluster has ClusterTopologyBindings, delete the CRD clustertopologies.grove.io: the KAI Topology goes "
        "with it, and a binding of that name can be created. Else correct the labels of the nodes."
    ),
    POD_CLIQUE_SET.kind: "See what it asks for; it may not get that.",
    POD_GANG.kind: "Write the constraint into the PodCliqueSet; the next change of its template resets the PodGang.",
}


def remedy_for(kind: str, code: int) -> str:
    """Returns the remedy for an object of `kind` that is rejected with `code`, or that has a warning if that is 0."""
    if code == 0:
        return _BY_KIND_IF_ALLOWED[kind]
    return UNDECIDED if code >= 500 else _BY_KIND[kind]
