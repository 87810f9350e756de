"""Whether some pods find room in one domain of a level, and if not, in which wider level."""

from dataclasses import dataclass

from app.explain.answers.topology import RoomAnswer, find_room
from app.explain.known.index import Index
from app.explain.known.levels import Topology


@dataclass(frozen=True, slots=True)
class RoomSearch:
    """The room at the level that was asked for, and at the next wider one that has enough.

    `wider` is None if no wider level has enough, or none is needed. `largest` are the GPUs of the
    node that has most, in thousandths.
    """

    answer: RoomAnswer
    wider: RoomAnswer | None
    largest: int

    @property
    def exit_code(self) -> int:
        """0: there is room; 1: there is none."""
        return 0 if self.answer.enough else 1


def search_room(
    index: Index, topology: Topology, level: str, pods: int, gpus: int
) -> RoomSearch | None:
    """Look for room for `pods` pods of `gpus` GPUs (thousandths) each.

    Return None for an unknown level.
    """
    answer = find_room(index, topology, level, pods, gpus)
    if answer is None:
        return None

    largest = max(index.gpus, default=0)
    wider = None
    if not answer.enough and gpus <= largest:
        wider = _next_wider(index, topology, answer)
    return RoomSearch(answer, wider, largest)


def _next_wider(index: Index, topology: Topology, answer: RoomAnswer) -> RoomAnswer | None:
    domains = [level.domain for level in topology.levels]
    for level in reversed(domains[: domains.index(answer.level)]):
        wider = find_room(index, topology, level, answer.pods, answer.gpus)
        if wider is not None and wider.enough:
            return wider
    return None
