"""Judge documents that no API server has sent.

The endpoint /dry-run, the commands `check` and `audit`, and the console's playground use this
module.

A document becomes a request with dryRun, which is judged like a request of an API server. Of
schemas, only the types of common fields are checked (`types`). Defaults and webhooks of other
programs are not applied, because only API servers do that. A workload is judged by the Pods that
its templates would create (`templates`).
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain, islice
from operator import attrgetter

import jsonpatch
import jsonpointer
from msgspec.structs import replace

from app.admission.decide import Route, decided
from app.admission.review import Request
from app.admission.verdict import ALLOWED, Verdict, judged, patched
from app.base.json import to_json
from app.base.safe_text import visible
from app.base.spelling import nearest
from app.base.value import Value
from app.dry_run.templates import (
    MAKERS,
    MOST_TEMPLATES,
    NOT_REQUESTED,
    OWNERLESS,
    TOO_MANY,
    TemplateFacts,
    joined,
    judge_ownerless,
    judge_templates,
    kind_of,
    made_by,
    maker_of,
    note_on_created,
)
from app.dry_run.types import claimed_volumes, pod_specs, type_findings
from app.facts.kai.queue import read_queue
from app.facts.kinds import ALL, POD_CLIQUE_SET, POD_GROUP, QUEUE
from app.kube.api import Object
from app.objects.fields import FieldError, FieldPath
from app.objects.resource import POD, Resource
from app.objects.shape import JsonMap, map_at
from app.rules.pod_rejections import pod_warnings
from app.rules.podgroup_minimums import minimum_warnings
from app.rules.queue_warnings import unit_warnings, unset_warnings
from app.rules.set_changes import change_warnings
from app.rules.set_rejections import rejection_warnings
from app.rules.set_size import size_findings
from app.rules.sharing_warnings import sharing_warnings
from app.rules.unknown_fields import unknown_field_warnings

UNAVAILABLE = 503
"""The HTTP code if there is no verdict because facts are missing."""
_TIMEOUT = 10.0
"""The time limit of each verdict, in seconds."""
_BINDING = ("v1", "Binding")
_RESOURCES = {(resource.group, resource.kind): resource for resource in ALL}


class Asker(Value, dict=True):
    """The user and the operation of a dry run."""

    username: str
    """The user who sends the requests."""
    operation: str = "CREATE"
    """`CREATE`, `UPDATE` or `DELETE`."""
    old: tuple[Object, ...] = ()
    """The documents that an UPDATE replaces or a DELETE deletes."""
    reads_stored: bool = False
    """Whether the documents are stored objects, which the cluster's webhooks have accepted."""

    @cached_property
    def _old(self) -> Mapping[tuple[str, str, str], Object]:
        """The old documents by (kind, namespace, name). Of several, the first one counts."""
        return {_subject(document): document for document in reversed(self.old)}

    def old_of(self, document: Object) -> Object:
        """Return the old document of the same kind, namespace and name, or else `document`."""
        return self._old.get(_subject(document), document)


class Judgement(Value):
    """A document with its verdict."""

    document: Object
    """The document as it was given."""
    path: str = ""
    """The path of the last webhook that changed the verdict, or else of the first one.

    It is "" if no webhook judged the document.
    """
    verdict: Verdict | None = None
    """The verdict, or None if no webhook judges the document."""
    operation: str = ""
    """The requested operation if webhooks judge such documents, but not this operation, else ""."""
    note: str = ""
    """Why the document is not judged, or which part of it is judged, or ""."""

    @property
    def outcome(self) -> str:
        """The outcome of the verdict, or "" without a verdict."""
        return self.verdict.outcome if self.verdict else ""

    @property
    def patched_object(self) -> Object | None:
        """The document after the patch of its verdict, or None if there is no patch."""
        if not self.verdict or not self.verdict.patch:
            return None
        patched: Object = jsonpatch.apply_patch(self.document, self.verdict.patch)
        return patched

    def followed_by(self, path: str, verdict: Verdict) -> "Judgement":
        """Return this judgement combined with the verdict of the next webhook, at `path`.

        A rejection replaces all other verdicts. A verdict that only allows the request changes
        nothing.
        """
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

    def warned(self, warnings: Sequence[str]) -> "Judgement":
        """Return the judgement with further warnings, if it has a verdict."""
        if self.verdict is None:
            return self
        return replace(self, verdict=self.verdict.with_warnings(warnings))

    def report(self) -> Object:
        """Return the judgement as JSON-serializable data, without empty details."""
        identity = dict(
            zip(("apiVersion", "kind", "namespace", "name"), identify(self.document), strict=True)
        )
        if not self.verdict:
            note = {"note": self.note} if self.note else {}
            return {"object": identity, "webhook": None, "allowed": True, "code": 200, **note}

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
            "note": self.note,
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
    """Return apiVersion, kind, namespace and name of a document, each "" if it is missing."""
    metadata = map_at(document, "metadata")
    values = (
        document.get("apiVersion"),
        document.get("kind"),
        metadata.get("namespace"),
        metadata.get("name"),
    )

    return tuple(str(value or "") for value in values)  # type: ignore[return-value]


