"""PodClique: makes its MNNVL resources and injects the claim.

Runs at CREATE and UPDATE, because Grove's operator resets a PodClique's spec from its template.
"""

from collections.abc import Awaitable

from app.admission.review import Request
from app.admission.verdict import Effect, Verdict, bad_request, judged, not_allowed, patched
from app.cluster.readers import MnnvlResources, NotOurs, PodCliqueSetReader
from app.objects.edits import operations
from app.rules.mnnvl.claims import plan_injection, reservation_warning
from app.rules.mnnvl.plan import ClaimMode, Plan


class PodCliqueWebhook:
    def __init__(self, sets: PodCliqueSetReader, resources: MnnvlResources, claim_mode: ClaimMode) -> None:
        self._sets = sets
        self._resources = resources
        self._claim_mode = claim_mode

    def __call__(self, request: Request) -> Verdict | Awaitable[Verdict]:
        if not request.namespace:
            return bad_request("request.namespace must be a string that is not empty: a PodClique is in a namespace")
        injection = plan_injection(request.object, request.namespace, self._claim_mode, request.old)
        if injection.plan is None:
            return judged(injection.findings, injection.warnings)
        if self._resources.is_ensured(injection.plan):
            return self._inject(request, injection.plan, [])
        return self._ensure(request, injection.plan)

    async def _ensure(self, request: Request, plan: Plan) -> Verdict:
        try:
            created = await self._resources.ensure(plan, dry_run=request.dry_run)
        except NotOurs as refusal:
            return not_allowed(str(refusal))
        return self._inject(request, plan, [Effect("create", one) for one in created])

    def _inject(self, request: Request, plan: Plan, effects: list[Effect]) -> Verdict:
        warning = reservation_warning(plan, self._sets.cached_set(plan.namespace, plan.owner.name))
        warnings = [warning] if warning else []
        return patched(operations(request.object, plan.changes), warnings=warnings, effects=effects)
