"""Report problems with ResourceClaims, their templates, DeviceClasses, and NVLink channels."""

import shlex
from collections.abc import Callable, Collection, Iterator, Mapping

from app.base.sentences import upper_first
from app.explain.gangs.gang import Gang, Member
from app.explain.placing.placements import Assumption
from app.explain.reasons.blocking_workloads import (
    freeing_remedies,
    is_abandoned,
    release_of,
    together,
)
from app.explain.reasons.gates import grouped, refs
from app.explain.reasons.messages import words_of
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Who,
    about,
    counted,
    listed,
)
from app.explain.reasons.restarts import are_replaced, restart_of
from app.explain.state.index import Index
from app.facts.grove.podclique import PodClique
from app.facts.grove.unit_member import CLAIM, GROVE_CLAIM
from app.facts.identity import Ref
from app.facts.kubernetes.claim import ResourceClaim
from app.facts.kubernetes.node import Node
from app.facts.kubernetes.pod import Pod, PodClaim
from app.facts.labels import MNNVL_GROUP
from app.facts.nvidia.computedomain import (
    DOMAIN_SUFFIX,
    TEMPLATE_SUFFIX,
)
from app.rules.mnnvl.lost_claims import PUT_BACK
from app.rules.mnnvl.missing_claims import lacks_claim

CHANNEL_DRIVER = "compute-domain.nvidia.com"
CHANNEL = "channel-0"


def uses_claims(gang: Gang) -> bool:
    """Return whether pods of a gang, or its PodCliques without pods, have claims."""
    return any(_claims(gang))


def _claims(gang: Gang) -> Iterator[tuple[PodClaim, Ref]]:
    """Yield (claim, pod) for a gang's pods, and (claim, gang) for its PodCliques without pods."""
    for member in gang.members:
        for pod in member.pods:
            yield from ((claim, pod.ref) for claim in pod.claims)
        if not member.pods and member.clique:
            yield from ((claim, gang.ref) for claim in member.clique.claims)


def claim_missing(gang: Gang) -> Reasons:
    """Report that a ResourceClaim or template that pods or PodCliques name does not exist."""
    missing = (
        (named, user)
        for claim, user in _claims(gang)
        if (named := _missing(gang, claim)) is not None
    )
    ours: set[str] = set()
    if gang.is_of_grove:
        own = (claim for claim, _ in _claims(gang) if claim.name in (CLAIM, GROVE_CLAIM))
        ours = {name for claim in own for name in (claim.claim, claim.template)}
    owners = {pod.place.unit: pod.unit_owner for pod in gang.pods if pod.unit_owner}
    for (kind, name, field), users in grouped(missing):
        objects = tuple(sorted(set(users)))
        evidence = Evidence(objects[0], field, name)
        text = f"{kind} {name} does not exist"
        who: Who = "platform"
        remedy = _creator_remedy(gang, name, owners, ours)
        elsewhere = "" if remedy else _namespace_of_domain(gang.index, name)
        if elsewhere:
            text += (
                f" in namespace {gang.namespace}. ComputeDomain {elsewhere} is in another"
                " namespace, and only pods there can use its template"
            )
            who = "you"
            remedy = (
                f"Create the ComputeDomain in namespace {gang.namespace} too: NVIDIA's controller"
                " creates its template there"
            )
        if field == _GENERATED:
            remedy = (
                "Wait a minute: Kubernetes creates the claim again from its template. If the claim"
                " is still missing, ask the platform team to read the log of"
                " kube-controller-manager"
            )
        if not remedy:
            who = "you"
            remedy = f"Create {kind} {name}, or correct the name in the pod templates"
        yield about(evidence, "ClaimMissing", text, remedy, who, objects=objects)


