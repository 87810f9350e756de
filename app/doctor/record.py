"""Record all answers that an examination depends on, so that it can be repeated anywhere.

Fields that no check reads are removed from the answers before the checks see them. So a record has
everything that the checks read, and little else. Of a Secret, it has only the certificate, which
the server shows to every client.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from msgspec import Raw, field

from app.base.json import from_json, to_json
from app.base.value import Value
from app.doctor.certificate import Handshake, Shake
from app.dry_run.documents import read_documents
from app.facts.kinds import (
    CLUSTER_TOPOLOGY,
    CLUSTER_TOPOLOGY_BINDING,
    COMPUTE_DOMAIN,
    KAI_TOPOLOGY,
    POD_CLIQUE,
    POD_CLIQUE_SET,
    QUEUE,
    QUEUE_NAMES,
    RESOURCE_CLAIM,
    SCHEDULING_SHARD,
)
from app.kube.api import (
    ClusterError,
    Conflict,
    Gone,
    NotFound,
    NotServed,
    Object,
    Rejected,
    TooLong,
    Unavailable,
)
from app.kube.transport import ApiRequest, Call
from app.objects.resource import (
    ACCESS_REVIEW,
    CLUSTER_ROLE,
    CLUSTER_ROLE_BINDING,
    CONFIG_MAP,
    CRD,
    DEPLOYMENT,
    ENDPOINT_SLICE,
    EVENT,
    LEASE,
    MUTATING_WEBHOOKS,
    POD,
    SECRET,
    SELF_ACCESS_REVIEW,
    SERVICE,
    VALIDATING_WEBHOOKS,
)
from app.objects.shape import map_at, map_of, only, text_at
from app.objects.tokens import HIDDEN, without_tokens

KIND = "DoctorRecord"

_FAILED = "failed"
_ERRORS = {
    kind.__name__: kind for kind in (NotFound, NotServed, Conflict, Gone, Rejected, Unavailable)
}


class Heard(Value):
    """Everything that an examination depends on. A record stores all its fields."""

    now: datetime
    """The time of the examination, in UTC."""
    is_server: bool
    """Whether the examining process ran with the service account of the server."""
    all_webhooks: bool
    """Whether an outage of every webhook was rehearsed (`--all-webhooks`)."""
    is_configured: bool
    """Whether the configuration is known: given with `--config`, or found in the cluster."""
    configuration: str
    """The configuration of the server as JSON."""
    source: str = ""
    """The ConfigMap in which doctor found the configuration, or "" for none."""
    invalid: str = ""
    """Why the configuration that doctor found is invalid, or ""."""
    answers: dict[str, Raw] = field(default_factory=dict)
    """The answers of the API server, by the request as JSON."""
    handshakes: dict[str, Handshake] = field(default_factory=dict)
    """The results of TLS handshakes, by their arguments as JSON."""

    def keeping(self, call: Call) -> Call:
        """Return a function like `call` that sends each request once and records its answer.

        A recorded request is answered from the record. A failed request is recorded too, unless it
        raises TooLong, and raises the same error again.
        """

        async def kept(request: ApiRequest) -> Object:
            key = _key_of(request)
            if key not in self.answers:
                try:
                    answer = _bare(await call(request), request.resource)
                except TooLong:
                    raise  # the client requests the same page again, with fewer objects
                except ClusterError as error:
                    name = type(error).__name__
                    answer = {_FAILED: [name, error.message, error.code, error.reason]}
                self.answers[key] = Raw(to_json(answer))

            again: Object = from_json(bytes(self.answers[key]))
            if _FAILED in again:
                name, message, code, reason = again[_FAILED]
                raise _ERRORS.get(name, Unavailable)(message, code=code, reason=reason)
            return again

        return kept

    def shaking(self, shake: Shake) -> Shake:
        """Return a function like `shake` that performs each handshake once and records it."""

        async def kept(*asked: Any) -> Handshake:
            key = to_json(asked).decode()
            if key not in self.handshakes:
                self.handshakes[key] = await shake(*asked)
            return self.handshakes[key]

        return kept


def _key_of(request: ApiRequest) -> str:
    # the page size depends on the bytes of the previous page, which a record does not have
    params = {name: value for name, value in request.params.items() if name != "limit"}
    asked = (request.method, request.path, params, request.accept, request.body)
    return to_json(asked).decode()


async def unanswered(request: ApiRequest) -> Object:
    """Raise Unavailable: the record has no answer to this request."""
    raise Unavailable("the record has no answer to this request")


async def unreachable(address: str, port: int, name: str, bundle: bytes) -> Handshake:
    """Return the outcome `unreachable`: the record has no handshake with these arguments."""
    return Handshake("unreachable", "the record has no handshake with it")


# The content of a record: the fields that checks read.


_Fields = Mapping[str, Any]
"""The fields that a record keeps of a map, or of each item of a list.

