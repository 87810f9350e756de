"""Selectors, taints and tolerations of Kubernetes as values."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from app.explain.facts.values import at, text, texts
from app.objects.shape import map_of, maps_of


@dataclass(frozen=True, slots=True)
class Requirement:
    """One term of a selector: `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


Term = tuple[Requirement, ...]
"""Requirements that must all hold. Of several terms, one must hold."""


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """`key` "" with `operator` Exists tolerates every taint; `effect` "" every effect."""

    key: str
    operator: str
    value: str
    effect: str


def node_selector_terms(selector: Any) -> tuple[Term, ...]:
    """The terms of a NodeSelector, matchExpressions and matchFields alike: the only field is
    metadata.name.
    """
    return tuple(_term(term) for term in maps_of(map_of(selector).get("nodeSelectorTerms")))


def required_affinity(spec: Mapping[str, Any]) -> tuple[Term, ...]:
    """The terms of a pod spec's required node affinity, of which one must hold."""
    return node_selector_terms(
        at(spec, "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
    )


def node_selector(spec: Mapping[str, Any]) -> Term:
    wished = map_of(spec.get("nodeSelector"))
    return tuple(Requirement(key, "In", (str(value),)) for key, value in sorted(wished.items()))


def taints(taints_of_node: Any) -> tuple[Taint, ...]:
    """The taints that keep pods away."""
    return tuple(
        Taint(text(taint, "key"), text(taint, "value"), text(taint, "effect"))
        for taint in maps_of(taints_of_node)
        if taint.get("effect") in ("NoSchedule", "NoExecute")
    )


def tolerations(spec: Mapping[str, Any]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            text(item, "key"),
            text(item, "operator") or "Equal",
            text(item, "value"),
            text(item, "effect"),
        )
        for item in maps_of(spec.get("tolerations"))
    )


def _term(term: Mapping[str, Any]) -> Term:
    expressions = [*maps_of(term.get("matchExpressions")), *maps_of(term.get("matchFields"))]
    return tuple(
        Requirement(text(item, "key"), text(item, "operator"), texts(item.get("values")))
        for item in expressions
    )
