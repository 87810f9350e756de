"""Report ComputeDomains that are not ready, split, being deleted, or in a deadlock with their pods.

A ComputeDomain may have nodes in several NVLink domains. The driver then runs an IMEX domain in
each: a daemon connects only to daemons with its clique ID (`UpdateDNSNameMappings` in
`cmd/compute-domain-daemon`), and a node does not wait for the daemons of other cliques. So all pods
start, but they share memory over NVLink only with pods in their own NVLink domain.
"""

import json
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from app.base.groups import by_key
from app.base.value import Value
from app.explain.gangs.gang import Gang
from app.explain.reasons.gates import refs
from app.explain.reasons.messages import is_about_a_domain, kubelet_words, state_words
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Who,
    about,
    counted,
    finalizers_of,
    listed,
    repair_of,
)
from app.explain.reasons.restarts import fails_if_deleted, restart_of
from app.explain.state.index import Index
from app.explain.state.snapshot import key_of
from app.facts.identity import Key, Ref
from app.facts.kinds import RESOURCE_CLAIM
from app.facts.kubernetes.pod import DAEMON_OF, Pod, PodClaim
from app.facts.labels import NVLINK_DOMAIN
from app.facts.nvidia.computedomain import DOMAIN_SUFFIX, ComputeDomain, base_of
from app.facts.rows import ROOM
from app.rules.mnnvl.claim import CHANNEL_CLASS, DAEMON_CLASS
from app.rules.mnnvl.sets import GROVE_FINALIZER

CREATING = "ContainerCreating"
_IMMUTABLE = "the spec of a ComputeDomain can't be changed"
_UPDATE = (
    "Or ask the platform team to update NVIDIA's DRA driver to 25.8 or later, with which pods don't"
    " wait for other nodes"
)


class Standing(Value, dict=True):
    """A ComputeDomain with the living pods that use it."""

    domain: ComputeDomain
    users: tuple[Pod, ...]
    """The pods of any gang, sorted by namespace and name."""
    nodes: tuple[str, ...]
    """The nodes of `users`, sorted."""
    unready: tuple[str, ...]
    """The nodes of `users` that are not in `ready`."""
    ready: frozenset[str]
    """The nodes that the driver reports as ready, or all of `nodes` if the hosts run IMEX."""

    @property
    def needs_number(self) -> bool:
        """Do pods wait until numNodes nodes have a daemon, as with releases before 25.8?"""
        domain = self.domain
        unsaid = bool(domain.nodes) and all(node.ready is None for node in domain.nodes)
        return unsaid and not domain.ready

    @property
    def total(self) -> int:
        """The number of nodes that must be ready."""
        return max(self.domain.number if self.needs_number else 0, len(self.nodes))

    @property
    def starting(self) -> list[Pod]:
        """The pods that have a node, but probably no containers yet."""
        return [pod for pod in self.users if pod.node and is_being_created(pod)]

    @property
    def gated(self) -> list[Pod]:
        """The pods that have scheduling gates and no node."""
        return [pod for pod in self.users if pod.gates and not pod.node]

    @property
    def is_ready(self) -> bool:
        """Are the nodes of its pods ready?"""
        return not self.unready

    @property
    def is_in_deadlock(self) -> bool:
        """Do pods wait for the domain while it waits for pods that are gated?"""
        lacks_nodes = self.needs_number and self.domain.number > len(self.nodes)
        return lacks_nodes and bool(self.gated and self.starting)


def standing(index: Index, domain: ComputeDomain) -> Standing:
    """Return a ComputeDomain with its pods and the state of their nodes."""

    def look() -> Standing:
        users = tuple(_users_of_domains(index).get(domain.key, ()))
        nodes = sorted({pod.node for pod in users if pod.node})
        ready = frozenset(ready_nodes(index, domain))
        unready = tuple(name for name in nodes if name not in ready)
        if host_managed(index, domain):
            ready, unready = frozenset(nodes), ()
        return Standing(domain, users, tuple(nodes), unready, ready)

    return index.remembered(("standing", domain), look)


