"""Which dialect of Grove's topology API is in force: found from what the cluster serves, each time it is needed."""

from typing import Protocol

from app.objects.resource import Resource
from app.rules.topology.bindings import BINDINGS
from app.rules.topology.design import DESIGN, UNSERVED
from app.rules.topology.dialect import Dialect

DIALECTS: tuple[Dialect, ...] = (BINDINGS, DESIGN)
"""The preferred one first: it is in force if the cluster serves both APIs."""


class Served(Protocol):
    def served_version(self, resource: Resource) -> str | None: ...


def dialect_of(cluster: Served) -> Dialect:
    """The dialect of `cluster` as discovery last saw it."""
    served = (dialect for dialect in DIALECTS if cluster.served_version(dialect.resource) is not None)
    return next(served, UNSERVED)
