"""Puts MNNVL claims back into stored PodCliques that ask for one and have none.

The leader writes no claim itself. It sends a patch without any change, and our own webhook, which
the API server calls for it as for every other write, injects the claim. If the webhook is not
called, nothing is changed, and the answer shows it. `README.md` in this folder states why this
restarts no pod.

Pods that were started while their PodClique had no claim are named. Nobody watches Pods: they are
listed once for all PodCliqueSets of a namespace whose claims came back at about the same time.
"""

import asyncio
from collections.abc import Iterable

from msgspec import Struct

from app.base.value import Value
from app.cluster.pods import pods_without_claim
from app.cluster.rows import StoredClique
from app.cluster.view import ClusterView
from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.kinds import POD_CLIQUE
from app.facts.table import BY_SET, SETS
from app.kube.api import ClusterError, Key, NotFound, ObjectRef, Rejected
from app.kube.events import Regarding
from app.kube.loop import Loop
from app.kube.store import WatchStore
from app.objects.fields import listed
from app.reconcilers.writing import Writing, regarding_set
from app.rules.mnnvl.claimed import ClaimedMember
from app.rules.mnnvl.missing import Unclaimed, lacks_claim, read_clique
from app.stores.stores import Stores

# Pods.


WAIT_SECONDS = 5.0
"""The time between a repair and the list of Pods."""


class Repaired(Struct):
    """The PodCliques of a set that have their claim again, and the time of the last repair."""

    cliques: set[str]
    at: float


class Listed(Value):
    """The Pods of a namespace without a claim, by PodClique, as of the time `at`."""

    pods: dict[Key, list[str]]
    at: float


class PodsWithoutClaim(Struct):
    """Pods that run without the claim that their PodClique has again."""

    writing: Writing
    _repaired: dict[Key, Repaired] = {}
    _listed: dict[str, Listed] = {}

    def clear(self) -> None:
        self._repaired.clear()
        self._listed.clear()

    def forget(self, key: Key) -> None:
        """Stop looking for Pods of the set `key`."""
        self._repaired.pop(key, None)
        if not self._repaired:
            self._listed.clear()

    def expect(self, key: Key, cliques: list[str]) -> None:
        """Look for Pods of `cliques`, PodCliques of the set `key`, after `WAIT_SECONDS`."""
        repaired = self._repaired.setdefault(key, Repaired(set(), 0.0))
        repaired.cliques.update(cliques)
        repaired.at = _now()

    async def report(self, key: Key, regarding: Regarding) -> float | None:
        """Record an event on the set `key` if Pods of it run without the claim.

        Returns the seconds until it is time to look, or None if there is nothing to look for.
        """
        repaired = self._repaired.get(key)
        if repaired is None:
            return None
        remaining = repaired.at + WAIT_SECONDS - _now()
        if remaining > 0:
            return remaining

        pods = await self._pods_since(key[0], repaired.at)
        self.forget(key)
        names = sorted(
            name for clique in repaired.cliques for name in pods.get((key[0], clique), ())
        )
        if names:
            note = (
                f"Pods {listed(names, _SHOWN)} run without the claim that their PodCliques have"
                " again, outside of their NVLink domain, until they are deleted and replaced"
            )
            self.writing.events.record(regarding, "Warning", "MnnvlPodsWithoutClaim", note)
        return None

    async def _pods_since(self, namespace: str, at: float) -> dict[Key, list[str]]:
        known = self._listed.get(namespace)
        if known is None or known.at < at:
            begin = _now()
            known = Listed(await pods_without_claim(self.writing.client, [namespace]), begin)
            self._listed[namespace] = known
        return known.pods


# PodCliques.


SETTLE_SECONDS = 1.0
"""The time between a change and the step for it.

A PodCliqueSet and its PodCliques arrive through two watches.
"""

OFF_SECONDS = 5.0
"""The time until the next try in a namespace in which the webhook was not called, or failed."""

TRIES_PER_SECOND = 5.0
"""The number of such tries in all namespaces: if there are many, each waits longer."""