def domain_deadlock(gang: Gang) -> Reasons:
    """Report that pods wait for their ComputeDomain, which waits for pods that are still gated."""
    for domain in compute_domains_of(gang):
        known = standing(gang.index, domain)
        if not known.is_in_deadlock:
            continue
        gated = known.gated
        starting = known.starting
        text = (
            f"ComputeDomain {domain.name} requires {counted(domain.number, 'node')} (numNodes), but"
            f" {len(gated)} of its {counted(known.users, 'pod')} {_have(gated)} scheduling gates,"
            " and pods with a node don't start before the domain is ready"
        )
        restart = "delete the pods that wait for it"
        if any(map(fails_if_deleted, (*gated, *starting))):
            restart = restart_of(gang, (*gated, *starting), "the pods that wait for it")
        remedy = (
            "Find out which controller keeps the gates. If it waits until other pods are ready,"
            f" delete ComputeDomain {domain.name}, create it again with numNodes:"
            f" {len(known.nodes)} ({_IMMUTABLE}), and {restart}. {_UPDATE}"
        )
        objects = (domain.ref, *refs(gated), *refs(starting))
        evidence = Evidence(domain.ref, "spec.numNodes", str(domain.number))
        yield about(evidence, "DomainDeadlock", text, remedy, "you", objects=objects)


def domain_not_ready(gang: Gang) -> Reasons:
    """Report that the ComputeDomain of placed pods is not ready.

    The reason is a warning if no pod waits for the ComputeDomain.
    """
    for domain in compute_domains_of(gang):
        known = standing(gang.index, domain)
        if known.is_ready or known.is_in_deadlock:
            continue
        own = [pod for pod in known.starting if pod in gang.pods]
        if own:
            yield _lacking_nodes(gang, known, own)
        elif not known.starting and known.nodes and domain.nodes:
            yield _nothing_waits(known)


def _nothing_waits(known: Standing) -> Reason:
    domain = known.domain
    run = "Its pods that have a node run"
    if all(pod.node for pod in known.users):
        run = f"No pod waits for it: its {counted(known.users, 'pod runs', 'pods run')}"
    text = f"ComputeDomain {domain.name} is not ready: {_ready_words(known)}. {run}"
    remedy = (
        "Do nothing as long as these pods run. Before you create pods on nodes that are not ready,"
        " ask the platform team to read the log of NVIDIA's compute-domain controller: such pods"
        " would not start"
    )
    evidence = Evidence(domain.ref, "status", "NotReady")
    return about(evidence, "DomainNotReady", text, remedy, "platform", severity="warning")


def _ready_words(known: Standing) -> str:
    """Return a text about ready nodes, such as `1 of 3 nodes is ready, not n1 and n2`."""
    lacking = list(known.unready)
    unseen = known.total - len(known.nodes)
    well = min(len(known.ready), known.total - len(lacking))
    names = f", not {listed(lacking)}" if lacking else ""
    words = f"{well} of {counted(known.total, 'node')} {_are(well, known.total)} ready{names}"
    if known.total == len(lacking):
        words = f"{listed(lacking)} {'is' if len(lacking) == 1 else 'are'} not ready"
    if unseen > 0:
        words += f"; {counted(unseen, 'more node')} must get one of its pods"
    return words


def _are(well: int, total: int) -> str:
    return "is" if well == 1 or total == 1 else "are"


