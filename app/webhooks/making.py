"""Makes the MNNVL resources that a review needs before its claim is injected.

It is the same for PodCliques and for Pods. If it can't be done now, the claim is injected with a
warning, and `reconcilers.mnnvl_resources` makes the resources as soon as it can.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator

from app.admission.review import Request
from app.admission.verdict import Effect, Verdict, not_allowed, patched
from app.cluster.resources import MnnvlResources, NotOurs
from app.kube.api import ClusterError, Object, Rejected, Unavailable
from app.rules.mnnvl.claim import Injection
from app.rules.mnnvl.plan import Plan

PATIENCE_SECONDS = 4.0
"""The time for calls of the API server before the verdict, for which it waits 10 s."""


async def made(
    resources: MnnvlResources,
    request: Request,
    plan: Plan,
    injection: Injection,
) -> Verdict:
    """Make the resources of `plan`, and return the verdict with the patch of `injection`."""
    created: list[Object] = []
    try:
        async with patience(PATIENCE_SECONDS):
            created = await resources.ensure(
                plan,
                dry_run=request.dry_run,
                doubt=_doubt(request, plan, injection),
            )
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
    return patched(injection.patch, warnings=[*injection.warnings, text])


def _doubt(request: Request, plan: Plan, injection: Injection) -> str | None:
    """Return why this review may not cause writes, or None if it may."""
    if not request.trusted:
        return "the review came over a path without a valid token"
    if plan.mode != injection.new_mode:
        return f'the claim has the form "{plan.mode}", and new ones have "{injection.new_mode}"'
    return None


@contextlib.asynccontextmanager
async def patience(seconds: float) -> AsyncIterator[None]:
    """Raise Unavailable if the block takes longer than that."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise Unavailable("the API server has not answered in time") from None
