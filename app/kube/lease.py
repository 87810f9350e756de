"""Leader election on a Lease (coordination.k8s.io).

At any time, at most one replica does the work of the leader.

- A leader has the lease until `lease` seconds after it began its last successful renewal. It stops
  its work earlier: `renew` seconds after that time, the work is cancelled. If the work is still
  running when the lease expires, the process ends.
- A candidate becomes the leader only if it has seen no write to the Lease for the duration in the
  Lease, by its own monotonic clock. The times in the Lease are for people, and are never compared.
- Every write has the resourceVersion of the Lease that was read. If two candidates write, one of
  them gets a Conflict. A delayed write cannot overwrite a newer one.
"""

import asyncio
import logging
import math
import os
import random as system_random
import time
from collections.abc import Awaitable, Callable
from typing import Never

from msgspec import Struct

from app.base.value import Value
from app.kube.api import Client, ClusterError, Conflict, NotFound, Object, ObjectRef, find
from app.objects.resource import LEASE
from app.objects.time import Clock, Now, precise_timestamp, utc_now

log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]


class LeaseTiming(Value):
    """Times in seconds.

    After `lease` without a renewal, another candidate becomes the leader. After `renew` without a
    renewal, the leader stops its work, for which it has `lease - renew`. `retry` is the time
    between attempts.
    """

    lease: float = 15.0
    renew: float = 10.0
    retry: float = 2.0

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry > 0:
            raise ValueError("a lease needs lease > renew > retry > 0")

    @property
    def attempt(self) -> float:
        """The time limit of a request.

        It leaves time for another attempt before the deadline of the renewal.
        """
        return self.renew / 3


class Lost(Exception):
    """Another candidate has the lease, or it could not be renewed."""


def end_process() -> None:
    """End the process at once, because another candidate may lead from now on."""
    os._exit(70)


