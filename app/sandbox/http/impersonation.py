"""Impersonation of users and groups by headers.

https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
"""

from starlette.datastructures import Headers

from app.sandbox.admission.authorization import Access, Authorizer
from app.sandbox.objects import errors
from app.sandbox.objects.objects import User

_USER = "impersonate-user"
_GROUP = "impersonate-group"
_AUTHENTICATED = "system:authenticated"


def acting_user(headers: Headers, user: User, authorizer: Authorizer) -> User:
    """Return the user as whom `user` acts: the one that is impersonated, else itself.

    Raise 403 if `user` may not impersonate the other, and 400 for headers that are not known here.
    An impersonated user has the rights that RBAC gives, and no others.
    """
    used = {name for name in headers if name.startswith("impersonate-")}
    if not used:
        return user
    if not used <= {_USER, _GROUP} or _USER not in used:
        raise errors.bad_request("the sandbox impersonates a user, with groups, and nothing else")

    name = headers[_USER]
    groups = headers.getlist(_GROUP)
    authorizer.check(user, Access("impersonate", "", "users", name=name))
    for group in groups:
        authorizer.check(user, Access("impersonate", "", "groups", name=group))
    return User(name, tuple(dict.fromkeys((*groups, _AUTHENTICATED))))
