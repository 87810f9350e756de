"""Workloads: the PodCliqueSets, those that wait first, and the explanation of one object."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from app.console.page import Page, Query
from app.console.snapshot import Snapshot
from app.explain.answer import Answer, explain
from app.explain.facts import TITLES
from app.explain.facts.grove import PodClique
from app.explain.index import Index
from app.explain.room import Room
from app.explain.subject import KINDS
from app.explain.text import folded, without_pods
from app.explain.tree import Branch
from app.explain.words import counted, listed
from app.facts.kubernetes.pod import Pod
from app.facts.named import Ref

MOST_SETS = 200
"""Sets in the list. The filter finds the others."""
MOST_ROWS = 300
MOST_ROOMS = 256
_DETAILED = 60
"""If a tree has more rows, it is shown without pods."""
_WORDS = {
    "well": "placed as asked",
    "waits": "waits",
    "warning": "something to look at",
    "problem": "not in order",
    "unknown": "not known",
}


def printed(
    snapshot: Snapshot, given: str, form: Callable[[Answer], str | bytes]
) -> str | bytes | None:
    """The explanation of `Kind/namespace/name` in a form, or None if there is no such object."""
    ref = reference(given)
    answer = explain(snapshot.index, ref) if ref else None
    return None if answer is None else form(answer)


def reference(given: str) -> Ref | None:
    """The object that `Kind/namespace/name` names, or None if the text has another form."""
    kind, _, rest = given.partition("/")
    namespace, _, name = rest.partition("/")
    return Ref(kind, namespace, name) if kind in KINDS.values() and name else None


def _read(snapshot: Snapshot, query: Query) -> dict[str, Any]:
    facts = snapshot.facts
    rows = _sets(snapshot, query.get("namespace", ""), query.get("q", ""))
    given = query.get("object", "")
    ref = reference(given)
    if ref is None and not given and rows:
        ref = Ref("PodCliqueSet", rows[0]["namespace"], rows[0]["name"])

    answer = explain(snapshot.index, ref) if ref else None

    return {
        "sets": rows[:MOST_SETS],
        "count": len(rows),
        "total": len(facts.sets),
        "namespaces": sorted({pcs.namespace for pcs in facts.sets}),
        "namespace": query.get("namespace", ""),
        "q": query.get("q", ""),
        "object": given or (_given(ref) if ref else ""),
        "answer": _shown(answer) if answer else None,
        "missing": str(ref or given) if given and answer is None else "",
        "sees_sets": facts.unseen.get("sets", ""),
        "absent": "sets" in facts.absent,
        "time": snapshot.time,
    }


def _given(ref: Ref) -> str:
    return f"{ref.kind}/{ref.namespace}/{ref.name}"


# The list.


def _sets(snapshot: Snapshot, namespace: str, text: str) -> list[dict[str, Any]]:
    index = snapshot.index
    placed = index.groups(Index.pods_of_set).each(_placed)
    expected = index.groups(Index.cliques_of_set).each(_expected)
    known = not {"pods", "cliques"} & index.facts.unseen.keys()
    rows = []
    for pcs in index.facts.sets:
        if (
            namespace and pcs.namespace != namespace
        ) or text.lower() not in f"{pcs.namespace}/{pcs.name}".lower():
            continue
        key = (pcs.namespace, pcs.name)
        have = placed.get(key, 0)
        want = max(expected.get(key, 0), placed.get(key, 0))
        state = "unknown" if not known else "waits" if have < want or not want else "well"
        words = {"unknown": "not known", "waits": "waits", "well": "all placed"}[state]
        pods = f"{have:,} of {want:,}" if known else "?"
        row = {
            "namespace": pcs.namespace,
            "name": pcs.name,
            "pods": pods,
            "state": state,
            "words": words,
        }
        rows.append({**row, "object": f"PodCliqueSet/{pcs.namespace}/{pcs.name}"})

    order = {"waits": 0, "unknown": 1, "well": 2}

    return sorted(rows, key=lambda row: (order[row["state"]], row["namespace"], row["name"]))


def _placed(pods: Sequence[Pod]) -> int:
    return sum(1 for pod in pods if pod.node and not pod.finished and pod.deleting is None)


def _expected(cliques: Sequence[PodClique]) -> int:
    return sum(clique.replicas for clique in cliques)


# The explanation.


def _shown(answer: Answer) -> dict[str, Any]:
    rows = list(_rows(answer.tree))
    if len(rows) > _DETAILED:
        rows = list(_rows(without_pods(answer.tree)))

    return {
        "ref": _given(answer.ref),
        "kind": answer.ref.kind,
        "headline": answer.headline,
        "state": answer.state,
        "words": _WORDS[answer.state],
        "reasons": answer.reasons,
        "said": answer.said[:5],
        "rows": rows[:MOST_ROWS],
        "more": max(0, len(rows) - MOST_ROWS),
        "rooms": _rooms(answer.room),
        "unseen": [f"{TITLES[kind]} ({cause})" for kind, cause in (answer.unseen or {}).items()],
        "unknown": listed((unknown.id for unknown in answer.unknown), 40),
    }


def _rows(branch: Branch, level: int = 1, parent: str = "") -> Iterator[dict[str, Any]]:
    """The rows of the tree from top to bottom. Equal siblings are one row with a count."""
    yield _row(branch, level, parent)
    for child, more in folded(branch.children):
        yield from _rows(child, level + 1, branch.ref.name)
        if more:
            yield {
                **_BLANK,
                "level": level + 1,
                "name": f"{more} more, the same",
                "kind": "",
                "leaf": True,
            }


_BLANK: dict[str, Any] = {
    "asked": "",
    "where": "",
    "pods": "",
    "state": "",
    "words": "",
    "reasons": (),
    "marked": False,
    "link": "",
}


def _row(branch: Branch, level: int, parent: str) -> dict[str, Any]:
    kind, name = branch.label(parent)
    counts = branch.placed is not None and branch.total is not None
    return {
        "level": level,
        "kind": kind,
        "name": name,
        "asked": branch.asked,
        "where": branch.where,
        "pods": f"{branch.placed:,} of {branch.total:,}" if counts else "",
        "state": branch.state,
        "words": branch.words or ("in order" if branch.state == "well" else _WORDS[branch.state]),
        "reasons": branch.reasons,
        "marked": branch.marked,
        "leaf": not branch.children,
        "link": (
            _given(branch.ref) if branch.ref.kind in KINDS.values() and not branch.marked else ""
        ),
    }


def _rooms(rooms: Sequence[Room]) -> list[dict[str, Any]]:
    """Domains with their room, grouped by parent.

    If there are more than MOST_ROOMS, only the roomiest.
    """
    if not rooms or len(rooms) > MOST_ROOMS:
        return (
            [{"parent": "", "cells": [_cell(room, rooms[0].pods) for room in rooms[:24]]}]
            if rooms
            else []
        )
    groups: dict[str, list[dict[str, Any]]] = {}
    for room in sorted(rooms, key=lambda room: room.domain.path):
        groups.setdefault("/".join(room.domain.path[:-1]), []).append(_cell(room, rooms[0].pods))
    return [{"parent": parent, "cells": cells} for parent, cells in groups.items()]


def _cell(room: Room, most: int) -> dict[str, Any]:
    what = f"{room.domain}: {counted(room.pods, 'pod')}"
    return {"pods": room.pods, "title": what, "best": bool(most) and room.pods == most}


PAGE = Page("workloads", "Workloads", _read)
