"""Complete PodGangs when they are written, and keep their MNNVL resources when they are deleted.

In the dialect `design`, the first webhook writes topology constraints for the scheduler. If
PodGangs should own MNNVL resources (`mnnvl.owner`), the webhook also makes the PodGang their owner.
At CREATE, a PodGang has no uid for an owner reference yet: the webhook only writes the annotation,
and the reconciler makes the PodGang the owner.
"""

import contextlib
import logging
from typing import Any

from msgspec.structs import replace

from app.admission.review import Request
from app.admission.verdict import (
    ALLOWED,
    Effect,
    Later,
    Ready,
    Verdict,
    judged,
    patched,
    unavailable,
)
from app.base.value import Value
from app.cluster.owners import MnnvlOwners
from app.cluster.view import ClusterView
from app.facts.grove.podcliqueset import MOST_PARTS, PodCliqueSet
from app.facts.grove.podgang import SlimPodGang, read_gang
from app.facts.labels import GROVE_PCS_NAME, MNNVL_ADOPTED
from app.kube.api import ClusterError, Rejected, Unavailable
from app.objects.edits import ABSENT, Edit, operations, value_at
from app.objects.shape import map_of, text_at
from app.webhooks.mnnvl import patience

PATIENCE_SECONDS = 2.5
"""The time limit in seconds for calls to the API server, which waits 5 s for the verdict."""

logger = logging.getLogger(__name__)
_ADOPTED = ("metadata", "annotations", MNNVL_ADOPTED)


class PodGangWebhook(Value):
    """The handler that completes a PodGang: constraints, annotation and MNNVL resources."""

    facts: ClusterView
    owners: MnnvlOwners
    """The writer of the owner references of MNNVL resources."""

    def __call__(self, request: Request) -> Verdict | Later:
        findings = self.facts.dialect().validate_podgang(request.object)
        if findings:
            return judged(findings)

        # The new object may have another uid, for example from an exported file. The API server
        # rejects such an UPDATE only after mutating admission.
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

        Its uid and labels come from the cache, because a review proves nothing: anybody who reaches
        the port can send one.
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
    ) -> Ready:
        """Read the set if the cache lacks it, and let `adopting` adopt resources.

        If a call fails or takes too long, the reconciler completes the PodGang later. Until then,
        it may have only preferred constraints, and the value "false" of the annotation.
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

        return Ready(lambda: self._verdict(request, gang, pcs, effects))

    def _verdict(
        self, request: Request, gang: SlimPodGang, pcs: PodCliqueSet | None, effects: list[Effect]
    ) -> Verdict:
        dialect = self.facts.dialect()
        pcs_name = gang.place.pcs
        changes: list[Edit] = []
        warnings: list[str] = []
        if pcs is not None and pcs.is_cut:
            warnings.append(
                f'PodCliqueSet "{pcs_name}" has more than {MOST_PARTS} cliques and scaling groups,'
                f" or more than {MOST_PARTS} cliqueNames, and is not read: the topology constraints"
                f" of PodGang {gang.name} are left unchanged"
            )
        else:
            changes = dialect.podgang_changes(request.object, pcs, self.facts)
            if changes and pcs is None and self.facts.topology().enabled:
                warnings.append(
                    f'PodCliqueSet "{pcs_name}" is not known yet: until it is, PodGang {gang.name}'
                    " gets only preferred topology constraints"
                    if pcs_name
                    else f"PodGang {gang.name} has no label {GROVE_PCS_NAME} that names its"
                    " PodCliqueSet, so it gets only preferred topology constraints"
                )
        with contextlib.suppress(Unavailable):
            warnings += dialect.podgang_warnings(request.object, self.facts)

        adopting = request.dry_run and bool(gang.uid)
        adopted = self.owners.rule.adopted(self.owners.states_of(gang), adopting=adopting)
        changes.append(Edit(_ADOPTED, adopted or _kept_annotation(request)))
        return patched(operations(request.object, changes), warnings=warnings, effects=effects)


def _kept_annotation(request: Request) -> Any:
    """Return the annotation of the new object if the stored PodGang has it, otherwise ABSENT.

    The caches may not show yet which resources the PodGang owns. Without the annotation, our
    webhook would not be called before the PodGang is deleted. So only the reconciler removes it,
    and its patch is judged here too.
    """
    if value_at(request.old, _ADOPTED) is ABSENT:
        return ABSENT
    return value_at(request.object, _ADOPTED)


# Deletion.


PATIENCE_BEFORE_DELETION = 3.5
"""The time limit in seconds for calls to the API server, which waits 5 s for the verdict."""


class PodGangDeletionWebhook(Value):
    """The handler that returns the MNNVL resources of a PodGang before the PodGang is deleted.

    Otherwise, the garbage collector would delete them under running pods. Later releases of Grove
    delete the PodGangs of running workloads seconds after an upgrade, which may be too soon for the
    leader. The API server sends only PodGangs with the annotation
    `grove.io/mnnvl-resources-adopted`.

    If the resources cannot be given to the PodCliqueSet, the deletion is denied with a server error
    (5xx), and Grove tries again. It is allowed if the PodCliqueSet is gone or being deleted.

    If PodGangs should own MNNVL resources (`mnnvl.owner`), the resources are deleted with the
    PodGang, as the design document requires. With `mnnvl.owner: auto`, the deletion is denied if
    the API server already serves the API of a later Grove, which discovery may not have seen yet.

    The resources are read from the API server, because the caches may lag. Only the name and the
    uid of the PodGang are taken from the review.
    """

    owners: MnnvlOwners
    """The writer of the owner references of MNNVL resources."""

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
                f'PodGang "{gang.name}" may still own MNNVL resources, which could not be given to'
                f" the PodCliqueSet first ({problem.message}): try again"
            )
        return ALLOWED

    async def _while_design(self, gang: SlimPodGang) -> Verdict:
        """Return the verdict on a deletion while the cached dialect is `design`.

        Grove should try again if the API server already serves a later dialect, or does not answer.
        """
        try:
            async with patience(PATIENCE_BEFORE_DELETION):
                if await self.owners.living_set_of(gang) is None:
                    return ALLOWED
                later = await self.owners.later_dialect()
        except Rejected:
            return ALLOWED
        except ClusterError as problem:
            return unavailable(
                f'PodGang "{gang.name}" may own MNNVL resources, and the release of Grove could not'
                f" be read ({problem.message}): try again"
            )
        if not later:
            return ALLOWED
        return unavailable(
            f'PodGang "{gang.name}" may own MNNVL resources, which must be given to the'
            f' PodCliqueSet first, because Grove has just been upgraded (dialect "{later}"): try'
            " again in a few seconds"
        )