async def judge(
    routes: Mapping[str, Route],
    document: Object,
    asker: Asker,
    facts: TemplateFacts | None = None,
) -> Judgement:
    """Return the judgement of a document, with the combined verdict of all webhooks.

    The verdict on a workload is about its Pod templates, and the verdict on a Queue about its
    limits. `facts` are for Pod templates. Without `facts`, templates are judged by the document
    alone.
    """
    mistyped = type_findings(document)
    if mistyped:
        return Judgement(document, verdict=judged(mistyped))
    resource, subresource = _resource_of(document)
    on_templates = await judge_workload(document, resource, facts)
    is_new = not asker.reads_stored and asker.operation != "DELETE"
    about_pods = _about_pods(document) if is_new and on_templates.verdict != TOO_MANY else []
    if on_templates.verdict is not None:
        path = "" if resource is QUEUE else "/mutate/pod-mnnvl"
        return replace(on_templates, path=path).warned(about_pods)
    if not resource:
        return on_templates

    request = _request(document, resource, subresource, asker)
    judgement = await _judge(routes, document, request)
    if not asker.reads_stored:
        judgement = judgement.warned([*_document_warnings(resource, request), *about_pods])
    return replace(judgement, note=on_templates.note)


def _about_pods(document: JsonMap) -> list[str]:
    """Return warnings about pod specs with which API servers create no pods."""
    specs = list(pod_specs(document))
    if not specs:
        return []
    claimed = claimed_volumes(document)
    return list(chain.from_iterable(pod_warnings(path, spec, claimed) for path, spec in specs))


def _document_warnings(resource: Resource, request: Request) -> list[str]:
    """Return warnings about a PodCliqueSet or PodGroup that only documents need.

    API servers drop unknown fields, and the webhooks of Grove and KAI have accepted what is stored.
    """
    if resource is POD_GROUP:
        return minimum_warnings(request.object, is_new=request.old is None)
    if resource is not POD_CLIQUE_SET:
        return []
    warnings = unknown_field_warnings(request.object)
    if size_findings(request.object, None):
        return warnings  # it takes too long to compare all of its names
    known: set[str] = set()
    if request.old is not None:
        warnings += change_warnings(request.object, request.old)
        known = {*sharing_warnings(request.old)}
    warnings += rejection_warnings(request.object, request.old)
    return warnings + [text for text in sharing_warnings(request.object) if text not in known]


async def judge_workload(
    document: Object, resource: Resource | None, facts: TemplateFacts | None
) -> Judgement:
    """Return the judgement of a document's Pod templates, or of a Queue's limits.

    If the judgement has no verdict, its note may say why.
    """
    kind = kind_of(resource) if resource else None
    if kind is not None:
        verdict = await judge_templates(document, kind, facts)
        return Judgement(document, verdict=verdict, note="" if verdict else NOT_REQUESTED)

    if resource is QUEUE:
        queue = read_queue(document)
        found = [*unset_warnings(queue), *unit_warnings(queue)]
        return Judgement(document, verdict=patched([], warnings=found) if found else None)

    maker = maker_of(document)
    if maker is None:
        verdict = await judge_ownerless(document)
        return Judgement(document, verdict=verdict, note="" if verdict else _unknown(document))

    kind = kind_of(maker.makes)
    made = list(islice(made_by(maker, document), MOST_TEMPLATES + 1)) if kind else []
    if len(made) > MOST_TEMPLATES:
        return Judgement(document, verdict=TOO_MANY)
    verdicts = [(path, await judge_templates(of, kind, facts)) for path, of in made if kind]
    verdict = joined([(path, verdict) for path, verdict in verdicts if verdict is not None])
    note = note_on_created(maker, is_judged=verdict is not None)
    return Judgement(document, verdict=verdict, note=note)


