"""PodGangMaps, of releases with epochs."""

from app.base.value import Value
from app.facts.named import Namespaced, read_key
from app.objects.shape import JsonMap, int_of, map_at, maps_at, text_at, texts_at


class MapEntry(Value):
    """An entry of a PodGangMap: the epoch of PodGangs, and those of the PodGangs that it needs.

    `pods` are the PodCliques outside of scaling groups, each with how many of its pods are meant.
    """

    epoch: str = ""
    depends_on: tuple[str, ...] = ()
    pods: tuple[tuple[str, int], ...] = ()


class PodGangMap(Namespaced):
    """Which PodGangs a replica of a set has."""

    kind = "PodGangMap"
    entries: tuple[MapEntry, ...] = ()

    def entry_of(self, epoch: str) -> MapEntry | None:
        """Return the entry of an epoch, None if there is none."""
        return next((entry for entry in self.entries if entry.epoch == epoch), None)

    def shares_of(self, clique: str) -> dict[str, int]:
        """Return how many pods of a PodClique are meant to be in each epoch."""
        entries = self.entries
        return {
            entry.epoch: count for entry in entries for name, count in entry.pods if name == clique
        }


def read_pod_gang_map(obj: JsonMap) -> PodGangMap:
    namespace, name = read_key(map_at(obj, "metadata"))
    entries = (_entry(name, item) for item in maps_at(obj, "spec", "entries"))
    return PodGangMap(namespace, name, tuple(entries))


def _entry(name: str, item: JsonMap) -> MapEntry:
    """Return an entry of the map with this name, after which the PodCliques are called too."""
    counts = map_at(item, "podCliques")
    pods = tuple((f"{name}-{clique}", int_of(count)) for clique, count in sorted(counts.items()))
    return MapEntry(text_at(item, "epoch"), tuple(texts_at(item, "dependsOn")), pods)
