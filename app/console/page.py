"""The form of a page."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from app.console.snapshot import Snapshot

Query = Mapping[str, str]
"""The query of a request, the first value of each name."""


@dataclass(frozen=True, slots=True)
class Page:
    """`path` is also the name of the template.

    `read` makes from a snapshot and a query what the template shows. `watched` says whether the
    page shows the state of the cluster.
    """

    path: str
    title: str
    read: Callable[[Snapshot, Query], dict[str, Any]]
    watched: bool = True
