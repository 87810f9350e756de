"""Describe one object in the tree of a workload: its state and the text of its columns."""

from collections.abc import Iterable, Sequence
from typing import Literal

from app.base.value import Value
from app.explain.reasons.reason import counted
from app.explain.state.domains import shared_depth
from app.explain.state.levels import Topology
from app.facts.constraint import SchedulerConstraint
from app.facts.grove.podcliqueset import UserConstraint
from app.facts.identity import Ref
from app.facts.kubernetes.pod import Pod

State = Literal["well", "waits", "warning", "problem", "unknown"]

AS_JSON = {"ref": "object"}
"""The JSON key of the field `ref` in answers."""


class Branch(Value, rename=AS_JSON):
    """One object in the tree of a workload."""

    ref: Ref
    asked: str = ""
    """Its topology constraint, such as `rack required`."""
    where: str = ""
    """The domain of its placed pods, or the number of their domains or nodes, such as `2 racks`.

    Without placed pods, it may be the domain with the most room for them. For a pod, it is the
    node. For other objects, such as queues, it is a short description. It may be "".
    """
    placed: int | None = None
    """How many of its pods have a node, or None if that is not known or does not apply."""
    total: int | None = None
    """How many pods it has or needs, or None if `placed` is None."""
    state: State = "well"
    words: str = ""
    """Its state in words."""
    children: tuple["Branch", ...] = ()
    reasons: tuple[int, ...] = ()
    """Numbers of its reasons in the list of reasons, from 1."""
    marked: bool = False
    """Is it the requested object?"""

    def label(self, parent: str) -> tuple[str, str]:
        """Return the kind and the name of the object, as people see them.

        `parent` is the name of the branch above. If the name of a PodClique or Pod begins with it,
        the name is shortened.
        """
        kind = self.ref.kind
        name = self.ref.name
        within = parent and kind in ("PodClique", "Pod") and name.startswith(f"{parent}-")
        return "replica" if kind == "Replica" else kind, (
            f"…{name[len(parent) :]}" if within else name
        )


def together(branches: Sequence[Branch]) -> tuple[int | None, int | None, State, str]:
    """Return (placed pods, all pods, state, state in words) of several branches together.

    The sums leave out branches whose numbers are not known.
    """
    placed = _sum(branch.placed for branch in branches)
    total = _sum(branch.total for branch in branches)
    state, words = state_of(placed, total, bool(branches))
    if state == "well":
        state = max((branch.state for branch in branches), key=_RANK.__getitem__)
        # a gang without pods is pending, although it has no pod without a node
        words = "pending" if state == "waits" else words
    return placed, total, state, words


_RANK = {"well": 0, "warning": 1, "waits": 2, "problem": 3, "unknown": 4}


def state_of(placed: int | None, total: int | None, exists: bool) -> tuple[State, str]:
    """Return (state, state in words) of an object, if `placed` of its `total` pods have a node.

    The state is unknown if a number is None. Without pods (`exists` is false), it is pending.
    """
    if placed is None or total is None:
        return "unknown", "not known"
    if not exists or placed < total:
        return "waits", "pending"
    return "well", "placed"


def _sum(counts: Iterable[int | None]) -> int | None:
    """Return the sum of the known counts, or None if none is known."""
    known = [count for count in counts if count is not None]
    return sum(known) if known else None


def place_words(topology: Topology, pods: Iterable[Pod], told: SchedulerConstraint) -> str:
    """Return the domain of pods at the required level, or else at the narrowest shared level.

    If there are several, return their number, such as `2 racks`. If a node is in no domain, or
    there are no levels, return the number of nodes. Return "" without pods, or if a node is not
    known.
    """
    domains = topology.domains.by(told.levels)
    names = {pod.node for pod in pods}
    if not names or not names <= domains.positions.keys():
        return ""

    paths = domains.paths_of(names)
    if len(paths) < len(names) or not domains.keys:
        return counted(names, "node")

    depth = domains.depth(told.required) or max(shared_depth(paths), 1)
    places = {path[:depth] for path in paths}
    if len(places) == 1:
        return "/".join(min(places))
    return counted(places, topology.name_of(domains.keys[depth - 1]))


def told_words(told: SchedulerConstraint, topology: Topology) -> str:
    """Return a scheduler's constraint in words, such as `rack required`, or "" for none."""
    return asked_words(UserConstraint(*map(topology.name_of, (told.required, told.preferred))))


def asked_words(asked: UserConstraint) -> str:
    """Return a user's constraint in words, such as `rack required`, or "" for none."""
    if asked.required:
        return f"{asked.required} required"
    return f"{asked.preferred} preferred" if asked.preferred else ""


def state_of_pod(pod: Pod) -> tuple[State, str]:
    """Return (state, state in words) of a pod."""
    if pod.node:
        return ("waits", pod.waiting[0]) if pod.waiting else ("well", pod.phase.lower())
    if pod.gates:
        return "waits", "gated"
    return "waits", "unschedulable" if pod.unscheduled else "pending"