def _lacking_nodes(gang: Gang, known: Standing, own: Sequence[Pod]) -> Reason:
    """Return the reason why pods of a gang (`own`) still wait for their ComputeDomain."""
    domain = known.domain
    evidence = Evidence(domain.ref, "status", "Ready" if domain.ready else "NotReady")
    number = domain.number if known.needs_number else 0
    if number > len(known.users):
        pods = counted(known.users, "pod uses", "pods use")
        text = (
            f"ComputeDomain {domain.name} requires {counted(domain.number, 'node')} (numNodes),"
            f" but only {pods} it, so it cannot become ready"
        )
        more = number - len(known.users)
        remedy = (
            f"Create {counted(more, 'more pod')} with its claim template {domain.template}, or"
            f" delete the ComputeDomain and create it again with numNodes: {len(known.users)}"
            f" ({_IMMUTABLE}). {_UPDATE}"
        )
        return about(evidence, "DomainNotReady", text, remedy, "you")

    text = f"ComputeDomain {domain.name}: {_ready_words(known)}"
    if known.needs_number and not number:
        text += ". Before 25.8, NVIDIA's DRA driver never reports numNodes: 0 as ready"
        remedy = f"Create it again with numNodes: {len(known.users)} ({_IMMUTABLE}). {_UPDATE}"
        return about(evidence, "DomainNotReady", text, remedy, "you")

    told = (kubelet_words(gang.index, pod) for pod in own)
    if any(words and not is_about_a_domain(words) for words in told):
        remedy = "Fix the problem that the kubelet reports"
        return about(evidence, "DomainNotReady", text, remedy, "platform", follows=True)

    without = [pod for pod in known.users if not pod.node]
    if number > len(known.nodes) and without:
        text = f"{text}. {len(without)} of its pods {_have(without)} no node yet"
        remedy = (
            f"Find out why {listed(pod.name for pod in without)} {_have(without, 'is', 'are')}"
            f" pending: grove-admission explain pod/{without[0].name} -n {without[0].namespace}"
        )
        return about(evidence, "DomainNotReady", text, remedy, "you")

    said, remedy, who = _daemon_state(gang.index, known)
    return about(evidence, "DomainNotReady", f"{text}{said}", remedy, who)


def _have(pods: Sequence[Pod], one: str = "has", several: str = "have") -> str:
    return one if len(pods) == 1 else several


def _daemon_state(index: Index, known: Standing) -> tuple[str, str, Who]:
    """Return (cause, remedy, who can act) for nodes that are not ready.

    The cause is a text to append, or "" if the daemon pods can't be read.
    """
    domain = known.domain
    nodes = list(known.unready)
    if DAEMON_CLASS not in index.device_classes and CHANNEL_CLASS in index.device_classes:
        return (
            f". DeviceClass {DAEMON_CLASS} does not exist",
            "Ask the platform team to install NVIDIA's DRA driver again: its daemons need that"
            " class",
            "platform",
        )

    dead = [name for name in nodes if name in index.dead_nodes]
    if dead and "nodes" not in index.facts.unseen:
        are = f"Node {dead[0]} is" if len(dead) == 1 else f"Nodes {listed(dead)} are"
        return (
            f". {are} not ready, so daemon pods may not run there",
            repair_of(dead),
            "platform",
        )

    see = f"kubectl get pods -A -o wide -l {DAEMON_OF}={domain.uid}"
    if {ROOM, "pods"} & index.facts.unread:
        remedy = f"Ask the platform team for the state of the daemon pods on these nodes: {see}"
        return "", remedy, "platform"

    every = _daemons(index, domain)
    daemons = {pod.node: pod for pod in every}
    there = [daemons[name] for name in nodes if name in daemons]
    bare = [name for name in nodes if name not in daemons]
    broken = [pod for pod in there if pod.phase != "Running" or pod.waiting]
    if broken:
        states = listed(f"{pod.name} ({listed(pod.waiting) or pod.phase})" for pod in broken)
        first = broken[0]
        said = state_words(index, first)
        remedy = (
            f"Ask the platform team to read the log of {first.name}:"
            f" kubectl logs -n {first.namespace} {first.name}"
        )
        if not first.has_started:
            remedy = (
                f"Ask the platform team to find out why {first.name} does not start:"
                f" kubectl describe pod -n {first.namespace} {first.name}"
            )
        none = f". No daemon pod is on {listed(bare)}" if bare else ""
        return (
            f". Daemon pods that don't run: {states}{f'; {said}' if said else ''}{none}",
            remedy,
            "platform",
        )
    if len(there) == len(nodes) and there:
        run = "The daemon pod there runs" if len(there) == 1 else "Their daemon pods run"
        remedy = (
            "Ask the platform team to read the log of NVIDIA's compute-domain controller, which"
            f" writes the status, and the logs of the daemon pods: {see}"
        )
        if domain.number > len(domain.nodes):
            remedy += (
                ". If the driver's feature gate IMEXDaemonsWithDNSNames is off, the daemons wait"
                f" for {counted(domain.number, 'node')} (numNodes)"
            )
        return (
            f". {run}, but the driver does not report {_have(there, 'it', 'them')} as ready",
            remedy,
            "platform",
        )
    pending = [pod for pod in every if not pod.node]
    if pending:
        first = min(pending, key=lambda pod: pod.name)
        said = state_words(index, first)
        return (
            f". No daemon pod is on {listed(bare)}: {first.name} is pending"
            f"{f', {said}' if said else ''}",
            f"Ask the platform team to find out why {first.name} is pending: kubectl describe pod"
            f" -n {first.namespace} {first.name}",
            "platform",
        )
    return (
        f". No daemon pod is on {listed(bare)}",
        "Ask the platform team to read the log of the DRA driver's kubelet plugin on"
        f" {listed(bare)}: it labels the node, so that the ComputeDomain's DaemonSet starts a"
        " daemon pod there. The plugin's pod is one of these: kubectl get pods -A -o wide"
        f" --field-selector spec.nodeName={bare[0]}",
        "platform",
    )


