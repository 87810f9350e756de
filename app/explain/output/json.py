"""Write answers for programs, as maps that become JSON.

Keys and ids of reasons are stable. Most keys are names of fields, so renaming a field of an answer
changes the output.
"""

from collections.abc import Sequence

from msgspec import to_builtins
from msgspec.structs import replace

from app.explain.answers.answer import Answer
from app.explain.answers.gpu_users import GpuUser, users_in
from app.explain.answers.topology import (
    DomainReport,
    Preview,
    RoomAnswer,
    RoomSearch,
    Survey,
    nodes_are_known,
)
from app.explain.state.levels import Topology
from app.explain.state.snapshot import Snapshot
from app.objects.shape import Object


def document(answer: Answer) -> Object:
    """Return an answer as a map. Unknown numbers are null."""
    rooms = [{"domain": room.domain.path, "pods": room.pods} for room in answer.room]
    return {**to_builtins(replace(answer, room=())), "room": rooms}


def _held_channels(survey: Survey) -> Object | None:
    """Return the NVLink channels that are held unnecessarily, or None if they are not known."""
    if survey.held is None:
        return None
    return {"claims": to_builtins(survey.held.held), "waitingPods": survey.held.waiting}


def survey_document(survey: Survey, facts: Snapshot, domains: Sequence[DomainReport]) -> Object:
    """Return a topology as a map.

    Amounts of GPUs can be fractions. Unknown amounts, and unknown counts of nodes and domains, are
    null.
    """
    gpus = ("gpus", "free", "soon")
    unknown = dict.fromkeys(() if nodes_are_known(facts) else ("nodes", "domains"))
    return {
        "topology": (
            {"kind": survey.cluster.kind, "name": survey.cluster.name} if survey.cluster else None
        ),
        "kaiTopology": survey.kai.name if survey.kai else None,
        "nodes": None if unknown else survey.nodes,
        "levels": [
            {
                **to_builtins(r.level),
                "nodes": r.nodes,
                "domains": r.domains,
                **unknown,
                "findings": r.findings,
            }
            for r in survey.levels
        ],
        "outside": list(survey.outside),
        "heldChannels": _held_channels(survey),
        "reasons": to_builtins(survey.reasons),
        "unknown": to_builtins(survey.unknown),
        "unseen": dict(facts.unseen),
        "domains": [
            to_builtins(report) | {name: gpus_number(getattr(report, name)) for name in gpus}
            for report in domains
        ],
    }


def users_document(topology: Topology, domains: Sequence[DomainReport]) -> list[Object] | None:
    """Return the workloads that use GPUs of these domains, or None if usage is not known."""
    users = users_in(topology, [report.path for report in domains])
    return None if users is None else list(map(user_document, users))


def user_document(user: GpuUser) -> Object:
    """Return a workload that uses GPUs as a map."""
    return {**to_builtins(user), "gpus": gpus_number(user.gpus)}


def room_document(answer: RoomAnswer) -> Object:
    """Return the room of each domain of a level as a map.

    `withLabels` is the number of pods that fit if unlabelled nodes get their neighbours' labels.
    """
    labels = {room.domain.path: room.pods for room in answer.with_labels}
    return {
        "level": answer.level,
        "pods": answer.pods,
        "gpus": gpus_number(answer.gpus),
        "domains": [
            {
                "path": room.domain.path,
                "pods": room.pods,
                "withLabels": labels.get(room.domain.path, room.pods),
            }
            for room in answer.rooms
        ],
    }


def search_document(search: RoomSearch) -> Object:
    """Return the `room_document` of the requested level, with more keys.

    - `fits`: whether one domain has room for all pods
    - `wider`: the `room_document` of the next wider level that has enough room, or null
    - `largestNode`: the GPUs of the node that has the most
    - `nodePools`: all of KAI's node pools, with "" for nodes without a pool; empty without pools
    - `withSpare`: how many of the pods fit if `mnnvl.spareNodes` stay free, or null if that was not
      examined
    """
    wider = None if search.wider is None else room_document(search.wider)
    largest = gpus_number(search.largest)
    return {
        **room_document(search.answer),
        "fits": bool(search.answer.enough),
        "wider": wider,
        "largestNode": largest,
        "nodePools": list(search.pools),
        "withSpare": search.most,
    }


def preview_document(preview: Preview) -> Object:
    """Return the effects of an edit of the levels as a map."""
    return {
        "levels": to_builtins(preview.after.levels),
        "keysOnNoNode": list(preview.absent),
        "effects": to_builtins(preview.effects),
        "reasons": to_builtins(preview.reasons),
    }


def gpus_number(thousandths: int | None) -> int | float | None:
    """Return thousandths of GPUs as a number of GPUs: an integer if possible, or a fraction.

    Return None for None.
    """
    if thousandths is None:
        return None
    return thousandths // 1000 if thousandths % 1000 == 0 else thousandths / 1000
