"""PodClique: creates its MNNVL resources and injects the claim.

This runs at CREATE and at UPDATE, because Grove's operator resets the spec of a PodClique from its
template.

A request is rejected only if a person must correct something. If a problem resolves by itself (a
resource that is being deleted, an owner that is gone or not known, an API server that does not
answer), the claim is injected with a warning, and `reconcilers.mnnvl_resources` creates the
resources as soon as it can.
"""

from msgspec.structs import replace

from app.admission.review import Request
from app.admission.verdict import ALLOWED, Later, Verdict, judged
from app.base.value import Value
from app.cluster.resources import MnnvlResources
from app.cluster.view import ClusterView
from app.facts.carrier import Carrier, read_carrier
from app.kube.api import ClusterError
from app.rules.mnnvl.claim import ConfiguredMode, inject
from app.rules.mnnvl.wanted import CliqueFacts
from app.webhooks.making import PATIENCE_SECONDS, made, patience


class PodCliqueWebhook(Value):
    facts: ClusterView
    resources: MnnvlResources
    configured_mode: ConfiguredMode

    def __call__(self, request: Request) -> Verdict | Later:
        clique = read_carrier(request.object, request.namespace)
        if clique.annotations.refuses:
            return ALLOWED

        name = clique.place.pcs
        facts = self.facts.about_clique(request.namespace, name, clique.owner_uid)
        if facts.pcs is None and name and not clique.annotations.are_complete:
            return Later(lambda: self._with_set(request, clique, facts))

        return self._judge(request, clique, facts)

    async def _with_set(
        self,
        request: Request,
        clique: Carrier,
        facts: CliqueFacts,
    ) -> Verdict | Later:
        """Judge the request after one read of the set, because its annotations may count."""
        name = clique.place.pcs
        unread: tuple[str, ...] = ()
        try:
            async with patience(PATIENCE_SECONDS):
                uid = clique.owner_uid
                facts = replace(facts, pcs=await self.facts.read_set(request.namespace, name, uid))
        except ClusterError as problem:
            unread = (
                f'PodCliqueSet "{name}" could not be read ({problem.message}): its MNNVL'
                " annotations count from the next update on",
            )
        return self._judge(request, clique, facts, unread)

    def _judge(
        self,
        request: Request,
        clique: Carrier,
        facts: CliqueFacts,
        unread: tuple[str, ...] = (),
    ) -> Verdict | Later:
        old = None if request.old is None else read_carrier(request.old, request.namespace)
        injection = inject(clique, old, facts, self.configured_mode)
        warnings = [*unread, *injection.warnings]
        plan = injection.plan
        if plan is None or self.resources.is_ensured(plan):
            return judged(injection.findings, warnings, injection.patch)

        injection = replace(injection, warnings=warnings)
        return Later(lambda: made(self.resources, request, plan, injection))
