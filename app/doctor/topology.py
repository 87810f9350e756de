"""Check Grove's topologies and their KAI Topologies.

The checks cover the managed topology, topologies left over from an earlier name, the dialect in
use, the condition LevelsCovered, and ComputeDomains whose deletion does not finish.
"""

from collections.abc import Sequence

from app.cluster.view import dialect_of
from app.doctor.report import Check, Checks, ok, problem, warning
from app.facts.grove.topology import Level, read_cluster_topology_binding
from app.facts.kai.topology import level_labels
from app.facts.kinds import CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING, COMPUTE_DOMAIN, KAI_TOPOLOGY
from app.kube.api import Client, Object, ObjectRef, Selection, each, find, list_all
from app.objects.conditions import condition_of
from app.objects.fields import listed
from app.objects.shape import key_of
from app.rules.dialects.design import DESIGN
from app.rules.dialects.dialect import Dialect
from app.rules.mnnvl.sets import GROVE_FINALIZER
from app.rules.topology.coverage import LEVELS_COVERED
from app.rules.topology.kai import READY, desired_kai_topology, foreign_remedy, is_owned
from app.rules.topology.levels import levels_below_host

STUCK_DOMAINS = (
    "deleted ComputeDomains that Grove's finalizer keeps, and that Grove does not create again:"
)
"""The problem of ComputeDomains whose deletion does not finish. Their names follow."""
_SHOWN = 5
_LEADER = "Read the log of the replica that leads: doctor --all names it under leader."


async def check_topology(
    client: Client, name: str, *, enabled: bool, levels: Sequence[Level]
) -> Checks:
    """Check the managed ClusterTopology or ClusterTopologyBinding, called `name`.

    `enabled` says whether our topology support is enabled. `levels` are the configured levels, or
    () if they are not known. Raise ClusterError if a request fails.
    """
    dialect = dialect_of(client)
    if dialect.resource is CLUSTER_TOPOLOGY_BINDING:
        return await _binding(client, name, dialect, levels if enabled else None)

    if enabled and client.served_version(CLUSTER_TOPOLOGY) is None:
        return []  # the checks of the APIs report this
    stored = await find(client, ObjectRef(CLUSTER_TOPOLOGY, name))
    left = await _left_over(client, name)
    if not enabled:
        return [_disabled(name, stored), *left]
    if stored is None:
        message = (
            f"ClusterTopology {name} does not exist: PodCliqueSets with constraints, and all"
            " PodGangs, cannot be created"
        )
        return [
            *left,
            problem(
                message,
                f"{_LEADER} If topology support is disabled in the configuration of the server,"
                " pass this configuration with --config.",
            ),
        ]

    current = DESIGN.read_levels(stored)

    return [
        _compared(f"ClusterTopology {name}", current, levels),
        *_below_host(current),
        _ready(name, stored),
        *await _kai(client, name, stored),
        *left,
    ]


async def _left_over(client: Client, name: str) -> Checks:
    """Return a warning about each ClusterTopology that was managed under a previous name.

    Only a ClusterTopology that is or was managed has the condition Ready.
    """
    stored = await list_all(client, Selection(CLUSTER_TOPOLOGY))
    names = sorted(obj["metadata"]["name"] for obj in stored if condition_of(obj, READY))
    return [
        warning(
            f"ClusterTopology {previous} is left over: clusterTopology.name is now {name}",
            f"Delete it with its KAI Topology: kubectl delete {CLUSTER_TOPOLOGY} {previous}.",
        )
        for previous in names
        if previous != name
    ]


async def _binding(
    client: Client, name: str, dialect: Dialect, configured: Sequence[Level] | None
) -> Checks:
    """Return the checks of the managed ClusterTopologyBinding, called `name`.

    `configured` has the configured levels, or is None if topology support is disabled. Most
    conditions of a binding are not checked, because Grove writes them.
    """
    if configured is None:
        message = (
            "clusterTopology.enabled is false, so no ClusterTopologyBinding is managed;"
            " ClusterTopologyBindings are still validated, and Grove uses them"
        )
        return [ok(message)]

    title = f"ClusterTopologyBinding {name}"
    stored = await find(client, ObjectRef(CLUSTER_TOPOLOGY_BINDING, name))
    if stored is None:
        message = (
            f'{title} does not exist: new PodCliqueSets with topologyName "{name}" are rejected'
        )
        return [problem(message, _LEADER)]

    current = dialect.read_levels(stored)

    return [
        _compared(title, current, configured),
        *await _kai_of_binding(client, stored),
    ]


async def _kai_of_binding(client: Client, stored: Object) -> Checks:
    """Check that KAI has the Topology of the binding `stored`, with its levels.

    Grove creates this Topology, unless the binding names one that administrators manage. Return []
    if the cluster does not serve KAI Topologies.
    """
    if client.served_version(KAI_TOPOLOGY) is None:
        return []  # the checks of the APIs report this

    binding = read_cluster_topology_binding(stored)
    title = f"KAI Topology {binding.kai}"
    kai = await find(client, ObjectRef(KAI_TOPOLOGY, binding.kai))
    if kai is not None and level_labels(kai) == binding.keys:
        return [ok(f"{title} has the same levels as the ClusterTopologyBinding")]

    change = f"Create {title} with" if kai is None else f"Give {title}"
    remedy = (
        f"{change} the levels of the ClusterTopologyBinding, or correct"
        " spec.schedulerTopologyBindings."
        if binding.external
        else "Check that Grove's operator runs, with topologyAwareScheduling.enabled: true and with"
        " KAI among its schedulers: it creates this Topology. Then read its log."
    )
    if kai is None:
        message = f"{title} does not exist, so KAI places no gang by the levels"
    else:
        message = f"the levels of {title} differ from the ClusterTopologyBinding's"
    return [warning(message, remedy)]


