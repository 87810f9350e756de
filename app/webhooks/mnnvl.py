"""Inject MNNVL claims into PodCliques and other Pods, and create the resources of the claims.

A request is rejected only if a person must correct something. If a problem resolves by itself (a
resource that is being deleted, a PodCliqueSet that is gone or unknown, an API server that does not
answer), the claim is injected with a warning, and `reconcilers.mnnvl_resources` creates the
resources as soon as it can.

A Pod outside of PodCliques is also rejected if the workload that it names is not among its
controllers, and while the ComputeDomain of an earlier unit of the same name still exists.
Kubernetes could still create the Pod's claim from the template of that ComputeDomain, and would
never replace the claim.

PodCliques are judged at CREATE and at UPDATE, because Grove's operator resets the spec of a
PodClique from its template.

The claims of a Pod never change, so the unit must be known when the Pod is created. The webhook of
LeaderWorkerSets labels a leader in the same request: ours leaves a Pod without a unit unchanged and
is called again after the label is set. Finally, `PodMnnvlCheck` rejects a Pod that still lacks its
unit label or its claim.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from msgspec.structs import replace

from app.admission.review import Request
from app.admission.verdict import (
    ALLOWED,
    Effect,
    Later,
    Ready,
    Verdict,
    judged,
    not_allowed,
    patched,
)
from app.base.value import Value
from app.cluster.resources import MnnvlResources, NotOurs
from app.cluster.units import UnitOwners, not_owned
from app.cluster.view import ClusterView, NotGiven
from app.facts.grove.unit_member import Carrier, read_carrier, read_carrier_of_pod
from app.facts.labels import MNNVL_ENABLED, MNNVL_UNIT
from app.kube.api import ClusterError, Rejected, Unavailable
from app.objects.edits import Edit, operations
from app.objects.fields import FieldPath, required
from app.rules.mnnvl.claim import CliqueFacts, ConfiguredMode, Injection, inject
from app.rules.mnnvl.colocation import read_bounds
from app.rules.mnnvl.plan import Plan
from app.rules.mnnvl.warnings import unit_warnings

# Shared by PodCliques and Pods.


PATIENCE_SECONDS = 4.0
"""The time limit in seconds for calls to the API server.

