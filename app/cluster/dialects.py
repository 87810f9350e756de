"""The dialect of Grove's topology API that is in force.

It depends on what the cluster serves at the moment.
"""

from collections.abc import Mapping

from app.kube.api import Objects
from app.rules.dialects.bindings import BINDINGS
from app.rules.dialects.bindings.owner import POD_CLIQUE_SET_OWNS
from app.rules.dialects.design import DESIGN, UNSERVED
from app.rules.dialects.design.owner import POD_GANG_OWNS
from app.rules.dialects.dialect import Dialect, OwnerRule
from app.rules.dialects.epochs import EPOCHS

DIALECTS: tuple[Dialect, ...] = (EPOCHS, BINDINGS, DESIGN)
"""The latest dialect first: it is in force if the cluster serves the signs of several."""

LATER: tuple[Dialect, ...] = (EPOCHS, BINDINGS)
"""The dialects of the releases after `design`."""


def dialect_of(client: Objects) -> Dialect:
    """Return the dialect of the cluster of `client`, as of the last discovery."""
    for dialect in DIALECTS:
        if client.served_version(dialect.sign) is not None:
            return dialect
    return UNSERVED


OWNER_RULES: Mapping[str, OwnerRule] = {
    rule.kind: rule for rule in (POD_GANG_OWNS, POD_CLIQUE_SET_OWNS)
}
"""The rules that `mnnvl.owner` of the configuration can name; `auto` is that of the dialect."""