def claim_not_created(gang: Gang) -> Reasons:
    """Report that Kubernetes can't create the claims of pods from a template, and says why."""
    told = [
        (event, pod)
        for pod in gang.waiting
        if any(_lacks(gang, claim) for claim in pod.claims)
        for event in gang.index.events_about(pod.namespace, pod.uid)
        if event.warns and event.reason == _NOT_CREATED
    ]
    for _, each in grouped((event.reason, (event, pod)) for event, pod in told):
        event = max((event for event, _ in each), key=lambda event: event.time or 0.0)
        pods = list({pod.key: pod for _, pod in each}.values())
        words = words_of(event, "the controller of claims")
        has = counted(pods, "pod lacks a claim", "pods lack claims")
        text = f"{has} that Kubernetes creates from a template; {words.quoted(gang.facts.now)}"
        remedy = "Fix the problem that the message describes"
        if "exceeded quota" in words.text:
            remedy = (
                "Delete ResourceClaims that no pod needs, or ask for a higher ResourceQuota of"
                f" namespace {gang.namespace}: kubectl describe resourcequota -n {gang.namespace}"
            )
        evidence = Evidence(pods[0].ref, f"event {event.reason}", event.message)
        yield about(evidence, "ClaimMissing", text, remedy, "you", objects=refs(pods))


def _lacks(gang: Gang, claim: PodClaim) -> bool:
    """Return whether a claim is yet to be created from a template that exists."""
    return not claim.claim and (gang.namespace, claim.template) in gang.index.claim_templates


_NOT_CREATED = "FailedResourceClaimCreation"
"""The reason of kube-controller-manager's event (`pkg/controller/resourceclaim/controller.go`)."""


def _creator_remedy(gang: Gang, name: str, owners: Mapping[str, Ref], ours: Collection[str]) -> str:
    """Return the remedy if a controller should have created a claim or template, or else "".

    `owners` are the owners of MNNVL units, by the name of the unit. `ours` are the names of the
    claims and templates that grove-admission or Grove adds to pods for MNNVL.
    """
    for domain in gang.index.domains_of_template.get((gang.namespace, name), ()):
        return (
            "Ask the platform team to read the log of NVIDIA's compute-domain controller, which"
            f" creates the template from ComputeDomain {domain.name}"
        )

    unit = name.removesuffix(TEMPLATE_SUFFIX)
    if unit in owners:
        return (
            f"Check the events of {owners[unit]}, and ask the platform team to run: grove-admission"
            f" doctor. grove-admission creates ComputeDomain {unit}{DOMAIN_SUFFIX}, and NVIDIA's"
            " controller creates the template from it"
        )

    if name not in ours:
        return ""

    return "Ask the platform team to run: grove-admission doctor"


def _missing(gang: Gang, claim: PodClaim) -> tuple[str, str, str] | None:
    """Return (kind, name, field) of a missing claim or template, or None if nothing is missing.

    `field` is the pod's field with the name. A template is missing only if the pod's claim from the
    template does not exist either.
    """
    if claim.claim and (gang.namespace, claim.claim) in gang.index.claims:
        return None
    if claim.template and (gang.namespace, claim.template) not in gang.index.claim_templates:
        field = "spec.resourceClaims[].resourceClaimTemplateName"
        return "ResourceClaimTemplate", claim.template, field
    if claim.claim:
        named = "spec.resourceClaims[].resourceClaimName"
        return "ResourceClaim", claim.claim, _GENERATED if claim.template else named
    return None


_GENERATED = "status.resourceClaimStatuses[].resourceClaimName"
"""The field of a pod with the name of a claim that Kubernetes created from a template."""


def _namespace_of_domain(index: Index, template: str) -> str:
    """Return NAMESPACE/NAME of a ComputeDomain that names a template, or "".

    The ComputeDomain may be in any namespace.
    """

    def look() -> Mapping[str, str]:
        domains = index.facts.compute_domains
        return {domain.template: f"{domain.namespace}/{domain.name}" for domain in domains}

    key = "ComputeDomains by template"
    return index.remembered(key, look, ["compute_domains"]).get(template, "")


