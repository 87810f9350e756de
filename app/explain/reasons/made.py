"""Reasons in what was not made, or is made anew, and in what is not installed."""

from app.explain.gangs.gang import Gang
from app.explain.reasons.reason import (
    Evidence,
    Reason,
    Reasons,
    Severity,
    about,
    ago,
    counted,
    listed,
    with_age,
)
from app.facts.grove.podcliqueset import LastError, SetWithStatus
from app.facts.kubernetes.pod import Pod
from app.facts.labels import KAI_SCHEDULER, MNNVL_ENABLED, PODGANG

MIGRATES = "PodGangMigrationInProgress"
SOON = 60.0
"""Seconds in which Grove has made something of a set, if its operator runs."""
_OF_GROVE = {"gangs", "cliques"}


def kai_missing(gang: Gang) -> Reasons:
    """Pods wait for KAI, and its APIs are not served."""
    schedulers = {pod.scheduler for pod in gang.waiting}
    if "pod_groups" not in gang.facts.absent or KAI_SCHEDULER not in schedulers:
        return
    text = f"The pods wait for {KAI_SCHEDULER}, and KAI is not installed: no API has its PodGroups"
    evidence = Evidence(gang.ref, "spec.schedulerName", KAI_SCHEDULER)
    remedy = "install KAI, or name another scheduler in the pod templates"
    yield about(evidence, "KaiMissing", text, remedy, "platform")


def grove_missing(gang: Gang) -> Reasons:
    """There is a PodCliqueSet, and what Grove makes of it is not served."""
    if not gang.pcs or not gang.facts.absent & _OF_GROVE:
        return
    text = "Grove is not installed completely: the APIs of PodCliques or PodGangs are not served"
    evidence = Evidence(gang.pcs.ref, "kind", "PodCliqueSet")
    yield about(evidence, "GroveMissing", text, "install Grove", "platform")


def nothing_made(gang: Gang) -> Reasons:
    """There is nothing but the object that was asked about."""
    if gang.pcs:
        yield from _nothing_of_set(gang, gang.pcs)
    elif gang.ref.kind == "Workload" and not gang.members:
        text = f"No pod and no PodGroup names the Workload {gang.ref.name}"
        remedy = (
            "see why what owns the Workload makes no pods: its status, and the namespace's quota"
        )
        evidence = Evidence(gang.ref, "pods", "0")
        yield about(evidence, "NothingMade", text, remedy, "you")


def _nothing_of_set(gang: Gang, pcs: SetWithStatus) -> Reasons:
    key = pcs.key
    index = gang.index
    if index.cliques_of_set.get(key) or index.gangs_of_set.get(key) or index.pods_of_set.get(key):
        return
    if not pcs.replicas:
        return
    if pcs.asks_mnnvl and "compute_domains" in gang.facts.absent:
        yield _refused_by_us(gang, pcs)
        return
    text = f"Grove has made nothing of {pcs.name} yet"
    evidence = Evidence(pcs.ref, "PodCliques", "0")
    remedy = f"see the log of Grove's operator{_said(gang, pcs.errors)}"
    now = gang.facts.now
    is_new = bool(now) and pcs.created is not None and now - pcs.created < SOON
    if is_new and not pcs.errors:
        remedy = f"wait: Grove makes it within seconds; if it lasts, {remedy}"
    yield about(evidence, "NothingMade", text, remedy, "platform")


def _refused_by_us(gang: Gang, pcs: SetWithStatus) -> Reason:
    """Return the reason for a set whose PodCliques our webhook refuses."""
    text = (
        f"{pcs.name} asks for MNNVL, and NVIDIA's ComputeDomain API is not installed:"
        " grove-admission refuses its PodCliques, so that Grove can make nothing of it"
    )
    remedy = (
        f"Install NVIDIA's DRA driver, or remove the annotation {MNNVL_ENABLED} from the"
        f" PodCliqueSet{_said(gang, pcs.errors)}"
    )
    evidence = Evidence(pcs.ref, f"metadata.annotations[{MNNVL_ENABLED}]", "true")
    return about(evidence, "NothingMade", text, remedy, "platform")