class Elector(Struct):
    """A candidate for a Lease.

    `identity` must be unique among all processes, such as a host name with a uuid.

    `clock` is monotonic, and `now` is the wall clock in UTC, for the times in the Lease.
    `stop_process` is called if cancelled work is still running when the lease expires.
    """

    client: Client
    namespace: str
    name: str
    identity: str
    timing: LeaseTiming
    clock: Clock = time.monotonic
    now: Now = utc_now
    random: Callable[[], float] = system_random.random
    stop_process: Callable[[], None] = end_process
    leading: bool = False
    """Whether the work is running or being stopped."""
    _lease: Object | None = None
    _observed_at: float = -math.inf
    _renewed_at: float = -math.inf
    _complaint: str = ""

    @property
    def _ref(self) -> ObjectRef:
        return ObjectRef(LEASE, self.name, self.namespace)

    @property
    def holder(self) -> str:
        """The holder of the lease when it was last read, or ""."""
        return str(_spec(self._lease).get("holderIdentity") or "")

    async def lead(self, work: Work) -> None:
        """Run `work` while this candidate leads, until `work` returns or raises.

        If the lease is lost, the work is cancelled and awaited, and this process is a candidate
        again. At the end, the lease is released.
        """
        while True:
            await self._acquire()
            log.info("leading as %s", self.identity)
            try:
                return await self._lead_once(work)
            except Lost as lost:
                log.warning("stopped leading: %s", lost)

    async def _acquire(self) -> None:
        while True:
            try:
                if await self._try_to_acquire():
                    return
            except (ClusterError, TimeoutError) as error:
                why = str(error) or "no answer in time"
                if why != self._complaint:
                    log.warning("lease %s/%s: %s", self.namespace, self.name, why)
                self._complaint = why
            await asyncio.sleep(self.timing.retry * (1 + self.random() / 5))

    async def _try_to_acquire(self) -> bool:
        async with asyncio.timeout(self.timing.attempt):
            await self._look()

        if not self._is_free():
            return False

        begun = self.clock()
        async with asyncio.timeout(self.timing.attempt):
            if self._lease is None or not self._lease["metadata"].get("resourceVersion"):
                metadata = {"name": self.name, "namespace": self.namespace}
                new = {"metadata": metadata, "spec": self._taken(0)}
                written = await self.client.create(LEASE, new, self.namespace)
            else:
                transitions = int(_spec(self._lease).get("leaseTransitions") or 0)
                transitions += self.holder != self.identity
                written = await self._write(self._lease, self._taken(transitions))

        self._note_renewal(written, begun)

        return True

    async def _look(self) -> None:
        """Read the Lease.

        The holder of a deleted Lease keeps it until it expires, because the deletion does not stop
        a leader.
        """
        lease = await find(self.client, self._ref)
        if lease is not None:
            self._observe(lease)
        elif self._lease is not None:
            self._lease = {
                **self._lease,
                "metadata": {"name": self.name, "namespace": self.namespace},
            }

    def _observe(self, lease: Object) -> None:
        if self._lease is None or _version(lease) != _version(self._lease):
            self._lease, self._observed_at = lease, self.clock()

    def _is_free(self) -> bool:
        if self._lease is None or not self.holder or self.holder == self.identity:
            return True
        duration = float(self._lease["spec"].get("leaseDurationSeconds") or self.timing.lease)
        return self.clock() >= self._observed_at + duration

    async def _lead_once(self, work: Work) -> None:
        self.leading = True
        working = asyncio.ensure_future(work())
        renewing = asyncio.ensure_future(self._renew_until_lost())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            finished = working.done()
            cancelled = await self._stopped(working)
            lost = await _cancelled(renewing)
            self.leading = False
            if lost is None:
                await self._release()

        if cancelled is not None:
            raise cancelled

        failed = None if working.cancelled() else working.exception()
        if failed is not None or lost is None or finished:
            return working.result()

        raise lost

    async def _stopped(self, working: "asyncio.Future[None]") -> asyncio.CancelledError | None:
        """Cancel the work, and wait until it ends or the lease expires. Renewals continue.

        If this wait is cancelled, keep waiting, and return the CancelledError.
        """
        cancelled: asyncio.CancelledError | None = None
        working.cancel()
        while not working.done():
            if self.clock() >= self._expires():
                log.critical("the leader's work is still running although the lease has expired")
                self.stop_process()
                break
            try:
                await asyncio.wait({working}, timeout=self._expires() - self.clock())
            except asyncio.CancelledError as error:
                cancelled = error

        return cancelled

    def _expires(self) -> float:
        return self._renewed_at + self.timing.lease

    async def _renew_until_lost(self) -> Never:
        """Renew every `retry` seconds.

        Raise Lost if another candidate has the lease, if it was deleted, or if it is not renewed
        in time.
        """
        while True:
            await asyncio.sleep(self.timing.retry)
            try:
                async with asyncio.timeout(self._renewed_at + self.timing.renew - self.clock()):
                    await self._renew()
            except TimeoutError:
                raise Lost(f"not renewed for {self.timing.renew:g} s") from None

    async def _renew(self) -> None:
        """Renew the lease, with as many attempts as necessary."""
        stale = False
        while True:
            try:
                async with asyncio.timeout(self.timing.attempt):
                    if stale:
                        await self._look_again()
                    assert self._lease is not None
                    begun = self.clock()
                    self._note_renewal(await self._write(self._lease, self._renewed()), begun)
            except NotFound:
                raise Lost("the lease was deleted") from None
            except Conflict:
                stale = True
            except (ClusterError, TimeoutError) as error:
                stale = True
                log.warning(
                    "lease %s/%s not renewed: %s",
                    self.namespace,
                    self.name,
                    str(error) or "no answer in time",
                )
                await asyncio.sleep(self.timing.retry / 4)
            else:
                return

    async def _look_again(self) -> None:
        """Read the Lease after a conflict or a write without a response.

        Raise Lost if another candidate has it.
        """
        self._observe(await self.client.get(self._ref))
        if self.holder != self.identity:
            raise Lost(f"the lease is held by {self.holder or 'nobody'}")

    async def _release(self) -> None:
        """Release the lease, so that another candidate can lead at once.

        If this fails, the lease expires.
        """
        try:
            async with asyncio.timeout(self.timing.attempt):
                await self._look_again()
                assert self._lease is not None
                stamp = precise_timestamp(self.now())
                released = {
                    "holderIdentity": "",
                    "leaseDurationSeconds": 1,
                    "acquireTime": stamp,
                    "renewTime": stamp,
                }
                self._observe(await self._write(self._lease, released))
        except (ClusterError, TimeoutError, Lost) as error:
            log.info("lease %s/%s not released: %s", self.namespace, self.name, error)

    def _note_renewal(self, written: Object, begun: float) -> None:
        self._observe(written)
        self._renewed_at = begun

    async def _write(self, current: Object, spec: Object) -> Object:
        patch = {"metadata": {"resourceVersion": _version(current)}, "spec": spec}
        return await self.client.patch(self._ref, patch)

    def _renewed(self) -> Object:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self.timing.lease),
            "renewTime": precise_timestamp(self.now()),
        }

    def _taken(self, transitions: int) -> Object:
        """Return the spec with which this candidate takes the Lease."""
        return {
            **self._renewed(),
            "acquireTime": precise_timestamp(self.now()),
            "leaseTransitions": transitions,
        }


async def _cancelled(renewing: "asyncio.Future[Never]") -> BaseException | None:
    """End the renewals. Return the error with which they had already ended, or None."""
    renewing.cancel()
    await asyncio.wait({renewing})
    return None if renewing.cancelled() else renewing.exception()


def _spec(lease: Object | None) -> Object:
    return (lease or {}).get("spec") or {}


def _version(lease: Object) -> str:
    return str(lease["metadata"].get("resourceVersion") or "")