def device_class_missing(gang: Gang) -> Reasons:
    """Report that an unallocated claim or its template requests a DeviceClass that is missing."""
    named = (_classes(gang, claim) for claim, _ in _claims(gang) if not _is_allocated(gang, claim))
    unknown = (
        (name, ref)
        for ref, classes in named
        for name in classes
        if name not in gang.index.device_classes
    )
    for name, refs_of_claims in grouped(unknown):
        objects = tuple(sorted(set(refs_of_claims)))
        text = f"DeviceClass {name} does not exist, so {_claims_of(objects[0])} cannot be allocated"
        evidence = Evidence(objects[0], "spec.devices.requests[].deviceClassName", name)
        remedy = (
            f"Ask the platform team to install the driver that provides DeviceClass {name}, or"
            f" create {objects[0]} again with another deviceClassName"
        )
        yield about(evidence, "DeviceClassMissing", text, remedy, "platform", objects=objects)


def devices_not_offered(gang: Gang) -> Reasons:
    """Report that no node offers devices of the driver that a claim's DeviceClass names.

    NeverFits reports missing GPUs, except those of shared claims, which don't count as requests.
    """
    offered = {part.driver for part in gang.facts.slices}
    for claim, _ in _claims(gang):
        if _is_allocated(gang, claim):
            continue
        ref, names = _classes(gang, claim)
        for name in dict.fromkeys(names):
            known = gang.index.device_classes.get(name)
            counts = bool(known and known.gpus and claim.template)
            if known and known.driver and not counts and known.driver not in offered:
                text = (
                    f"No node offers devices of DeviceClass {name}: there is no ResourceSlice of"
                    f" driver {known.driver}, so {_claims_of(ref)} cannot be allocated"
                )
                evidence = Evidence(ref, "spec.devices.requests[].deviceClassName", name)
                remedy = (
                    f"Ask the platform team whether the kubelet plugin of {known.driver} runs on"
                    " the nodes: it publishes their ResourceSlices"
                )
                yield about(evidence, "DeviceClassMissing", text, remedy, "platform")


def _is_allocated(gang: Gang, claim: PodClaim) -> bool:
    stored = gang.index.claims.get((gang.namespace, claim.claim))
    return stored is not None and stored.allocated


def _claims_of(ref: Ref) -> str:
    """Return words for the claim `ref` or, if `ref` is a template, for its claims."""
    return f"claims of {ref}" if ref.kind == "ResourceClaimTemplate" else str(ref)


def _classes(gang: Gang, claim: PodClaim) -> tuple[Ref, tuple[str, ...]]:
    """Return the object that requests devices for a claim, and the names of their DeviceClasses.

    The object is the claim's template, or else the claim, which may not exist.
    """
    template = gang.index.claim_templates.get((gang.namespace, claim.template))
    if template:
        return Ref("ResourceClaimTemplate", gang.namespace, claim.template), template.classes
    stored = gang.index.claims.get((gang.namespace, claim.claim))
    return Ref("ResourceClaim", gang.namespace, claim.claim), (stored.classes if stored else ())


def only_on(gang: Gang, allowed: Callable[[Node], bool]) -> Assumption:
    """Return the assumption that pods can be placed only on nodes for which `allowed` is true."""
    nodes = enumerate(gang.index.nodes)
    return Assumption(only=frozenset(position for position, node in nodes if allowed(node)))


def not_in_pods_of_units(gang: Gang) -> Reasons:
    """Report that pods request MNNVL themselves, instead of by a PodClique, but have no claim."""
    without = [pod for pod in gang.pods if pod.asks_mnnvl and not _has_our_claim(pod)]
    if without:
        ask = counted(without, "pod requests MNNVL but has", "pods request MNNVL but have")
        they = "it was" if len(without) == 1 else "they were"
        text = f"{ask} no claim: no webhook added one when {they} created"
        yield _replaceable(gang, "ClaimNotInjected", text, without, refs(without), "platform")