def _daemons(index: Index, domain: ComputeDomain) -> list[Pod]:
    """Return the living daemon pods of a ComputeDomain."""
    return [pod for pod in index.daemons_of_domain.get(domain.uid, ()) if pod.is_alive]


def is_being_created(pod: Pod) -> bool:
    """Return whether a pod's containers have probably not been created yet."""
    return CREATING in pod.waiting or (pod.phase == "Pending" and not pod.waiting)


def waits_for_domain(gang: Gang, pod: Pod) -> bool:
    """Return whether a placed pod has a ComputeDomain that is not ready for it."""
    for domain in _domains_of(gang.index, pod):
        if pod.node in standing(gang.index, domain).unready:
            return True
    return False


def host_managed(index: Index, domain: ComputeDomain) -> bool:
    """Return whether a ComputeDomain is ready because the hosts run IMEX (mode hostManaged).

    In this mode (commit 95932046 of NVIDIA's driver), there is no DeviceClass for daemons, and
    ComputeDomains are ready at once and list no nodes.
    """
    return domain.ready and hosts_run_imex(index)


def hosts_run_imex(index: Index) -> bool:
    """Return whether NVIDIA's DeviceClass for channels exists, and the one for daemons does not."""
    return CHANNEL_CLASS in index.device_classes and DAEMON_CLASS not in index.device_classes


class Spread(Value):
    """The pods of one workload that use a ComputeDomain. Other workloads may use it too."""

    users: tuple[Pod, ...]
    placed: tuple[Pod, ...]
    """The users on nodes with the label of an NVLink domain."""
    inside: Mapping[str, Sequence[str]]
    """The nodes of the placed pods, by NVLink domain."""
    words: str
    """The NVLink domains with their numbers of pods."""


def _spreads(gang: Gang, domain: ComputeDomain) -> list[Spread]:
    """Return the pods that use a ComputeDomain, for each workload of a gang.

    Most gangs have one workload.
    """
    index = gang.index

    def look() -> Mapping[Ref, Spread]:
        users = standing(index, domain).users
        groups = by_key((_workload_of(pod), pod) for pod in users)
        return {workload: _spread(index, tuple(pods)) for workload, pods in groups.items()}

    spreads = index.remembered(("spreads", domain), look)
    workloads = dict.fromkeys(map(_workload_of, gang.pods))
    return [spreads[workload] for workload in workloads if workload in spreads]