The value of a field is `...` to keep all of its content, a mapping of nested fields, or a function
that returns the content to keep.
"""

OUR_WEBHOOKS = ".grove-admission.grove.io"
"""The suffix of the names of our webhooks."""

_KEPT_ANNOTATIONS = ("grove.io/", "kai.scheduler/")
_IMAGE = re.compile(r"^.*?(:v?\d+\.\d+\.\d+)?$")


def _annotations(annotations: Any) -> Any:
    return {
        key: value
        for key, value in map_of(annotations).items()
        if any(domain in key for domain in _KEPT_ANNOTATIONS)
    }


def _image(image: Any) -> Any:
    """Return an image with its name replaced by `image`. Keep its tag if that is a version."""
    return _IMAGE.sub(r"image\1", image) if isinstance(image, str) else image


def _names_only(fields: Any) -> Any:
    """Return a map with the keys of `fields`, and {} as the value of each."""
    return {name: {} for name in map_of(fields)}


def _settings_of_shard(settings: Any) -> Any:
    """Return the settings of plugins or actions that checks read.

    Of the arguments, only `labelSelector` keeps its value.
    """
    kept = {}
    for name, setting in map_of(settings).items():
        arguments = map_at(map_of(setting), "arguments")
        kept[name] = {
            **only(map_of(setting), ("enabled", "priority")),
            "arguments": {**_names_only(arguments), **only(arguments, ("labelSelector",))},
        }
    return kept


def _webhook(webhook: Any) -> Any:
    """Return those fields of a webhook that doctor's checks need.

    The URLs of other products' webhooks keep only scheme, host and port: a path may have a token.
    """
    ours = text_at(map_of(webhook), "name").endswith(OUR_WEBHOOKS)
    return _kept(webhook, _OUR_WEBHOOK if ours else _WEBHOOK)


def _host_of(url: Any) -> Any:
    """Return the scheme, host and port of a URL, without its user, path and query."""
    if not isinstance(url, str):
        return url
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], "", "", ""))


def _settings_of_grove(text: Any) -> Any:
    """Return the settings of Grove's operator that checks read, or "" if `text` can't be read."""
    try:
        documents = read_documents(text if isinstance(text, str) else "")
    except ValueError:
        return ""
    return "\n---\n".join(to_json(_kept(each, _OF_GROVE)).decode() for each in documents)


_OF_GROVE: _Fields = {
    "kind": ...,
    "authorizer": {"enabled": ..., "exemptServiceAccountUserNames": ...},
    "topologyAwareScheduling": {"enabled": ..., "levels": {"domain": ..., "key": ...}},
}

_METADATA: _Fields = {
    **dict.fromkeys(("name", "namespace", "uid", "generation", "resourceVersion"), ...),
    **dict.fromkeys(("creationTimestamp", "deletionTimestamp", "finalizers"), ...),
    "deletionGracePeriodSeconds": ...,
    **dict.fromkeys(("labels", "ownerReferences"), ...),
    "annotations": _annotations,
}
_LIST_METADATA: _Fields = dict.fromkeys(("resourceVersion", "continue", "remainingItemCount"), ...)
_CONDITIONS: _Fields = dict.fromkeys(("type", "status", "reason", "message"), ...)
_POD_SPEC: _Fields = {
    "containers": {"name": ..., "image": _image, "resources": ...},
    "initContainers": {"name": ..., "image": _image, "resources": ...},
    "resourceClaims": ...,
    "serviceAccountName": ...,
}
_TERMINATED: _Fields = {"reason": ...}
_OF_CONTAINER: _Fields = {
    "name": ...,
    "restartCount": ...,
    "state": {
        "waiting": {"reason": ..., "message": ...},
        "running": {},
        "terminated": _TERMINATED,
    },
    "lastState": {"terminated": _TERMINATED},
}
_SELECTOR: _Fields = {
    "matchLabels": ...,
    "matchExpressions": dict.fromkeys(("key", "operator", "values"), ...),
}
_RULE = dict.fromkeys(("apiGroups", "apiVersions", "operations", "resources", "scope"), ...)
_SERVICE: _Fields = {"name": ..., "namespace": ..., "port": ...}
_WEBHOOK: _Fields = {
    **dict.fromkeys(("name", "admissionReviewVersions", "failurePolicy", "matchPolicy"), ...),
    **dict.fromkeys(("reinvocationPolicy", "sideEffects", "timeoutSeconds"), ...),
    "namespaceSelector": _SELECTOR,
    "objectSelector": _SELECTOR,
    "rules": _RULE,
    "matchConditions": {"name": ..., "expression": ...},
    "clientConfig": {"caBundle": ..., "url": _host_of, "service": _SERVICE},
}
_OUR_WEBHOOK: _Fields = {
    **_WEBHOOK,
    "clientConfig": {"caBundle": ..., "url": ..., "service": {**_SERVICE, "path": ...}},
}
_WEBHOOKS: _Fields = {"webhooks": _webhook}
_PORT = dict.fromkeys(("name", "port", "protocol", "targetPort"), ...)
_NAMES = dict.fromkeys(("kind", "listKind", "plural", "shortNames", "singular"), ...)
_PROPERTIES: _Fields = {"openAPIV3Schema": {"properties": {"spec": {"properties": _names_only}}}}
_PART: _Fields = {
    **dict.fromkeys(("name", "replicas", "minAvailable", "cliqueNames", "topologyConstraint"), ...),
    "annotations": _annotations,
    "spec": {"replicas": ..., "minAvailable": ..., "podSpec": _POD_SPEC},
}
_POLICIES: _Fields = {"spec": ...}
_TOPOLOGIES: _Fields = {"spec": ..., "status": ...}
_ACCESS: _Fields = {"status": {"allowed": ...}}

_FIELDS: Mapping[str, _Fields] = {
    "": dict.fromkeys(("groups", "versions", "resources", "major", "minor", "gitVersion"), ...),
    str(CONFIG_MAP): {"data": {"config.yaml": _settings_of_grove}},
    str(CRD): {
        "spec": {
            "group": ...,
            "names": _NAMES,
            "versions": {"name": ..., "schema": _PROPERTIES},
        },
        "status": {"acceptedNames": _NAMES, "conditions": _CONDITIONS},
    },
    str(DEPLOYMENT): {
        "spec": {
            "paused": ...,
            "replicas": ...,
            "selector": {"matchLabels": ...},
            "template": {"spec": {**_POD_SPEC, "terminationGracePeriodSeconds": ...}},
        },
        "status": {
            **dict.fromkeys(("observedGeneration", "readyReplicas", "updatedReplicas"), ...),
            "conditions": _CONDITIONS,
        },
    },
    str(POD): {
        "spec": {"nodeName": ..., **_POD_SPEC},
        "status": {
            "phase": ...,
            "conditions": _CONDITIONS,
            "containerStatuses": _OF_CONTAINER,
            "initContainerStatuses": _OF_CONTAINER,
        },
    },
    str(POD_CLIQUE): {"spec": {"replicas": ..., "podSpec": _POD_SPEC}},
    str(POD_CLIQUE_SET): {
        "spec": {
            "replicas": ...,
            "template": {
                "topologyConstraint": ...,
                "cliques": _PART,
                "podCliqueScalingGroups": _PART,
            },
        },
        "status": {"conditions": _CONDITIONS},
    },
    str(RESOURCE_CLAIM): {
        "spec": {"devices": {"requests": ...}},
        "status": {"reservedFor": ..., "allocation": {"devices": {"results": ...}}},
    },
    str(COMPUTE_DOMAIN): {
        "spec": {"numNodes": ..., "channel": ...},
        "status": {"status": ..., "nodes": {"name": ..., "status": ...}},
    },
    str(SERVICE): {"spec": {"ports": _PORT, "selector": ...}},
    str(ENDPOINT_SLICE): {
        "endpoints": {
            "addresses": ...,
            "conditions": {"ready": ..., "serving": ...},
            "targetRef": {"name": ...},
        },
        "ports": _PORT,
    },
    str(LEASE): {
        "spec": dict.fromkeys(("holderIdentity", "leaseDurationSeconds", "renewTime"), ...)
    },
    str(CLUSTER_ROLE): {"rules": dict.fromkeys(("apiGroups", "resources", "verbs"), ...)},
    str(CLUSTER_ROLE_BINDING): {"subjects": ..., "roleRef": ...},
    str(EVENT): {"reason": ..., "regarding": dict.fromkeys(("kind", "namespace", "name"), ...)},
    str(SCHEDULING_SHARD): {
        "spec": {
            "args": {"default-staleness-grace-period": ...},
            **dict.fromkeys(("plugins", "actions"), _settings_of_shard),
            **dict.fromkeys(("usageDBConfig", "queueDepthPerAction", "minRuntime"), _names_only),
            "placementStrategy": ...,
        }
    },
    str(QUEUE_NAMES): {"spec": {"names": ...}},
    str(QUEUE): {"spec": {"resources": ...}},
    **dict.fromkeys(map(str, (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)), _WEBHOOKS),
    **dict.fromkeys(map(str, (ACCESS_REVIEW, SELF_ACCESS_REVIEW)), _ACCESS),
    **dict.fromkeys(
        map(str, (CLUSTER_TOPOLOGY, CLUSTER_TOPOLOGY_BINDING, KAI_TOPOLOGY)), _TOPOLOGIES
    ),
    **dict.fromkeys(
        (
            "validatingadmissionpolicies.admissionregistration.k8s.io",
            "validatingadmissionpolicybindings.admissionregistration.k8s.io",
            "mutatingadmissionpolicies.admissionregistration.k8s.io",
            "mutatingadmissionpolicybindings.admissionregistration.k8s.io",
        ),
        _POLICIES,
    ),
}
"""The fields that a record keeps, by resource. The key "" is for answers without a resource.

