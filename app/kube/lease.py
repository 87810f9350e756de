"""Elect a leader on a Lease (coordination.k8s.io).

At any time, at most one replica does the work of the leader.

- A leader has the lease until `lease` seconds after the start of its last successful renewal. Its
  work is cancelled earlier, `renew` seconds after that start. If the work is still running when the
  lease expires, the process ends.
- A candidate takes a Lease that another candidate holds only if it has seen no write to the Lease
  for the duration in the Lease, by its own monotonic clock. The times in the Lease are for people,
  and are never compared.
- A write to an existing Lease has the resourceVersion that was read. If two candidates write, one
  of them gets a Conflict. A delayed write cannot overwrite a newer one.
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

_MOST_TRANSITIONS = 2**31 - 1
"""The largest `leaseTransitions` that an API server accepts."""


class LeaseTiming(Value):
    """The times of an election, in seconds."""

    lease: float = 15.0
    """The seconds without a renewal after which another candidate can become the leader."""
    renew: float = 10.0
    """The seconds without a renewal after which the leader cancels its work.

    The work then has `lease - renew` seconds to end.
    """
    retry: float = 2.0
    """The seconds between two renewals, and the minimum between two attempts to get the lease.

    A failed renewal is repeated earlier.
    """

    def __post_init__(self) -> None:
        if not self.lease > self.renew > self.retry > 0:
            raise ValueError("the times of a lease must satisfy lease > renew > retry > 0")

    @property
    def attempt(self) -> float:
        """The time limit of a request in seconds, so that `renew` has time for another attempt."""
        return self.renew / 3


class Lost(Exception):
    """This candidate no longer has the lease, or could not renew it in time."""


def end_process() -> None:
    """End the process at once, because another candidate may lead from now on."""
    os._exit(70)


class Elector(Struct):
    """A candidate that tries to become the leader."""

    client: Client
    """The client that reads and writes the Lease."""
    namespace: str
    """The namespace of the Lease."""
    name: str
    """The name of the Lease."""
    identity: str
    """The name of this candidate, unique among all processes, such as a host name with a uuid."""
    timing: LeaseTiming
    """The times of the election."""
    clock: Clock = time.monotonic
    """A monotonic clock, in seconds."""
    now: Now = utc_now
    """The wall clock in UTC, for the times in the Lease."""
    random: Callable[[], float] = system_random.random
    """A function that returns random numbers in [0, 1)."""
    stop_process: Callable[[], None] = end_process
    """The function that is called if cancelled work is still running when the lease expires."""
    leading: bool = False
    """Whether this candidate's work is running, even if it is being stopped."""
    _lease: Object | None = None
    """The last version of the Lease that was read or written, or None."""
    _observed_at: float = -math.inf
    """The time, by `clock`, at which the version in `_lease` was first seen."""
    _renewed_at: float = -math.inf
    """The time, by `clock`, at which the last successful renewal began."""
    _last_problem: str = ""
    """The last logged reason why the Lease could not be acquired, or ""."""

    @property
    def _ref(self) -> ObjectRef:
        return ObjectRef(LEASE, self.name, self.namespace)

    @property
    def holder(self) -> str:
        """The identity of the last known leader, or "" if the Lease was free or not read yet."""
        return str(_spec(self._lease).get("holderIdentity") or "")

    async def lead(self, work: Work) -> None:
        """Wait until this candidate leads, and run `work` until it returns or raises.

        If the lease is lost, `work` is cancelled and awaited, and started again once this candidate
        leads again. At the end, the lease is released.
        """
        while True:
            await self._acquire()
            log.info("leading as %s", self.identity)
            try:
                return await self._lead_once(work)
            except Lost as lost:
                log.warning("stopped leading: %s", lost)

    async def _acquire(self) -> None:
        """Try to get the lease until that succeeds. Log each new problem."""
        while True:
            try:
                if await self._try_to_acquire():
                    return
            except (ClusterError, TimeoutError) as error:
                why = str(error) or "no response in time"
                if why != self._last_problem:
                    log.warning("could not acquire lease %s/%s: %s", self.namespace, self.name, why)
                self._last_problem = why
            await asyncio.sleep(self.timing.retry * (1 + self.random() / 5))

    async def _try_to_acquire(self) -> bool:
        """Get the lease and return True, or return False if another candidate has it.

        Raise ClusterError or TimeoutError if a request fails.
        """
        async with asyncio.timeout(self.timing.attempt):
            await self._look()

        if not self._is_free():
            return False

        begun = self.clock()
        async with asyncio.timeout(self.timing.attempt):
            if self._lease is None or not self._lease["metadata"].get("resourceVersion"):
                metadata = {"name": self.name, "namespace": self.namespace}
                new = {"metadata": metadata, "spec": self._acquired_spec(0)}
                written = await self.client.create(LEASE, new, self.namespace)
            else:
                transitions = int(_spec(self._lease).get("leaseTransitions") or 0)
                transitions += self.holder != self.identity
                spec = self._acquired_spec(min(transitions, _MOST_TRANSITIONS))
                written = await self._write(self._lease, spec)

        self._note_renewal(written, begun)

        return True

    async def _look(self) -> None:
        """Read the Lease.

        If the Lease was deleted, treat its last holder as the leader until the Lease would have
        expired, because the deletion does not stop the leader at once.
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
        """Store `lease` and the time at which it was seen, unless its version is already stored."""
        if self._lease is None or _version(lease) != _version(self._lease):
            self._lease, self._observed_at = lease, self.clock()

    def _is_free(self) -> bool:
        """Return whether this candidate may take the lease: it is free, expired, or ours."""
        if self._lease is None or not self.holder or self.holder == self.identity:
            return True
        duration = float(self._lease["spec"].get("leaseDurationSeconds") or self.timing.lease)
        return self.clock() >= self._observed_at + duration

    async def _lead_once(self, work: Work) -> None:
        """Run `work` and renew the lease until the work ends or the lease is lost, then end both.

        Raise the exception of `work` if it has one, or Lost if the lease was lost. Release the
        lease unless it was lost.
        """
        self.leading = True
        working = asyncio.ensure_future(work())
        renewing = asyncio.ensure_future(self._renew_until_lost())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            finished = working.done()
            cancelled = await self._stop_work(working)
            lost = await _stop_renewals(renewing)
            self.leading = False
            if lost is None:
                await self._release()

        if cancelled is not None:
            raise cancelled

        failed = None if working.cancelled() else working.exception()
        if failed is not None or lost is None or finished:
            return working.result()

        raise lost

    async def _stop_work(self, working: "asyncio.Future[None]") -> asyncio.CancelledError | None:
        """Cancel the work, and wait until it ends. Meanwhile, the lease is still renewed.

        If the lease expires first, call `stop_process`. If this wait is cancelled, continue to
        wait, and return the CancelledError at the end. Otherwise, return None.
        """
        cancelled: asyncio.CancelledError | None = None
        working.cancel()
        while not working.done():
            if self.clock() >= self._expires():
                log.critical(
                    "ending this process, because its work as the leader is still running although"
                    " the lease has expired"
                )
                self.stop_process()
                break
            try:
                await asyncio.wait({working}, timeout=self._expires() - self.clock())
            except asyncio.CancelledError as error:
                cancelled = error

        return cancelled

    def _expires(self) -> float:
        """Return the time at which the lease expires, by `clock`."""
        return self._renewed_at + self.timing.lease

    async def _renew_until_lost(self) -> Never:
        """Renew the lease every `retry` seconds.

        Raise Lost if another candidate has the lease, if the Lease was deleted, or if no renewal
        succeeds in time.
        """
        while True:
            await asyncio.sleep(self.timing.retry)
            try:
                async with asyncio.timeout(self._renewed_at + self.timing.renew - self.clock()):
                    await self._renew()
            except TimeoutError:
                raise Lost(f"the lease was not renewed for {self.timing.renew:g} s") from None

    async def _renew(self) -> None:
        """Renew the lease, with as many attempts as necessary.

        Raise Lost if another candidate has it, or if the Lease was deleted.
        """
        stale = False
        while True:
            try:
                async with asyncio.timeout(self.timing.attempt):
                    if stale:
                        await self._look_again()
                    assert self._lease is not None
                    begun = self.clock()
                    self._note_renewal(await self._write(self._lease, self._renewed_spec()), begun)
            except NotFound:
                raise Lost("the lease was deleted") from None
            except Conflict:
                stale = True
            except (ClusterError, TimeoutError) as error:
                stale = True
                log.warning(
                    "could not renew lease %s/%s, retrying: %s",
                    self.namespace,
                    self.name,
                    str(error) or "no response in time",
                )
                await asyncio.sleep(self.timing.retry / 4)
            else:
                return

    async def _look_again(self) -> None:
        """Read the Lease again. Raise Lost if this candidate no longer has it."""
        self._observe(await self.client.get(self._ref))
        if self.holder != self.identity:
            raise Lost(f"the lease is held by {self.holder or 'nobody'}")

    async def _release(self) -> None:
        """Release the lease, so that another candidate can lead at once.

        If this fails, the lease expires after its usual duration.
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
            log.info(
                "could not release lease %s/%s: %s",
                self.namespace,
                self.name,
                str(error) or "no response in time",
            )

    def _note_renewal(self, written: Object, begun: float) -> None:
        self._observe(written)
        self._renewed_at = begun

    async def _write(self, current: Object, spec: Object) -> Object:
        patch = {"metadata": {"resourceVersion": _version(current)}, "spec": spec}
        return await self.client.patch(self._ref, patch)

    def _renewed_spec(self) -> Object:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self.timing.lease),
            "renewTime": precise_timestamp(self.now()),
        }

    def _acquired_spec(self, transitions: int) -> Object:
        """Return the spec that makes this candidate the holder of the Lease."""
        return {
            **self._renewed_spec(),
            "acquireTime": precise_timestamp(self.now()),
            "leaseTransitions": transitions,
        }


async def _stop_renewals(renewing: "asyncio.Future[Never]") -> BaseException | None:
    """Cancel the renewals, and wait for their end.

    Return the error that had ended the renewals before, or None if they were still running.
    """
    renewing.cancel()
    await asyncio.wait({renewing})
    return None if renewing.cancelled() else renewing.exception()


def _spec(lease: Object | None) -> Object:
    return (lease or {}).get("spec") or {}


def _version(lease: Object) -> str:
    return str(lease["metadata"].get("resourceVersion") or "")
