"""The warning that a domain of the whole PodCliqueSet holds for each of its PodGangs alone.

Users expected one domain for all: https://github.com/ai-dynamo/grove/issues/648
"""

from collections.abc import Mapping, Sequence

from app.facts.grove.template import SET, Owner, Template, owner_text
from app.facts.grove.topology import Level
from app.objects.fields import listed
from app.rules.topology.coverage import NodesWith

_SHOWN = 2


def apart_warnings(
    template: Template,
    required: Mapping[Owner, str],
    levels: Sequence[Level],
    nodes_with: NodesWith,
) -> list[str]:
    """Return a warning if replicas of scaling groups may be in another domain than the rest.

    `required` has the domain that each owner requires, one of `levels`. There is none if all nodes
    are in one such domain.
    """
    groups = [group for group in template.groups if group.replicas > group.min_available]
    domains = [level.domain for level in levels]
    domain = required.get(SET, "")
    if domain not in domains or not groups:
        return []

    keys = tuple(level.key for level in levels)
    shared = domains[: nodes_with(keys).shared_levels(keys)]
    if domain in shared:
        return []

    holds = f'only "{shared[-1]}" does, where all nodes are' if shared else "no level does"
    names = listed([owner_text(group.part.owner) for group in groups], _SHOWN)
    return [
        f'"{domain}" of the PodCliqueSet holds for each PodGang alone: replicas of {names} beyond'
        f" minAvailable are PodGangs of their own. For all pods together, {holds}, unless"
        " minAvailable equals replicas"
    ]
