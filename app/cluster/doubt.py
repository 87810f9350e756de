"""Whether the MNNVL resources for which a review asks are those of a stored PodCliqueSet."""

from app.facts.grove.template import read_template
from app.facts.kinds import POD_CLIQUE_SET
from app.kube.api import ObjectRef, Objects, find
from app.rules.mnnvl.asked import asks_for
from app.rules.mnnvl.plan import Plan


async def doubt_about(plan: Plan, client: Objects) -> str | None:
    """Return why the stored set doesn't ask for the resources of `plan`, or None if it does.

    The set is read from the API server. A ClusterError if that fails.
    """
    name = plan.owner.name
    stored = await find(client, ObjectRef(POD_CLIQUE_SET, name, plan.namespace))
    if stored is None:
        return f'PodCliqueSet "{name}", which would own them, does not exist'

    metadata = stored["metadata"]
    if metadata.get("deletionTimestamp") is not None:
        return f'PodCliqueSet "{name}", which would own them, is being deleted'
    if plan.owner.uid not in ("", metadata.get("uid")):
        return former_set(name)

    if not asks_for(read_template(stored), plan):
        return f'the template of PodCliqueSet "{name}" does not ask for them'
    return None


def former_set(name: str) -> str:
    return f'the PodClique belongs to a former PodCliqueSet "{name}", which was created again'