def claim_not_injected(gang: Gang) -> Reasons:
    """Report that a PodClique requests MNNVL but has no claim: no webhook added one."""
    pcs = gang.pcs
    if not pcs:
        return
    # Only releases of Grove with ClusterTopologyBindings read MNNVL groups.
    kinds = {known.kind for known in gang.facts.topologies}
    reads_groups = "ClusterTopologyBinding" in kinds
    for member in gang.members:
        clique = member.clique
        unclaimed = clique and clique.unclaimed
        if clique and unclaimed and lacks_claim(unclaimed, pcs, reads_groups=reads_groups):
            yield _not_injected(member, clique)


def _not_injected(member: Member, clique: PodClique) -> Reason:
    running = [pod for pod in member.pods if pod.node and not _has_our_claim(pod)]
    text = f"PodClique {clique.name} requests MNNVL but has no claim"
    if running:
        run = counted(running, "of its pods runs", "of its pods run")
        text = f"{text}; {run} outside the NVLink domain"

    evidence = Evidence(clique.ref, "spec.podSpec.resourceClaims", "no mnnvl")

    return about(
        evidence,
        "ClaimNotInjected",
        text,
        PUT_BACK.rstrip("."),
        "platform",
        objects=(clique.ref, *refs(running)),
        severity="warning",
    )


def claim_not_in_pods(gang: Gang) -> Reasons:
    """Report that pods with a node lack the claim of their PodClique."""
    for member in gang.members:
        clique = member.clique
        if not clique or not _has_our_claim(clique):
            continue
        running = (pod for pod in member.pods if pod.node and pod.is_alive)
        outside = [pod for pod in running if not _has_our_claim(pod)]
        if outside:
            of = f"of {clique.ref}"
            run = counted(outside, f"pod {of} runs", f"pods {of} run")
            text = f"{run} without its claim, outside the NVLink domain"
            objects = (clique.ref, *refs(outside))
            yield _replaceable(gang, "ClaimNotInPods", text, outside, objects, "you")


def _replaceable(
    gang: Gang, id: str, text: str, pods: list[Pod], objects: tuple[Ref, ...], who: Who
) -> Reason:
    """Return the reason for pods that lack a claim which their replacements would get.

    The last of `objects` is one of these pods.
    """
    evidence = Evidence(objects[-1], "spec.resourceClaims", "no mnnvl")
    one = len(pods) == 1
    restart = "Delete this pod" if one else "Delete these pods"
    names = shlex.join(ref.name for ref in objects if ref.kind == "Pod")
    commands: tuple[str, ...] = (f"kubectl delete pod -n {objects[-1].namespace} {names}",)
    if not are_replaced(gang, pods):
        restart = upper_first(restart_of(gang, pods, "these pods"))
        commands = ()
    get = "its replacement gets" if one else "their replacements get"
    remedy = f"{restart} when the workload can tolerate it: {get} the claim"
    return about(
        evidence,
        id,
        text,
        remedy,
        who,
        objects=objects,
        severity="warning",
        commands=commands,
    )


def _has_our_claim(holder: Pod | PodClique) -> bool:
    return any(claim.name == CLAIM for claim in holder.claims)


