"""Implement the dialect `epochs`: `bindings` for releases of Grove with PodGangMaps.

A PodGang is named after an epoch, and its label `grove.io/podgang-role` has its role. When Grove is
upgraded, it replaces the PodGangs of running workloads. During upgrades and rollbacks, a cluster
has PodGangs with and without a role. Rules about a PodGang therefore look at its label instead of
the dialect.

Source: https://github.com/ai-dynamo/grove/tree/616762f7
"""

from app.facts.grove.template import Template
from app.facts.kinds import POD_GANG_MAP
from app.objects.names import MAX_LABEL
from app.rules.dialects.bindings import Bindings

EPOCH = "<epoch>"
"""The placeholder for the epoch in the names of PodGangs."""
_DIGITS = 19
"""The number of digits of an epoch, which is a time in nanoseconds."""


class Epochs(Bindings):
    """The dialect that is in force if the cluster serves `podgangmaps.grove.io`."""

    name = "epochs"
    sign = POD_GANG_MAP

    def set_warnings(self, template: Template) -> list[str]:
        """Return a warning if names of PodGangs are too long for the labels of PodCliques and Pods.

        Grove then never creates these PodCliques, and reports it only in `status.lastErrors` of the
        scaling group. The check covers all existing replicas of the set and of each scaling group,
        and at least the first replica above a group's minAvailable. Later commits of Grove hash
        such names. Source:
        https://github.com/ai-dynamo/grove/blob/616762f7/operator/api/common/namegen.go
        """
        start = f"{template.name}-{max(template.replicas - 1, 0)}-{EPOCH}"
        names = [start]
        for group in template.groups:
            last = max(group.replicas - 1, group.min_available, 0)
            names.append(f"{start}-{group.name}-{last}")

        longest = max(names, key=len)
        length = len(longest) - len(EPOCH) + _DIGITS
        if length <= MAX_LABEL:
            return []

        return [
            f'the name of PodGang "{longest}" would be {length} characters long,'
            f" {length - MAX_LABEL} more than a label holds: Grove never creates its PodCliques."
            " Use shorter names for the PodCliqueSet or its scaling groups"
        ]


EPOCHS = Epochs()
