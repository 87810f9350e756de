"""The definition of a page."""

from collections.abc import Callable, Mapping
from typing import Any

from app.base.value import Value
from app.explain.state.index import Index
from app.facts.identity import Ref
from app.objects.resource import Resource

Query = Mapping[str, str]
"""The query of a request: the first value of each name."""

Values = dict[str, Any]
"""The values of a template, by name."""


class ConsolePage(Value):
    """A page of the console.

    `path` is also the name of its template. `read` returns the values of the template for an index
    and a query. `options` has the names that a query may have, each with a check of the value.
    `watched` says whether the page shows the state of the cluster.
    """

    path: str
    title: str
    read: Callable[[Index, Query], Values]
    watched: bool = True


def ignored(query: Query, options: Mapping[str, bool]) -> list[str]:
    """Return the parts of a query that have no meaning: unknown names, and invalid values."""
    unknown = [name for name in query if name not in options]
    meaning = options.items()
    values = [f"{name}={query[name]}" for name, means in meaning if query.get(name) and not means]
    return unknown + values


def reference(text: str, kinds: Mapping[str, Resource]) -> Ref | None:
    """Return the object that `Kind/namespace/name` names, or None if the text has another form.

    `kinds` has the known kinds.
    """
    kind, _, rest = text.partition("/")
    namespace, _, name = rest.partition("/")
    is_known = kind in kinds and bool(namespace) == kinds[kind].namespaced
    return Ref(kind, namespace, name) if name and is_known else None


def ref_in_address(ref: Ref) -> str:
    """Return `Kind/namespace/name`, as in an address."""
    return f"{ref.kind}/{ref.namespace}/{ref.name}"