def _workload_of(pod: Pod) -> Ref:
    """Return the outermost workload of a pod, or else its PodGroup or the pod itself.

    For a pod of a LeaderWorkerSet, return the leader of its group, because the groups are
    independent. The StatefulSet of a group's workers has the leader's name.
    """
    if pod.place.pcs:
        return Ref("PodCliqueSet", pod.namespace, pod.place.pcs)
    if pod.leader_worker_set and pod.controller:
        return Ref(Pod.kind, pod.namespace, pod.name if pod.leads else pod.controller.name)
    if pod.made_for:
        return pod.made_for[0]
    return Ref("PodGroup", pod.namespace, pod.group) if pod.group else pod.ref


def _spread(index: Index, users: tuple[Pod, ...]) -> Spread:
    nvlink_of = _nvlink_of_nodes(index)
    placed = tuple(pod for pod in users if pod.node in nvlink_of)
    pods = Counter(nvlink_of[pod.node] for pod in placed)
    inside = _by_nvlink(index, {pod.node for pod in placed})
    words = listed(f"{value} ({counted(pods[value], 'pod')})" for value in sorted(inside))
    return Spread(users, placed, inside, words)


def nvlink_split(gang: Gang) -> Reasons:
    """Report that placed pods of a ComputeDomain are in several NVLink domains."""
    for domain in compute_domains_of(gang):
        for spread in _spreads(gang, domain):
            if len(spread.inside) < 2:
                continue
            text = (
                f"{counted(spread.placed, 'pod')} of ComputeDomain {domain.name} are in"
                f" {len(spread.inside)} NVLink domains ({NVLINK_DOMAIN}): {spread.words}. {_APART}"
            )
            evidence = Evidence(domain.ref, NVLINK_DOMAIN, listed(sorted(spread.inside), 16))
            yield about(
                evidence,
                "NvlinkSplit",
                text,
                _together(gang.index, spread),
                "you",
                objects=(domain.ref, *refs(spread.placed)),
                severity="warning",
            )


def nvlink_will_split(gang: Gang) -> Reasons:
    """Report that pods of a ComputeDomain can't or won't be placed in one NVLink domain."""
    for domain in compute_domains_of(gang):
        for spread in _spreads(gang, domain):
            text = _will_split(gang, domain, spread) if len(spread.inside) < 2 else ""
            if not text:
                continue
            sizes = _nvlink_sizes(gang.index)
            evidence = Evidence(domain.ref, NVLINK_DOMAIN, listed(sorted(sizes), 16))
            waiting = [pod for pod in spread.users if not pod.node]
            yield about(
                evidence,
                "NvlinkSplit",
                f"{text}. {_APART}",
                _together(gang.index, spread),
                "you",
                objects=(domain.ref, *refs(waiting)),
                severity="note",
            )


def _will_split(gang: Gang, domain: ComputeDomain, spread: Spread) -> str:
    """Return why pods of a ComputeDomain can't or won't be in one NVLink domain, or ""."""
    sizes = _nvlink_sizes(gang.index)
    # Each of these pods needs the channel of a different node.
    alone = [pod for pod in spread.users if any(claim.template for claim in pod.claims)]
    if sizes and len(alone) > max(sizes.values()):
        most = counted(max(sizes.values()), "node")
        return (
            f"{counted(alone, 'pod')} of ComputeDomain {domain.name} need a node each, and the"
            f" largest NVLink domain ({NVLINK_DOMAIN}) has {most}"
        )
    chosen = _by_nvlink(gang.index, _nodes_to_come(gang))
    users = {pod.key for pod in spread.users}
    others = sum(1 for pod in gang.waiting if pod.key not in users)
    if others == len(gang.waiting) or not _must_split(chosen, spread.inside, others):
        return ""
    names = sorted({*chosen, *spread.inside})
    return (
        f"KAI would place the pods of ComputeDomain {domain.name} in {len(names)} NVLink domains"
        f" ({NVLINK_DOMAIN}): {listed(names)}"
    )


