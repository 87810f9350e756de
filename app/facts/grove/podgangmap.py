"""PodGangMaps, of releases with epochs."""

from app.base.value import Value
from app.facts.named import Namespaced, read_key
from app.objects.shape import JsonMap, map_at, maps_at, text_at, texts_at


class MapEntry(Value):
    """An entry of a PodGangMap: the epoch of a PodGang, and those of the PodGangs that it needs."""

    epoch: str = ""
    depends_on: tuple[str, ...] = ()


class PodGangMap(Namespaced):
    """Which PodGangs a replica of a set has."""

    kind = "PodGangMap"
    entries: tuple[MapEntry, ...] = ()

    def needed_by(self, epoch: str) -> set[str]:
        """Return the epochs that an epoch depends on."""
        return {
            needed for entry in self.entries if entry.epoch == epoch for needed in entry.depends_on
        }


def read_pod_gang_map(obj: JsonMap) -> PodGangMap:
    entries = tuple(
        MapEntry(text_at(item, "epoch"), tuple(texts_at(item, "dependsOn")))
        for item in maps_at(obj, "spec", "entries")
    )
    return PodGangMap(*read_key(map_at(obj, "metadata")), entries)
