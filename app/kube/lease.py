"""Leader election on a coordination.k8s.io Lease: of all replicas, at most one does the leader's work at any moment.

What makes it so:

- A leader holds the lease until `lease` seconds after it *began* the last renewal that went through, and its work has
  been cancelled and awaited before then: renewing is given up `renew` seconds after that moment, and work that is still
  running when the lease runs out takes the process down.
- A candidate takes over only after it has itself seen no write to the Lease for as long as the holder asked for, by its
  own monotonic clock; wall clocks are written for people and never compared.
- Every write carries the resourceVersion of what was read, so of two candidates one gets a Conflict, and a write that
  was late on its way cannot undo a newer one.
"""

import asyncio
import logging
import math
import os
import random as system_random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Never

from app.kube.api import Client, ClusterError, Conflict, NotFound, Object
from app.objects.resource import LEASE

log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class LeaseTiming:
    """Seconds. `lease`: how long others wait for a holder that says nothing. `renew`: after so long without a renewal
    a leader stops its work; it has `lease - renew` for that. `retry`: between tries."""

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry > 0:
            raise ValueError("a lease needs lease > renew > retry > 0")

    @property
    def attempt(self) -> float:
        """How long one request may take: a hung one must leave time for others before the renew deadline."""
        return self.renew / 3


class Lost(Exception):
    """The lease is no longer ours, or can't be kept."""


def end_process() -> None:
    """The last resort against work that doesn't end: another candidate may be leading from now on."""
    os._exit(70)


