"""Access reviews (authorization.k8s.io/v1): questions that are answered and not stored."""

from app.sandbox.admission.authorization import Access, Authorizer
from app.sandbox.objects import errors, lifecycle
from app.sandbox.objects.objects import Object, User, copy
from app.sandbox.objects.resources import Served

GROUP = "authorization.k8s.io"
OF_SELF = (GROUP, "selfsubjectaccessreviews")


def answered(review: Object, served: Served, caller: User, authorizer: Authorizer) -> Object:
    """The review with the answer in its status. Raises 400 for another kind, 422 for one that asks for nothing, for
    two things or for nobody."""
    review = copy(review)
    lifecycle.check_identity(served, review, "", "")
    spec = review.get("spec") or {}
    access = _access(served, spec)
    user = caller if served.table == OF_SELF else _user(served, spec)
    return {**review, "status": {"allowed": authorizer.may(user, access)}}


def _user(served: Served, spec: Object) -> User:
    user = User(spec.get("user") or "", tuple(spec.get("groups") or ()))
    if not user.name and not user.groups:
        raise _refused(served, "user", 'Invalid value: "": at least one of user or group must be specified')
    return user


def _access(served: Served, spec: Object) -> Access:
    wanted, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if wanted and path:
        said = "cannot be specified in combination with resourceAttributes"
        raise _refused(served, "nonResourceAttributes", f"Invalid value: {said}")
    if path:
        raise _refused(served, "nonResourceAttributes", "Invalid value: the sandbox answers for resources only")
    if not isinstance(wanted, dict):
        said = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        raise _refused(served, "resourceAttributes", f"Invalid value: null: {said}")
    resource = "/".join(filter(None, (wanted.get("resource"), wanted.get("subresource"))))
    group, namespace, name = (wanted.get(key) or "" for key in ("group", "namespace", "name"))
    return Access(wanted.get("verb") or "", group, resource, namespace, name)


def _refused(served: Served, name: str, message: str) -> errors.ApiError:
    cause = {"reason": "FieldValueInvalid", "message": message, "field": f"spec.{name}"}
    return errors.invalid(served.group, served.kind, "", [cause])