def channel_taken(gang: Gang) -> Reasons:
    """Report that nodes which the gang needs have no NVLink channel, or none that is free."""
    placements = gang.placements
    if not placements.now.fits or not _waits_for_channel(gang):
        return

    takers = _channel_takers(gang.index)
    without = _without_channel(gang)
    closed = takers.keys() | without
    if not closed or placements.under(only_on(gang, lambda node: node.name not in closed)).fits:
        yield from _too_few_channels(gang, closed)
        return
    if without and not placements.under(only_on(gang, lambda node: node.name not in without)).fits:
        yield _no_channels(without & placements.now.nodes)
        return

    number = counted(gang.index.nodes, "node")
    names = dict.fromkeys(claim.name for claim in takers.values())
    holders = f"{'ResourceClaim' if len(names) == 1 else 'ResourceClaims'} {listed(names)}"
    text = f"The NVLink channels of {len(takers)} of {number} are allocated to {holders}"
    if len(takers) == 1:
        text = f"The NVLink channel of {next(iter(takers))} is allocated to {holders}"
    objects = tuple(Ref("Node", "", name) for name in takers)
    name, claim = next(iter(takers.items()))
    evidence = Evidence(claim.ref, "status.allocation.devices", name)
    abandoned = [claim for claim in _once(takers) if is_abandoned(gang.index, claim)]
    if abandoned:
        text += f". The pods of {listed(claim.name for claim in abandoned)} are gone"
        remedy = release_of(abandoned, gang.facts.now)
        yield about(evidence, "ChannelTaken", text, remedy, "platform", objects=objects)
        return
    remedy = _freeing(gang, takers)
    yield about(evidence, "ChannelTaken", text, remedy, "you", objects=objects)


def _too_few_channels(gang: Gang, closed: Collection[str]) -> Reasons:
    """Yield a reason if pods claim more NVLink channels than nodes have. A node has only one.

    `closed` are the nodes without a free channel.
    """
    claims = {pod.key: found for pod in gang.waiting if (found := _channel_claims(gang, pod))}
    claiming = [pod for pod in gang.waiting if pod.key in claims]
    several = [pod for pod in claiming if len(claims[pod.key]) > 1]
    if several:
        own = claims[several[0].key]
        pods = counted(several, "pod claims", "pods claim")
        text = f"{pods} {len(own)} NVLink channels, but a node has only one"
        remedy = f"Keep one of the claims {listed(own)} in the pod template"
        if GROVE_CLAIM in own:
            remedy = f"Remove one of the claims {listed(own)}. Grove adds {GROVE_CLAIM}"
            remedy = f"{remedy}. {_WITHOUT_MNNVL}"
        evidence = Evidence(several[0].ref, "spec.resourceClaims", listed(own))
        yield about(evidence, "ChannelTaken", text, remedy, "you", objects=refs(several))
        return

    fit = gang.placements.fit()
    usable = [
        node.name
        for position, node in enumerate(gang.placements.domains.nodes)
        if node.name not in closed
        if any(fit[shape][position] for shape, _ in gang.demand.shapes)
    ]
    # Placed pods, and pods without such a claim, may fill up the minimum of a member.
    others = [sum(pod.key not in claims for pod in member.pods) for member in gang.members]
    pairs = zip(gang.members, others, strict=True)
    number = sum(max(0, member.minimum - without) for member, without in pairs)
    if number <= len(usable):
        return
    has = "no usable node has a free channel"
    if usable:
        has = f"only {counted(usable, 'usable node has', 'usable nodes have')} a free channel"
    text = (
        f"{counted(number, 'pod')} of the gang must each get an NVLink channel. A node has only one"
        f" channel, and {has}"
    )
    remedy = (
        "Use one larger pod per node instead of several, or ask the platform team for more nodes"
    )
    if any(GROVE_CLAIM in found for found in claims.values()):
        remedy += f". Pods that share no memory over NVLink need no channel. {_WITHOUT_MNNVL}"
    evidence = Evidence(gang.ref, "nodes with a free channel", str(len(usable)))
    yield about(evidence, "ChannelTaken", text, remedy, "you", objects=refs(claiming))


_WITHOUT_MNNVL = (
    "To keep Grove from adding it, create the PodCliqueSet again with the annotation"
    f" {MNNVL_GROUP}: none"
)


def _channel_claims(gang: Gang, pod: Pod) -> list[str]:
    """Return the names of a pod's unallocated claims for a channel, each with an own template."""
    return [
        claim.name
        for claim in pod.claims
        if claim.template and not _is_allocated(gang, claim)
        if any(name.startswith("compute-domain") for name in _classes(gang, claim)[1])
    ]