class Elector:
    """One candidate for one Lease. `identity` has to be unique among all that were ever started (host name and uuid).

    `clock` is monotonic; `now` is the wall clock, in UTC, for what is written; `stop_process` is called when cancelled
    work is still running at the moment the lease runs out.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        timing: LeaseTiming | None = None,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        random: Callable[[], float] = system_random.random,
        stop_process: Callable[[], None] = end_process,
    ) -> None:
        self._client, self._namespace, self._name, self._identity = client, namespace, name, identity
        self._timing = timing or LeaseTiming()
        self._clock, self._now, self._random, self._stop_process = clock, now, random, stop_process
        self._seen: Object | None = None
        self._seen_at = -math.inf
        self._held_from = -math.inf
        self._leading = False
        self._complaint = ""

    @property
    def leading(self) -> bool:
        """Whether our work is running, or is being stopped."""
        return self._leading

    @property
    def holder(self) -> str:
        """Who held the lease when we last looked; "" for nobody."""
        return _holder(self._seen)

    async def lead(self, work: Work) -> None:
        """Runs `work` whenever we are the leader, until it returns. What it raises is raised here. When the lease is
        lost it is cancelled and awaited, and we become a candidate again. The lease is released on the way out."""
        while True:
            await self._acquire()
            log.info("leading as %s", self._identity)
            try:
                return await self._lead_once(work)
            except Lost as lost:
                log.warning("no longer leading: %s", lost)

    # A candidate.

    async def _acquire(self) -> None:
        while True:
            try:
                if await self._try_to_acquire():
                    return
            except (ClusterError, TimeoutError) as error:
                self._complain(str(error) or "no answer in time")
            await asyncio.sleep(self._timing.retry * (1 + self._random() / 5))

    def _complain(self, why: str) -> None:
        """Once for each reason, not at every try."""
        if why != self._complaint:
            log.warning("lease %s/%s: %s", self._namespace, self._name, why)
        self._complaint = why

    async def _try_to_acquire(self) -> bool:
        async with asyncio.timeout(self._timing.attempt):
            await self._look()
        if not self._is_free():
            return False
        begun = self._clock()
        async with asyncio.timeout(self._timing.attempt):
            if self._seen is None or not self._seen["metadata"].get("resourceVersion"):
                written = await self._client.create(LEASE, self._new_lease(), self._namespace)
            else:
                written = await self._write(self._seen, self._taken(self._seen))
        self._held(written, begun)
        return True

    async def _look(self) -> None:
        """Reads the lease. A lease that has been deleted still counts as held for as long as its last holder may hold
        it: deleting it doesn't stop a leader."""
        try:
            lease = await self._client.get(LEASE, self._name, self._namespace)
        except NotFound:
            if self._seen is not None:
                metadata = {"name": self._name, "namespace": self._namespace}
                self._seen = {**self._seen, "metadata": metadata}
            return
        self._observe(lease)

    def _observe(self, lease: Object) -> None:
        if self._seen is None or _version(lease) != _version(self._seen):
            self._seen, self._seen_at = lease, self._clock()

    def _is_free(self) -> bool:
        if self._seen is None or not self.holder or self.holder == self._identity:
            return True
        duration = float(self._seen["spec"].get("leaseDurationSeconds") or self._timing.lease)
        return self._clock() >= self._seen_at + duration

    # The leader.

    async def _lead_once(self, work: Work) -> None:
        self._leading = True
        working = asyncio.ensure_future(work())
        renewing = asyncio.ensure_future(self._renew_until_lost())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            finished = working.done()
            cancelled = await self._stopped(working)
            lost = await _cancelled(renewing)
            self._leading = False
            if lost is None:
                await self._release()
        if cancelled is not None:
            raise cancelled
        failed = None if working.cancelled() else working.exception()
        if failed is not None or lost is None or finished:
            return working.result()
        raise lost

    async def _stopped(self, working: "asyncio.Future[None]") -> asyncio.CancelledError | None:
        """Cancels the work and waits for its end, as long as the lease holds (which is renewed meanwhile, if it can
        be). Being cancelled ourselves changes nothing about that; it is handed back."""
        cancelled: asyncio.CancelledError | None = None
        working.cancel()
        while not working.done():
            if self._clock() >= self._expires():
                log.critical("the leader's work is still running though the lease has run out")
                self._stop_process()
                break
            try:
                await asyncio.wait({working}, timeout=self._expires() - self._clock())
            except asyncio.CancelledError as error:
                cancelled = error
        return cancelled

    def _expires(self) -> float:
        return self._held_from + self._timing.lease

    async def _renew_until_lost(self) -> Never:
        """Renews every `retry` seconds; raises Lost when the lease is another's, gone, or not renewed in time."""
        while True:
            await asyncio.sleep(self._timing.retry)
            try:
                async with asyncio.timeout(self._held_from + self._timing.renew - self._clock()):
                    await self._renew()
            except TimeoutError:
                raise Lost(f"not renewed for {self._timing.renew:g} s") from None

    async def _renew(self) -> None:
        """One renewal, tried until it goes through."""
        stale = False
        while True:
            try:
                async with asyncio.timeout(self._timing.attempt):
                    if stale:
                        await self._look_again()
                    assert self._seen is not None
                    begun = self._clock()
                    self._held(await self._write(self._seen, self._renewed()), begun)
            except NotFound:
                raise Lost("the lease was deleted") from None
            except Conflict:
                stale = True
            except (ClusterError, TimeoutError) as error:
                stale = True
                log.warning(
                    "lease %s/%s not renewed: %s", self._namespace, self._name, str(error) or "no answer in time"
                )
                await asyncio.sleep(self._timing.retry / 4)
            else:
                return

    async def _look_again(self) -> None:
        """After a write whose end we don't know, or that met another's: is the lease still ours?"""
        self._observe(await self._client.get(LEASE, self._name, self._namespace))
        if self.holder != self._identity:
            raise Lost(f"the lease is held by {self.holder or 'nobody'}")

    async def _release(self) -> None:
        """Lets others lead at once. If it fails they wait until the lease runs out."""
        try:
            async with asyncio.timeout(self._timing.attempt):
                await self._look_again()
                assert self._seen is not None
                stamp = self._stamp()
                released = {"holderIdentity": "", "leaseDurationSeconds": 1, "acquireTime": stamp, "renewTime": stamp}
                self._observe(await self._write(self._seen, released))
        except (ClusterError, TimeoutError, Lost) as error:
            log.info("lease %s/%s not released: %s", self._namespace, self._name, error)

    # What is written.

    def _held(self, written: Object, begun: float) -> None:
        self._observe(written)
        self._held_from = begun

    async def _write(self, seen: Object, spec: Object) -> Object:
        patch = {"metadata": {"resourceVersion": _version(seen)}, "spec": spec}
        return await self._client.patch(LEASE, self._name, patch, self._namespace)

    def _renewed(self) -> Object:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._timing.lease),
            "renewTime": self._stamp(),
        }

    def _taken(self, seen: Object) -> Object:
        transitions = int(_spec(seen).get("leaseTransitions") or 0) + (self.holder != self._identity)
        return {**self._renewed(), "acquireTime": self._stamp(), "leaseTransitions": transitions}

    def _new_lease(self) -> Object:
        return {
            "apiVersion": LEASE.api_version(),
            "kind": LEASE.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": {**self._renewed(), "acquireTime": self._stamp(), "leaseTransitions": 0},
        }

    def _stamp(self) -> str:
        return self._now().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


async def lead(client: Client, namespace: str, name: str, identity: str, work: Work, **options: Any) -> None:
    """Runs `work` whenever we lead; see `Elector`, which takes the same `options`."""
    await Elector(client, namespace, name, identity, **options).lead(work)


async def _cancelled(renewing: "asyncio.Future[Never]") -> BaseException | None:
    """Ends the renewals; gives why they had ended before, if they had."""
    renewing.cancel()
    await asyncio.wait({renewing})
    return None if renewing.cancelled() else renewing.exception()


def _spec(lease: Object | None) -> Object:
    return (lease or {}).get("spec") or {}


def _holder(lease: Object | None) -> str:
    return str(_spec(lease).get("holderIdentity") or "")


def _version(lease: Object) -> str:
    return str(lease["metadata"].get("resourceVersion") or "")
