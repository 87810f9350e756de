"""The form of a page."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from app.console.revision import Revision
from app.facts.named import Ref
from app.value import Value

Query = Mapping[str, str]
"""The query of a request, the first value of each name."""

Values = dict[str, Any]
"""What a template shows, by name."""


class ConsolePage(Value):
    """`path` is also the name of the template.

    `read` makes from a snapshot and a query what the template shows; its `ignored` are options of
    the query whose value means nothing. `options` are the names that a query may have. `watched`
    says whether the page shows the state of the cluster.
    """

    path: str
    title: str
    read: Callable[[Revision, Query], Values]
    options: Collection[str]
    watched: bool = True

    def ignored(self, query: Query, values: Collection[str]) -> list[str]:
        """Return the options of a query that mean nothing; `values` are names whose value does."""
        unknown = [name for name in query if name not in self.options]
        return [*unknown, *(f"{name}={query[name]}" for name in values)]


def reference(text: str, kinds: Mapping[str, bool]) -> Ref | None:
    """Return the object that `Kind/namespace/name` names, or None if the text has another form.

    `kinds` has the kinds that are known, and whether each has namespaces.
    """
    kind, _, rest = text.partition("/")
    namespace, _, name = rest.partition("/")
    is_known = kind in kinds and bool(namespace) == kinds[kind]
    return Ref(kind, namespace, name) if name and is_known else None


def named(ref: Ref) -> str:
    """Return `Kind/namespace/name`, as an address has it."""
    return f"{ref.kind}/{ref.namespace}/{ref.name}"
