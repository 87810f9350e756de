"""Restore MNNVL claims in stored PodCliques that request MNNVL but have no claim.

The leader does not write the claim itself. It sends an empty patch, for which the API server calls
our own webhook, and the webhook injects the claim. If the webhook is not called, the object in the
response still has no claim. `MNNVL.md` in this folder explains why this restarts no pod.

An event names the Pods that were started while their PodClique had no claim. The leader does not
cache the Pods of PodCliques, but lists the Pods of a namespace once for all PodCliqueSets there
that were repaired at about the same time.
"""

import asyncio
from collections.abc import Iterable

from msgspec import Struct

from app.base.value import Value
from app.cluster.leader_rows import StoredClique
from app.cluster.pods import pods_without_claim
from app.cluster.view import ClusterView
from app.facts.grove.podcliqueset import PodCliqueSet
from app.facts.grove.unit_member import Unclaimed
from app.facts.kinds import POD_CLIQUE
from app.facts.rows import BY_SET, SETS
from app.kube.api import ClusterError, Key, NotFound, ObjectRef, Rejected
from app.kube.competing_writers import remedy_for_writers
from app.kube.events import Regarding
from app.kube.loop import Loop
from app.kube.store import WatchStore
from app.objects.fields import listed
from app.reconcilers.writing import Writing, regarding_set
from app.rules.mnnvl.claim_holders import ClaimedMember
from app.rules.mnnvl.missing_claims import lacks_claim, read_clique
from app.stores.stores import Stores

WAIT_SECONDS = 5.0
"""The delay in seconds between a repair and the listing of Pods."""


class Repaired(Struct):
    """The repaired PodCliques of one PodCliqueSet, whose Pods have not been listed yet."""

    cliques: set[str]
    """The names of the PodCliques that got their claim back."""
    at: float
    """The time of the last repair, on the clock of the event loop."""


class Listed(Value):
    """The result of listing the Pods of a namespace."""

    pods: dict[Key, list[str]]
    """The names of the Pods without a claim, by PodClique."""
    at: float
    """The time at which the listing began, on the clock of the event loop."""


class PodsWithoutClaim(Struct):
    """A reporter of Pods that run without a claim although their PodClique got it back."""

    writing: Writing
    """Lists Pods and records the events."""
    _repaired: dict[Key, Repaired] = {}
    """The repaired PodCliques, by PodCliqueSet."""
    _listed: dict[str, Listed] = {}
    """The last result of listing Pods, by namespace."""

    def clear(self) -> None:
        """Forget all repaired PodCliques and all lists of Pods."""
        self._repaired.clear()
        self._listed.clear()

    def forget(self, key: Key) -> None:
        """Forget the repaired PodCliques of the PodCliqueSet `key`, so that nothing is reported."""
        self._repaired.pop(key, None)
        if not self._repaired:
            self._listed.clear()

    def expect(self, key: Key, cliques: list[str]) -> None:
        """Let `report` look for Pods of `cliques`, repaired PodCliques of the set `key`."""
        repaired = self._repaired.setdefault(key, Repaired(set(), 0.0))
        repaired.cliques.update(cliques)
        repaired.at = _now()

    async def report(self, key: Key, regarding: Regarding) -> float | None:
        """Record an event on the set `key` if Pods of its repaired PodCliques lack the claim.

        Return the seconds until the Pods can be listed, or None if they have been, or if no
        PodClique was repaired. Raise ClusterError if a request fails.
        """
        repaired = self._repaired.get(key)
        if repaired is None:
            return None
        remaining = repaired.at + WAIT_SECONDS - _now()
        if remaining > 0:
            return remaining

        namespace = key[0]
        known = self._listed.get(namespace)
        if known is None or known.at < repaired.at:
            begin = _now()
            known = Listed(await pods_without_claim(self.writing.client, [namespace]), begin)
            self._listed[namespace] = known

        self.forget(key)
        names = sorted(
            name for clique in repaired.cliques for name in known.pods.get((namespace, clique), ())
        )
        if names:
            note = (
                "Pods without an MNNVL claim, because they were created before the claim of their"
                f" PodClique was restored: {listed(names, _SHOWN)}. Delete each of them, so that"
                f" its replacement gets the claim: kubectl -n {namespace} delete pod NAME"
            )
            self.writing.events.record(regarding, "Warning", "MnnvlPodsWithoutClaim", note)
        return None


SETTLE_SECONDS = 1.0
"""The delay in seconds between a change and its step.

A PodCliqueSet and its PodCliques arrive through two watches.
"""

OFF_SECONDS = 5.0
"""The shortest pause of a namespace, in seconds, after a write failed or its webhook wasn't called.

It is also the time until the next step if another writer keeps removing a claim.
"""

