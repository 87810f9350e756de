"""Find the owners of units. A unit is a group of Pods that share a ComputeDomain.

Owners are read from the API server, because anybody can write any owner into a Pod.
"""

import contextlib
from collections.abc import Collection
from typing import Any

from app.cluster.view import WHOLE, Known
from app.facts.grove.unit_member import Carrier
from app.facts.kinds import CLAIM_TEMPLATE, POD_GROUP, RESOURCE_CLAIM
from app.facts.kubernetes.claim import read_claim_template, read_resource_claim
from app.facts.unit_owners import OWNER_KINDS, is_label_key, path_of_key
from app.kube.api import ClusterError, Object, ObjectRef, Objects, find
from app.kube.owners import Owners, is_kind
from app.objects.fields import FieldError, FieldPath, forbidden, invalid
from app.objects.names import is_subdomain
from app.objects.owners import controller_of
from app.objects.resource import JOB, POD, STATEFUL_SET, Resource
from app.objects.shape import JsonMap, labels_of, list_of, map_at, map_of, maps_of, text_at
from app.rules.mnnvl.claim import CHANNEL_CLASS
from app.rules.mnnvl.colocation import OwnGroup, name_of_own_group, read_own_group
from app.rules.mnnvl.plan import Plan

CONTROLLERS = (
    POD,
    STATEFUL_SET,
    JOB,
    *(resource for kind in OWNER_KINDS for resource in kind.resources),
)
"""The kinds in the chain of controllers from a Pod to the owner of its unit.

They include Pods, because the leader of a LeaderWorkerSet's group, a Pod, controls its workers.
"""


MOST_CLAIMS = 32
"""The maximum number of a Pod's claims that are read to find one for the NVLink channel."""