_APART = "Pods share memory over NVLink only within one NVLink domain"


def _nodes_to_come(gang: Gang) -> frozenset[str]:
    """Return the names of the nodes that KAI would choose for a gang now, if any."""
    now = gang.placements.now
    return now.nodes if gang.is_of_kai and now.fits else frozenset()


def _must_split(
    chosen: Mapping[str, Sequence[str]], placed: Mapping[str, Sequence[str]], others: int
) -> bool:
    """Return whether pods of a ComputeDomain would be in several NVLink domains.

    `chosen` are the nodes that KAI would choose for the gang of these pods, and `placed` the nodes
    of the ComputeDomain's placed pods, both by NVLink domain. `others` is the number of the gang's
    pending pods that do not use the ComputeDomain. These may get any of the chosen nodes.
    """
    total = sum(map(len, chosen.values()))
    homes = placed or chosen
    return bool(chosen) and all(total - len(chosen.get(home, ())) > others for home in homes)


def _together(index: Index, spread: Spread) -> str:
    """Return the remedy that keeps the pods of a ComputeDomain within one NVLink domain."""
    sizes = _nvlink_sizes(index)
    most = max(sizes.values(), default=0)
    if len(spread.users) > most:
        return (
            f"Use one ComputeDomain for at most {counted(most, 'pod')}, because no NVLink domain"
            " has more nodes. Do nothing if the program uses the network between NVLink domains"
        )
    return (
        f"Require the level {NVLINK_DOMAIN} for these pods if all of them share memory (or pod"
        " affinity with this topologyKey, if a scheduler other than KAI places them), and delete"
        " them together. Do nothing if the program uses the network between NVLink domains"
    )


