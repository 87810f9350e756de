"""Report objects that Grove has not created or is deleting, and APIs that are not installed."""

from app.base.sentences import lower_first
from app.explain.gangs.gang import Gang
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Severity,
    Who,
    about,
    ago,
    counted,
    finalizers_of,
    listed,
    removal_of,
    with_age,
)
from app.explain.reasons.uncreated_pods import known_advice
from app.facts.grove.podclique import PodClique
from app.facts.grove.podcliqueset import SetWithStatus
from app.facts.grove.podgang import PodGang
from app.facts.grove.status import LastError, StatusCondition
from app.facts.labels import KAI_SCHEDULER, MNNVL_ENABLED, PODGANG

MIGRATES = "PodGangMigrationInProgress"
SOON = 60.0
"""The seconds within which Grove usually creates the first objects of a PodCliqueSet."""
_READ_LOG = "Ask the platform team to read the log of Grove's operator"
_WAIT_FIRST = "Wait a minute: Grove usually needs seconds. If nothing changes,"
_OF_GROVE = {"cliques": "PodClique", "gangs": "PodGang"}
"""The kinds whose APIs Grove's operator needs, by the field of `Snapshot`."""


def kai_missing(gang: Gang) -> Reasons:
    """Report that pending pods use KAI's scheduler, and its PodGroup API is not served."""
    schedulers = {pod.scheduler for pod in gang.waiting}
    if "pod_groups" not in gang.facts.absent or KAI_SCHEDULER not in schedulers:
        return
    text = f"The pods use {KAI_SCHEDULER}, but KAI's PodGroup API is not served"
    evidence = Evidence(gang.ref, "spec.schedulerName", KAI_SCHEDULER)
    remedy = (
        "Ask the platform team to install KAI, or set another schedulerName in the pod templates"
    )
    yield about(evidence, "KaiMissing", text, remedy, "platform")


def grove_missing(gang: Gang) -> Reasons:
    """Report that a PodCliqueSet exists, but the PodClique or PodGang API is not served."""
    absent = [name for kind, name in _OF_GROVE.items() if kind in gang.facts.absent]
    if not gang.pcs or not absent:
        return
    apis = "API is" if len(absent) == 1 else "APIs are"
    text = f"Grove is only partly installed: the {listed(absent)} {apis} not served"
    evidence = Evidence(gang.pcs.ref, "kind", "PodCliqueSet")
    yield about(
        evidence, "GroveMissing", text, "Ask the platform team to install Grove", "platform"
    )


def nothing_made(gang: Gang) -> Reasons:
    """Report that nothing was created for a PodCliqueSet, or no pods for a Workload."""
    if gang.pcs:
        yield from _nothing_of_set(gang, gang.pcs)
    elif gang.ref.kind == "Workload" and not gang.members:
        text = f"No pod belongs to Workload {gang.ref.name}"
        remedy = (
            "Check that the pods name the Workload. If there are no pods, find out why their"
            " controller creates none: check its status, and the ResourceQuota (kubectl describe"
            f" resourcequota -n {gang.namespace})"
        )
        evidence = Evidence(gang.ref, "pods", "0")
        yield about(evidence, "NothingMade", text, remedy, "you")


def _nothing_of_set(gang: Gang, pcs: SetWithStatus) -> Reasons:
    key = pcs.key
    index = gang.index
    if index.cliques_of_set.get(key) or index.gangs_of_set.get(key) or index.pods_of_set.get(key):
        return
    if not pcs.replicas or pcs.deleted_at is not None:
        return  # SetBeingDeleted reports a set whose objects may be gone already.
    if pcs.asks_mnnvl and "compute_domains" in gang.facts.absent:
        yield _refused_by_us(gang, pcs)
        return
    text = f"Grove has created nothing for {pcs.name} yet"
    evidence = Evidence(pcs.ref, "PodCliques", "0")
    now = gang.facts.now
    newest = max(pcs.errors, key=lambda error: error.time or 0.0, default=None)
    advice = known_advice(newest.text, pcs.namespace) if newest else None
    if newest and advice:
        text = f"{text}. Grove says: {said_when(newest, now)}"
        yield about(evidence, "NothingMade", text, *advice)
        return
    remedy = f"{_READ_LOG}{_said(gang, pcs.errors)}"
    is_new = bool(now) and pcs.created is not None and now - pcs.created < SOON
    if is_new and not pcs.errors:
        remedy = f"{_WAIT_FIRST} {lower_first(remedy)}"
    yield about(evidence, "NothingMade", text, remedy, "platform")


