"""The list of what waits explains again only what has changed."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from msgspec.structs import replace

from app.console.listing import WaitingList
from app.explain.known.index import Index
from app.explain.known.snapshot import Snapshot, projected
from tests.console.fake import NOW
from tests.console.objects import objects


def snapshot() -> Snapshot:
    fields = projected(obj for of_kind in objects().values() for obj in of_kind)
    return Snapshot(**{name: tuple(facts) for name, facts in fields.items()}, now=NOW)  # type: ignore[arg-type]


def passes(listing: WaitingList, index: Index) -> Iterator[bool]:
    """Whether the list is complete after each page, of which each explains one workload."""
    while True:
        listing.follow(index)
        yield listing.complete


def test_a_page_goes_on_where_the_one_before_stopped() -> None:
    facts = snapshot()
    assert len(facts.sets) > 1
    index = Index(facts)
    pages = passes(WaitingList(lambda: float(next(seconds))), index)
    seconds = count()
    assert [next(pages) for _ in facts.sets] == [False] * (len(facts.sets) - 1) + [True]

    index.follow(replace(facts, now=NOW + 60))
    assert next(pages)
    index.follow(replace(facts, queues=()))
    assert not next(pages)


class Noting(Index):
    """An index that notes what it was asked to remember."""

    def __init__(self, facts: Snapshot) -> None:
        super().__init__(facts)
        self.keys = set[object]()

    def remembered(self, key: object, *arguments: Any) -> Any:
        remembered = super().remembered(key, *arguments)
        self.keys.add(key)
        return remembered


def test_the_line_of_all_gangs_does_not_use_up_the_time_for_explanations() -> None:
    """Here an hour passes while the line is made, and no time else."""
    index = Noting(snapshot())
    listing = WaitingList(lambda: 3600.0 * ("line" in index.keys))
    listing.follow(index)
    assert listing.complete