The API server waits 10 s for a verdict on a PodClique or Pod, which may need this time twice, and
5 s for a verdict on a PodCliqueSet.
"""


async def verdict_with_resources(
    resources: MnnvlResources, request: Request, plan: Plan, injection: Injection
) -> Verdict:
    """Create the resources of `plan`, and return the verdict with the patch of `injection`.

    If a person must correct something first, reject the object or raise a ClusterError.
    """
    doubt = None  # why this review may not cause writes, if it may not
    if not request.trusted:
        doubt = "the review came over a path without a valid token"
    elif plan.mode != injection.new_mode:
        doubt = f'the claim has the form "{plan.mode}", but new claims have "{injection.new_mode}"'

    try:
        async with patience(PATIENCE_SECONDS):
            created = await resources.ensure(plan, dry_run=request.dry_run, doubt=doubt)
    except NotOurs as refusal:
        return not_allowed(str(refusal))
    except ClusterError as problem:
        return verdict_without_resources(plan, injection, problem)

    effects = [Effect("create", obj) for obj in created]
    return patched(injection.patch, warnings=injection.warnings, effects=effects)


def verdict_without_resources(plan: Plan, injection: Injection, problem: ClusterError) -> Verdict:
    """Return the verdict that injects the claim and warns that its resources are not complete.

    The leader creates them once `problem` is over. Raise `problem` if a person has to solve it.
    """
    if isinstance(problem, Rejected) and not problem.is_temporary:
        raise problem
    text = (
        f'the MNNVL resources of "{plan.base_name}" are not complete yet'
        f" ({problem.message}): grove-admission creates them as soon as it can"
    )
    return patched(injection.patch, warnings=[text, *injection.warnings])


@contextlib.asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[None]:
    """Raise Unavailable if the block takes longer than `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Unavailable("the API server has not answered in time") from None


# PodCliques.


class PodCliqueWebhook(Value):
    """The handler that injects the MNNVL claim into PodCliques."""

    facts: ClusterView
    resources: MnnvlResources
    """The writer of ComputeDomains and claims."""
    configured_mode: ConfiguredMode
    """The configured form of new claims."""

    def __call__(self, request: Request) -> Verdict | Later:
        carrier = read_carrier(request.object, request.namespace)
        if carrier.annotations.refuses:
            return ALLOWED

        name = carrier.place.pcs
        facts = self.facts.about_clique(request.namespace, name, carrier.owner_uid)
        if facts.pcs is None and name and not carrier.annotations.are_complete:
            return Later(lambda: self._with_set(request, carrier, facts))

        return self._judge(request, carrier, facts)

    async def _with_set(self, request: Request, carrier: Carrier, facts: CliqueFacts) -> Ready:
        """Judge the request after reading its PodCliqueSet, whose annotations may apply."""
        name = carrier.place.pcs
        warnings: tuple[str, ...] = ()
        try:
            async with patience(PATIENCE_SECONDS):
                uid = carrier.owner_uid
                facts = replace(facts, pcs=await self.facts.read_set(request.namespace, name, uid))
        except ClusterError as problem:
            warnings = (
                f'PodCliqueSet "{name}" could not be read ({problem.message}): its MNNVL'
                " annotations take effect with the next update",
            )
        known = facts
        return Ready(lambda: self._judge(request, carrier, known, warnings))

    def _judge(
        self, request: Request, carrier: Carrier, facts: CliqueFacts, warnings: tuple[str, ...] = ()
    ) -> Verdict | Later:
        old = None if request.old is None else read_carrier(request.old, request.namespace)
        injection = inject(carrier, old, facts, self.configured_mode)
        injection = replace(injection, warnings=[*warnings, *injection.warnings])
        plan = injection.plan
        if plan is None or self.resources.is_ensured(plan):
            return judged(injection.findings, injection.warnings, injection.patch)

        return Later(lambda: verdict_with_resources(self.resources, request, plan, injection))


# Pods outside of PodCliques.


class PodMnnvlWebhook(Value):
    """The handler that injects the MNNVL claim into Pods outside of PodCliques."""

    facts: ClusterView
    resources: MnnvlResources
    """The writer of ComputeDomains and claims."""
    units: UnitOwners
    """The reader of the owners that Pods name."""

    def __call__(self, request: Request) -> Verdict | Later:
        pod, injection = _injected(request, self.facts)
        plan = injection.plan
        if plan is None:
            return judged([], injection.warnings)
        return Later(lambda: self._inject(request, pod, plan, injection))

    async def _inject(
        self, request: Request, pod: Carrier, plan: Plan, injection: Injection
    ) -> Verdict:
        try:
            async with patience(PATIENCE_SECONDS):
                owned, above = await self.units.owned(plan)
                rival = await self.units.find_rival(pod)
        except NotGiven:
            raise  # a document is missing, so there is no verdict
        except ClusterError as problem:
            return verdict_without_resources(plan, injection, problem)

        if rival is not None:
            return judged([rival])
        if owned is None:
            return judged([not_owned(plan)])

        bounds = read_bounds(request.object, above, scope=plan.scope)
        warnings = [*injection.warnings, *unit_warnings(plan, bounds, self.facts.nodes())]
        return await verdict_with_resources(
            self.resources, request, owned, replace(injection, warnings=warnings)
        )


class PodMnnvlCheck(Value):
    """The final check of a Pod that requests MNNVL, after all mutating webhooks."""

    facts: ClusterView

    def __call__(self, request: Request) -> Verdict:
        _, injection = _injected(request, self.facts)
        if injection.patch:  # a Pod with findings never has a patch
            return judged([required(FieldPath("spec.resourceClaims"), _WITHOUT_CLAIM)])
        return judged(injection.findings)


_WITHOUT_CLAIM = (
    f"the Pod lacks its MNNVL claim or the label {MNNVL_UNIT}, because the webhook"
    " pod-mnnvl.mutate.grove-admission.grove.io was not called, or another webhook reverted its"
    f" change. Run grove-admission doctor, or remove the annotation {MNNVL_ENABLED}"
)


def _injected(request: Request, facts: ClusterView) -> tuple[Carrier, Injection]:
    """Return the Pod of a request, and the injection of the claim and the unit label.

    The injection is empty for a Pod of a PodClique, which gets the claim of the PodClique.
    """
    pod = read_carrier_of_pod(request.object, request.namespace)
    if pod.place.clique:
        return pod, Injection()
    injection = inject(pod, None, facts.about_clique(request.namespace, "", ""), "template")
    if injection.plan is None:
        return pod, injection

    label = Edit(("metadata", "labels", MNNVL_UNIT), injection.plan.base_name)
    patch = [*injection.patch, *operations(request.object, [label])]
    return pod, replace(injection, patch=patch)
