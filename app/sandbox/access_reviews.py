"""Access reviews (authorization.k8s.io/v1): questions that are answered and not stored."""

from app.sandbox import errors
from app.sandbox.authorization import Access, Authorizer
from app.sandbox.objects import Object, User
from app.sandbox.resources import Served

GROUP = "authorization.k8s.io"
OF_SELF = (GROUP, "selfsubjectaccessreviews")


def answered(review: Object, served: Served, caller: User, authorizer: Authorizer) -> Object:
    """The review with the answer in its status. Raises 422 for one that asks for nothing."""
    spec = review.get("spec") or {}
    user = caller if served.table == OF_SELF else User(spec.get("user") or "", tuple(spec.get("groups") or ()))
    return {**review, "status": {"allowed": authorizer.may(user, _access(served, spec))}}


def _access(served: Served, spec: Object) -> Access:
    wanted = spec.get("resourceAttributes")
    if not isinstance(wanted, dict):
        message = "Invalid value: null: the sandbox answers for resourceAttributes only"
        cause = {"reason": "FieldValueInvalid", "message": message, "field": "spec.resourceAttributes"}
        raise errors.invalid(served.group, served.kind, "", [cause])
    resource = "/".join(filter(None, (wanted.get("resource"), wanted.get("subresource"))))
    group, namespace, name = (wanted.get(key) or "" for key in ("group", "namespace", "name"))
    return Access(wanted.get("verb") or "", group, resource, namespace, name)
