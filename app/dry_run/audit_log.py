"""Makes admission requests of the events in a Kubernetes audit log (`audit.k8s.io/v1`).

An event contains the object of a request if the level of the audit policy is Request, and also the
response if it is RequestResponse: https://kubernetes.io/docs/tasks/debug/debug-cluster/audit/. It
never contains the object before an update, which is taken from earlier events of the same log.
"""

import re
from collections.abc import Collection, Mapping

from msgspec.structs import replace

from app.admission.review import Request
from app.base.json import from_json
from app.base.value import Value
from app.kube.api import Object
from app.objects.shape import JsonMap, int_of, map_at, text_at

EVENT_VERSION = "audit.k8s.io/v1"
OPERATIONS = {"create": "CREATE", "update": "UPDATE", "patch": "UPDATE", "delete": "DELETE"}
Target = tuple[str, str, str]
"""API group, plural and subresource."""
Key = tuple[str, str, str, str]

REJECTED_THEN = "it was rejected at the time"
CONFLICT = "it conflicted with another write at the time, or its object existed already or was gone"
NOT_ANSWERED = "it failed at the time: a timeout, no right, too many requests or an error"
NO_NODE = "the node that the Pod was bound to is not among the files: kubectl get nodes -o yaml"
DRY_RUN = "it was a dry run"
NO_OBJECT = "the event has no object: the audit policy needs the level Request or RequestResponse"
NO_RESPONSE = (
    "the event of a patch has no response: the audit policy needs the level RequestResponse"
)
MUTATION = "mutation.webhook.admission.k8s.io/"
DECISION = "authorization.k8s.io/decision"
_DENIED = re.compile(r'^admission webhook "([^"]+)" denied the request')
TRUNCATED = "the event was truncated, so its object is missing"
NO_OLD_OBJECT = "the object before the change is not in the log"
COLLECTION = "it deleted a collection, so the event names no object"


class Write(Value):
    """One write of an object for which there is a webhook.

    `request` is None if it can't be judged, for the reason in `problem`, or, if `problem` is "",
    because no webhook is called for the operation. `stored` is the object after the write. It is
    None if it is being deleted, or not known.
    """

    target: Target
    user: str
    namespace: str
    kind: str
    name: str
    time: str
    operation: str
    request: Request | None = None
    problem: str = ""
    stored: Object | None = None

    @property
    def is_deletion(self) -> bool:
        """Whether the write has deleted its object, or has begun to."""
        return (
            self.operation == "DELETE"
            and not self.target[2]
            and self.problem in ("", NO_OLD_OBJECT)
        )


class History:
    """The writes of events, which must come in the order of the log.

    `targets` are the resources for which there are webhooks, with their operations. Namespaces in
    `exempt` are not judged.
    """

    def __init__(self, targets: Mapping[Target, Collection[str]], exempt: Collection[str]) -> None:
        self._targets = targets
        self._exempt = frozenset(exempt)
        self._objects: dict[Key, Object] = {}

    def write_of(self, event: JsonMap) -> Write | None:
        """Return the write of an event.

        None if the event is no write or is not complete, or if there is no webhook for it.
        """
        ref = map_at(event, "objectRef")
        verb = str(event.get("verb") or "")
        target = (text_at(ref, "apiGroup"), text_at(ref, "resource"), text_at(ref, "subresource"))
        if event.get("stage") != "ResponseComplete" or target not in self._targets:
            return None
        if (
            verb not in (*OPERATIONS, "deletecollection")
            or text_at(ref, "namespace") in self._exempt
        ):
            return None

        is_new = verb == "patch" and _code(event) == 201  # server-side apply
        write = _write(event, ref, target, "CREATE" if is_new else OPERATIONS.get(verb, "DELETE"))
        problem = _problem(event, verb)
        if problem:
            return replace(write, problem=problem)

        return self._judgeable(event, write, verb)

    def _judgeable(
        self,
        event: JsonMap,
        write: Write,
        verb: str,
    ) -> Write:
        response = _object_in(event, "responseObject")
        obj = response if verb == "patch" else _object_in(event, "requestObject")
        if verb == "delete":
            after = _in_namespace(response, write.namespace)
            stored = None
        else:
            after = _in_namespace(response or obj, write.namespace)
            stored = after
        if not write.target[2] and not _is_ending(after):
            write = replace(write, stored=stored)
        before = self._replaced(write, after)

        if write.operation not in self._targets[write.target]:
            return write
        if write.operation == "UPDATE" and _is_ending(before or after):
            return write  # webhooks are not called for what is being deleted
        return _with_request(write, obj, before, _missing(event, verb))

    def _replaced(self, write: Write, after: Object | None) -> Object | None:
        """Return the object before a write, and keep the one after it for the next write.

        An object that is deleted stays as long as it has finalizers.
        """
        group, plural, subresource = write.target
        key = (group, plural, write.namespace, write.name)
        before = self._objects.get(key)
        if subresource:
            return before
        if after is not None and (write.stored is not None or after["metadata"].get("finalizers")):
            self._objects[key] = after
        else:
            self._objects.pop(key, None)
        return before


