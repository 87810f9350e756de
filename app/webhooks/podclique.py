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
from app.admission.verdict import (
    ALLOWED,
    Effect,
    Later,
    Verdict,
    judged,
    not_allowed,
    patched,
)
from app.base.value import Value
from app.cluster.resources import MnnvlResources, NotOurs
from app.cluster.view import ClusterView
from app.facts.carrier import Carrier, read_carrier
from app.kube.api import ClusterError, Object, Rejected
from app.rules.mnnvl.claim import ConfiguredMode, Injection, inject
from app.rules.mnnvl.plan import ClaimMode, Plan
from app.rules.mnnvl.wanted import CliqueFacts
from app.webhooks.patience import patience

PATIENCE_SECONDS = 4.0
"""The time for calls of the API server before the verdict, for which it waits 10 s."""


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
        return Later(lambda: self._make_resources(request, plan, injection))

    async def _make_resources(
        self,
        request: Request,
        plan: Plan,
        injection: Injection,
    ) -> Verdict:
        created: list[Object] = []
        warnings = injection.warnings
        try:
            async with patience(PATIENCE_SECONDS):
                created = await self.resources.ensure(
                    plan,
                    dry_run=request.dry_run,
                    doubt=_doubt(request, plan, injection.new_mode),
                )
        except NotOurs as refusal:
            return not_allowed(str(refusal))
        except ClusterError as problem:
            if isinstance(problem, Rejected) and not problem.passes:
                raise
            incomplete = (
                f'the MNNVL resources of "{plan.base_name}" are not complete yet'
                f" ({problem.message}): grove-admission makes them as soon as it can"
            )
            warnings = [*warnings, incomplete]

        effects = [Effect("create", obj) for obj in created]

        return patched(injection.patch, warnings=warnings, effects=effects)


def _doubt(request: Request, plan: Plan, new_mode: ClaimMode) -> str | None:
    """Return why this review may not cause writes, or None if it may."""
    if not request.trusted:
        return "the review came over a path without a valid token"
    if plan.mode != new_mode:
        return f'the claim has the form "{plan.mode}", and new ones have "{new_mode}"'
    return None