def _refused_by_us(gang: Gang, pcs: SetWithStatus) -> Reason:
    """Return the reason for a PodCliqueSet whose PodCliques our webhook rejects."""
    text = (
        f"{pcs.name} requests MNNVL, but NVIDIA's ComputeDomain API is not served, so"
        " grove-admission rejects the PodCliques that Grove creates"
    )
    remedy = (
        "Ask the platform team to install NVIDIA's DRA driver, or remove the annotation"
        f" {MNNVL_ENABLED} from the PodCliqueSet and its scaling groups"
        f"{_said(gang, pcs.errors)}"
    )
    evidence = Evidence(pcs.ref, f"metadata.annotations[{MNNVL_ENABLED}]", "true")
    return about(evidence, "NothingMade", text, remedy, "platform")


def set_being_deleted(gang: Gang) -> Reasons:
    """Report that the PodCliqueSet is being deleted and still exists."""
    pcs = gang.pcs
    if pcs is None or pcs.deleted_at is None:
        return

    since = ago(gang.facts.now - pcs.deleted_at)
    held_by = f", blocked by {finalizers_of(pcs.finalizers)}" if pcs.finalizers else ""
    text = f"PodCliqueSet {pcs.name} has been terminating for {since}{held_by}"
    foreign = [name for name in pcs.finalizers if not name.startswith("grove.io/")]
    remedy = (
        "Wait until Grove has deleted the objects of the set. If it takes long,"
        f" {lower_first(_READ_LOG)}"
    )
    if foreign:
        remedy = removal_of(foreign)
    evidence = Evidence(pcs.ref, "metadata.deletionTimestamp", "set")
    yield about(evidence, "SetBeingDeleted", text, remedy, "you", severity="warning")


def part_being_deleted(gang: Gang) -> Reasons:
    """Report that a PodClique without pods or a PodGang of the set stays in deletion.

    Grove creates neither again before it is gone.
    """
    pcs = gang.pcs
    if pcs is None or pcs.deleted_at is not None:
        return
    index = gang.index
    cliques = [
        clique
        for clique in index.cliques_of_set.get(pcs.key, ())
        if not index.pods_of_clique(clique.namespace, clique.name)
    ]
    parts: list[PodClique | PodGang] = [*cliques, *index.gangs_of_set.get(pcs.key, ())]
    for part in parts:
        age = gang.facts.now - part.deleted_at if part.deleted_at is not None else 0.0
        if age < SOON or not part.finalizers:
            continue
        text = (
            f"{part.ref} has been terminating for {ago(age)}, blocked by"
            f" {finalizers_of(part.finalizers)}"
        )
        foreign = [name for name in part.finalizers if not name.startswith("grove.io/")]
        remedy = removal_of(foreign) if foreign else f"{_READ_LOG}, which removes this finalizer"
        evidence = Evidence(part.ref, "metadata.deletionTimestamp", "set")
        yield about(evidence, "SetBeingDeleted", text, remedy, "platform")


