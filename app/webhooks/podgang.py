"""PodGang: topology constraints for the scheduler, and the ownership of MNNVL resources.

At CREATE there is no uid that an owner reference could name: the webhook marks, the reconciler transfers.
"""

import logging
from collections.abc import Awaitable
from dataclasses import replace

from app.admission.review import Request
from app.admission.verdict import Effect, Verdict, judged, patched
from app.cluster.readers import MnnvlResources, PodCliqueSetReader, TopologyReader
from app.kube.api import ClusterError
from app.objects.edits import ABSENT, Change, Edit, operations, value_at
from app.objects.fields import FieldError, FieldPath, as_map, walk_list, walk_map
from app.rules.labels import MNNVL_ADOPTED
from app.rules.mnnvl.ownership import Gang, adopted_annotation, ownership, read_gang
from app.rules.podcliqueset import PodCliqueSet
from app.rules.topology.podgang import constraint_changes

logger = logging.getLogger(__name__)


class PodGangWebhook:
    def __init__(self, topology: TopologyReader, sets: PodCliqueSetReader, resources: MnnvlResources) -> None:
        self._topology = topology
        self._sets = sets
        self._resources = resources

    def __call__(self, request: Request) -> Verdict | Awaitable[Verdict]:
        findings = shape_of_spec(request)
        if findings:
            return judged(findings)
        gang = read_gang(request.object, request.namespace)
        if request.operation == "CREATE" and gang.uid:  # an exported object's: the stored one will have another
            gang = replace(gang, uid="")
        pcs = self._sets.cached_set(request.namespace, gang.place.pcs)
        waiting = [one for one in self._resources.resources_of(gang) if ownership(one, gang) == "adoptable"]
        if pcs is None or (waiting and gang.uid):
            return self._complete(request, gang)
        return self._verdict(request, gang, pcs, [])

    async def _complete(self, request: Request, gang: Gang) -> Verdict:
        """With one read of the set where the cache lacks it, and the transfer where the PodGang has a uid."""
        pcs = await self._sets.read_set(request.namespace, gang.place.pcs)
        effects: list[Effect] = []
        if gang.uid:
            try:
                written = await self._resources.adopt(gang, dry_run=request.dry_run)
                effects = [Effect("adopt", one) for one in written]
            except ClusterError as error:  # the reconciler finishes it, and until then the annotation says so
                logger.info("PodGang %s/%s: not adopted yet: %s", gang.namespace, gang.name, error.message)
        return self._verdict(request, gang, pcs, effects)

    def _verdict(self, request: Request, gang: Gang, pcs: PodCliqueSet | None, effects: list[Effect]) -> Verdict:
        changes = constraint_changes(request.object, pcs, self._topology.topology())
        changes += self._adopted(request, gang)
        warnings = [] if pcs else [_unknown_set(gang)]
        return patched(operations(request.object, changes), warnings=warnings, effects=effects)

    def _adopted(self, request: Request, gang: Gang) -> list[Change]:
        path = ("metadata", "annotations", MNNVL_ADOPTED)
        adopting = request.dry_run and bool(gang.uid)
        wanted = adopted_annotation(self._resources.resources_of(gang), gang, adopting=adopting)
        value = ABSENT if wanted is None else wanted
        return [] if value_at(request.object, path) == value else [Edit(path, value)]


def shape_of_spec(request: Request) -> list[FieldError]:
    """Findings about the parts of the spec that constraints are written into."""
    findings: list[FieldError] = []
    root, at = FieldPath(""), FieldPath("spec")
    spec = walk_map(request.object, "spec", root, findings)
    _constraint_shape(spec, at, findings)
    for name in ("podgroups", "topologyConstraintGroupConfigs"):
        for position, item in enumerate(walk_list(spec, name, at, findings)):
            entry = as_map(item, at.child(name).index(position), findings)
            if entry is not None:
                _constraint_shape(entry, at.child(name).index(position), findings)
    return findings


def _constraint_shape(holder: dict[str, object], at: FieldPath, findings: list[FieldError]) -> None:
    constraint = walk_map(holder, "topologyConstraint", at, findings)
    walk_map(constraint, "packConstraint", at.child("topologyConstraint"), findings)


def _unknown_set(gang: Gang) -> str:
    named = f'PodCliqueSet "{gang.place.pcs}"' if gang.place.pcs else "the PodCliqueSet (no label names it)"
    return f"{named} is not known: PodGang {gang.name} gets preferred topology constraints only, until it is"