def _once(takers: Mapping[str, ResourceClaim]) -> list[ResourceClaim]:
    """Return each claim once, although it may hold the channels of several nodes."""
    return list({claim.key: claim for claim in takers.values()}.values())


def _without_channel(gang: Gang) -> frozenset[str]:
    """Return the names of the nodes without a ResourceSlice of the driver of channels.

    Return none if all nodes lack one, because DeviceClassMissing reports that. Also return none if
    a pending pod needs no channel, because this pod may be placed on such a node.
    """

    def look() -> frozenset[str]:
        having = {part.node for part in gang.index.slices if part.driver == CHANNEL_DRIVER}
        names = {node.name for node in gang.index.nodes}
        return frozenset(names - having if having & names else ())

    if not all(_wants_channel(gang, pod) for pod in gang.waiting):
        return frozenset()
    return gang.index.remembered("nodes without channels", look, ["nodes", "slices"])


def _no_channels(without: Collection[str]) -> Reason:
    """Return the reason for a gang that would be placed on these nodes, which have no channels."""
    names = sorted(without)
    has = "has" if len(names) == 1 else "have"
    text = (
        f"{listed(names)} {has} no ResourceSlice of driver {CHANNEL_DRIVER}, so no NVLink channel"
        " can be allocated there, and the gang does not fit on the other nodes"
    )
    remedy = (
        f"Ask the platform team whether the kubelet plugin of {CHANNEL_DRIVER}, which publishes the"
        f" ResourceSlices, runs on {listed(names)}"
    )
    objects = tuple(Ref("Node", "", name) for name in names)
    evidence = Evidence(objects[0], "ResourceSlices", "0")
    return about(evidence, "ChannelTaken", text, remedy, "platform", objects=objects)


def _channel_takers(index: Index) -> dict[str, ResourceClaim]:
    """Return the claim that holds the NVLink channel of each node, by node name.

    Nodes with a free channel are omitted.
    """

    def look() -> dict[str, ResourceClaim]:
        takers = {
            device.pool: claim
            for claim in index.facts.claims
            for device in claim.devices
            if (device.driver, device.device) == (CHANNEL_DRIVER, CHANNEL)
        }
        return {node.name: takers[node.name] for node in index.nodes if node.name in takers}

    return index.remembered("channel takers", look, ["claims", "nodes"])


def _freeing(gang: Gang, takers: Mapping[str, ResourceClaim]) -> str:
    """Return the remedy that frees channels for a gang.

    `takers` has the claim that holds the channel of each node, by node name.
    """
    own = {claim.claim for pod in gang.pods for claim in pod.claims}
    others = {name for name, claim in takers.items() if claim.name not in own}
    others |= _without_channel(gang)
    if gang.placements.under(only_on(gang, lambda node: node.name not in others)).fits:
        return "Use one larger pod per node instead of several: a node has only one NVLink channel"
    users = [
        pod
        for claim in takers.values()
        for user in claim.consumers
        if (pod := gang.index.pods.get((claim.namespace, user.name)))
    ]
    if users:
        return together(*freeing_remedies(gang, users, 1)[0])
    names = dict.fromkeys(claim.name for claim in takers.values())
    if len(names) == 1:
        of, channels = "owner of ResourceClaim", "its channel"
    else:
        of, channels = "owners of ResourceClaims", "their channels"
    return f"Ask the {of} {listed(names)} to release {channels}: a node has only one channel"


def _waits_for_channel(gang: Gang) -> bool:
    """Return whether a pending pod has an unallocated claim for a channel."""
    return any(_wants_channel(gang, pod) for pod in gang.waiting)


def _wants_channel(gang: Gang, pod: Pod) -> bool:
    """Return whether a pod has an unallocated claim for a channel."""
    for claim in pod.claims:
        if not _is_allocated(gang, claim):
            _, classes = _classes(gang, claim)
            if any(name.startswith("compute-domain") for name in classes):
                return True
    return False
