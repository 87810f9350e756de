"""Colour the GPUs on the map by the queues that use them."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from app.explain.answers.gpu_users import gpu_users, gpus_by_queue, users_of_node
from app.explain.reasons.reason import plain
from app.explain.state.index import Index

MOST = 4
"""The maximum number of queues with their own colour: those that use the most GPUs."""
OTHERS = "q0"
"""The CSS class of GPUs that pods of all other queues, or of no queue, use."""
FREE = "free"
"""The CSS class of free GPUs."""
CLOSED = "shut"
"""The CSS class of unused GPUs on closed nodes."""
WIDTH = 100
"""The width of a bar, in the units of its viewBox."""

Bar = tuple[tuple[str, int, int], ...]
"""The parts of a bar, each as (CSS class, start, width). The whole bar has the width WIDTH."""


class Colours:
    """The colours of a cluster's queues, as CSS classes `q1` to `q4`.

    The queues with their own colour are chosen by their usage in the whole cluster and numbered by
    name, so all maps of the same facts have the same colours.
    """

    def __init__(self, index: Index) -> None:
        self._index = index
        used = gpus_by_queue(gpu_users(index))
        del used[""]
        most = sorted(used, key=lambda queue: (-used[queue], queue))[:MOST]
        self._classes = {queue: f"q{number}" for number, queue in enumerate(sorted(most), 1)}

    def used_in(self, nodes: Iterable[int]) -> Mapping[str, int]:
        """Return the GPUs in use on some nodes by queue, in thousandths, largest number first.

        `nodes` are positions in the index. The key "" stands for pods in no queue.
        """
        index = self._index
        places = (index.nodes[position] for position in nodes)
        used = gpus_by_queue(user for node in places for user in users_of_node(index, node))
        return dict(used.most_common())

    def bar(self, nodes: Sequence[int]) -> Bar:
        """Return the bar of a domain with these nodes, or () if the nodes have no GPUs.

        `nodes` are positions in the index.
        """
        index = self._index
        gpus = sum(index.gpus[position] for position in nodes)
        parts = dict.fromkeys([*self._classes.values(), OTHERS], 0)
        for queue, amount in self.used_in(nodes).items():
            parts[self._classes.get(queue, OTHERS)] += amount
        # the rest of a shared GPU is not requested, but not free either
        left = sum(index.left_gpus[position] for position in nodes)
        parts[OTHERS] += max(0, gpus - left - sum(parts.values()))
        parts[FREE] = sum(index.free_gpus[position] for position in nodes)
        parts[CLOSED] = left - parts[FREE]
        return tuple(_laid_out(parts, max(gpus, sum(parts.values()))))

    def legend(self, nodes: Iterable[int]) -> Iterator[tuple[str, str]]:
        """Yield the CSS class and words of each colour on some nodes, such as `team-llm: 40`."""
        used = self.used_in(nodes)
        for queue, name in self._classes.items():
            if queue in used:
                yield name, f"{queue}: {plain(used[queue])}"
        others = sum(used[queue] for queue in used.keys() - self._classes.keys() - {""})
        words = [f"other queues: {plain(others)}"] if others else []
        words += [f"in no queue: {plain(used[''])}"] if "" in used else []
        if words:
            yield OTHERS, ", ".join(words)


def used_words(used: Mapping[str, int]) -> str:
    """Return GPUs by queue in words, such as `used by research 8, pods in no queue 4`, or ""."""
    named = [f"{queue or 'pods in no queue'} {plain(amount)}" for queue, amount in used.items()]
    return f"used by {', '.join(named)}" if named else ""


def _laid_out(parts: Mapping[str, int], whole: int) -> Iterator[tuple[str, int, int]]:
    """Yield the CSS class, the start and the width of each part of a bar.

    The end of the bar stands for the amount `whole`. Parts that are too small to be seen are left
    out.
    """
    begin = 0
    for name, amount in parts.items():
        end = begin + amount
        left, right = (round(WIDTH * place / whole) for place in (begin, end)) if whole else (0, 0)
        if right > left:
            yield name, left, right - left
        begin = end
