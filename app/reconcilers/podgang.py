"""PodGangs: topology constraints in step with their PodCliqueSet and the ClusterTopology, and MNNVL resources owned.

The webhook writes the same constraints, by the same rule, whenever a PodGang is written; what is left for here is a
change of the levels or of the PodCliqueSet, a webhook that was not asked or knew less, and ownership, which needs a uid
that a PodGang only has once it is stored.
"""

import contextlib

from app.cluster.podgangs import StoredGang, read_stored_gang
from app.cluster.readers import MnnvlResources, PodCliqueSetReader, TopologyReader
from app.cluster.table import BY_SET
from app.kube.api import Client, Key, NotFound, Store, Unavailable
from app.kube.events import Recorder, Regarding
from app.kube.loop import Loop
from app.kube.rewrites import Rewrites, same
from app.kube.store import WatchStore
from app.objects.edits import ABSENT, Edit, operations, value_at
from app.objects.jsonpatch import Operation
from app.rules.kinds import POD_GANG
from app.rules.labels import MNNVL_ADOPTED
from app.rules.mnnvl.ownership import MnnvlResource, adopted_annotation, ownership
from app.rules.podcliqueset import PodCliqueSet

CONTESTED_SECONDS = 1.0


class PodGangReconciler:
    """One PodGang at a time: its resources first, then one patch with all that differs.

    Nothing is written that is as it should be, and nothing is taken away because something isn't known: without a
    ClusterTopology constraints stay as they are, without the PodCliqueSet only preferred ones are written.
    """

    name = "podgang"

    def __init__(
        self,
        client: Client,
        gangs: WatchStore[StoredGang],
        topology: TopologyReader,
        sets: PodCliqueSetReader,
        resources: MnnvlResources,
        events: Recorder,
        rewrites: Rewrites | None = None,
    ) -> None:
        self.rewrites = rewrites or Rewrites()
        self._client, self._gangs, self._topology, self._sets = client, gangs, topology, sets
        self._resources, self._events = resources, events
        self._foreign: dict[Key, list[str]] = {}

    def all_keys(self) -> list[Key]:
        return self._gangs.known_keys()

    async def reconcile(self, key: Key) -> float | None:
        gang = self._gangs.get(*key)
        if gang is None or gang.deleting:
            self._foreign.pop(key, None)
            return None
        await self._adopt(gang)
        version = self._gangs.resource_version(*key)
        gang = self._gangs.get(*key)
        if gang is None or gang.deleting or version is None:
            return None
        patch = operations(gang.view(), await self._changes(gang))
        return await self._write(gang, version, patch) if patch else None

    # Ownership.

    async def _adopt(self, gang: StoredGang) -> None:
        found = self._resources.resources_of(gang)
        self._say_foreign(gang, [one for one in found if ownership(one, gang) == "foreign"])
        if not any(ownership(one, gang) == "adoptable" for one in found) or not await self._lives(gang):
            return
        # As it was before that question: what the next PodGang of this name has taken since isn't taken back.
        written = await self._resources.adopt(gang, dry_run=False, resources=found)
        named = ", ".join(f"{one['kind']} {one['metadata']['name']}" for one in written)
        if named:  # the webhook may have been quicker
            self._events.record(_regarding(gang), "Normal", "MnnvlResourcesAdopted", f"now owns {named}")

    async def _lives(self, gang: StoredGang) -> bool:
        """Asked of the API server: if the cache lags, a PodGang that is gone would take resources from the one that
        was made anew, and the garbage collector would take them from both."""
        try:
            stored = await self._client.get(POD_GANG, gang.name, gang.namespace)
        except NotFound:
            return False
        self._gangs.note(stored)
        found = read_stored_gang(stored)
        return found.uid == gang.uid and not found.deleting

    def _say_foreign(self, gang: StoredGang, foreign: list[MnnvlResource]) -> None:
        """Once for each set of resources that somebody else controls."""
        key, names = (gang.namespace, gang.name), [f"{one.kind} {one.name}" for one in foreign]
        if names == self._foreign.get(key, []):
            return
        self._foreign[key] = names
        if not names:
            del self._foreign[key]
            return
        note = f"{', '.join(names)} made for this PodGang, but controlled by another object: not adopted"
        self._events.record(_regarding(gang), "Warning", "MnnvlResourcesForeign", note)

    # Constraints.

    async def _changes(self, gang: StoredGang) -> list[Edit]:
        view = gang.view()
        changes: list[Edit] = []
        pcs = await self._sets.read_set(gang.namespace, gang.place.pcs)
        with contextlib.suppress(Unavailable):  # every PodGang is looked at when the managed topology comes
            changes += self._topology.dialect().podgang_changes(view, pcs, self._topology)
        wanted = adopted_annotation(self._resources.resources_of(gang), gang) or ABSENT
        path = ("metadata", "annotations", MNNVL_ADOPTED)
        return changes if value_at(view, path) == wanted else [*changes, Edit(path, wanted)]

    async def _write(self, gang: StoredGang, version: str, patch: list[Operation]) -> float | None:
        """One patch, of the PodGang as it was seen; Conflict if it has changed since. What comes back different
        from what was written is somebody else's doing, and is looked at again."""
        counted = same(gang.uid, patch)
        pause = self.rewrites.pause(counted)
        if pause is not None:
            note = "something keeps changing what grove-admission writes here: left alone for a while"
            self._events.record(_regarding(gang), "Warning", "PodGangContested", note)
            return pause
        unchanged = {"op": "replace", "path": "/metadata/resourceVersion", "value": version}
        try:
            stored = await self._client.patch(POD_GANG, gang.name, [unchanged, *patch], gang.namespace, kind="json")
        except NotFound:
            return None
        self.rewrites.count(counted)
        self._gangs.note(stored)
        return CONTESTED_SECONDS if operations(read_stored_gang(stored).view(), await self._changes(gang)) else None


def subscribe(
    loop: Loop,
    gangs: WatchStore[StoredGang],
    sets: Store[PodCliqueSet],
    topologies: Store[object],
    topology_name: str,
    resources: tuple[Store[MnnvlResource], ...],
) -> None:
    """Whatever a PodGang depends on leads to a look at it."""

    def topology_changed(key: Key, before: object, after: object) -> None:
        if key == ("", topology_name):
            for one in gangs.known_keys():
                loop.add(one)

    def set_changed(key: Key, before: object, after: object) -> None:
        for one in gangs.by_index(BY_SET, key):
            loop.add((one.namespace, one.name))

    def resource_changed(key: Key, before: MnnvlResource | None, after: MnnvlResource | None) -> None:
        for place in {one.place for one in (before, after) if one is not None}:
            if place.podgang:
                loop.add((key[0], place.podgang))
            else:
                set_changed((key[0], place.pcs), None, None)

    gangs.subscribe(lambda key, before, after: loop.add(key))
    sets.subscribe(set_changed)
    topologies.subscribe(topology_changed)
    for store in resources:
        store.subscribe(resource_changed)


def _regarding(gang: StoredGang) -> Regarding:
    return Regarding(POD_GANG.api_version(), POD_GANG.kind, gang.namespace, gang.name, gang.uid)
