"""pods that are in no PodClique and ask for MNNVL: the claim of their unit.

The claims of a Pod never change, so the unit must be known when it is created. The webhook of
LeaderWorkerSets labels a leader at the same time: ours leaves a Pod without its unit as it is, and
is called again after a change. In the end, `PodMnnvlCheck` refuses what still lacks unit or claim.
"""

from msgspec.structs import replace

from app.admission.review import Request
from app.admission.verdict import Later, Verdict, judged
from app.base.value import Value
from app.cluster.resources import MnnvlResources
from app.cluster.units import UnitOwners, not_owned
from app.cluster.view import ClusterView
from app.facts.carrier import Carrier, read_pod
from app.facts.labels import MNNVL_ENABLED, MNNVL_UNIT
from app.kube.api import ClusterError
from app.objects.edits import Edit, operations
from app.objects.fields import FieldPath, required
from app.rules.mnnvl.claim import Injection, inject
from app.rules.mnnvl.plan import Plan
from app.webhooks.making import PATIENCE_SECONDS, incomplete, made, patience


class PodMnnvlWebhook(Value):
    facts: ClusterView
    resources: MnnvlResources
    units: UnitOwners

    def __call__(self, request: Request) -> Verdict | Later:
        pod, injection = _injected(request, self.facts)
        plan = injection.plan
        if plan is None:
            return judged([], injection.warnings)
        return Later(lambda: self._inject(request, pod, plan, injection))

    async def _inject(
        self,
        request: Request,
        pod: Carrier,
        plan: Plan,
        injection: Injection,
    ) -> Verdict:
        try:
            async with patience(PATIENCE_SECONDS):
                owned = await self.units.owned(plan)
                rival = await self.units.find_rival(pod)
        except ClusterError as problem:
            return incomplete(plan, injection, problem)

        if rival is not None:
            return judged([rival])
        if owned is None:
            return judged([not_owned(plan)])
        return await made(self.resources, request, owned, injection)


class PodMnnvlCheck(Value):
    """The last word on a Pod that asks for MNNVL."""

    facts: ClusterView

    def __call__(self, request: Request) -> Verdict:
        _, injection = _injected(request, self.facts)
        if not injection.findings and injection.patch:
            return judged([required(FieldPath("spec.resourceClaims"), _WITHOUT_CLAIM)])
        return judged(injection.findings)


_WITHOUT_CLAIM = (
    "the Pod has no MNNVL claim, because the webhook pod-mnnvl.mutate.grove-admission.grove.io was"
    f" not called, or what it did was changed again; see grove-admission doctor, or remove"
    f" {MNNVL_ENABLED}"
)


def _injected(request: Request, facts: ClusterView) -> tuple[Carrier, Injection]:
    """Return the Pod of a request, and what it needs, with the label of its unit.

    A Pod of a PodClique needs nothing more.
    """
    pod = read_pod(request.object, request.namespace)
    if pod.place.clique:
        return pod, Injection()
    injection = inject(pod, None, facts.about_clique(request.namespace, "", ""), "template")
    if injection.plan is None:
        return pod, injection

    label = Edit(("metadata", "labels", MNNVL_UNIT), injection.plan.base_name)
    patch = [*injection.patch, *operations(request.object, [label])]
    return pod, replace(injection, patch=patch)
