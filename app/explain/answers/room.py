"""Where pods find room in one domain of a level, and if nowhere, in which wider level."""

import itertools
from collections import Counter
from collections.abc import Sequence

from app.base.value import Value
from app.explain.known.domains import Path
from app.explain.known.guesses import guessed_labels
from app.explain.known.index import Index
from app.explain.known.levels import Topology
from app.explain.placing.demand import Demand
from app.explain.placing.placements import Placements
from app.explain.placing.room import DomainRoom
from app.facts.grove.topology import Level
from app.facts.kubernetes.gpus import GPU
from app.facts.kubernetes.pod import Shape
from app.facts.kubernetes.selectors import Toleration
from app.facts.labels import NODE_POOL


class RoomAnswer(Value):
    """Where pods have room in one domain of `level`.

    There are `pods` pods of `gpus` GPUs (thousandths). Every domain is there, the roomiest first.
    `with_labels` has domains that would have more room if nodes outside had the labels of their
    neighbours.
    """

    level: str
    pods: int
    gpus: int
    rooms: tuple[DomainRoom, ...]
    with_labels: tuple[DomainRoom, ...]

    @property
    def enough(self) -> tuple[DomainRoom, ...]:
        """The domains that have room for all."""
        return tuple(room for room in self.rooms if room.pods >= self.pods)


class RoomSearch(Value):
    """The room at the level that was asked for, and at the next wider one that has enough.

    `wider` is None if no wider level has enough, or none is needed. `largest` are the GPUs of the
    node that has most, in thousandths. `pools` are KAI's node pools, whose nodes are all counted;
    "" stands for the nodes in none.
    """

    answer: RoomAnswer
    wider: RoomAnswer | None
    largest: int
    pools: tuple[str, ...]

    @property
    def exit_code(self) -> int:
        """0: there is room; 1: there is none."""
        return 0 if self.answer.enough else 1


def search_room(topology: Topology, level: str, pods: int, gpus: int) -> RoomSearch | None:
    """Look for room for `pods` pods of `gpus` GPUs (thousandths) each.

    Return None for an unknown level.
    """
    asked = next((known for known in topology.levels if known.domain == level), None)
    if not asked:
        return None

    index = topology.index
    answer = find_room(topology, asked, pods, gpus)
    largest = max(index.gpus, default=0)
    wider = _next_wider(topology, asked, answer) if gpus <= largest else None
    pools = {node.labels.get(NODE_POOL, "") for node in index.nodes} if index.has_pools else ()
    return RoomSearch(answer, wider, largest, tuple(sorted(pools)))


def _next_wider(topology: Topology, asked: Level, answer: RoomAnswer) -> RoomAnswer | None:
    """Return the next wider level that has room for all; None if that is not needed."""
    levels = () if answer.enough else topology.wider(asked.key)
    answers = (find_room(topology, level, answer.pods, answer.gpus) for level in levels)
    return next((wider for wider in answers if wider.enough), None)


def find_room(topology: Topology, level: Level, pods: int, gpus: int) -> RoomAnswer:
    """Return where `pods` pods of `gpus` GPUs each (thousandths) fit in one domain of a level."""
    demands = [Demand("", level.key, ((shape, pods),)) for shape in _shapes(topology.index, gpus)]
    placements = [Placements(topology, demand) for demand in demands]
    rooms = _sum([each.rooms() for each in placements], pods)
    gained: tuple[DomainRoom, ...] = ()
    labels = guessed_labels(topology) if topology.outside else {}
    if labels:
        more = _sum([each.with_labels(labels).rooms() for each in placements], pods)
        gained = _gained(rooms, more)

    return RoomAnswer(level.domain, pods, gpus, rooms, gained)


def _gained(rooms: Sequence[DomainRoom], more: Sequence[DomainRoom]) -> tuple[DomainRoom, ...]:
    before = {room.domain.path: room.pods for room in rooms}
    return tuple(room for room in more if room.pods > before.get(room.domain.path, 0))


def _shapes(index: Index, gpus: int) -> list[Shape]:
    """Return a pod of so many GPUs (thousandths), for each name of them."""
    if not gpus:
        return [Shape((("pods", 1000),))]
    tolerated = (Toleration(GPU, "Exists", "", ""),)
    return [
        Shape(((name, gpus), ("pods", 1000)), tolerations=tolerated) for name in _gpu_names(index)
    ]


def _gpu_names(index: Index) -> list[str]:
    """Return what whole GPUs are called as a resource of nodes."""
    return [name for name in index.gpu_names if name.endswith("/gpu")] or [GPU]


def _sum(rooms: Sequence[Sequence[DomainRoom]], most: int) -> tuple[DomainRoom, ...]:
    """Return the room of each domain by all names together, the roomiest first.

    A node has its GPUs by one name only.
    """
    domains = {room.domain.path: room.domain for by_name in rooms for room in by_name}
    pods: Counter[Path] = Counter()
    for room in itertools.chain.from_iterable(rooms):
        pods[room.domain.path] += room.pods
    summed = (DomainRoom(domain, min(most, pods[path])) for path, domain in domains.items())
    return tuple(sorted(summed, key=lambda room: (-room.pods, room.domain.path)))
