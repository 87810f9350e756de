"""The form of a page."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from app.console.revision import Revision

Query = Mapping[str, str]
"""The query of a request, the first value of each name."""


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """`path` is also the name of the template.

    `read` makes from a snapshot and a query what the template shows; its `ignored` are options of
    the query whose value means nothing. `options` are the names that a query may have. `watched`
    says whether the page shows the state of the cluster.
    """

    path: str
    title: str
    read: Callable[[Revision, Query], dict[str, Any]]
    options: Collection[str] = ()
    watched: bool = True

    def ignored(self, query: Query, values: Collection[str]) -> list[str]:
        """Return the options of a query that mean nothing; `values` are names whose value does."""
        unknown = [name for name in query if name not in self.options]
        return [*unknown, *(f"{name}={query[name]}" for name in values)]
