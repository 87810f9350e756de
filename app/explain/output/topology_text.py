"""Write answers about a topology for people, as lines of text."""

from collections.abc import Iterator, Sequence

from app.base.safe_text import visible
from app.base.wrapping import table
from app.explain.answers.topology import (
    DomainReport,
    Preview,
    RoomAnswer,
    RoomSearch,
    Survey,
    domain_reports,
    nodes_are_known,
)
from app.explain.output.rights import how_to_get
from app.explain.output.text import not_seen, reason_lines
from app.explain.placing.room import DomainRoom
from app.explain.reasons.reason import amount, counted, listed, plain, pods_of_size
from app.explain.state.amounts import gpus_of
from app.explain.state.levels import Topology
from app.explain.state.snapshot import Snapshot
from app.facts.grove.topology import HOSTNAME_KEY

MOST_DOMAINS = 40
"""The maximum number of domains, nodes or held claims that are listed."""
MOST_INSIDE = 3
"""The maximum number of domains that are named for having the most free GPUs or room."""


def survey_text(survey: Survey, facts: Snapshot) -> str:
    """Return the levels with their coverage, then the findings."""
    lines = [visible(_title(survey, facts))]
    rows = [("level", "label", "nodes", "domains", "")]
    for report in survey.levels:
        coverage = (f"{report.nodes:,} of {survey.nodes:,}", f"{report.domains:,}")
        if not nodes_are_known(facts):
            coverage = ("unknown", "unknown")
        state = counted(report.findings, "finding") if report.findings else ""
        rows.append((report.level.domain, report.level.key, *coverage, state))

    lines += _aligned(rows) if survey.levels else []
    lines += reason_lines(survey.reasons)
    lines += map(visible, _held_lines(survey))
    unseen = {
        need: facts.unseen.get(need, "missing from the files")
        for unknown in survey.unknown
        for need in unknown.needs
    }
    lines += map(visible, not_seen(unseen, [unknown.id for unknown in survey.unknown]))
    lines += map(visible, how_to_get(unseen))

    return "\n".join(lines)


