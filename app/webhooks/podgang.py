"""The webhook of PodGang.

It writes topology constraints for the scheduler, and makes the PodGang the owner of its MNNVL
resources, both only in the dialect `design`.

At CREATE, a PodGang has no uid for an owner reference: the webhook only writes the annotation, and
the reconciler makes the PodGang the owner.
"""

import contextlib
import logging
from typing import Any

from msgspec.structs import replace

from app.admission.review import Request
from app.admission.verdict import Effect, Later, Verdict, judged, patched
from app.base.value import Value
from app.cluster.owners import MnnvlOwners
from app.cluster.view import ClusterView
from app.facts.grove.gang import SlimPodGang, read_gang
from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.labels import MNNVL_ADOPTED
from app.kube.api import ClusterError, Unavailable
from app.objects.edits import ABSENT, Edit, Path, operations, value_at
from app.objects.shape import map_at, text_at
from app.webhooks.making import patience

PATIENCE_SECONDS = 2.5
"""The time for calls of the API server before the verdict, for which it waits 5 s."""

logger = logging.getLogger(__name__)


class PodGangWebhook(Value):
    facts: ClusterView
    owners: MnnvlOwners

    def __call__(self, request: Request) -> Verdict | Later:
        findings = self.facts.dialect().validate_podgang(request.object)
        if findings:
            return judged(findings)

        gang = replace(read_gang(request.object, request.namespace), uid=_stored_uid(request))
        pcs = self.facts.cached_set(request.namespace, gang.place.pcs, gang.set_uid)
        adopting = self._adopting(request, gang.uid)
        if pcs is None or adopting is not None:
            return Later(lambda: self._complete(request, gang, adopting))

        return self._verdict(request, gang, pcs, [])

    def _adopting(self, request: Request, uid: str) -> SlimPodGang | None:
        """Return the cached PodGang of `request` if it may adopt resources, else None.

        Its uid and labels are those of the cache, because a review proves nothing: anybody who
        reaches the port can send one.
        """
        if not (request.trusted or request.dry_run):
            return None

        cached = self.owners.cached_gang(request.namespace, request.name, uid)
        if cached is None:
            return None

        gang = cached.opened()
        return gang if "adoptable" in self.owners.states_of(gang) else None

    async def _complete(
        self,
        request: Request,
        gang: SlimPodGang,
        adopting: SlimPodGang | None,
    ) -> Verdict:
        """Read the set if the cache lacks it, and let `adopting` adopt resources.

        If a call fails or takes too long, the reconciler does it later: the PodGang gets only
        preferred constraints, and its annotation is "false".
        """
        pcs = None
        effects = list[Effect]()
        try:
            async with patience(PATIENCE_SECONDS):
                pcs = await self.facts.read_set(request.namespace, gang.place.pcs, gang.set_uid)
                if adopting is not None:
                    written = await self.owners.adopt(adopting, dry_run=request.dry_run)
                    effects = [Effect("adopt", obj) for obj in written]
        except ClusterError as problem:
            logger.info(
                "PodGang %s/%s: left to the reconciler: %s",
                gang.namespace,
                gang.name,
                problem,
            )

        return self._verdict(request, gang, pcs, effects)

    def _verdict(
        self,
        request: Request,
        gang: SlimPodGang,
        pcs: PodCliqueSet | None,
        effects: list[Effect],
    ) -> Verdict:
        dialect = self.facts.dialect()
        changes = dialect.podgang_changes(request.object, pcs, self.facts)
        warnings = [_unknown_set(gang)] if changes and pcs is None else []
        with contextlib.suppress(Unavailable):
            warnings += dialect.podgang_warnings(request.object, self.facts)
        changes += self._adopted(request, gang)
        return patched(operations(request.object, changes), warnings=warnings, effects=effects)

    def _adopted(self, request: Request, gang: SlimPodGang) -> list[Edit]:
        path = ("metadata", "annotations", MNNVL_ADOPTED)
        adopting = request.dry_run and bool(gang.uid)
        adopted = self.owners.rule.adopted(self.owners.states_of(gang), adopting=adopting)
        value = adopted or _kept(request, path)
        return [] if value_at(request.object, path) == value else [Edit(path, value)]


def _kept(request: Request, path: Path) -> Any:
    """Return what an UPDATE leaves at `path` of what is stored there, else ABSENT.

    The caches may not show yet what the PodGang owns. Without the annotation, our webhook would not
    be called before the deletion of the PodGang. So it is only removed by the reconciler, whose
    patch comes here too.
    """
    if request.old is None or value_at(request.old, path) is ABSENT:
        return ABSENT
    return value_at(request.object, path)


def _stored_uid(request: Request) -> str:
    """Return the uid of the PodGang that an UPDATE replaces, "" at CREATE.

    The new object may contain another one, for example that of an exported object, and the API
    server rejects an UPDATE with such a uid only after mutating admission.
    """
    return "" if request.old is None else text_at(map_at(request.old, "metadata"), "uid")


def _unknown_set(gang: SlimPodGang) -> str:
    pcs = (
        f'PodCliqueSet "{gang.place.pcs}"'
        if gang.place.pcs
        else "the PodCliqueSet (no label names it)"
    )
    return (
        f"{pcs} is not known: PodGang {gang.name} gets preferred topology constraints only, until"
        " it is"
    )
