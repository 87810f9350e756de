"""Answers for programs: maps that become JSON. Keys and ids of reasons are stable."""

from typing import Any

from app.explain.answer import Answer
from app.explain.facts import Ref
from app.explain.reason import Reason
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