def _compared(title: str, current: Sequence[Level], configured: Sequence[Level]) -> Check:
    message = f"{title}: {_listed(current)}"
    if configured and current != tuple(configured):
        remedy = (
            "If the replicas use another configuration, pass that one with --config. Otherwise,"
            f" restart the replicas, which read the configuration only at startup. {_LEADER}"
        )
        return problem(f"{message}; the configuration has {_listed(configured)}", remedy)
    return ok(message)


def _listed(levels: Sequence[Level]) -> str:
    return ", ".join(f"{level.domain}={level.key}" for level in levels) or "no levels"


def _disabled(name: str, stored: Object | None) -> Check:
    if stored is None:
        return ok("clusterTopology.enabled is false")
    message = f"clusterTopology.enabled is false, but ClusterTopology {name} still exists"
    return warning(message, _LEADER)


def _below_host(levels: Sequence[Level]) -> Checks:
    message = levels_below_host(levels)
    remedy = "Remove these levels from clusterTopology.levels, or give the host level another key."
    return [warning(message, remedy)] if message else []


def _ready(name: str, topology: Object) -> Check:
    """Check the condition Ready of the managed ClusterTopology."""
    ready = condition_of(topology, READY)
    status = ready.get("status")
    message = ready.get("message") or "the condition has no message yet"
    if status == "True":
        return ok(f"ClusterTopology {name} is Ready")
    title = f"ClusterTopology {name} is not Ready: {message}"
    return Check("problem" if status == "False" else "warning", title, _LEADER)


async def _kai(client: Client, name: str, topology: Object) -> Checks:
    """Check that the ClusterTopology controls the KAI Topology `name`, and that their levels agree.

    Return [] if the cluster does not serve KAI Topologies.
    """
    title = f"KAI Topology {name}"
    if client.served_version(KAI_TOPOLOGY) is None:
        return []  # the checks of the APIs report this

    stored = await find(client, ObjectRef(KAI_TOPOLOGY, name))
    if stored is None:
        return [problem(f"{title} does not exist", _LEADER)]
    if not is_owned(stored, topology["metadata"]["uid"]):
        message = (
            f"{title} is not controlled by ClusterTopology {name}, so the leader does not change it"
        )
        return [problem(message, f"{foreign_remedy(name)}.")]
    if level_labels(stored) != level_labels(
        desired_kai_topology(topology, DESIGN.read_levels(topology))
    ):
        return [problem(f"the levels of {title} differ from the ClusterTopology's", _LEADER)]

    return [ok(f"{title} has the same levels as the ClusterTopology")]


# The dialect.


async def check_dialects(client: Client) -> Checks:
    """Return a check that names the dialect of Grove's API, and the problems of Grove's objects.

    The problems are levels that do not fit the labels of nodes, and ComputeDomains whose deletion
    does not finish. Raise ClusterError if a request fails.
    """
    dialect = dialect_of(client)
    used = ok(f'the dialect of Grove\'s topology API is "{dialect.name}"')
    return [used, *await _coverage(client, dialect), *await _stuck(client)]


async def _coverage(client: Client, dialect: Dialect) -> Checks:
    """Return a warning about each topology whose condition LevelsCovered is False.

    The leader sets it to False if the levels do not fit the labels of nodes.
    """
    checks: Checks = []
    for obj in await list_all(client, Selection(dialect.resource)):
        covered = condition_of(obj, LEVELS_COVERED)
        if covered.get("status") == "False":
            # the leader writes the condition: without a leader, it may be older than the labels
            title = f"{dialect.resource.kind} {obj['metadata']['name']}"
            message = f"{title} has {LEVELS_COVERED}=False: {covered.get('message')}"
            remedy = (
                "Label the nodes that lack a level's label, or correct the levels. List the"
                " problems: grove-admission topology"
            )
            checks.append(warning(message, remedy))

    return checks


async def _stuck(client: Client) -> Checks:
    """Return a problem if ComputeDomains are being deleted but still have Grove's finalizer.

    Grove does not create such ComputeDomains again. Return [] if there are none.
    """
    stuck = [
        "/".join(key_of(obj))
        async for obj in each(client, Selection(COMPUTE_DOMAIN), optional=True)
        if obj["metadata"].get("deletionTimestamp")
        and GROVE_FINALIZER in (obj["metadata"].get("finalizers") or ())
    ]
    if not stuck:
        return []

    message = f"{STUCK_DOMAINS} {listed(sorted(stuck), _SHOWN)}"
    remedy = (
        f"Remove the finalizer {GROVE_FINALIZER}: kubectl edit computedomain NAME -n NAMESPACE."
        " Then change the spec of the PodCliqueSet, such as its replicas, so that Grove creates the"
        " ComputeDomain again."
    )

    return [problem(message, remedy)]
