"""The dialect of Grove's topology API that is in force. It depends on what the cluster serves at the moment."""

from typing import Protocol

from app.objects.resource import Resource
from app.rules.topology.bindings import BINDINGS
from app.rules.topology.design import DESIGN, UNSERVED
from app.rules.topology.dialect import Dialect

DIALECTS: tuple[Dialect, ...] = (BINDINGS, DESIGN)
"""The preferred dialect first: it is in force if the cluster serves both APIs."""


class Served(Protocol):
    def served_version(self, resource: Resource) -> str | None: ...


def dialect_of(cluster: Served) -> Dialect:
    """Returns the dialect of `cluster`, as of the last discovery."""
    served = (dialect for dialect in DIALECTS if cluster.served_version(dialect.resource) is not None)
    return next(served, UNSERVED)
