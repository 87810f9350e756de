"""Find out which MNNVL claims Pods use, and which Pods run without one.

No cache has all of these Pods. They are read in pages, with only the needed fields, and only the
names of the Pods without a claim, or of the used claims, are kept.
"""

import asyncio
import random as system_random
import time
from collections.abc import Callable, Collection, Iterable

from msgspec import Struct, field

from app.facts.kubernetes.pod_fields import PodForm
from app.facts.labels import PODGANG
from app.facts.nvidia.computedomain import claims_used_by
from app.kube.api import Key, Reader, Selection, pages
from app.kube.backoff import Backoff
from app.objects.resource import POD
from app.objects.time import Clock
from app.rules.mnnvl.missing_claims import clique_of_pod, runs_without_claim


async def pods_without_claim(client: Reader, namespaces: Iterable[str]) -> dict[Key, list[str]]:
    """Return the names of the Pods in `namespaces` for which `runs_without_claim` returns True.

    The keys are (namespace, name of the PodClique). Raise ClusterError if a request fails.
    """
    found: dict[Key, list[str]] = {}
    for namespace in sorted(set(namespaces)):
        selection = Selection(POD, namespace, labels=PODGANG, form=PodForm)
        async for page in pages(client, selection):
            for pod in filter(runs_without_claim, page.items):
                key = (namespace, clique_of_pod(pod))
                found.setdefault(key, []).append(pod["metadata"]["name"])
    return found


SHARED_SECONDS = 5.0
"""The time, in seconds, for which one list of Pods answers questions about their claims."""

REST = 9.0
"""The pause after a list of Pods, as a multiple of the time that the list took.

Tenants choose how many Pods a namespace has, and how large these are.
"""

MOST_UNCHANGED_SECONDS = 600.0
"""The longest time, in seconds, for which claims count as used after a list of Pods."""


class _Used(Struct):
    """The claims and templates that the Pods of one namespace used when they were last listed."""

    backoff: Backoff
    """The times for which `names` count as used. They get longer while the names stay the same."""
    names: frozenset[str] = frozenset()
    """The names that Pods used, among the candidates of the last list."""
    begun: float = -SHARED_SECONDS
    """When the last list began, on the clock of ClaimUsers."""
    counts_until: float = 0.0
    """The time until which the names count as used without another list, on the same clock."""
    rests_until: float = 0.0
    """The time until which the Pods are not listed again, on the same clock."""
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while the Pods are listed."""


class ClaimUsers(Struct):
    """A reader of the claims and claim templates that the Pods of a namespace use.

    Hundreds of resources may wait for the same Pods to end, and tenants choose their number. So all
    resources share one list, and a namespace whose Pods use the same claims as before is listed
    less and less often.
    """

    client: Reader
    """The client that lists the Pods."""
    clock: Clock = time.monotonic
    """Returns the monotonic time in seconds."""
    random: Callable[[], float] = system_random.random
    """Returns a random number for the backoff."""
    _used: dict[str, _Used] = {}
    """The used claims, by namespace."""

    def forget(self) -> None:
        """Forget all lists, as is necessary when a new term as the leader begins."""
        self._used.clear()

    async def use_any(
        self, namespace: str, names: Collection[str], candidates: Callable[[str], set[str]]
    ) -> bool:
        """Return whether an unfinished Pod uses one of the claims or templates `names`.

        The result is False only if a list that is at most SHARED_SECONDS old shows no such Pod. It
        is True if the Pods can't be listed yet, because the last list took long.
        `candidates` returns all names in a namespace that later questions may be about. Other names
        are not kept. Raise ClusterError if a request fails.
        """
        used = self._used.get(namespace)
        if used is None:
            backoff = Backoff(self.random, first=30.0, most=MOST_UNCHANGED_SECONDS)
            used = self._used[namespace] = _Used(backoff)
        async with used.lock:
            if self.clock() < used.counts_until and not used.names.isdisjoint(names):
                return True
            if self.clock() >= used.begun + SHARED_SECONDS:
                if self.clock() < used.rests_until:
                    return True
                await self._read(namespace, used, {*candidates(namespace), *names})
        return not used.names.isdisjoint(names)

    async def _read(self, namespace: str, used: _Used, candidates: set[str]) -> None:
        """List the Pods of `namespace`, and store in `used` which of `candidates` they use."""
        begun = self.clock()
        names: set[str] = set()
        async for page in pages(self.client, Selection(POD, namespace, form=PodForm)):
            for pod in page.items:
                names |= claims_used_by(pod) & candidates
        if names != used.names:
            used.backoff.reset()
        used.names = frozenset(names)
        used.begun = begun
        used.rests_until = self.clock() + REST * (self.clock() - begun)
        used.counts_until = begun + used.backoff.next()
