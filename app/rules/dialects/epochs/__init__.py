"""The dialect `epochs`, of Grove with PodGangMaps: `bindings`, with PodGangs that Grove replaces.

A PodGang is named after an epoch, and its role is a label (`grove.io/podgang-role`). When Grove is
upgraded, it deletes the former PodGangs of running workloads and makes others. Rules about a
PodGang look at its role, not at this dialect: during upgrades and rollbacks, a cluster has PodGangs
of both schemes.

Source: https://github.com/ai-dynamo/grove/tree/616762f7
"""

from app.facts.grove.template import Template
from app.facts.kinds import POD_GANG_MAP
from app.rules.dialects.bindings import Bindings
from app.rules.dialects.epochs.names import name_warnings


class Epochs(Bindings):
    """In force if `podgangmaps.grove.io` is served."""

    name = "epochs"
    sign = POD_GANG_MAP

    def set_warnings(self, template: Template) -> list[str]:
        return name_warnings(template)


EPOCHS = Epochs()
