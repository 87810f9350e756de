"""Access reviews (authorization.k8s.io/v1), which are answered and not stored."""

from app.sandbox.admission.authorization import Access, Authorizer
from app.sandbox.objects import errors, lifecycle
from app.sandbox.objects.objects import Object, User, copy
from app.sandbox.objects.resources import Served

GROUP = "authorization.k8s.io"
OF_SELF = (GROUP, "selfsubjectaccessreviews")


def answered(review: Object, served: Served, caller: User, authorizer: Authorizer) -> Object:
    """The review with its status. Raises 400 for another kind, and without `resourceAttributes` or without a user."""
    review = copy(review)
    lifecycle.check_identity(served, review, "", "")
    spec = review.get("spec") or {}
    user = caller
    if served.table != OF_SELF:
        user = User(spec.get("user") or "", tuple(spec.get("groups") or ()))
        if not user.name and not user.groups:
            raise errors.bad_request("spec.user: at least one of user or group must be specified")
    return {**review, "status": {"allowed": authorizer.may(user, _access(spec))}}


def _access(spec: Object) -> Access:
    attributes = spec.get("resourceAttributes")
    if not isinstance(attributes, dict):
        raise errors.bad_request("spec.resourceAttributes: the sandbox reviews access to resources only")
    resource = "/".join(filter(None, (attributes.get("resource"), attributes.get("subresource"))))
    group, namespace, name = (attributes.get(key) or "" for key in ("group", "namespace", "name"))
    return Access(attributes.get("verb") or "", group, resource, namespace, name)