TRIES_PER_SECOND = 5.0
"""The maximum number of attempts per second in all paused namespaces together.

If many namespaces are paused, each pause is longer than OFF_SECONDS.
"""

REFUSED_SECONDS = 60.0
"""The time in seconds until the next attempt if the patch of a PodClique is rejected."""

MOST_REJECTIONS = 64
"""The number of rejected PodCliques after which a step ends."""

AT_ONCE = 4
"""The maximum number of PodCliques of a set that are written at once."""

LACKING = "at least one PodClique of this PodCliqueSet requests MNNVL but has no claim"
"""The beginning of notes about missing claims.

It names no PodCliques, because each change of the note causes another event.
"""

_SHOWN = 5
"""The maximum number of names in a note."""

OFF = (
    f"{LACKING}, because the webhook that injects the claim is not called in this namespace, or"
    " another webhook removes the claim. Pods without the claim can't use multi-node NVLink. Ask"
    " the platform team to run grove-admission doctor, which checks the webhook configuration"
)


class Pause(Value):
    """A pause of all writes in one namespace."""

    until: float
    """The time of the next attempt, on the clock of the event loop."""
    note: str
    """The note of the event on each PodCliqueSet in the namespace that lacks claims.

    It is "" if only the PodCliqueSet whose write failed gets an event.
    """


class Repairs(Struct):
    """The results of writing PodCliques of a set."""

    restored: list[str] = []
    """The names of the PodCliques that got their claim."""
    rejections: dict[str, str] = {}
    """The messages of the rejected writes, by the name of the PodClique."""
    in_vain: bool = False
    """Whether a write succeeded without adding the claim, as if the webhook was not called."""


