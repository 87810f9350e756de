"""The webhooks of PodGang.

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
from app.admission.verdict import ALLOWED, Effect, Later, Verdict, judged, patched, unavailable
from app.base.value import Value
from app.cluster.owners import MnnvlOwners
from app.cluster.view import ClusterView
from app.facts.grove.podcliqueset import MOST_PARTS, PodCliqueSet
from app.facts.grove.podgang import SlimPodGang, read_gang
from app.facts.labels import MNNVL_ADOPTED
from app.kube.api import ClusterError, Rejected, Unavailable
from app.objects.edits import ABSENT, Edit, operations, value_at
from app.objects.shape import map_of, text_at
from app.webhooks.mnnvl import patience

PATIENCE_SECONDS = 2.5
"""The time for calls of the API server before the verdict, for which it waits 5 s."""

logger = logging.getLogger(__name__)
_ADOPTED = ("metadata", "annotations", MNNVL_ADOPTED)


class PodGangWebhook(Value):
    facts: ClusterView
    owners: MnnvlOwners

    def __call__(self, request: Request) -> Verdict | Later:
        findings = self.facts.dialect().validate_podgang(request.object)
        if findings:
            return judged(findings)

        # The new object may have another uid, for example that of an exported object, and the API
        # server rejects an UPDATE with such a uid only after mutating admission.
        gang = replace(
            read_gang(request.object, request.namespace),
            uid=text_at(map_of((request.old or {}).get("metadata")), "uid"),
        )
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
        self, request: Request, gang: SlimPodGang, adopting: SlimPodGang | None
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
        self, request: Request, gang: SlimPodGang, pcs: PodCliqueSet | None, effects: list[Effect]
    ) -> Verdict:
        dialect = self.facts.dialect()
        if pcs is not None and pcs.is_cut:
            changes: list[Edit] = []
            warnings = [_too_many_parts(gang)]
        else:
            changes = dialect.podgang_changes(request.object, pcs, self.facts)
            warnings = [_unknown_set(gang)] if changes and pcs is None else []
        with contextlib.suppress(Unavailable):
            warnings += dialect.podgang_warnings(request.object, self.facts)

        adopting = request.dry_run and bool(gang.uid)
        adopted = self.owners.rule.adopted(self.owners.states_of(gang), adopting=adopting)
        changes.append(Edit(_ADOPTED, adopted or _kept(request)))
        return patched(operations(request.object, changes), warnings=warnings, effects=effects)


def _kept(request: Request) -> Any:
    """Return what an UPDATE leaves of the stored annotation, else ABSENT.

    The caches may not show yet what the PodGang owns. Without the annotation, our webhook would not
    be called before the deletion of the PodGang. So it is only removed by the reconciler, whose
    patch comes here too.
    """
    if value_at(request.old, _ADOPTED) is ABSENT:
        return ABSENT
    return value_at(request.object, _ADOPTED)


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


def _too_many_parts(gang: SlimPodGang) -> str:
    return (
        f'PodCliqueSet "{gang.place.pcs}" has more than {MOST_PARTS} cliques and scaling groups and'
        f" is not read: the topology constraints of PodGang {gang.name} are left as they are"
    )


# Deletion.


PATIENCE_BEFORE_DELETION = 3.5
"""The time for calls of the API server before the verdict, for which it waits 5 s."""


class PodGangDeletionWebhook(Value):
    """Gives back the MNNVL resources that a PodGang still owns, before it is deleted.

    Otherwise, the garbage collector would delete them under running pods. Grove's next releases
    delete the PodGangs of running workloads seconds after they were installed, which may be too
    soon for the leader. The API server only sends PodGangs with the annotation
    `grove.io/mnnvl-resources-adopted`.

    If the resources can't be given back, the deletion is denied with 503, and Grove tries again. It
    is never denied if the PodCliqueSet is gone or being deleted, which is soon so in a namespace
    that is being deleted too. In the dialect `design`, the resources are deleted with the PodGang,
    as its document asks, unless the API server serves a later Grove's API by now: discovery, which
    decides on the dialect, may not have seen it yet.

    What is given back is read from the API server, because the caches may be late. Of the review,
    only the name and the uid of the PodGang count.
    """

    owners: MnnvlOwners

    def __call__(self, request: Request) -> Verdict | Later:
        if request.dry_run:
            return ALLOWED

        gang = read_gang(request.object, request.namespace)
        if self.owners.gives_back:
            return Later(lambda: self._give_back(gang))
        if self.owners.may_be_late:
            return Later(lambda: self._while_design(gang))
        return ALLOWED

    async def _give_back(self, gang: SlimPodGang) -> Verdict:
        try:
            async with patience(PATIENCE_BEFORE_DELETION):
                await self.owners.give_back_all_of(gang)
        except Rejected:
            raise
        except ClusterError as problem:
            return unavailable(
                f'PodGang "{gang.name}" may still own MNNVL resources, which would be deleted with'
                " it while pods may use them, and they could not be given to the PodCliqueSet"
                f" ({problem.message}): try again"
            )
        return ALLOWED

    async def _while_design(self, gang: SlimPodGang) -> Verdict:
        """Return the verdict if the dialect is still `design`, else ask Grove to try again."""
        try:
            async with patience(PATIENCE_BEFORE_DELETION):
                if await self.owners.living_set_of(gang) is None:
                    return ALLOWED
                later = await self.owners.later_dialect()
        except Rejected:
            return ALLOWED
        except ClusterError as problem:
            return unavailable(
                f'PodGang "{gang.name}" owns MNNVL resources, and whether Grove has been upgraded'
                f" could not be read ({problem.message}): try again"
            )
        if not later:
            return ALLOWED
        return unavailable(
            f'PodGang "{gang.name}" owns MNNVL resources, and Grove has just been upgraded to the'
            f' dialect "{later}", in which they are given to the PodCliqueSet first: try again in a'
            " few seconds"
        )
