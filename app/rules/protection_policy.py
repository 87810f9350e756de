"""The guard of our webhook configurations and policies, in CEL.

Only static policies can have it: an API server asks no webhook about these kinds, and no stored
policy about policies.

Source: https://kubernetes.io/docs/reference/access-authn-authz/manifest-admission-control/
"""

from collections.abc import Sequence

from msgspec.structs import replace

from app.objects.resource import (
    MUTATING_POLICIES,
    MUTATING_POLICY_BINDINGS,
    MUTATING_WEBHOOKS,
    VALIDATING_POLICIES,
    VALIDATING_POLICY_BINDINGS,
    VALIDATING_WEBHOOKS,
)
from app.rules.policy import Policy, PolicyDemand, sentence, text, texts

ALLOW_DELETION = "grove-admission.grove.io/allow-deletion"
"""If this annotation is "true", everybody with the right may delete the object."""

# One version will do, because policies match equivalent requests in others too.
_MUTATING_POLICIES = tuple(
    replace(kind, versions=("v1",)) for kind in (MUTATING_POLICIES, MUTATING_POLICY_BINDINGS)
)


def protection(name: str, authorized: Sequence[str]) -> Policy:
    """Return the policy that only `authorized` may delete our objects.

    They are full user names. Our objects have the name `name`, or one that ends with it.
    """
    annotations = "oldObject.metadata.annotations"
    key = text(ALLOW_DELETION)
    is_allowed = f"has({annotations}) && {key} in {annotations} && {annotations}[{key}] == 'true'"
    user = "request.userInfo.username"
    demand = PolicyDemand(
        "deletedByOthers",
        f"{user} in {texts(sorted(authorized))} || ({is_allowed}) ? [] : [{user}]",
        sentence(
            '{kind} "{name}" is protected: user "{user}" cannot delete it. Annotate it with'
            f' {ALLOW_DELETION}: "true" first',
            kind="request.kind.kind",
            name="oldObject.metadata.name",
            user=user,
        ),
        f"protected: annotate it with {ALLOW_DELETION} first",
        reason="Forbidden",
    )
    stored = "oldObject.metadata.name"
    is_ours = f"{stored} == {text(name)} || {stored}.endsWith({text(f'.{name}.grove.io')})"
    return Policy(
        "protection",
        "",
        (
            MUTATING_WEBHOOKS,
            VALIDATING_WEBHOOKS,
            VALIDATING_POLICIES,
            VALIDATING_POLICY_BINDINGS,
            *_MUTATING_POLICIES,
        ),
        ("DELETE",),
        (demand,),
        conditions={"ours": is_ours},
    )