def _held_lines(survey: Survey) -> Iterator[str]:
    """Yield lines about NVLink channels that are held unnecessarily."""
    if survey.held is None or not survey.held.held:
        return
    held = survey.held.held
    waits = ""
    if survey.held.waiting:
        waits = (
            f"; {counted(survey.held.waiting, 'pending pod needs', 'pending pods need')} a channel"
        )
    claims = counted(len(held), "claim holds an NVLink channel", "claims hold NVLink channels")
    need = "doesn't need it" if len(held) == 1 else "don't need them"
    yield f"{claims} but {need}{waits}:"
    for each in held[:MOST_DOMAINS]:
        yield f"  {each.node or '-'}  {'/'.join(each.claim.key)}: {each.reason}"
        yield f"     fix: {each.remedy}"
    if len(held) > MOST_DOMAINS:
        yield f"  … {len(held) - MOST_DOMAINS} more. To list all, run: grove-admission audit"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table, in which invisible characters are replaced by codes."""
    return table([[visible(cell) for cell in row] for row in rows])


def _title(survey: Survey, facts: Snapshot) -> str:
    known = nodes_are_known(facts)
    nodes = counted(survey.nodes, "node") if known else "number of nodes unknown"
    if not survey.cluster and not survey.kai:
        unseen = {"topologies", "kai_topologies"} & facts.unread
        return f"{nodes}; {'topology unknown' if unseen else 'no topology is defined'}"

    levels = [
        counted(report.domains, report.level.domain) if known else report.level.domain
        for report in survey.levels
        if report.level.key != HOSTNAME_KEY or len(survey.levels) == 1
    ]
    if survey.cluster:
        name = f"{survey.cluster.kind} {survey.cluster.name}"
    else:
        name = f"KAI Topology {survey.kai.name}"  # type: ignore[union-attr]

    return (
        f"{name}: {nodes} in {listed(levels) or 'no levels'}"
        if known
        else f"{name}: {listed(levels)}; {nodes}"
    )


def domains_text(topology: Topology, parents: Sequence[DomainReport], *, everything: bool) -> str:
    """Return the domains, each with the domains inside it that have the most free GPUs."""
    shown = parents if everything else parents[:MOST_DOMAINS]
    rows = [_domain_cells(topology, report, everything=everything) for report in shown]
    filled = [column for column in zip(*rows, strict=True) if any(column)]
    lines = list(_aligned(list(zip(*filled, strict=True))))
    if len(parents) > len(shown):
        lines.append(f"… {len(parents) - len(shown)} more (--all lists them)")
    return "\n".join(lines)


def _domain_cells(topology: Topology, report: DomainReport, *, everything: bool) -> tuple[str, ...]:
    """Return the cells of a domain.

    They are its path, the numbers of its inner domains and nodes, its free GPUs, the number of
    closed nodes, and the inner domains with the most free GPUs. Cells may be empty.
    """
    depth = len(report.path)
    inside: list[DomainReport] = []
    within = ""
    if depth < len(topology.levels):
        inside = domain_reports(topology, depth + 1, report.path)
        within = counted(inside, topology.levels[depth].domain)
    nodes = counted(report.nodes, "node") if depth + 1 < len(topology.levels) else ""
    closed = f"{report.closed} closed" if report.closed else ""

    return (
        "/".join(report.path),
        within,
        nodes,
        free_words(report),
        closed,
        _most(inside, everything),
    )


def _most(inside: Sequence[DomainReport], everything: bool) -> str:
    """Return the names and free GPUs of the domains with free GPUs, most free GPUs first."""
    most = sorted(
        (report for report in inside if report.free),
        key=lambda report: (-(report.free or 0), report.path),
    )
    names = [
        f"{report.path[-1]} {plain(report.free or 0)}"
        for report in (most if everything else most[:MOST_INSIDE])
    ]
    more = " …" if len(most) > len(names) else ""

    return ", ".join(names) + more


def free_words(report: DomainReport) -> str:
    """Return the free GPUs of a domain as text, such as `8 of 16 GPUs free, 4 soon`."""
    if report.free is None:
        return f"{amount('/gpu', report.gpus)}, free: not known"
    soon = f", {plain(report.soon or 0)} soon" if report.soon else ""
    return f"{plain(report.free)} of {amount('/gpu', report.gpus)} free{soon}"


def nodes_text(topology: Topology, report: DomainReport, *, everything: bool) -> str:
    """Return the nodes of one domain, with their free GPUs and the PodGroups of their pods.

    For a pod without a PodGroup, the name of the pod is listed. Unless `everything`, at most
    MOST_DOMAINS nodes are listed.
    """
    rows = []
    index = topology.index
    (domain,) = topology.domains.within(len(report.path), report.path)
    shown = domain.nodes if everything else domain.nodes[:MOST_DOMAINS]
    for position in shown:
        node = index.nodes[position]
        pods = index.pods_on.get(node.name, ())
        gpus = gpus_of(node.allocatable)
        free = "?" if report.free is None else plain(index.left_gpus[position])
        state = "" if index.open_for_gpus[position] else "closed"
        groups = listed(dict.fromkeys(f"{pod.namespace}/{pod.group or pod.name}" for pod in pods))
        rows.append((node.name, f"{free} of {amount('/gpu', gpus)} free", state, groups))

    lines = list(_aligned(rows))
    if len(domain.nodes) > len(shown):
        lines.append(f"… {len(domain.nodes) - len(shown)} more (--all lists them)")
    return "\n".join(lines)


def room_text(answer: RoomAnswer) -> str:
    """Return a text such as `room for 10 pods of 8 GPUs in one rack: none; zone-b/rack-b5 9`."""
    what = f"room for {pods_of_size(answer.pods, answer.gpus)} in one {answer.level}"
    labels = {room.domain.path: room.pods for room in answer.with_labels}

    def words(room: DomainRoom) -> str:
        more = labels.get(room.domain.path)
        with_more = f" ({more} with its unlabelled nodes)" if more else ""
        return f"{'/'.join(room.domain.path)} {room.pods}{with_more}"

    if answer.enough:
        names = listed("/".join(room.domain.path) for room in answer.enough)
        return f"{what}: {len(answer.enough)} of {counted(answer.rooms, answer.level)}; {names}"
    best = ", ".join(map(words, answer.rooms[:MOST_INSIDE]))
    return f"{what}: none" + (f"; {best}" if best else "")


def search_text(search: RoomSearch) -> str:
    """Return the room at the requested level, and at a wider one if no domain has enough."""
    return "\n".join(map(visible, _search_lines(search)))


def _search_lines(search: RoomSearch) -> Iterator[str]:
    answer = search.answer
    if answer.gpus > search.largest:
        has = (
            f"the largest has {amount('/gpu', search.largest)}"
            if search.largest
            else "none has any"
        )
        yield f"no node has {amount('/gpu', answer.gpus)}: {has}"
        return

    yield room_text(answer)
    if search.most is not None and search.most < answer.pods:
        yield (
            f"with {counted(search.spare, 'node')} of a {answer.level} free (mnnvl.spareNodes), at"
            f" most {search.most} of these pods fit"
        )
    if search.wider:
        yield room_text(search.wider)
    elif not answer.enough:
        yield "no domain of a wider level has room for all of these pods either"
    if search.pools:
        pools = listed(pool or "no pool" for pool in search.pools)
        yield f"the nodes of all node pools are counted ({pools}), but a gang uses only one pool"


def preview_text(preview: Preview) -> str:
    """Return the effects of an edit of the levels."""
    levels = listed((level.domain for level in preview.after.levels), 16)
    sets = len({effect.ref for effect in preview.effects})
    lines = [
        f"! No node has the label {key}, so no gang with a constraint would be placed"
        for key in preview.absent
    ]
    named = "level" if len(preview.after.levels) == 1 else "levels"
    lines.append(f"with the {named} {levels}: {counted(sets, 'PodCliqueSet')} affected")
    lines = list(map(visible, lines))
    for effect in preview.effects:
        mark = "!" if effect.severe else " "
        name = f"{effect.ref.namespace}/{effect.ref.name}"
        lines.append(visible(f"{mark} {name}  {effect.text}  ({effect.field})"))

    return "\n".join([*lines, *reason_lines(preview.reasons)])