class MnnvlClaimsReconciler(Struct):
    """A reconciler of the claims in the PodCliques of one PodCliqueSet at a time."""

    name = "mnnvl-claims"

    writing: Writing
    """Writes PodCliques and records events on the PodCliqueSet."""
    cliques: WatchStore[StoredClique]
    """The cached PodCliques, with our claim or without it."""
    facts: ClusterView
    """The PodCliqueSets and the dialect in force."""
    pods: PodsWithoutClaim
    """Reports Pods that still run without the claim."""
    _lacking: dict[Key, int] = {}
    """The number of PodCliques that lack their claim, by PodCliqueSet."""
    _refused: dict[Key, frozenset[str]] = {}
    """The PodCliques whose patches were rejected in the last step, by PodCliqueSet.

    The next step tries them last.
    """
    _pauses: dict[str, Pause] = {}
    """The pauses, by namespace."""

    @property
    def missing(self) -> int:
        """The number of PodCliques that request MNNVL and have no claim."""
        return sum(self._lacking.values())

    def begin(self) -> None:
        """Forget the state of an earlier term as the leader."""
        self._lacking.clear()
        self._refused.clear()
        self._pauses.clear()
        self.pods.clear()

    def all_keys(self) -> set[Key]:
        keys = {
            (clique.namespace, clique.place.pcs) for clique in unclaimed_in(self.cliques.values())
        }
        return keys | self._lacking.keys()

    async def reconcile(self, key: Key) -> float | None:
        """Restore the missing claims of the PodCliques of a set.

        If no claim is missing, report Pods that still run without one. Return the seconds until the
        next step, or None if none is needed. Raise ClusterError if a later call may succeed.
        """
        pcs = self.facts.cached_set(*key)
        unclaimed = unclaimed_in(self.cliques.by_index(BY_SET, key))
        refused = self._refused.get(key, frozenset())
        names = (clique.name for clique in unclaimed if self._lacks(clique, pcs))
        lacking = sorted(names, key=lambda name: (name in refused, name))
        if pcs is None or not lacking:
            self._lacking.pop(key, None)
            self._refused.pop(key, None)
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
        """Return whether `clique`, a PodClique of `pcs` without our claim, must have it."""
        return lacks_claim(clique, pcs, reads_groups=self.facts.dialect().reads_groups)

    # Repair.

    async def _repair(self, pcs: PodCliqueSet, lacking: list[str]) -> float:
        """Restore the claims of `lacking`, and return the seconds until the next step.

        A PodClique whose claim another writer keeps removing is skipped for some time.
        """
        paused = self.writing.rewrites.pause
        pauses = {name: paused((pcs.namespace, name)) for name in lacking}
        contested = [name for name, pause in pauses.items() if pause is not None]
        repairs = await self._put_back(pcs, [name for name in lacking if pauses[name] is None])
        self._refused[pcs.namespace, pcs.name] = frozenset(repairs.rejections)
        self._report(pcs, lacking, contested, repairs)
        if repairs.in_vain or contested:
            return OFF_SECONDS
        return REFUSED_SECONDS if repairs.rejections else WAIT_SECONDS

    async def _put_back(self, pcs: PodCliqueSet, names: list[str]) -> Repairs:
        """Send an empty patch for each of the PodCliques `names`: first one alone, then batches.

        Stop if the webhook is not called, or after MOST_REJECTIONS. Raise ClusterError if a later
        call may succeed.
        """
        repairs = Repairs()
        try:
            rest = [names[at : at + AT_ONCE] for at in range(1, len(names), AT_ONCE)]
            for batch in (names[:1], *rest):
                tries = (self._try(pcs, name, repairs) for name in batch)
                for result in await asyncio.gather(*tries, return_exceptions=True):
                    if isinstance(result, BaseException):
                        raise result
                if repairs.in_vain or len(repairs.rejections) >= MOST_REJECTIONS:
                    break
        except ClusterError as problem:
            self._pause(pcs.namespace, "")
            note = f"{LACKING}. The claim can't be injected yet: {problem.message}"
            self._say(pcs, "MnnvlClaimsMissing", note)
            raise
        finally:
            if repairs.restored:
                note = f"restored the MNNVL claim of {_cliques(repairs.restored)}"
                regarding = regarding_set(pcs)
                self.writing.events.record(regarding, "Normal", "MnnvlClaimsRestored", note)
                self.pods.expect((pcs.namespace, pcs.name), repairs.restored)

        return repairs

    async def _try(self, pcs: PodCliqueSet, name: str, repairs: Repairs) -> None:
        """Send an empty patch for the PodClique `name`, and add the result to `repairs`.

        Raise ClusterError if a later call may succeed.
        """
        try:
            obj = await self.writing.client.patch(ObjectRef(POD_CLIQUE, name, pcs.namespace), {})
        except NotFound:
            return
        except Rejected as rejection:
            if rejection.is_temporary:
                raise
            repairs.rejections[name] = rejection.message
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
        """Pause the writes in `namespace`. `note` is the `Pause.note`."""
        now = _now()
        for name in [name for name, pause in self._pauses.items() if pause.until <= now]:
            del self._pauses[name]
        seconds = max(OFF_SECONDS, len(self._pauses) / TRIES_PER_SECOND)
        self._pauses[namespace] = Pause(now + seconds, note)

    # Reports.

    def _report(
        self, pcs: PodCliqueSet, lacking: list[str], contested: list[str], repairs: Repairs
    ) -> None:
        """Store the number of PodCliques of `pcs` that still lack their claim.

        Also record an event if writes were rejected or claims are contested, unless the webhook was
        not called: `_try` has already recorded that.
        """
        remaining = len(lacking) - len(repairs.restored)
        self._lacking[pcs.namespace, pcs.name] = remaining
        if repairs.in_vain:
            return
        if repairs.rejections:
            rejection = next(iter(repairs.rejections.values()))
            note = f"{LACKING}. The claim can't be injected: {rejection}"
            self._say(pcs, "MnnvlClaimsMissing", note)
        elif contested:
            remedy = remedy_for_writers(ObjectRef(POD_CLIQUE, contested[0], pcs.namespace))
            note = (
                f"another writer keeps removing the claim from {_cliques(contested)}; backing off."
                f" {remedy}"
            )
            self._say(pcs, "MnnvlClaimsContested", note)
        else:
            self.writing.notices.forget((pcs.namespace, pcs.name))

    def _say(self, pcs: PodCliqueSet, reason: str, note: str) -> None:
        self.writing.notices.say((pcs.namespace, pcs.name), [regarding_set(pcs)], reason, note)


def unclaimed_in(cliques: Iterable[StoredClique | None]) -> list[Unclaimed]:
    """Return the PodCliques in `cliques` that lack our claim."""
    return [clique for clique in cliques if isinstance(clique, Unclaimed)]


def subscribe(loop: Loop, cliques: WatchStore[StoredClique], stores: Stores) -> None:
    """Reconcile a PodCliqueSet soon after it or one of its PodCliques without our claim changes."""

    def clique_changed(key: Key, before: StoredClique | None, after: StoredClique | None) -> None:
        for clique in unclaimed_in((before, after)):
            loop.add_after((key[0], clique.place.pcs), SETTLE_SECONDS)

    def set_changed(key: Key, before: object, after: object) -> None:
        if unclaimed_in(cliques.by_index(BY_SET, key)):
            loop.add_after(key, SETTLE_SECONDS)

    cliques.subscribe(clique_changed)
    stores[SETS].subscribe(set_changed)


def _cliques(names: list[str]) -> str:
    return f"PodClique{'s' if len(names) > 1 else ''} {listed(names, _SHOWN)}"


def _now() -> float:
    return asyncio.get_running_loop().time()