_KNOWN = {
    *((resource.group, resource.kind) for resource in ALL),
    *((maker.group, maker.kind) for maker in MAKERS),
    *OWNERLESS,
}
"""The (group, kind) of every known resource."""

_OF_KUBERNETES = ("", "apps", "batch")
"""API groups of Kubernetes, in which a known kind of another group is a mistake."""


def may_be_misspelt(document: JsonMap) -> bool:
    """Return whether the apiVersion or kind of a document is missing or probably misspelt."""
    has_both = all(isinstance(document.get(key), str) for key in ("apiVersion", "kind"))
    return not has_both or not all(identify(document)[:2]) or bool(_unknown(document))


def _unknown(document: JsonMap) -> str:
    """Return a message about a probable mistake in a document's apiVersion or kind, or ""."""
    api_version, kind, _, _ = identify(document)
    group = api_version.rpartition("/")[0]
    if (group, kind) in _KNOWN:
        return ""
    groups = sorted(other for other, name in _KNOWN if name == kind)
    # other projects have kinds of the same name, such as Kueue's Workload
    is_cut_off = any(group and other.startswith(f"{group}.") for other in groups)
    if groups and (group in _OF_KUBERNETES or is_cut_off or nearest(group, tuple(groups))):
        return f'{kind} is a kind of {" or ".join(groups)}, not of "{group}"'
    meant = nearest(kind, tuple(sorted(name for other, name in _KNOWN if other == group)))
    return f"did you mean {meant}?" if meant else ""


async def _judge(routes: Mapping[str, Route], document: Object, request: Request) -> Judgement:
    """Return the combined verdict of the webhooks for `request`, called one after the other.

    Each webhook gets the object with the previous patches. After a rejection, no further webhook is
    called.
    """
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
        if judgement.verdict is not None and not judgement.verdict.allowed:
            break  # an API server calls no further webhook either
    return judgement


def _resource_of(document: JsonMap) -> tuple[Resource | None, str]:
    """Return the resource of a document (None if it is not known) and its subresource or ""."""
    api_version = str(document.get("apiVersion", ""))
    kind = str(document.get("kind", ""))
    if (api_version, kind) == _BINDING:
        return POD, "binding"
    group = api_version.rpartition("/")[0]
    return _RESOURCES.get((group, kind)), ""


def _request(document: Object, resource: Resource, subresource: str, asker: Asker) -> Request:
    """Return the request that an API server would send for a document, as a dry run."""
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
    """Return kind, namespace (`default` if it has none) and name of a document."""
    _, kind, namespace, name = identify(document)
    return kind, namespace or "default", name


def describe(judgement: Judgement) -> Sequence[str]:
    """Return the judgement as lines that are safe to print on a terminal."""
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
        note = f": {judgement.note}" if judgement.note else ""
        return [f"-        {title}: no webhook judges {operation_of}{resource}{note}"]

    mark = _MARKS[verdict.outcome]
    code = "" if verdict.allowed else f" ({verdict.code} {verdict.reason})"
    if verdict.code == UNAVAILABLE:  # a fact is missing: the details say which
        mark, code = "NO VERDICT", ""
    notes = [judgement.note] if judgement.note else []
    details = [_INDENT + detail for detail in (*_details(verdict), *notes)]
    return [f"{mark}  {title}{code}", *details]


def _details(verdict: Verdict) -> Iterator[str]:
    """Yield the reasons, warnings, changes and effects of a verdict, one line each."""
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
    """Return the message of a finding with its field path in front."""
    return f"{cause.field}: {cause.text}" if cause.text else str(cause)


def _readable(pointer: str) -> str:
    """Return a JSON pointer as a field path, such as `spec.cliques[0].name`."""
    path = FieldPath("")
    for name in jsonpointer.JsonPointer(pointer).parts:
        if name.isdecimal():
            path = path.index(int(name))
        elif name == "-":
            path = path.key("+")
        else:
            path = path.key(name) if "/" in name else path.child(name)
    return str(path)