def _with_request(
    write: Write,
    obj: Object | None,
    before: Object | None,
    missing: str,
) -> Write:
    """Return a write with its request, or with the problem that it can't be judged.

    `missing` is the problem if the log lacks the object that was written.
    """
    if write.operation != "CREATE" and before is None:
        return replace(write, problem=NO_OLD_OBJECT)
    if write.operation != "DELETE" and obj is None:
        return replace(write, problem=missing)

    write = replace(write, kind=text_at(obj or before or {}, "kind") or write.kind)
    return replace(write, request=_request(write, obj, before))


def _is_ending(obj: JsonMap | None) -> bool:
    """Return whether an object is being deleted."""
    return obj is not None and bool(map_at(obj, "metadata").get("deletionTimestamp"))


def _write(
    event: JsonMap,
    ref: JsonMap,
    target: Target,
    operation: str,
) -> Write:
    response = map_at(event, "responseObject", "metadata")
    request = map_at(event, "requestObject", "metadata")
    name = text_at(ref, "name") or text_at(response, "name") or text_at(request, "name")
    user = text_at(map_at(event, "impersonatedUser"), "username") or text_at(
        map_at(event, "user"), "username"
    )
    # a deletion sends DeleteOptions
    sent = {} if operation == "DELETE" else map_at(event, "requestObject")
    kind = text_at(sent, "kind") or text_at(ref, "resource")
    time = text_at(event, "requestReceivedTimestamp")
    return Write(target, user, text_at(ref, "namespace"), kind, name, time, operation)


def _problem(event: JsonMap, verb: str) -> str:
    """Return the reason why an event can't be judged, even if the object before it is known.

    "" if there is none.
    """
    code = _code(event)
    if code >= 400:
        return _failure(event, code)
    if "dryRun=" in str(event.get("requestURI") or ""):
        return DRY_RUN
    return COLLECTION if verb == "deletecollection" else ""


def _code(event: JsonMap) -> int:
    return int_of(map_at(event, "responseStatus").get("code"))


def _failure(event: JsonMap, code: int) -> str:
    """Return what an error code says: only a few are rejections."""
    if code in (404, 409, 410):
        return CONFLICT
    may_not = map_at(event, "annotations").get(DECISION) == "forbid"
    if may_not or code not in (400, 403, 422):
        return NOT_ANSWERED
    denied = _DENIED.match(text_at(map_at(event, "responseStatus"), "message"))
    return f"{REJECTED_THEN}, by {denied[1]}" if denied else REJECTED_THEN


def changing_webhooks(event: JsonMap) -> list[str]:
    """Return the webhooks that changed what was stored, as the API server recorded it.

    Source: https://kubernetes.io/docs/reference/labels-annotations-taints/audit-annotations/
    """
    if _code(event) >= 400:
        return []
    names = []
    for key, value in map_at(event, "annotations").items():
        if not key.startswith(MUTATION) or not isinstance(value, str):
            continue
        try:
            recorded = from_json(value)
        except ValueError:
            continue
        if isinstance(recorded, dict) and recorded.get("mutated") is True:
            names.append(text_at(recorded, "webhook"))
    return sorted(filter(None, names))


def node_of_binding(write: Write) -> str:
    """Return the node that a write binds a Pod to, "" if it is no binding."""
    if write.target != ("", "pods", "binding") or not write.request:
        return ""
    return text_at(map_at(write.request.object, "target"), "name")


def _missing(event: JsonMap, verb: str) -> str:
    if map_at(event, "annotations").get("audit.k8s.io/truncated") == "true":
        return TRUNCATED
    return NO_RESPONSE if verb == "patch" and event.get("requestObject") is not None else NO_OBJECT


def _request(
    write: Write,
    obj: Object | None,
    before: Object | None,
) -> Request:
    """Return the request that the API server sent to webhooks."""
    group, plural, subresource = write.target
    judged = before if write.operation == "DELETE" else obj
    return Request(
        uid="",
        group=group,
        kind=write.kind,
        resource=plural,
        subresource=subresource,
        operation=write.operation,
        name=write.name,
        namespace=write.namespace,
        username=write.user,
        object=judged or {},
        old=before if write.operation == "UPDATE" else None,
        dry_run=True,
    )


def _in_namespace(obj: Object | None, namespace: str) -> Object | None:
    """Return `obj` with its namespace.

    A client may leave it out of the object that it sends.
    """
    if obj is None or not namespace or obj["metadata"].get("namespace"):
        return obj
    return {**obj, "metadata": {**obj["metadata"], "namespace": namespace}}


def _object_in(event: JsonMap, field: str) -> Object | None:
    """Return the object in `field` of an event. None if it is missing or a Status."""
    value = event.get(field)
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("metadata"), dict)
        or value.get("kind") == "Status"
    ):
        return None
    return value
