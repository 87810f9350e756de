"""Whether the ResourceClaims for MNNVL can be allocated."""

from app.config.schema import Configuration
from app.doctor.report import Check
from app.kube.api import Client, list_all
from app.objects.fields import listed
from app.rules.kinds import DEVICE_CLASS, RESOURCE_CLAIM
from app.rules.labels import MNNVL_MANAGED
from app.rules.mnnvl.allocation import awaited_classes, unallocatable
from app.rules.mnnvl.plan import DEFAULT_DEVICE_CLASS

SUBJECT = "claims"
_SHOWN = 5


async def check_claims(client: Client, configuration: Configuration) -> list[Check]:
    """Checks of the configured form of claims, and of the stored claims. Raises ClusterError."""
    classes = {obj["metadata"]["name"] for obj in await list_all(client, DEVICE_CLASS)}
    checks: list[Check] = []
    if configuration.mnnvl.claim_mode == "shared" and unallocatable(
        [DEFAULT_DEVICE_CLASS], classes
    ):
        message = (
            f'mnnvl.claimMode is "shared", but DeviceClass "{DEFAULT_DEVICE_CLASS}" does not exist:'
            " claims that name no other class can never be allocated"
        )
        remedy = "Set mnnvl.claimMode to auto, or create the DeviceClass."
        checks.append(Check(SUBJECT, "problem", message, remedy))
    waiting: dict[str, list[str]] = {}
    for obj in await list_all(client, RESOURCE_CLAIM, f"{MNNVL_MANAGED}=true"):
        name = unallocatable(awaited_classes(obj), classes)
        if name:
            waiting.setdefault(name, []).append(
                f"{obj['metadata'].get('namespace')}/{obj['metadata']['name']}"
            )
    checks += [_never_allocated(name, claims) for name, claims in sorted(waiting.items())]
    return checks or [Check(SUBJECT, "ok", "no ResourceClaim for MNNVL lacks its DeviceClass")]


def _never_allocated(name: str, claims: list[str]) -> Check:
    message = (
        f'ResourceClaims can never be allocated, because DeviceClass "{name}" does not exist: '
        f"{listed(sorted(claims), _SHOWN)}"
    )
    remedy = (
        "Create the DeviceClass, or use mnnvl.claimMode: auto and make their PodCliques anew, which"
        " then get claims that the driver serves."
    )
    return Check(SUBJECT, "problem", message, remedy)