def pod_gang_missing(gang: Gang) -> Reasons:
    """Report that pods name a missing PodGang, or that a set has PodCliques but no PodGang.

    Terminating pods do not count: they may outlive their PodGang, such as after a scale-in.
    """
    pcs = gang.pcs
    if not pcs:
        return
    index = gang.index
    key = pcs.key
    alive = [pod for pod in index.pods_of_set.get(key, ()) if pod.is_alive]
    named = {pod.place.podgang for pod in alive} - {""}
    missing = sorted(name for name in named if (pcs.namespace, name) not in index.gangs)
    for name in missing:
        yield _missing(gang, pcs, name)

    is_kept = pcs.deleted_at is None
    has_cliques = bool(index.cliques_of_set.get(key))
    if is_kept and has_cliques and not missing and not index.gangs_of_set.get(key):
        text = (
            f"Grove has created PodCliques but no PodGang for {pcs.name}, so KAI can't group its"
            " pods"
        )
        evidence = Evidence(pcs.ref, "PodGangs", "0")
        yield about(evidence, "PodGangMissing", text, _missing_gang_remedy(gang, pcs), "platform")


def _missing_gang_remedy(gang: Gang, pcs: SetWithStatus) -> str:
    log = f"{_READ_LOG}{_said(gang, pcs.errors)}"
    if pcs.errors:
        return log
    # Grove creates a deleted PodGang again within seconds.
    return f"{_WAIT_FIRST} {lower_first(log)}"


def _missing(gang: Gang, pcs: SetWithStatus, name: str) -> Reason:
    of_set = gang.index.pods_of_set.get(pcs.key, ())
    pods = [pod for pod in of_set if pod.is_alive and pod.place.podgang == name]
    waiting = [pod for pod in pods if not pod.node]
    severity: Severity = "problem" if waiting else "warning"
    refer = f"{counted(pods, 'pod refers', 'pods refer')} to it"
    if len(waiting) == len(pods):
        refer = counted(pods, "pending pod refers", "pending pods refer") + " to it"
    elif waiting:
        refer += f", {len(waiting)} of them pending"
    text = f"PodGang {name} does not exist, but {refer}"
    remedy = _missing_gang_remedy(gang, pcs)
    who: Who = "platform"
    if _migration_of(pcs):
        remedy = f"Wait until Grove has replaced the PodGangs of {pcs.name}"
        who = "wait"

    refs = tuple(sorted(pod.ref for pod in pods))
    evidence = Evidence(refs[0], f"metadata.labels[{PODGANG}]", name)

    return about(evidence, "PodGangMissing", text, remedy, who, objects=refs, severity=severity)


def pod_gang_migration_in_progress(gang: Gang) -> Reasons:
    """Report that Grove replaces the PodGangs of a set after an upgrade."""
    pcs = gang.pcs
    migration = _migration_of(pcs) if pcs else None
    if not pcs or not migration:
        return

    text = f"Grove is replacing the PodGangs of {pcs.name} with those of its new release"
    remedy = (
        "Wait a few seconds until Grove has replaced them. If it takes longer,"
        f" {lower_first(_READ_LOG)}"
    )
    who: Who = "wait"
    now = gang.facts.now
    if migration.since is not None and now - migration.since > _LONG_MIGRATION:
        text = (
            f"Grove has been replacing the PodGangs of {pcs.name} for"
            f" {ago(now - migration.since)}, which usually takes seconds"
        )
        remedy = _READ_LOG
        who = "platform"
    evidence = Evidence(pcs.ref, f"status.conditions[{MIGRATES}]", "True")
    yield about(evidence, "PodGangMigrationInProgress", text, remedy, who, severity="warning")


_LONG_MIGRATION = 300.0
"""The seconds after which a migration has probably failed."""


def _migration_of(pcs: SetWithStatus) -> StatusCondition | None:
    """Return the condition that says that Grove is replacing the PodGangs of a set, or None."""
    return next(
        (known for known in pcs.conditions if (known.type, known.status) == (MIGRATES, "True")),
        None,
    )


def _said(gang: Gang, errors: tuple[LastError, ...]) -> str:
    said = listed(said_when(error, gang.facts.now) for error in errors)
    return f"; Grove said: {said}" if said else ""


def said_when(error: LastError, now: float) -> str:
    """Return the text of an error with its age: Grove keeps old errors."""
    return with_age(error.text, error.time, now)
