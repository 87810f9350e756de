"""Verdicts on documents that were not sent to an API server.

They are for `POST /dry-run` and `grove-admission check`.

A document becomes a request with dryRun, which is judged like a live one. Schemas, defaults and
webhooks of other programs are not applied, because only an API server does that.

For a workload, Pods are made of the templates in its document. No controller has made these: they
get the labels that it would write, with index 0.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from operator import attrgetter
from typing import Any

import jsonpatch
import jsonpointer
from msgspec.structs import replace

from app.admission.decide import Route, decided
from app.admission.review import Request
from app.admission.verdict import ALLOWED, Effect, Verdict, judged, patched
from app.base.json import to_json
from app.base.value import Value
from app.base.visible import visible
from app.facts.carrier import read_pod
from app.facts.kinds import ALL, COMPUTE_DOMAIN
from app.facts.labels import MNNVL_ENABLED
from app.facts.unit_owners import OWNER_KINDS, OwnerKind
from app.kube.api import Object
from app.objects.fields import FieldError, FieldPath, Findings
from app.objects.resource import POD, Resource
from app.objects.shape import JsonMap, annotations_of, map_at, text_at
from app.rules.mnnvl.bounds import read_bounds
from app.rules.mnnvl.claim import Injection, inject
from app.rules.mnnvl.plan import CliqueFacts, desired_resource
from app.rules.mnnvl.warnings import unit_warnings
from app.rules.topology.coverage import Nodes

# Templates of Pods.


def judge_templates(workload: Object, resource: Resource) -> Verdict | None:
    """Return the verdict on the Pods of a workload.

    None if it is no such workload, or if nothing in it asks for MNNVL.
    """
    kind = next((kind for kind in OWNER_KINDS if resource in kind.resources), None)
    if kind is None:
        return None

    findings: Findings = []
    warnings = []
    if MNNVL_ENABLED in annotations_of(workload):
        warnings.append(
            f"{MNNVL_ENABLED} has no effect in the metadata of a {workload['kind']}, because no"
            " controller copies it to Pods: write it into the metadata of their templates"
        )
    effects: dict[str, Effect] = {}
    for template in _templates(workload, FieldPath(""), "", ()):
        injection = _injection(template, kind)
        at = template.path
        findings += (replace(found, field=f"{at}.{found.field}") for found in injection.findings)
        warnings += injection.warnings
        if injection.plan is not None:
            domain = desired_resource(injection.plan, COMPUTE_DOMAIN, COMPUTE_DOMAIN.versions[0])
            effects[injection.plan.compute_domain] = Effect("create", domain)

    warnings = [*dict.fromkeys(warnings)]
    if findings:
        return judged(findings, warnings)
    told = [*warnings, *effects]
    return patched([], warnings=warnings, effects=[*effects.values()]) if told else None


class _Template(Value):
    """A Pod template at a `path` of a workload.

    `part` is the name of the part of the workload that it is in. `above` has what contains it, from
    the workload on.
    """

    path: FieldPath
    part: str
    object: Object
    above: tuple[Object, ...]


def _injection(template: _Template, kind: OwnerKind) -> Injection:
    """Return what a Pod of a template needs."""
    of_workload = map_at(template.above[0], "metadata")
    labels = {key: "0" if key.endswith("-index") else template.part for key in kind.keys}
    labels[kind.key] = text_at(of_workload, "name")
    annotations = annotations_of(template.object)
    metadata = {"annotations": annotations, "labels": labels, "name": template.part}
    namespace = text_at(of_workload, "namespace") or "default"
    pod = read_pod({**template.object, "metadata": metadata}, namespace)

    injection = inject(pod, None, CliqueFacts(), "template")
    if injection.plan is None:
        return injection
    bounds = read_bounds(template.object, template.above)
    warnings = [*injection.warnings, *unit_warnings(injection.plan, bounds, Nodes())]
    return replace(injection, warnings=warnings)


def _templates(
    value: Any, path: FieldPath, part: str, above: tuple[Object, ...]
) -> Iterator[_Template]:
    """Yield the Pod templates in a part of a workload."""
    if isinstance(value, list):
        for position, item in enumerate(value):
            yield from _templates(item, path.index(position), part, above)
    elif isinstance(value, dict) and "containers" in map_at(value, "spec"):
        yield _Template(path, part, value, above)
    elif isinstance(value, dict):
        part = text_at(value, "groupName") or text_at(value, "name") or part
        for key, item in value.items():
            yield from _templates(item, path.child(key), part, (*above, value))


_TIMEOUT = 10.0
_BINDING = ("v1", "Binding")
_RESOURCES = {(resource.group, resource.kind): resource for resource in ALL}


class Asker(Value, dict=True):
    """The user and the operation of a dry run.

    `old` are the documents that an UPDATE replaces or a DELETE deletes.
    """

    username: str
    operation: str = "CREATE"
    old: tuple[Object, ...] = ()

    @cached_property
    def _old(self) -> Mapping[tuple[str, str, str], Object]:
        """The old documents by what they are about, of several the first."""
        return {_subject(document): document for document in reversed(self.old)}

    def old_of(self, document: Object) -> Object:
        """Return the document that this one replaces: if none is known, one like it."""
        return self._old.get(_subject(document), document)


class Judgement(Value):
    """A document and its verdict.

    `path` is "" and `verdict` None if there is no webhook for the document, or, if `operation` is
    set, none for that operation.
    """

    document: Object
    path: str = ""
    verdict: Verdict | None = None
    operation: str = ""

    @property
    def outcome(self) -> str:
        """The outcome of the verdict, "" without one."""
        return self.verdict.outcome if self.verdict else ""

    @property
    def patched_object(self) -> Object | None:
        if not self.verdict or not self.verdict.patch:
            return None
        patched: Object = jsonpatch.apply_patch(self.document, self.verdict.patch)
        return patched

    def followed_by(self, path: str, verdict: Verdict) -> "Judgement":
        """Return this judgement after one more verdict. A refusal is the last one."""
        first = self.verdict
        if first is None or not verdict.allowed:
            return replace(self, path=path, verdict=verdict)
        if not first.allowed or verdict == ALLOWED:
            return self

        both = replace(
            verdict,
            patch=(*first.patch, *verdict.patch),
            warnings=(*first.warnings, *verdict.warnings),
            effects=(*first.effects, *verdict.effects),
        )
        return replace(self, path=path, verdict=both)

    def report(self) -> Object:
        """Return the judgement as JSON."""
        identity = dict(
            zip(("apiVersion", "kind", "namespace", "name"), identify(self.document), strict=True)
        )
        if not self.verdict:
            return {"object": identity, "webhook": None, "allowed": True, "code": 200}

        verdict = self.verdict
        details: Object = {
            "message": verdict.message,
            "causes": [
                {"field": c.field, "reason": c.reason, "message": c.message} for c in verdict.causes
            ],
            "warnings": list(verdict.warnings),
            "patch": list(verdict.patch),
            "patchedObject": self.patched_object,
            "wouldCreate": _objects(verdict, "create"),
            "wouldAdopt": _objects(verdict, "adopt"),
        }

        return {
            "object": identity,
            "webhook": self.path,
            "allowed": verdict.allowed,
            "code": verdict.code,
            **{name: detail for name, detail in details.items() if detail},
        }


def _objects(verdict: Verdict, action: str) -> list[Object]:
    return [effect.object for effect in verdict.effects if effect.action == action]


def identify(document: JsonMap) -> tuple[str, str, str, str]:
    """Return apiVersion, kind, namespace and name of a document."""
    metadata = map_at(document, "metadata")
    values = (
        document.get("apiVersion"),
        document.get("kind"),
        metadata.get("namespace"),
        metadata.get("name"),
    )

    return tuple(str(value or "") for value in values)  # type: ignore[return-value]


async def judge(routes: Mapping[str, Route], document: Object, asker: Asker) -> Judgement:
    """Return the verdict of the routes for the document, one after the other."""
    resource, subresource = _resource_of(document)
    if not resource:
        return Judgement(document)
    if (on_templates := judge_templates(document, resource)) is not None:
        return Judgement(document, "/mutate/pod-mnnvl", on_templates)

    request = _request(document, resource, subresource, asker)
    return await _judge(routes, document, request)


async def _judge(routes: Mapping[str, Route], document: Object, request: Request) -> Judgement:
    about = (request.group, request.subresource)
    fitting = [
        route
        for route in routes.values()
        if (route.group, route.subresource) == about and request.resource in route.plurals
    ]
    asked = [route for route in fitting if request.operation in route.operations]
    judgement = Judgement(document, operation=request.operation if fitting and not asked else "")
    # mutating webhooks come first
    for route in sorted(asked, key=attrgetter("path")):
        current = replace(request, object=judgement.patched_object or request.object)
        judgement = judgement.followed_by(route.path, await decided(route, current, _TIMEOUT))
    return judgement


def _resource_of(document: JsonMap) -> tuple[Resource | None, str]:
    api_version = str(document.get("apiVersion", ""))
    kind = str(document.get("kind", ""))
    if (api_version, kind) == _BINDING:
        return POD, "binding"
    group = api_version.rpartition("/")[0]
    return _RESOURCES.get((group, kind)), ""


def _request(document: Object, resource: Resource, subresource: str, asker: Asker) -> Request:
    _, kind, namespace, name = identify(document)
    operation = asker.operation
    return Request(
        uid="",
        group=resource.group,
        kind=kind,
        resource=resource.plural,
        subresource=subresource,
        operation=operation,
        name=name,
        namespace=(namespace or "default") if resource.namespaced else "",
        username=asker.username,
        object=asker.old_of(document) if operation == "DELETE" else document,
        old=asker.old_of(document) if operation == "UPDATE" else None,
        dry_run=True,
    )


def _subject(document: JsonMap) -> tuple[str, str, str]:
    """Return kind, namespace and name of the object that a document is about.

    If it has no namespace, it is in `default`.
    """
    _, kind, namespace, name = identify(document)
    return kind, namespace or "default", name


def describe(judgement: Judgement) -> Sequence[str]:
    """Return the judgement as lines for people, each of them safe to show."""
    return [visible(line) for line in _lines(judgement)]


_MARKS = {
    "allowed": "ALLOWED",
    "patched": "PATCHED",
    "warned": "WARNED ",
    "refused": "REFUSED",
    "failed": "FAILED ",
}
_INDENT = " " * 11


def _lines(judgement: Judgement) -> Sequence[str]:
    api_version, kind, namespace, name = identify(judgement.document)
    full_name = name or "(no name)"
    if namespace:
        full_name = f"{namespace}/{full_name}"
    title = f"{kind or 'document'} {full_name}"

    verdict = judgement.verdict
    if not verdict:
        operation_of = f"the {judgement.operation} of " if judgement.operation else ""
        resource = f"{api_version or 'this'} {kind}".rstrip()
        return [f"-        {title}: no webhook looks at {operation_of}{resource}"]

    code = "" if verdict.allowed else f" ({verdict.code} {verdict.reason})"
    details = [_INDENT + detail for detail in _details(verdict)]
    return [f"{_MARKS[verdict.outcome]}  {title}{code}", *details]


def _details(verdict: Verdict) -> Iterator[str]:
    """Yield the reasons, warnings, changes and effects of a verdict."""
    yield from map(with_field, verdict.causes)
    if not verdict.allowed and not verdict.causes:
        yield verdict.message
    for warning in verdict.warnings:
        yield f"warning: {warning}"

    for operation in verdict.patch:
        value = f" = {to_json(operation['value']).decode()}" if "value" in operation else ""
        yield f"{operation['op']:7} {_readable(operation['path'])}{value}"

    for effect in verdict.effects:
        metadata = effect.object["metadata"]
        verb = "would create" if effect.action == "create" else "would adopt"
        yield f"{verb} {effect.object['kind']} {metadata['namespace']}/{metadata['name']}"


def with_field(cause: FieldError) -> str:
    """Return the finding with its field, which is missing in the texts of some findings."""
    return f"{cause.field}: {cause.text}" if cause.text else str(cause)


def _readable(pointer: str) -> str:
    """Return a JSON pointer as a field path."""
    path = FieldPath("")
    for name in jsonpointer.JsonPointer(pointer).parts:
        if name.isdecimal():
            path = path.index(int(name))
        elif name == "-":
            path = path.key("+")
        else:
            path = path.key(name) if "/" in name else path.child(name)
    return str(path)
