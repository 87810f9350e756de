"""The ComputeDomain and the ResourceClaim of a plan, as they are created."""

from app.facts.kinds import COMPUTE_DOMAIN, POD_CLIQUE_SET, RESOURCE_CLAIM
from app.objects.shape import Object
from app.rules.mnnvl.claim import CLAIM
from app.rules.mnnvl.plan import DEFAULT_DEVICE_CLASS, Plan


def desired_compute_domain(plan: Plan, version: str) -> Object:
    """Return the ComputeDomain of `plan`.

    The API requires `channel`. With `numNodes: 0`, its size is not fixed.
    """
    return {
        "apiVersion": COMPUTE_DOMAIN.api_version(version),
        "kind": COMPUTE_DOMAIN.kind,
        "metadata": _metadata(plan, plan.compute_domain),
        "spec": {"numNodes": 0, "channel": {"resourceClaimTemplate": {"name": plan.template}}},
    }


def desired_claim(plan: Plan, version: str) -> Object:
    """Return the ResourceClaim of `plan` for the API `version`.

    In v1 and v1beta2, the request is in `exactly`; in v1beta1, it is not nested.
    """
    expression = f'device.attributes["{DEFAULT_DEVICE_CLASS}"].name == "{plan.compute_domain}"'
    request = {
        "deviceClassName": plan.device_class,
        "selectors": [{"cel": {"expression": expression}}],
    }
    fields = request if version == "v1beta1" else {"exactly": request}

    return {
        "apiVersion": RESOURCE_CLAIM.api_version(version),
        "kind": RESOURCE_CLAIM.kind,
        "metadata": _metadata(plan, plan.claim),
        "spec": {"devices": {"requests": [{"name": CLAIM, **fields}]}},
    }


def _metadata(plan: Plan, name: str) -> Object:
    return {
        "name": name,
        "namespace": plan.namespace,
        "labels": plan.labels,
        "ownerReferences": [POD_CLIQUE_SET.owner_reference(plan.set_name, plan.set_uid)],
    }
