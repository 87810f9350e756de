"""Which object a command line asks about, and what to say if it isn't there."""

from collections.abc import Iterable, Sequence
from typing import Any

from app.dry_run.budget import UnusableInput
from app.explain.known.kinds import KINDS
from app.explain.known.snapshot import OF_KIND
from app.explain.reasons.words import listed
from app.facts.named import Ref
from app.kube.api import ClusterError, Object, Reader, Selection
from app.objects.resource import Resource

MOST_NEIGHBOURS = 500
"""So many objects of a namespace are looked through for a similar name: one page."""

_FORMS = "give KIND/NAME, KIND NAME, or the name of a PodCliqueSet"


def one_word(words: Sequence[str]) -> str:
    """Return the words that name an object as KIND/NAME, or as a bare name.

    `podcliqueset llm` is `podcliqueset/llm`. Raise UnusableInput for more words.
    """
    if len(words) > 2 or (len(words) == 2 and "/" in words[0] + words[1]):
        raise UnusableInput(f"{' '.join(words)!r} names no single object: {_FORMS}")
    return "/".join(words)


def reference(text: str, namespace: str) -> Ref:
    """Return the object that `KIND/NAME` names; a bare name is that of a PodCliqueSet.

    Raise UnusableInput for another kind, or none.
    """
    kind, _, name = text.rpartition("/")
    full = KINDS.get(kind.partition(".")[0].lower()) if kind else "PodCliqueSet"
    kinds = listed(sorted(set(KINDS.values())), 20)
    if not name or (not kind and name.lower() in KINDS):
        raise UnusableInput(f"{text!r} has no name: {_FORMS}; KIND is one of {kinds}")
    if full is None:
        others = "name one of its Pods, or nothing, for all that waits"
        raise UnusableInput(f"{text!r} can't be explained: {others}. KIND is one of {kinds}")
    return Ref(full, namespace, name)


async def neighbours(client: Reader, ref: Ref) -> list[Ref]:
    """Return objects of the same kind.

    These are those of the same name in all namespaces, as far as they may be read, and those in the
    same namespace.
    """
    resource = OF_KIND[ref.kind]
    by_name = await _listed(client, resource, None, f"metadata.name={ref.name}")
    beside = await _listed(client, resource, ref.namespace, "")
    return [*refs_of(ref.kind, by_name), *refs_of(ref.kind, beside)]


async def _listed(
    client: Reader,
    resource: Resource,
    namespace: str | None,
    selector: str,
) -> list[Object]:
    """Return one page of metadata, or nothing if it can't be read: a hint must not fail."""
    try:
        page = await client.list(
            Selection(resource, namespace, fields=selector, metadata_only=True),
            limit=MOST_NEIGHBOURS,
        )
    except ClusterError:
        return []
    return page.items


def refs_of(kind: str, objects: Iterable[Any]) -> list[Ref]:
    """Return the names of objects, all of which are of one kind."""
    metadata = [obj.get("metadata") or {} for obj in objects]
    return [Ref(kind, str(m.get("namespace") or ""), str(m.get("name") or "")) for m in metadata]
