"""The answer to "Will it be placed as I asked, and why does it wait?" for one object."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from app.base.value import Value
from app.explain.answers.branch import AS_JSON, Branch, State, together
from app.explain.answers.positions import InLine, in_line
from app.explain.answers.tree import grow
from app.explain.gangs.gang import Gang
from app.explain.gangs.subject import USED, Subject, subject
from app.explain.placing.room import DomainRoom
from app.explain.reasons.messages import said_of, silence
from app.explain.reasons.reason import Reason, ago, counted, listed
from app.explain.reasons.table import Unknown, examine
from app.explain.state.index import Index
from app.facts.identity import Ref
from app.facts.workload_of_pod import WORKLOAD_KINDS

_WHOLE = {
    "PodCliqueSet",
    "PodGang",
    "PodGroup",
    "Workload",
    *(resource.kind for resource in WORKLOAD_KINDS),
}
"""Kinds that are gangs, or have some. Other objects are parts of one."""


class Answer(Value, rename=AS_JSON):
    """`placed` of `total` pods have a node; None if that is not known.

    `said` are KAI's own words about what waits, `silence` what it means that there are none.
    `unseen` are facts that could not be
    read, with the cause, as far as a reason needs them; `unknown` are the reasons that are
    therefore not ruled out. `skipped` are reasons that were not asked for, because the
    facts `lacking` were not read, or are not among the files. `room` is the room for
    the first part that has none, by domain, the roomiest first. `line` are the places in KAI's line
    of the gangs that wait.
    """

    ref: Ref
    state: State
    headline: str
    placed: int | None
    total: int | None
    reasons: tuple[Reason, ...]
    tree: Branch
    unknown: tuple[Unknown, ...]
    unseen: Mapping[str, str]
    absent: tuple[str, ...]
    skipped: tuple[str, ...]
    lacking: tuple[str, ...]
    said: tuple[str, ...]
    silence: str
    room: tuple[DomainRoom, ...]
    line: tuple[InLine, ...]

    @property
    def causes(self) -> tuple[Reason, ...]:
        """The reasons; of what waits, without notes, which keep nothing from being placed."""
        if self.state != "waits":
            return self.reasons
        return tuple(reason for reason in self.reasons if reason.severity != "note")

    @property
    def outlook(self) -> str:
        """What to expect of what waits while no reason says why; "" if one does, or nothing waits.

        It says what was checked, what was not, and what happens next.
        """
        if self.causes or self.state != "waits":
            return ""
        if self.skipped or self.unknown:
            words = "Nothing that could be checked is blocking it; what could not is named below."
            silence = "" if self.said else f" {self.silence[:1].upper()}{self.silence[1:]}."
            return f"{words}{silence}"
        found = next((own for own in self.line if own.next == "next"), None)
        if found:
            where = f", in {listed(found.where)}" if found.where else ""
            return f"Nothing is in its way now; KAI should place it in its next cycle{where}."
        notes = " None of the notes above keeps it waiting." if self.reasons else ""
        if self.said:
            return f"Nothing we check is blocking it.{notes}"
        return f"Nothing we check is blocking it, and {self.silence}.{notes}"

    @property
    def exit_code(self) -> int:
        """0: all is placed, and no reason; 1: reasons, or it waits or ends; 2: not all was read.

        What was not asked for matters if the object waits and no other reason says why.
        """
        unexplained = self.state == "waits" and not self.causes and bool(self.skipped)
        if self.unknown or self.unseen or unexplained:
            return 2
        return 1 if self.reasons or self.state in ("waits", "warning") else 0

    @property
    def lacks_room(self) -> bool:
        """Whether pods wait, and room for them was not examined because it was not asked for."""
        return "NoDomainFits" in self.skipped


def explain(index: Index, ref: Ref, *, folded: bool = False) -> Answer | None:
    """Return the answer about an object. If it is `folded`, gangs have no parts in its tree.

    None if the facts have no such object.
    """
    about = subject(index, ref)
    if not about:
        return None

    gangs = about.with_bases
    examined = examine(gangs)
    tree = grow(about, examined.reasons, folded=folded)
    unseen = _unseen(index, examined.unknown)
    of = _part_asked_about(about, tree)
    state = _state(about, of.state, examined.reasons, bool(unseen))

    return Answer(
        ref=ref,
        state=state,
        headline=_headline(
            about, of, state, is_looked_at="RequiredViolated" not in examined.skipped
        ),
        placed=of.placed,
        total=of.total,
        reasons=examined.reasons,
        tree=tree,
        unknown=examined.unknown,
        unseen=unseen,
        absent=tuple(sorted(index.facts.absent)),
        skipped=examined.skipped,
        lacking=examined.lacking,
        said=said_of(gangs),
        silence=silence(about.gangs, _asked_at(about)),
        room=_room(gangs) if index.room_is_known else (),
        line=in_line(gangs, examined.reasons),
    )


def _room(gangs: Iterable[Gang]) -> tuple[DomainRoom, ...]:
    """Return the room for the first part that has none, by domain."""
    outcomes = (gang.placements.now for gang in gangs if gang.waits)
    return next((outcome.rooms for outcome in outcomes if not outcome.fits), ())


def _unseen(index: Index, unknown: Iterable[Unknown]) -> dict[str, str]:
    """Return what could not be read of what the tree or a reason needs, with the cause."""
    needed = {need for reason in unknown for need in reason.needs}
    needed |= {"sets", "gangs", "cliques", "pods"}
    causes = sorted(index.facts.unseen.items())
    return {kind: cause for kind, cause in causes if kind in needed}


def _part_asked_about(about: Subject, tree: Branch) -> Branch:
    """Return all of a PodCliqueSet; of any other object, the gangs that it is part of."""
    refs = {gang.ref for gang in about.gangs}
    gangs = [branch for branch in tree.children if branch.ref in refs]
    if about.is_set or not gangs:
        return tree
    placed, total, state, _ = together(gangs)
    return replace(tree, placed=placed, total=total, state=state)


def _state(about: Subject, placement: State, reasons: Sequence[Reason], unseen: bool) -> State:
    if _missing_replicas(about) or placement == "waits":
        return "waits"
    if any(reason.severity == "problem" for reason in reasons):
        return "problem"
    if unseen or placement == "unknown":
        return "unknown"
    return "warning" if reasons or _how_it_ends(about) else placement


def _how_it_ends(about: Subject) -> str:
    """Return that a pod that was asked about has ended, or is being deleted; "" if neither."""
    if about.ref.kind != "Pod":
        return ""
    pod = about.index.pods.get(about.ref.key)
    if not pod:
        return ""
    if pod.deleting is not None:
        held_by = f", kept by {listed(pod.finalizers)}" if pod.finalizers else ""
        return f"is being deleted{held_by}"
    return f"has ended ({pod.phase})" if pod.finished else ""


def _missing_replicas(about: Subject) -> int:
    """Return how many replicas of a set have no PodClique yet, and no pod.

    It is known if a set is asked about, as far as PodCliques can be seen.
    """
    pcs = about.pcs
    index = about.index
    if not pcs or not about.is_set or {"cliques", "gangs"} & index.facts.unseen.keys():
        return 0
    made = {clique.place.replica for clique in index.cliques_of_set.get(pcs.key, ())}
    made |= {pod.place.replica for pod in index.pods_of_set.get(pcs.key, ())}
    return max(0, pcs.replicas - len(made))


def _headline(about: Subject, of: Branch, state: State, *, is_looked_at: bool) -> str:
    """Return the answer in one line.

    Unless `is_looked_at`, nodes were not read: whether constraints are kept is then not said.
    """
    name = about.ref.name
    since = _asked_since(about)
    if of.total is None:
        return f"{name}: whether it is placed is not known"
    if not of.total and not about.gangs and not about.pcs:
        return f"no pod uses {name}" if about.ref.kind in USED else f"{name} waits, it has no pods"
    if not of.total and about.pcs and about.is_set:
        if not about.pcs.replicas:
            return f"{name} has no replicas: there is nothing to place"
        return f"{name} waits, nothing of it is made yet{since}"

    pods = _pods_words(about, of)
    ends = _how_it_ends(about)
    if ends:
        return f"{name} {ends}" if _is_alone(about) else f"{name} {ends}; {pods}"
    if state == "well" and not is_looked_at:
        return f"{name} is placed, {pods}; whether as asked was not looked at"

    words = {
        "waits": f"{name} waits, {pods}{since}",
        "well": f"{name} is placed as asked, {pods}",
        "warning": f"{name} is placed, {pods}; there is something to look at",
        "problem": f"{name} is placed, {pods}, but not in order",
        "unknown": f"{name}: {pods}; whether as asked is not known",
    }
    return words[state]


def _pods_words(about: Subject, of: Branch) -> str:
    """Return how many pods are placed, and how many replicas have none yet."""
    of_gang = " of its gang" if about.gangs else " of its set"
    if about.ref.kind in _WHOLE:
        of_gang = ""
    pods = f"{of.placed} of {counted(of.total or 0, 'pod')}{of_gang} placed"

    missing = _missing_replicas(about)
    if about.pcs and missing:
        return f"{pods}, {missing} of {counted(about.pcs.replicas, 'replica')} not made yet"
    return pods


def _is_alone(about: Subject) -> bool:
    return all(gang.ref == about.ref for gang in about.gangs)


def _asked_since(about: Subject) -> str:
    asked = _asked_at(about)
    now = about.index.facts.now
    return f", asked {ago(now - asked)} ago" if asked is not None and now else ""


def _asked_at(about: Subject) -> float | None:
    times = [gang.pod_gang.created for gang in about.gangs if gang.pod_gang]
    times += [pod.created for gang in about.gangs for pod in gang.pods if not gang.pod_gang]
    known = [time for time in times if time is not None]
    return min(known, default=about.pcs.created if about.pcs else None)