def _by_nvlink(index: Index, names: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return the nodes `names`, grouped by NVLink domain. Nodes in no NVLink domain are omitted."""
    labels = _nvlink_of_nodes(index)
    return by_key((labels[name], name) for name in names if name in labels)


def _nvlink_sizes(index: Index) -> Mapping[str, int]:
    """Return the number of nodes in each NVLink domain."""
    return Counter(_nvlink_of_nodes(index).values())


def _nvlink_of_nodes(index: Index) -> Mapping[str, str]:
    """Return the NVLink domain of each node that is in one, by node name."""

    def look() -> Mapping[str, str]:
        nodes = ((node.name, node.labels.get(NVLINK_DOMAIN)) for node in index.nodes)
        return {name: value for name, value in nodes if value}

    return index.remembered("NVLink domains", look, ["nodes"])


def domain_deleted(gang: Gang) -> Reasons:
    """Report that a ComputeDomain is being deleted, and a finalizer keeps it."""
    for domain in compute_domains_of(gang):
        if GROVE_FINALIZER in domain.held_by:
            text = (
                f"ComputeDomain {domain.name} is being deleted, but Grove's finalizer keeps it, so"
                " Grove does not create another one"
            )
            evidence = Evidence(domain.ref, "metadata.finalizers", listed(domain.held_by))
            remedy = (
                f"Ask the platform team to remove the finalizer {GROVE_FINALIZER}. Then change the"
                " spec of the PodCliqueSet, such as replicas, so that Grove creates the"
                " ComputeDomain again"
            )
            left = [name for name in domain.held_by if name != GROVE_FINALIZER]
            patch = json.dumps({"metadata": {"finalizers": left}}, separators=(",", ":"))
            named = f"computedomains.resource.nvidia.com {shlex.quote(domain.name)}"
            command = (
                f"kubectl patch {named} -n {domain.namespace} --type merge -p {shlex.quote(patch)}"
            )
            yield about(evidence, "DomainDeleted", text, remedy, "platform", commands=(command,))
        elif domain.held_by:
            yield _being_deleted(gang, domain)


def _being_deleted(gang: Gang, domain: ComputeDomain) -> Reason:
    """Return the reason for a ComputeDomain that only finalizers other than Grove's keep."""
    users = standing(gang.index, domain).users
    use = "uses" if len(users) == 1 else "use"
    keep = "keeps" if len(domain.held_by) == 1 else "keep"
    held_by = finalizers_of(domain.held_by)
    text = f"ComputeDomain {domain.name} is being deleted, and {held_by} {keep} it"
    if users:
        text += f". {listed(pod.name for pod in users)} still {use} it"
    remedy = (
        "Create a ComputeDomain with another name for new pods, and delete the pods that use this"
        " one once they are no longer needed. If the ComputeDomain stays after that, ask the"
        " platform team to read the log of NVIDIA's compute-domain controller"
    )
    evidence = Evidence(domain.ref, "metadata.finalizers", listed(domain.held_by))
    waits = any(not pod.node for pod in users if pod in gang.pods)
    return about(
        evidence,
        "DomainDeleted",
        text,
        remedy,
        "you",
        objects=(domain.ref, *refs(users)),
        severity="problem" if waits else "warning",
    )


_MOST_DOMAINS = 10
"""The maximum number of ComputeDomains that are returned for one claim.

Usually there is one, but tenants can name the same template in any number of ComputeDomains.
"""


def _domains_of(index: Index, pod: Pod) -> Sequence[ComputeDomain]:
    """Return the ComputeDomains that a pod uses."""
    found = (each for claim in pod.claims for each in _named_by(index, pod.namespace, claim))
    return list({domain.key: domain for domain in found}.values())


def _named_by(index: Index, namespace: str, claim: PodClaim) -> Sequence[ComputeDomain]:
    """Return the ComputeDomains that a claim is for.

    The claim's configuration decides, or else its template, or else its name: a shared claim of
    Grove's designs does not refer to its ComputeDomain.
    """
    stored = index.claims.get((namespace, claim.claim))
    if stored and stored.domain:
        return index.domains_of_uid.get((namespace, stored.domain), ())[:_MOST_DOMAINS]
    if claim.template:
        return index.domains_of_template.get((namespace, claim.template), ())[:_MOST_DOMAINS]

    base = base_of(RESOURCE_CLAIM.kind, claim.claim)
    domain = index.compute_domains.get((namespace, f"{base}{DOMAIN_SUFFIX}")) if base else None
    return [domain] if domain else []


def _users_of_domains(index: Index) -> Mapping[Key, Sequence[Pod]]:
    """Return the living pods that use each ComputeDomain, by the key of the ComputeDomain."""

    def look() -> Mapping[Key, Sequence[Pod]]:
        pods = sorted((pod for pod in index.facts.pods if pod.is_alive and pod.claims), key=key_of)
        return by_key((domain.key, pod) for pod in pods for domain in _domains_of(index, pod))

    of = ("pods", "claims", "compute_domains")
    return index.remembered("users of ComputeDomains", look, of)


def ready_nodes(index: Index, domain: ComputeDomain) -> set[str]:
    """Return the names of the ready nodes of a ComputeDomain.

    Older releases of the driver list them in its status, and newer ones in ComputeDomainCliques.
    Before 25.8, all listed nodes are ready if the ComputeDomain is.
    """
    ready = {
        node.name for node in domain.nodes if (domain.ready if node.ready is None else node.ready)
    }
    cliques = index.cliques_of_domain.get(domain.uid, ())
    return ready | {node.name for clique in cliques for node in clique.nodes if node.ready}


def compute_domains_of(gang: Gang) -> Sequence[ComputeDomain]:
    """Return the ComputeDomains that pods of the gang use."""
    found = (domain for pod in gang.pods for domain in _domains_of(gang.index, pod))
    return sorted({domain.key: domain for domain in found}.values(), key=key_of)
