"""MNNVL: the claims of PodCliques, and of Pods that are in none, with their resources.

A request is rejected only if a person must correct something. If a problem resolves by itself (a
resource that is being deleted, an owner that is gone or not known, an API server that does not
answer), the claim is injected with a warning, and `reconcilers.mnnvl_resources` creates the
resources as soon as it can. But a Pod is refused while the ComputeDomain of its unit is a former
one: the template of that may still be there, and the claim that is made of it would stay.

PodCliques are judged at CREATE and at UPDATE, because Grove's operator resets the spec of a
PodClique from its template.

The claims of a Pod never change, so the unit must be known when it is created. The webhook of
LeaderWorkerSets labels a leader at the same time: ours leaves a Pod without its unit as it is, and
is called again after a change. In the end, `PodMnnvlCheck` refuses what still lacks unit or claim.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from msgspec.structs import replace

from app.admission.review import Request
from app.admission.verdict import ALLOWED, Effect, Later, Verdict, judged, not_allowed, patched
from app.base.value import Value
from app.cluster.resources import MnnvlResources, NotOurs
from app.cluster.units import UnitOwners, not_owned
from app.cluster.view import ClusterView, NotGiven
from app.facts.carrier import Carrier, read_carrier, read_carrier_of_pod
from app.facts.labels import MNNVL_ENABLED, MNNVL_UNIT
from app.kube.api import ClusterError, Rejected, Unavailable
from app.objects.edits import Edit, operations
from app.objects.fields import FieldPath, required
from app.rules.mnnvl.bounds import read_bounds
from app.rules.mnnvl.claim import ConfiguredMode, Injection, inject
from app.rules.mnnvl.plan import Plan
from app.rules.mnnvl.wanted import CliqueFacts
from app.rules.mnnvl.warnings import unit_warnings

# What both share.


PATIENCE_SECONDS = 4.0
"""The time for calls of the API server before the verdict, for which it waits 10 s."""


async def made(
    resources: MnnvlResources, request: Request, plan: Plan, injection: Injection
) -> Verdict:
    """Make the resources of `plan`, and return the verdict with the patch of `injection`."""
    doubt = None  # or why this review may not cause writes
    if not request.trusted:
        doubt = "the review came over a path without a valid token"
    elif plan.mode != injection.new_mode:
        doubt = f'the claim has the form "{plan.mode}", and new ones have "{injection.new_mode}"'

    try:
        async with patience(PATIENCE_SECONDS):
            created = await resources.ensure(plan, dry_run=request.dry_run, doubt=doubt)
    except NotOurs as refusal:
        return not_allowed(str(refusal))
    except ClusterError as problem:
        return incomplete(plan, injection, problem)

    effects = [Effect("create", obj) for obj in created]
    return patched(injection.patch, warnings=injection.warnings, effects=effects)


def incomplete(plan: Plan, injection: Injection, problem: ClusterError) -> Verdict:
    """Return the verdict if a `problem` leaves resources to the leader.

    Raise it if a person has to solve it.
    """
    if isinstance(problem, Rejected) and not problem.passes:
        raise problem
    text = (
        f'the MNNVL resources of "{plan.base_name}" are not complete yet'
        f" ({problem.message}): grove-admission makes them as soon as it can"
    )
    return patched(injection.patch, warnings=[text, *injection.warnings])


@contextlib.asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[None]:
    """Raise Unavailable if the block takes longer than that."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Unavailable("the API server has not answered in time") from None


# PodCliques.


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
        self, request: Request, clique: Carrier, facts: CliqueFacts
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
        self, request: Request, clique: Carrier, facts: CliqueFacts, unread: tuple[str, ...] = ()
    ) -> Verdict | Later:
        old = None if request.old is None else read_carrier(request.old, request.namespace)
        injection = inject(clique, old, facts, self.configured_mode)
        warnings = [*unread, *injection.warnings]
        plan = injection.plan
        if plan is None or self.resources.is_ensured(plan):
            return judged(injection.findings, warnings, injection.patch)

        injection = replace(injection, warnings=warnings)
        return Later(lambda: made(self.resources, request, plan, injection))


# Pods that are in no PodClique.


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
        self, request: Request, pod: Carrier, plan: Plan, injection: Injection
    ) -> Verdict:
        try:
            async with patience(PATIENCE_SECONDS):
                owned, above = await self.units.owned(plan)
                rival = await self.units.find_rival(pod)
        except NotGiven:
            raise  # of documents, no verdict follows
        except ClusterError as problem:
            return incomplete(plan, injection, problem)

        if rival is not None:
            return judged([rival])
        if owned is None:
            return judged([not_owned(plan)])

        bounds = read_bounds(request.object, above)
        warnings = [*injection.warnings, *unit_warnings(plan, bounds, self.facts.nodes())]
        return await made(self.resources, request, owned, replace(injection, warnings=warnings))


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
    pod = read_carrier_of_pod(request.object, request.namespace)
    if pod.place.clique:
        return pod, Injection()
    injection = inject(pod, None, facts.about_clique(request.namespace, "", ""), "template")
    if injection.plan is None:
        return pod, injection

    label = Edit(("metadata", "labels", MNNVL_UNIT), injection.plan.base_name)
    patch = [*injection.patch, *operations(request.object, [label])]
    return pod, replace(injection, patch=patch)
