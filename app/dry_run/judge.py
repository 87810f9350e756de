"""Verdicts on documents that nobody has sent to an API server: `POST /dry-run` and `grove-admission check`.

A document becomes an AdmissionReview with dryRun, and takes the live path: same parser, same rules, same answer. Not
done here, because the API server does it: the CRD's schema, defaults, and other people's webhooks.
"""

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.admission.decide import Route, decided
from app.admission.review import API_VERSION, KIND, BadReview, dumps, parse
from app.admission.verdict import Verdict, bad_request
from app.objects.jsonpatch import apply
from app.objects.resource import POD, Resource
from app.rules.kinds import ALL

_TIMEOUT = 10.0
_BINDING = ("v1", "Binding")


@dataclass(frozen=True, slots=True)
class Asker:
    """Who asks, for what operation; `old` are documents that stand for what an UPDATE replaces or a DELETE deletes."""

    username: str
    groups: tuple[str, ...] = ()
    operation: str = "CREATE"
    old: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Judgement:
    """One document and its verdict. `path` "" and `verdict` None if no webhook of ours looks at such a document, or
    not at such an `operation`."""

    document: dict[str, Any]
    path: str = ""
    verdict: Verdict | None = None
    operation: str = ""

    @property
    def patched_object(self) -> dict[str, Any] | None:
        if self.verdict is None or not self.verdict.patch:
            return None
        return apply(self.document, self.verdict.patch)

    def report(self) -> dict[str, Any]:
        """The judgement as JSON."""
        identity = dict(zip(("apiVersion", "kind", "namespace", "name"), identify(self.document), strict=True))
        if self.verdict is None:
            return {"object": identity, "webhook": None, "allowed": True, "code": 200}
        verdict = self.verdict
        report: dict[str, Any] = {
            "object": identity,
            "webhook": self.path,
            "allowed": verdict.allowed,
            "code": verdict.code,
        }
        if verdict.message:
            report["message"] = verdict.message
        if verdict.causes:
            report["causes"] = [{"field": c.field, "reason": c.reason, "message": c.message} for c in verdict.causes]
        if verdict.warnings:
            report["warnings"] = list(verdict.warnings)
        if verdict.patch:
            report |= {"patch": list(verdict.patch), "patchedObject": self.patched_object}
        for action in ("create", "adopt"):
            objects = [effect.object for effect in verdict.effects if effect.action == action]
            if objects:
                report[f"would{action.capitalize()}"] = objects
        return report


def identify(document: Mapping[str, Any]) -> tuple[str, str, str, str]:
    """(apiVersion, kind, namespace, name) of a document, or of the object that an AdmissionReview is about."""
    if document.get("kind") == KIND:
        request = document.get("request")
        envelope = request if isinstance(request, dict) else {}
        inner = envelope.get("object") or envelope.get("oldObject")
        return identify(inner) if isinstance(inner, dict) else ("", KIND, "", "")
    metadata = document.get("metadata")
    known = metadata if isinstance(metadata, dict) else {}
    values = (document.get("apiVersion"), document.get("kind"), known.get("namespace"), known.get("name"))
    return tuple(str(value or "") for value in values)  # type: ignore[return-value]


async def judge(routes: Mapping[str, Route], document: dict[str, Any], asker: Asker) -> Judgement:
    """The verdict of the one route that such a document takes. An AdmissionReview is taken as it is, but never for
    more than a dry run."""
    if document.get("kind") == KIND and document.get("apiVersion") == API_VERSION:
        return await _judge_review(routes, document)
    resource, subresource = _resource_of(document)
    route = _route(routes, resource.group, resource.plural, subresource) if resource else None
    if resource is None or route is None:
        return Judgement(document)
    if asker.operation not in route.operations:
        return Judgement(document, operation=asker.operation)
    verdict = await _decide(route, _review(document, resource, subresource, asker))
    return Judgement(document, route.path, verdict)


async def _judge_review(routes: Mapping[str, Route], review: dict[str, Any]) -> Judgement:
    request = review.get("request")
    envelope = request if isinstance(request, dict) else {}
    resource = envelope.get("resource") if isinstance(envelope.get("resource"), dict) else {}
    route = _route(routes, resource.get("group"), resource.get("resource"), envelope.get("subResource") or "")  # type: ignore[union-attr]
    if route is None:
        return Judgement(review)
    verdict = await _decide(route, {**review, "request": {**envelope, "dryRun": True}})
    inner = envelope.get("object") or envelope.get("oldObject")
    return Judgement(inner if isinstance(inner, dict) else review, route.path, verdict)


def _resource_of(document: Mapping[str, Any]) -> tuple[Resource | None, str]:
    api_version, kind = str(document.get("apiVersion", "")), str(document.get("kind", ""))
    if (api_version, kind) == _BINDING:
        return POD, "binding"
    group = api_version.rpartition("/")[0]
    return next((resource for resource in ALL if (resource.group, resource.kind) == (group, kind)), None), ""


def _route(routes: Mapping[str, Route], group: Any, plural: Any, subresource: Any) -> Route | None:
    for route in routes.values():
        plurals = (route.resource, *(also for _, also in route.also))
        if (group, subresource) == (route.group, route.subresource) and plural in plurals:
            return route
    return None


def _review(document: dict[str, Any], resource: Resource, subresource: str, asker: Asker) -> dict[str, Any]:
    api_version, kind, namespace, name = identify(document)
    group, _, version = api_version.rpartition("/")
    same = next((other for other in asker.old if _is_same(other, document)), document)
    deleting = asker.operation == "DELETE"
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "request": {
            "uid": str(uuid.uuid4()),
            "kind": {"group": group, "version": version, "kind": kind},
            "resource": {"group": group, "version": version, "resource": resource.plural},
            "subResource": subresource,
            "name": name,
            "namespace": (namespace or "default") if resource.namespaced else "",
            "operation": asker.operation,
            "userInfo": {"username": asker.username, "groups": list(asker.groups)},
            "object": None if deleting else document,
            "oldObject": same if asker.operation in ("UPDATE", "DELETE") else None,
            "dryRun": True,
        },
    }


def _is_same(document: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    """Whether two documents are about one object; without a namespace it is the default one's."""
    (_, kind, namespace, name), (_, other_kind, other_namespace, other_name) = identify(document), identify(other)
    return (kind, namespace or "default", name) == (other_kind, other_namespace or "default", other_name)


async def _decide(route: Route, review: dict[str, Any]) -> Verdict:
    try:
        return await decided(route, parse(dumps(review)), _TIMEOUT)
    except BadReview as bad:
        return bad_request(bad.message, bad.code)