REFUSED_SECONDS = 60.0
"""The time until the next try if the webhook rejects a PodClique."""

AT_ONCE = 4
"""The number of PodCliques of a set that are written at once, so that others get their turns."""

LACKING = "PodCliques of this set must have an MNNVL claim and have none"
"""Without their names, which change while Grove's operator writes: each would be an event."""

_SHOWN = 5


OFF = (
    f"{LACKING}: the webhook that injects it is not called in this namespace. Pods that start now"
    " run outside of their NVLink domain"
)


class Pause(Value):
    """The time until the next try in a namespace.

    `note` is the reason if it concerns all PodCliques of the namespace, else "".
    """

    until: float
    note: str


class Repairs(Struct):
    """The result of writes of PodCliques.

    `restored` are the names of those that got their claim, `rejections` are messages, and `in_vain`
    is whether the webhook was not called.
    """

    restored: list[str] = []
    rejections: list[str] = []
    in_vain: bool = False


class MnnvlClaimsReconciler(Struct):
    """A reconciler of one PodCliqueSet at a time: the claims of its PodCliques.

    `cliques` contains the PodCliques without a claim of ours, among others.
    """

    name = "mnnvl-claims"

    writing: Writing
    cliques: WatchStore[StoredClique]
    facts: ClusterView
    pods: PodsWithoutClaim
    _lacking: dict[Key, int] = {}
    _pauses: dict[str, Pause] = {}

    @property
    def missing(self) -> int:
        """The number of PodCliques that ask for MNNVL and have no claim."""
        return sum(self._lacking.values())

    def begin(self) -> None:
        """Forget what was found in an earlier term as the leader."""
        self._lacking.clear()
        self._pauses.clear()
        self.pods.clear()

    def all_keys(self) -> set[Key]:
        keys = {
            (clique.namespace, clique.place.pcs) for clique in unclaimed_in(self.cliques.values())
        }
        return keys | self._lacking.keys()

    async def reconcile(self, key: Key) -> float | None:
        pcs = self.facts.cached_set(*key)
        unclaimed = unclaimed_in(self.cliques.by_index(BY_SET, key))
        lacking = sorted(clique.name for clique in unclaimed if self._lacks(clique, pcs))
        if pcs is None or not lacking:
            self._lacking.pop(key, None)
            self.writing.notices.forget(key)
            if pcs is not None:
                return await self.pods.report(key, regarding_set(pcs))
            self.pods.forget(key)
            return None

        self._lacking[key] = len(lacking)
        pause = self._pauses.get(pcs.namespace)
        if pause is not None and pause.until > _now():
            if pause.note:
                self._say(pcs, "MnnvlClaimsMissing", pause.note)
            return pause.until - _now()
        return await self._repair(pcs, lacking)

    def _lacks(self, clique: Unclaimed, pcs: PodCliqueSet | None) -> bool:
        return lacks_claim(clique, pcs, reads_groups=self.facts.dialect().reads_groups)

    # Repair.

    async def _repair(self, pcs: PodCliqueSet, lacking: list[str]) -> float | None:
        paused = self.writing.rewrites.pause
        contested = [name for name in lacking if paused((pcs.namespace, name)) is not None]
        repairs = await self._put_back(pcs, [name for name in lacking if name not in contested])
        self._report(pcs, lacking, contested, repairs)
        if repairs.in_vain or contested:
            return OFF_SECONDS
        return REFUSED_SECONDS if repairs.rejections else WAIT_SECONDS

    async def _put_back(self, pcs: PodCliqueSet, names: list[str]) -> Repairs:
        """Write the PodCliques `names` without a change: the first alone, then several at once.

        No more are written if the webhook is not called. Raise ClusterError if a later call may
        succeed.
        """
        repairs = Repairs()
        try:
            for batch in (names[:1], *_batches(names[1:])):
                tries = (self._try(pcs, name, repairs) for name in batch)
                for result in await asyncio.gather(*tries, return_exceptions=True):
                    if isinstance(result, BaseException):
                        raise result
                if repairs.in_vain:
                    break
        except ClusterError as problem:
            self._pause(pcs.namespace, "")
            note = f"{LACKING}, and can't get it yet: {problem.message}"
            self._say(pcs, "MnnvlClaimsMissing", note)
            raise
        finally:
            self._report_restored(pcs, repairs.restored)

        return repairs

    async def _try(self, pcs: PodCliqueSet, name: str, repairs: Repairs) -> None:
        try:
            obj = await self.writing.client.patch(ObjectRef(POD_CLIQUE, name, pcs.namespace), {})
        except NotFound:
            return
        except Rejected as rejection:
            if rejection.passes:
                raise
            repairs.rejections.append(rejection.message)
            return

        self.cliques.note(obj)
        clique = read_clique(obj)
        if isinstance(clique, Unclaimed) and self._lacks(clique, pcs):
            repairs.in_vain = True
            self._pause(pcs.namespace, OFF)
            self._say(pcs, "MnnvlClaimsMissing", OFF)
        elif isinstance(clique, ClaimedMember):
            repairs.restored.append(name)
            self.writing.rewrites.count((pcs.namespace, name))

    def _pause(self, namespace: str, note: str) -> None:
        """Write no PodClique of `namespace` for a while."""
        now = _now()
        for name in [name for name, pause in self._pauses.items() if pause.until <= now]:
            del self._pauses[name]
        seconds = max(OFF_SECONDS, len(self._pauses) / TRIES_PER_SECOND)
        self._pauses[namespace] = Pause(now + seconds, note)

    # Reports.

    def _report(
        self, pcs: PodCliqueSet, lacking: list[str], contested: list[str], repairs: Repairs
    ) -> None:
        remaining = len(lacking) - len(repairs.restored)
        self._lacking[pcs.namespace, pcs.name] = remaining
        if repairs.in_vain:
            return
        if repairs.rejections:
            note = f"{LACKING}, and can't get it: {repairs.rejections[0]}"
            self._say(pcs, "MnnvlClaimsMissing", note)
        elif contested:
            note = (
                f"something removes the claim from {_cliques(contested)} again and again: not put"
                " back for a while"
            )
            self._say(pcs, "MnnvlClaimsContested", note)
        else:
            self.writing.notices.forget((pcs.namespace, pcs.name))

    def _report_restored(self, pcs: PodCliqueSet, names: list[str]) -> None:
        if names:
            note = f"put the claim back into {_cliques(names)}"
            self.writing.events.record(regarding_set(pcs), "Normal", "MnnvlClaimsRestored", note)
            self.pods.expect((pcs.namespace, pcs.name), names)

    def _say(self, pcs: PodCliqueSet, reason: str, note: str) -> None:
        self.writing.notices.say((pcs.namespace, pcs.name), [regarding_set(pcs)], reason, note)


def unclaimed_in(cliques: Iterable[StoredClique | None]) -> list[Unclaimed]:
    """Return those of `cliques` that have no claim of ours."""
    return [clique for clique in cliques if isinstance(clique, Unclaimed)]


def subscribe(loop: Loop, cliques: WatchStore[StoredClique], stores: Stores) -> None:
    """Reconcile a PodCliqueSet soon after a change of it, or of its PodCliques without a claim."""

    def clique_changed(key: Key, before: StoredClique | None, after: StoredClique | None) -> None:
        for clique in unclaimed_in((before, after)):
            loop.add_after((key[0], clique.place.pcs), SETTLE_SECONDS)

    def set_changed(key: Key, before: object, after: object) -> None:
        if unclaimed_in(cliques.by_index(BY_SET, key)):
            loop.add_after(key, SETTLE_SECONDS)

    cliques.subscribe(clique_changed)
    stores[SETS].subscribe(set_changed)


def _batches(names: list[str]) -> list[list[str]]:
    return [names[begin : begin + AT_ONCE] for begin in range(0, len(names), AT_ONCE)]


def _cliques(names: list[str]) -> str:
    return f"PodCliques {listed(names, _SHOWN)}"


def _now() -> float:
    return asyncio.get_running_loop().time()
