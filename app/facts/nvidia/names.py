"""The names of the MNNVL resources that this product makes, from their base name."""

from app.facts.kinds import COMPUTE_DOMAIN

_DOMAIN_SUFFIX = "-cd"
_CLAIM_SUFFIX = "-mnnvl-claim"
_TEMPLATE_SUFFIX = "-mnnvl-template"


def domain_name(base_name: str) -> str:
    return f"{base_name}{_DOMAIN_SUFFIX}"


def claim_name(base_name: str) -> str:
    return f"{base_name}{_CLAIM_SUFFIX}"


def template_name(base_name: str) -> str:
    return f"{base_name}{_TEMPLATE_SUFFIX}"


def base_of(kind: str, name: str) -> str:
    """Return the base name of a ComputeDomain or ResourceClaim.

    "" if its name is not like those of ours.
    """
    suffix = _DOMAIN_SUFFIX if kind == COMPUTE_DOMAIN.kind else _CLAIM_SUFFIX
    return name.removesuffix(suffix) if name.endswith(suffix) else ""
