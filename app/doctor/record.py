"""What an examination depends on: what it was answered, so that it can be made elsewhere.

Tokens, environment variables, arguments and images are taken out of the answers before the doctor
sees them. Of Secrets, only the certificate is left, which every client is shown.
"""

import re
from datetime import datetime
from typing import Any

from msgspec import Raw, field

from app.base.json import from_json, to_json
from app.base.value import Value
from app.doctor.certificate import Handshake, Shake
from app.kube.api import (
    ClusterError,
    Conflict,
    Gone,
    NotFound,
    NotServed,
    Object,
    Rejected,
    Unavailable,
)
from app.kube.transport import ApiRequest, Call
from app.objects.resource import SECRET
from app.objects.shape import map_at, only
from app.objects.tokens import HIDDEN, without_tokens

KIND = "DoctorRecord"

_FAILED = "failed"
_ERRORS = {
    kind.__name__: kind for kind in (NotFound, NotServed, Conflict, Gone, Rejected, Unavailable)
}


class Heard(Value):
    """Everything that an examination depends on.

    `configuration` is JSON, and `is_configured` whether it was given. `answers` are those of the
    API server, and `handshakes` those with replicas, by what was asked.
    """

    now: datetime
    is_server: bool
    all_webhooks: bool
    is_configured: bool
    configuration: str
    answers: dict[str, Raw] = field(default_factory=dict)
    handshakes: dict[str, Handshake] = field(default_factory=dict)

    def keeping(self, call: Call) -> Call:
        """Return a function that answers as before, and else calls, and keeps what comes of it."""

        async def kept(request: ApiRequest) -> Object:
            key = _key_of(request)
            if key not in self.answers:
                try:
                    answer = _bare(await call(request), request.resource)
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
        """Return a function that makes handshakes, except those that were made before."""

        async def kept(*asked: Any) -> Handshake:
            key = to_json(asked).decode()
            if key not in self.handshakes:
                self.handshakes[key] = await shake(*asked)
            return self.handshakes[key]

        return kept


def _key_of(request: ApiRequest) -> str:
    asked = (request.method, request.path, request.params, request.accept, request.body)
    return to_json(asked).decode()


async def unanswered(request: ApiRequest) -> Object:
    """Answer nothing: the record has no answer. Raise Unavailable."""
    raise Unavailable("it is not in the record")


async def unreachable(address: str, port: int, name: str, bundle: bytes) -> Handshake:
    """Make no handshake: the record has none."""
    return Handshake("unreachable", "it is not in the record")


# What no record has.


_LEFT_OUT = {
    "description",
    "env",
    "envFrom",
    "imageID",
    "images",
    "lastState",
    "managedFields",
    "terminated",
}
_KEPT_ANNOTATIONS = ("grove.io/", "kai.scheduler/")
_IMAGE = re.compile(r"^.*?(:v?\d+\.\d+\.\d+)?$")


def _bare(answer: Object, resource: str) -> Object:
    if resource == str(SECRET):
        return {"data": only(map_at(answer, "data"), ("tls.crt",))}
    bare: Object = _without(answer, "")
    return bare


def _without(value: Any, name: str) -> Any:
    """Return the value of a field of this name without what no record has."""
    if isinstance(value, list):
        return [_without(item, name) for item in value]
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if not _is_left_out(key, item, name)}
        return {key: _without(item, key) for key, item in kept.items()}
    if isinstance(value, str):
        return _IMAGE.sub(r"image\1", value) if name == "image" else without_tokens(value, HIDDEN)
    return value


def _is_left_out(key: str, item: Any, within: str) -> bool:
    if within == "annotations":
        return not any(domain in key for domain in _KEPT_ANNOTATIONS)
    return key in _LEFT_OUT or (key in ("args", "command") and isinstance(item, list))