Every answer except a Secret's also keeps its apiVersion, its kind and a part of its metadata. Of a
resource that is not listed here, nothing else is kept.
"""


def _bare(answer: Object, resource: str) -> Object:
    """Return an answer about `resource` with only the fields that a record keeps."""
    if resource == str(SECRET):
        return {"data": only(map_at(answer, "data"), ("tls.crt",))}

    fields = {"apiVersion": ..., "kind": ..., "metadata": _METADATA, **_FIELDS.get(resource, {})}
    if "items" in answer:
        fields = {
            "apiVersion": ...,
            "kind": ...,
            "metadata": _LIST_METADATA,
            "items": fields,
        }
    bare: Object = _kept(answer, fields)
    return bare


def _kept(value: Any, fields: Any) -> Any:
    """Return the part of `value` that `fields` keeps, with path tokens hidden in all strings.

    `fields` is `...`, a mapping or a function, as in _Fields.
    """
    if isinstance(value, Raw):
        value = from_json(bytes(value))
    if isinstance(value, list | tuple):
        return [_kept(item, fields) for item in value]
    if isinstance(value, dict):
        if callable(fields):
            return _kept(fields(value), ...)
        if fields is ...:
            return {key: _kept(item, ...) for key, item in value.items()}
        return {key: _kept(item, fields[key]) for key, item in value.items() if key in fields}
    if callable(fields):
        value = fields(value)
    return without_tokens(value, HIDDEN) if isinstance(value, str) else value
