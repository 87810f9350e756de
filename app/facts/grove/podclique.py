"""Read PodCliques for explanations. Webhooks and reconcilers use `unit_member` instead."""

from typing import Any, TypedDict

from app.facts.grove.status import LastError, read_conditions, read_last_errors
from app.facts.grove.unit_member import Unclaimed, read_carrier, unclaimed
from app.facts.identity import NOWHERE, Namespaced, Place, read_key
from app.facts.kubernetes.pod import (
    ONLY_A_POD,
    PodClaim,
    Shape,
    read_pod_claims,
    read_shape,
)
from app.facts.kubernetes.pod_fields import MetadataForm, PodSpecForm
from app.facts.labels import POD_TEMPLATE_HASH
from app.objects.shape import JsonMap, int_of, map_at, text_at, texts_at
from app.objects.time import seconds_since_1970


class PodClique(Namespaced):
    """A PodClique: the pods of one clique in one replica of a set or of a scaling group."""

    kind = "PodClique"
    uid: str = ""
    place: Place = NOWHERE
    """The PodCliqueSet and PodGang that the labels of the PodClique name."""
    replicas: int = 1
    """The number of pods in the spec."""
    scheduled: int = 0
    """The number of scheduled pods in the status."""
    shape: Shape = ONLY_A_POD
    """The requirements of a pod on its node."""
    claims: tuple[PodClaim, ...] = ()
    """The entries of `resourceClaims` in the pod spec."""
    errors: tuple[LastError, ...] = ()
    """The errors that Grove reports in `status.lastErrors`."""
    revision: str = ""
    """The hash of the template from which Grove creates pods now, or ""."""
    breached: float | None = None
    """Since when it has had too few pods, in seconds since 1970, after it had enough of them.

    None means that it has enough pods, or never had.
    """
    deleted_at: float | None = None
    """When its deletion was requested, in seconds since 1970, or None if it was not."""
    finalizers: tuple[str, ...] = ()
    unclaimed: Unclaimed | None = None
    """The facts that decide whether the PodClique should have an MNNVL claim.

    None means that the PodClique has the claim, or cannot need it.
    """


class _SpecForm(TypedDict, total=False):
    replicas: Any
    podSpec: PodSpecForm | None


class _StatusForm(TypedDict, total=False):
    scheduledReplicas: Any
    lastErrors: Any
    conditions: Any


class PodCliqueForm(TypedDict, total=False):
    """The decoded fields of a PodClique: the fields that this module or a store reads."""

    apiVersion: Any
    kind: Any
    metadata: MetadataForm | None
    spec: _SpecForm | None
    status: _StatusForm | None


def read_pod_clique(obj: JsonMap) -> PodClique:
    """Read a PodClique. A field that is missing or has the wrong type counts as not set."""
    metadata = map_at(obj, "metadata")
    spec = map_at(obj, "spec")
    pod_spec = map_at(spec, "podSpec")
    status = map_at(obj, "status")
    namespace, name = read_key(obj)
    carrier = read_carrier(obj, namespace)
    return PodClique(
        namespace,
        name,
        uid=text_at(metadata, "uid"),
        place=carrier.place,
        revision=text_at(map_at(metadata, "labels"), POD_TEMPLATE_HASH),
        replicas=int_of(spec.get("replicas"), 1),
        scheduled=int_of(status.get("scheduledReplicas")),
        shape=read_shape(pod_spec),
        claims=read_pod_claims(pod_spec),
        errors=read_last_errors(status),
        breached=_breached(status, seconds_since_1970(metadata.get("creationTimestamp"))),
        deleted_at=seconds_since_1970(metadata.get("deletionTimestamp")),
        finalizers=tuple(texts_at(metadata, "finalizers")),
        unclaimed=unclaimed(carrier),
    )


_FIRST = 5.0
"""The seconds after its creation within which Grove writes the first conditions of a PodClique."""


def _breached(status: JsonMap, created: float | None) -> float | None:
    """Return since when Grove counts the time until it deletes the replica, or None.

    It does not count for a PodClique that was never scheduled: `WasPCLQEverScheduled` in
    `internal/controller/common/component/utils/podclique.go` at fcc3b3bb.
    """
    known = {condition.type: condition for condition in read_conditions(status)}
    breached, scheduled = known.get("MinAvailableBreached"), known.get("PodCliqueScheduled")
    if not breached or breached.status != "True" or not scheduled:
        return None
    changed = (scheduled.since or 0.0) > (created or 0.0) + _FIRST
    return breached.since if scheduled.status == "True" or changed else None
