"""Answers for programs: maps that become JSON. Keys and ids of reasons are stable."""

from collections.abc import Sequence
from typing import Any

from app.explain.answer import Answer
from app.explain.facts import Facts
from app.explain.facts.common import Ref
from app.explain.preview import Preview
from app.explain.reason import Reason
from app.explain.topology import DomainReport, RoomAnswer, Survey
from app.explain.tree import Branch


def document(answer: Answer) -> dict[str, Any]:
    """One answer. `placed` and `total` are null if they are not known."""
    return {
        "object": reference(answer.ref),
        "state": answer.state,
        "headline": answer.headline,
        "placed": answer.placed,
        "total": answer.total,
        "reasons": [reason_document(reason) for reason in answer.reasons],
        "said": list(answer.said),
        "unknown": [{"id": unknown.id, "needs": list(unknown.needs)} for unknown in answer.unknown],
        "unseen": dict(answer.unseen or {}),
        "absent": list(answer.absent),
        "skipped": list(answer.skipped),
        "room": [{"domain": list(room.domain.path), "pods": room.pods} for room in answer.room],
        "tree": branch_document(answer.tree),
    }


def reason_document(reason: Reason) -> dict[str, Any]:
    return {
        "id": reason.id,
        "severity": reason.severity,
        "who": reason.who,
        "text": reason.text,
        "remedy": reason.remedy,
        "parts": list(reason.parts),
        "commands": list(reason.commands),
        "objects": [reference(ref) for ref in reason.objects],
        "evidence": [
            {"object": reference(item.object), "field": item.field, "value": item.value} for item in reason.evidence
        ],
    }


def branch_document(branch: Branch) -> dict[str, Any]:
    return {
        "object": reference(branch.ref),
        "asked": branch.asked,
        "where": branch.where,
        "placed": branch.placed,
        "total": branch.total,
        "state": branch.state,
        "words": branch.words,
        "reasons": list(branch.reasons),
        "marked": branch.marked,
        "children": [branch_document(child) for child in branch.children],
    }


def reference(ref: Ref) -> dict[str, str]:
    return {"kind": ref.kind, "namespace": ref.namespace, "name": ref.name}


def survey_document(survey: Survey, facts: Facts, domains: Sequence[DomainReport]) -> dict[str, Any]:
    """A topology. GPUs are whole numbers or fractions of GPUs; null if they are not known."""
    return {
        "topology": {"kind": survey.cluster.kind, "name": survey.cluster.name} if survey.cluster else None,
        "kaiTopology": survey.kai.name if survey.kai else None,
        "nodes": survey.nodes,
        "levels": [
            {
                "domain": report.level.domain,
                "key": report.level.key,
                "nodes": report.nodes,
                "domains": report.domains,
                "findings": report.findings,
            }
            for report in survey.levels
        ],
        "outside": list(survey.outside),
        "reasons": [reason_document(reason) for reason in survey.reasons],
        "unknown": [{"id": unknown.id, "needs": list(unknown.needs)} for unknown in survey.unknown],
        "unseen": dict(facts.unseen),
        "domains": [
            {
                "path": list(report.path),
                "nodes": report.nodes,
                "closed": report.closed,
                "gpus": _gpus(report.gpus),
                "free": _gpus(report.free),
                "soon": _gpus(report.soon),
            }
            for report in domains
        ],
    }


def room_document(answer: RoomAnswer) -> dict[str, Any]:
    labels = {room.domain.path: room.pods for room in answer.with_labels}
    return {
        "level": answer.level,
        "pods": answer.pods,
        "gpus": _gpus(answer.gpus),
        "domains": [
            {"path": list(room.domain.path), "pods": room.pods, "withLabels": labels.get(room.domain.path, room.pods)}
            for room in answer.rooms
        ],
    }


def preview_document(preview: Preview) -> dict[str, Any]:
    return {
        "levels": [{"domain": level.domain, "key": level.key} for level in preview.after.levels],
        "effects": [
            {"object": reference(effect.ref), "field": effect.field, "text": effect.text, "severe": effect.severe}
            for effect in preview.effects
        ],
        "reasons": [reason_document(reason) for reason in preview.reasons],
    }


def _gpus(thousandths: int | None) -> int | float | None:
    if thousandths is None:
        return None
    return thousandths // 1000 if thousandths % 1000 == 0 else thousandths / 1000
