"""Define the type of pages, and read and write the references to objects in addresses."""

from collections.abc import Callable, Mapping
from typing import Any

from app.base.value import Value
from app.explain.state.index import Index
from app.facts.identity import Ref
from app.objects.resource import Resource

Query = Mapping[str, str]
"""The options in the query of a request, each with one value."""

Values = dict[str, Any]
"""The values of a template, by name."""


class ConsolePage(Value):
    """A page of the console."""

    path: str
    """The part of the path after the token, and the name of the template without `.html`."""
    title: str
    """The title in the navigation."""
    read: Callable[[Index, Query], Values]
    """A function that returns the values of the template.

    One of them, `options`, maps each name that a query may have to whether its value is valid.
    """
    watched: bool = True
    """Is the page updated when the cluster changes?"""


def ignored(query: Query, options: Mapping[str, bool]) -> list[str]:
    """Return the options in a query that the page ignores.

    They are given as names if the names are unknown, and as `name=value` if the values are invalid.
    `options` maps the known names to whether their value is valid.
    """
    unknown = [name for name in query if name not in options]
    invalid = [
        f"{name}={query[name]}"
        for name, is_valid in options.items()
        if query.get(name) and not is_valid
    ]
    return unknown + invalid


def reference(text: str, kinds: Mapping[str, Resource]) -> Ref | None:
    """Return the object that `text` names, or None if it has another form or an unknown kind.

    The form is `Kind/namespace/name`, with an empty namespace for a cluster-scoped kind. `kinds`
    has the known kinds.
    """
    kind, _, rest = text.partition("/")
    namespace, _, name = rest.partition("/")
    is_known = kind in kinds and bool(namespace) == kinds[kind].namespaced
    return Ref(kind, namespace, name) if name and is_known else None


def ref_in_address(ref: Ref) -> str:
    """Return `Kind/namespace/name`, the form in which addresses name an object."""
    return f"{ref.kind}/{ref.namespace}/{ref.name}"