class UnitOwners:
    """A reader of the owners of units, and of the other objects that their Pods name.

    `known` says whether the facts are complete. If they are, an object that `client` does not find
    does not exist.
    """

    def __init__(self, client: Objects, known: Known = WHOLE) -> None:
        self._client = client
        self._known = known
        self._owners = Owners(client, self._find_kind)

    async def owned(self, plan: Plan) -> tuple[Plan | None, list[Object]]:
        """Return the plan of a Pod with the owner that the Pod names, and the Pod's controllers.

        The plan is None if the owner is not one of these controllers. A PodGroup or a Workload of
        Kubernetes only has to exist, and no controllers are read for it. Raise ClusterError if a
        request fails, or NotGiven if the owner may exist outside of the known documents.
        """
        named = plan.member.named
        controller = plan.member.controller
        assert named is not None
        if not is_label_key(named.kind.key):
            (resource,) = named.kind.resources
            ref = ObjectRef(resource, named.name, plan.namespace)
            group = await find(self._client, ref, metadata_only=True)
            version = self._client.served_version(resource)
            if group is None:
                self._known.check(resource, named.name)
                return None, []
            return plan.owned_by(group["metadata"]["uid"], resource.in_version(version)), []

        chain = await self._owners.chain(plan.namespace, controller) if controller else []
        for obj in chain:
            if obj["kind"] in named.kind.resource_kinds and obj["metadata"]["name"] == named.name:
                kind = await self._find_kind(obj["apiVersion"], obj["kind"])
                return plan.owned_by(obj["metadata"]["uid"], kind), chain
        missing = controller_of(chain[-1]) if chain else controller
        above = missing and await self._find_kind(missing.api_version, missing.kind)
        if missing and above:
            self._known.check(above, missing.name)
        return None, []

    async def find_rival(self, pod: Carrier) -> FieldError | None:
        """Return a finding if `pod` has another claim for the NVLink channel, otherwise None.

        Raise ClusterError if a request fails.
        """
        position = await self._find_channel(pod.claims, pod.claim, pod.namespace)
        return None if position is None else _rival(pod.pod_spec, position)

    async def find_rival_of_set(
        self, pcs: JsonMap, namespace: str, names: Collection[str]
    ) -> list[FieldError]:
        """Return findings about cliques of `pcs` that have their own claim for the NVLink channel.

        `pcs` is a PodCliqueSet in `namespace`. Only the cliques with these `names` are examined.
        Raise ClusterError if a request fails.
        """
        at = FieldPath("spec.template.cliques")
        found = []
        for number, clique in enumerate(list_of(map_at(pcs, "spec", "template").get("cliques"))):
            if text_at(map_of(clique), "name") in names:
                claims = list_of(map_at(map_of(clique), "spec", "podSpec").get("resourceClaims"))
                position = await self._find_channel(claims, None, namespace)
                if position is not None:
                    found.append(_rival(at.index(number).child("spec.podSpec"), position))
        return found

    async def _find_channel(self, claims: Any, own: Any, namespace: str) -> int | None:
        """Return the position in `claims` of a claim for the NVLink channel, or None.

        The claim `own` does not count, and only the first MOST_CLAIMS are read. Raise ClusterError
        if a request fails.
        """
        for position, entry in enumerate(maps_of(claims)[:MOST_CLAIMS]):
            for field, resource, read in (
                ("resourceClaimName", RESOURCE_CLAIM, read_resource_claim),
                ("resourceClaimTemplateName", CLAIM_TEMPLATE, read_claim_template),
            ):
                name = text_at(entry, field)
                if entry == own or not is_subdomain(name):
                    continue
                stored = await find(self._client, ObjectRef(resource, name, namespace))
                if stored is not None and CHANNEL_CLASS in read(stored).classes:
                    return position
        return None

    async def own_group(self, pod: JsonMap, namespace: str) -> OwnGroup | None:
        """Return the KAI PodGroup that `pod` names, or None if it names none.

        If the PodGroup does not exist or can't be read, its `levels` are None.
        """
        name = name_of_own_group(pod)
        if not name:
            return None
        stored = None
        if is_subdomain(name):
            # the server may have no permission to read a PodGroup that a user created
            with contextlib.suppress(ClusterError):
                stored = await find(self._client, ObjectRef(POD_GROUP, name, namespace))
        return OwnGroup(name, None) if stored is None else read_own_group(pod, stored)

    async def has_unit(self, domain: JsonMap) -> bool:
        """Return whether the owner of a stored ComputeDomain exists and its spec has the unit.

        Return False also if the owner is not of a kind that owns units. Raise ClusterError if a
        request fails.
        """
        owner = controller_of(domain)
        resource = owner and await self._find_kind(owner.api_version, owner.kind)
        if not owner or not resource:
            return False

        ref = ObjectRef(resource, owner.name, domain["metadata"]["namespace"])
        stored = await find(self._client, ref, version=resource.versions[0])
        if stored is None or stored["metadata"]["uid"] != owner.uid:
            return False
        return any(
            kind.has_unit(map_at(stored, "spec"), labels_of(domain))
            for kind in OWNER_KINDS
            if resource.kind in kind.resource_kinds
        )

    async def _find_kind(self, api_version: str, kind: str) -> Resource | None:
        """Return the resource of a kind in CONTROLLERS, or None for other kinds.

        Its version is a served one if there is any, because the version in an owner reference may
        no longer be served.
        """
        if not is_kind(api_version, kind):
            return None
        group, _, version = api_version.rpartition("/")
        for resource in CONTROLLERS:
            if (resource.group, resource.kind) == (group, kind):
                return resource.in_version(self._client.served_version(resource) or version)
        return None


def not_owned(plan: Plan) -> FieldError:
    """Return the finding about a Pod whose label names a workload that does not own the Pod.

    A PodGroup or Workload, which a Pod names in its spec, need not own the Pod, but must exist.
    """
    named = plan.member.named
    assert named is not None
    title = named.kind.title
    detail = (
        f"no {title} with this name controls the Pod, as far as grove-admission may read its"
        f" controllers: let the {title} create the Pod, or remove the label"
    )
    if not is_label_key(named.kind.key):
        detail = (
            f"this {title} does not exist in namespace {plan.namespace}: create it before the Pods"
            " that name it"
        )
    return invalid(path_of_key(named.kind.key), named.name, detail)


def _rival(pod_spec: FieldPath, position: int) -> FieldError:
    """Return the finding about the claim at `position` of a Pod's claims."""
    detail = (
        "this claim also requests the only NVLink channel of the node: remove the claim, and its"
        " ComputeDomain if no other Pod uses it"
    )
    return forbidden(pod_spec.child("resourceClaims").index(position), detail)