def set_being_deleted(gang: Gang) -> Reasons:
    """The PodCliqueSet is deleted, and finalizers keep it."""
    pcs = gang.pcs
    if pcs is None or pcs.deleted_at is None:
        return

    since = ago(gang.facts.now - pcs.deleted_at)
    held_by = f", kept by {listed(pcs.finalizers)}" if pcs.finalizers else ""
    text = f"PodCliqueSet {pcs.name} has been terminating for {since}{held_by}"
    foreign = [name for name in pcs.finalizers if not name.startswith("grove.io/")]
    remedy = "wait: Grove deletes what belongs to it; if it lasts, see the log of Grove's operator"
    if foreign:
        remedy = f"ask the owner of the finalizer {listed(foreign)}"
    evidence = Evidence(pcs.ref, "metadata.deletionTimestamp", "set")
    yield about(evidence, "SetBeingDeleted", text, remedy, "you", severity="warning")


def pod_gang_missing(gang: Gang) -> Reasons:
    """PodCliques and pods name a PodGang that does not exist, or there is none at all."""
    pcs = gang.pcs
    if not pcs:
        return
    index = gang.index
    key = pcs.key
    named = {pod.place.podgang for pod in index.pods_of_set.get(key, ())} - {""}
    missing = sorted(name for name in named if (pcs.namespace, name) not in index.gangs)
    for name in missing:
        yield _missing(gang, pcs, name)

    if not missing and index.cliques_of_set.get(key) and not index.gangs_of_set.get(key):
        text = f"Grove has made PodCliques of {pcs.name}, and no PodGang: KAI can't group its pods"
        evidence = Evidence(pcs.ref, "PodGangs", "0")
        yield about(evidence, "PodGangMissing", text, _until_made(gang, pcs), "platform")


def _until_made(gang: Gang, pcs: SetWithStatus) -> str:
    """Return what helps if there is no PodGang: Grove makes one anew that was deleted."""
    log = f"see the log of Grove's operator{_said(gang, pcs.errors)}"
    return log if pcs.errors else f"wait: Grove makes it within seconds; if it lasts, {log}"


def _missing(gang: Gang, pcs: SetWithStatus, name: str) -> Reason:
    pods: list[Pod] = [
        pod for pod in gang.index.pods_of_set.get(pcs.key, ()) if pod.place.podgang == name
    ]
    waiting = [pod for pod in pods if not pod.node]
    severity: Severity = "problem" if waiting else "warning"
    state = f"{len(waiting)} of them wait" if waiting else "they run on"
    text = f"PodGang {name} does not exist, which {counted(pods, 'pod')} name; {state}"
    remedy = _until_made(gang, pcs)
    if _migrates(pcs):
        remedy = "wait: Grove is giving the set other PodGangs"

    refs = tuple(sorted(pod.ref for pod in pods))
    evidence = Evidence(refs[0], f"metadata.labels[{PODGANG}]", name)

    return about(
        evidence, "PodGangMissing", text, remedy, "platform", objects=refs, severity=severity
    )


def pod_gang_migration_in_progress(gang: Gang) -> Reasons:
    """Grove replaces the PodGangs of a set by those of a new release."""
    pcs = gang.pcs
    if not pcs or not _migrates(pcs):
        return

    text = f"Grove is giving {pcs.name} other PodGangs, which a new release of it needs"
    evidence = Evidence(pcs.ref, f"status.conditions[{MIGRATES}]", "True")
    remedy = "wait: this takes seconds; if it lasts, see the log of Grove's operator"
    yield about(evidence, "PodGangMigrationInProgress", text, remedy, "wait", severity="warning")


def _migrates(pcs: SetWithStatus) -> bool:
    return any((known.type, known.status) == (MIGRATES, "True") for known in pcs.conditions)


def _said(gang: Gang, errors: tuple[LastError, ...]) -> str:
    said = listed(said_when(error, gang.facts.now) for error in errors)
    return f"; Grove said: {said}" if said else ""


def said_when(error: LastError, now: float) -> str:
    """Return an error with its age: Grove does not remove errors that are over."""
    return with_age(error.text, error.time, now)
