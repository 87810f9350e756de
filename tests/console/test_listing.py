"""The list of workloads: what is explained when, and which workload is selected."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from msgspec.structs import replace

from app.console.listing import NOT_EXAMINED, WaitingList
from app.explain.answers.pending import WorkloadRow
from app.explain.state.index import Index
from app.explain.state.snapshot import Snapshot, projected
from app.facts.identity import Place, Ref
from app.kube.api import Object
from scripts.fleet import Workload, fleet
from tests.console.fake import NOW
from tests.console.objects import by_plural, objects


def snapshot(made: Mapping[str, Sequence[Object]] | None = None) -> Snapshot:
    fields = projected(obj for of_kind in (made or objects()).values() for obj in of_kind)
    return Snapshot(**{name: tuple(facts) for name, facts in fields.items()}, now=NOW)  # type: ignore[arg-type]


def passes(listing: WaitingList, index: Index) -> Iterator[bool]:
    """Whether the list is complete after each page, of which each explains one workload."""
    while True:
        listing.follow(index)
        yield listing.complete


def test_a_page_goes_on_where_the_one_before_stopped() -> None:
    facts = snapshot()
    workloads = len(facts.sets) + 1  # and a PodGroup that belongs to none
    assert workloads > 2
    index = Index(facts)
    pages = passes(WaitingList(lambda: float(next(seconds))), index)
    seconds = count()
    assert [next(pages) for _ in range(workloads)] == [False] * (workloads - 1) + [True]

    index.follow(replace(facts, now=NOW + 60))
    assert next(pages)
    index.follow(replace(facts, queues=()))
    assert not next(pages)


class Noting(Index):
    """An index that notes what it was asked to remember."""

    def __init__(self, facts: Snapshot) -> None:
        super().__init__(facts)
        self.keys = set[object]()

    def remembered(self, key: object, *arguments: Any, **named: Any) -> Any:
        remembered = super().remembered(key, *arguments, **named)
        self.keys.add(key)
        return remembered


def test_the_line_of_all_gangs_does_not_use_up_the_time_for_explanations() -> None:
    """Here an hour passes while the line is made, and no time else."""
    index = Noting(snapshot())
    listing = WaitingList(lambda: 3600.0 * ("line" in index.keys))
    listing.follow(index)
    assert listing.complete


def test_workloads_are_shown_as_not_examined_until_they_are() -> None:
    """Here each explanation takes a second, so a slice has time for one."""
    facts = snapshot()
    seconds = count()
    listing = WaitingList(lambda: float(next(seconds)))
    index = Index(facts)
    unexamined = []
    while True:
        more = listing.examine(index)
        unexamined.append([row.ref for row in listing.rows if row.reason == NOT_EXAMINED])
        if not more:
            break
    assert [len(refs) for refs in unexamined] == [*range(len(facts.sets), -1, -1)]
    assert not listing.examine(index)
    index.follow(replace(facts, queues=()))
    assert not listing.examine(index)


def test_a_workload_does_not_have_the_pods_of_a_set_of_the_same_name() -> None:
    """The PodCliqueSet chat-70b is placed. A Job with its name has a pending pod."""
    facts = snapshot()
    of_set = next(pod for pod in facts.pods if pod.place.pcs == "chat-70b")
    job = Ref("Job", of_set.namespace, of_set.place.pcs)
    alone = replace(of_set, name="alone", place=Place(), group="", node="", made_for=(job,))
    listing = WaitingList(lambda: float(next(seconds)))
    seconds = count()
    listing.examine(Index(replace(facts, pods=(*facts.pods, alone))))
    [row] = [row for row in listing.rows if row.ref == job]
    assert (row.reason, row.state, row.placed) == (NOT_EXAMINED, "waits", 0)


def test_workloads_stand_in_the_order_of_the_line_before_they_are_examined() -> None:
    """Of equal gangs, the oldest is first in the line, whose name is the last."""
    made = [*fleet()]
    for number in range(4):
        for obj in Workload("research", f"train-{number}", "rack", {"w": (2, 16)}).objects():
            obj["metadata"]["creationTimestamp"] = f"2027-01-15T07:{50 - number}:00Z"
            made.append(obj)
    index = Index(snapshot(by_plural(made)))
    seconds = count()
    listing = WaitingList(lambda: float(next(seconds)))
    orders, reasons = [], []
    while True:
        more = listing.examine(index)
        rows = [row for row in listing.rows if row.ref.name.startswith("train")]
        orders.append([row.ref.name for row in rows])
        reasons.append([row.reason == NOT_EXAMINED for row in rows])
        if not more:
            break
    assert [True] * 3 in [unexamined[1:] for unexamined in reasons]
    assert orders[0] == [f"train-{number}" for number in (3, 2, 1, 0)]
    assert [order for order in orders if order != orders[0]] == []


def test_the_selection_stays_while_the_order_changes() -> None:
    listing = WaitingList(clock=lambda: 0.0)
    first, second = (
        WorkloadRow(Ref("PodCliqueSet", "a", name), "waits", None, 0, 1) for name in ("b", "c")
    )
    assert listing.selected([first, second]) == first.ref
    assert listing.selected([second, first]) == first.ref
    assert listing.selected([second, replace(first, state="well")]) == second.ref
    assert listing.selected([first]) == first.ref
    assert listing.selected([]) is None
