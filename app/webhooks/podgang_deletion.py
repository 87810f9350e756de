"""PodGangs that still own MNNVL resources: gives these back before such a PodGang is deleted.

Otherwise, the garbage collector would delete them under running pods. Grove's next releases delete
the PodGangs of running workloads seconds after they were installed, which may be too soon for the
leader. The API server only sends PodGangs with the annotation
`grove.io/mnnvl-resources-adopted`.

If the resources can't be given back, the deletion is denied with 503, and Grove tries again. It is
never denied if the PodCliqueSet is gone or being deleted, which is soon so in a namespace that is
being deleted too. In the dialect `design`, the resources are deleted with the PodGang, as its
document asks, unless the API server serves a later Grove's API by now: discovery, which decides on
the dialect, may not have seen it yet.
"""

from app.admission.review import Request
from app.admission.verdict import ALLOWED, Later, Verdict, unavailable
from app.base.value import Value
from app.cluster.owners import MnnvlOwners
from app.facts.grove.gang import SlimPodGang, read_gang
from app.kube.api import ClusterError, Rejected
from app.webhooks.making import patience

PATIENCE_SECONDS = 3.5
"""The time for calls of the API server before the verdict, for which it waits 5 s."""


class PodGangDeletionWebhook(Value):
    """What is given back is read from the API server, because the caches may be late.

    Of the review, only the name and the uid of the PodGang count.
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
            async with patience(PATIENCE_SECONDS):
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
            async with patience(PATIENCE_SECONDS):
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
