"""Names the Pods that were started while their PodClique had no MNNVL claim.

Nobody watches Pods. They are listed once for all PodCliqueSets of a namespace whose claims came
back at about the same time.
"""

import asyncio
from dataclasses import dataclass

from app.base.value import Value
from app.cluster.pods import pods_without_claim
from app.kube.api import Client, Key
from app.kube.events import Recorder, Regarding
from app.objects.fields import listed

WAIT_SECONDS = 5.0
"""The time between a repair and the list of Pods."""

_SHOWN = 5


@dataclass(slots=True)
class Repaired:
    """The PodCliques of a set that have their claim again, and the time of the last repair."""

    cliques: set[str]
    at: float


class Listed(Value):
    """The Pods of a namespace without a claim, by PodClique, as of the time `at`."""

    pods: dict[Key, list[str]]
    at: float


class PodsWithoutClaim:
    """Pods that run without the claim that their PodClique has again."""

    def __init__(self, client: Client, events: Recorder) -> None:
        self._client = client
        self._events = events
        self._repaired: dict[Key, Repaired] = {}
        self._listed: dict[str, Listed] = {}

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
            self._events.record(regarding, "Warning", "MnnvlPodsWithoutClaim", note)
        return None

    async def _pods_since(self, namespace: str, at: float) -> dict[Key, list[str]]:
        known = self._listed.get(namespace)
        if known is None or known.at < at:
            begin = _now()
            known = Listed(await pods_without_claim(self._client, [namespace]), begin)
            self._listed[namespace] = known
        return known.pods


def _now() -> float:
    return asyncio.get_running_loop().time()
