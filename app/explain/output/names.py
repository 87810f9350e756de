"""Write hints for a user who asks about an object that does not exist."""

from collections.abc import Iterable, Iterator, Sequence

from app.base.spelling import alike
from app.explain.reasons.reason import listed
from app.facts.identity import Ref

_MOST = 3


def meant(ref: Ref, others: Iterable[Ref]) -> Iterator[str]:
    """Yield at most one hint: namespaces that have an object with this name, or else other names.

    `others` are the known objects. Only objects of the same kind as `ref` count.
    """
    others = sorted(other for other in others if other.kind == ref.kind)
    elsewhere = [other.namespace for other in others if other.name == ref.name]
    if not elsewhere:
        yield from _similar(ref, others)
        return

    noun = "namespace" if len(elsewhere) == 1 else "namespaces"
    yield f"the name exists in {noun} {listed(elsewhere)}: add -n {elsewhere[0]}"


def _similar(ref: Ref, others: Sequence[Ref]) -> Iterator[str]:
    """Yield a hint with similar names in the namespace of `ref`, or else names in this namespace.

    If the namespace has none of the objects, the hint has the most similar name elsewhere. If no
    name is similar, yield nothing.
    """
    nearby = [other.name for other in others if other.namespace == ref.namespace]
    near = _near(ref.name, nearby)
    if near:
        yield f"did you mean {' or '.join(near)}?"
    elif nearby:
        yield f"namespace {ref.namespace} has {listed(nearby)}"
    else:
        by_name = {other.name: other.namespace for other in others}
        near = _near(ref.name, list(by_name))
        yield from (f"did you mean {name} in namespace {by_name[name]}?" for name in near[:1])


def _near(name: str, others: Sequence[str]) -> list[str]:
    """Return up to _MOST names that are similar to `name`, or else that begin with it."""
    near = alike(name, others) or [other for other in others if other.startswith(name)]
    return near[:_MOST]
