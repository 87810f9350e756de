"""Random topology constraints, judged by the webhook of Grove's real operator and by our rule."""

import copy
import random
from typing import Any

import httpx
import pytest

from app.facts.grove.template import read_template
from app.facts.grove.topology import Level
from app.facts.kinds import CLUSTER_TOPOLOGY_BINDING, POD_CLIQUE_SET
from app.kube.api import Object, ObjectRef
from app.rules.dialects.bindings import BINDINGS
from tests.integration.grove import mistakes
from tests.integration.grove.bindings import bind
from tests.integration.grove.operator import GroveOperator
from tests.integration.system import Users
from tests.integration.tried import tried
from tests.rules.dialects.around import Around

BOUND = {
    "wide": (
        Level("zone", mistakes.ZONE),
        Level("rack", mistakes.RACK),
        Level("host", mistakes.HOST),
    ),
    "narrow": (Level("rack", mistakes.RACK), Level("host", mistakes.HOST)),
}
DOMAINS = ("zone", "rack", "host", "galaxy")
NAMES = ("wide", "narrow", "absent")
AROUND = Around(bound=BOUND)
COUNT = 400
NEVER_PLACED = "because KAI never places such pods"
"""Grove allows what only KAI can't place."""


def template() -> Object:
    """Two cliques, one of them in a scaling group."""
    pcs = mistakes.pcs("train", mistakes.clique("router"), mistakes.clique("leader"))
    pcs["spec"]["template"]["podCliqueScalingGroups"] = [
        {"name": "pool", "cliqueNames": ["leader"]}
    ]
    return pcs


def holders(pcs: Object) -> list[Object]:
    spec = pcs["spec"]["template"]
    return [spec, *spec["podCliqueScalingGroups"], *spec["cliques"]]


def constraint(chance: random.Random, *, former: bool) -> Object | None:
    """A random constraint, mostly a valid one; `former`: it may have a packDomain, and no name."""
    if chance.random() < 0.4:
        return None
    made: Object = {}
    if chance.random() < 0.6:
        made["topologyName"] = chance.choice((*NAMES, "wide", "wide", "wide"))
    if former and chance.random() < 0.6:
        made["packDomain"] = chance.choice(DOMAINS)
        return made
    fields = [field for field in ("required", "preferred") if chance.random() < 0.6]
    return {**made, "pack": {field: chance.choice(DOMAINS) for field in fields or ["required"]}}


def constrained(pcs: Object, chance: random.Random, *, former: bool = False) -> Object:
    """The set with random constraints; half of the sets have a name where all others inherit it."""
    result = copy.deepcopy(pcs)
    for holder in holders(result):
        made = constraint(chance, former=former)
        if made is not None:
            holder["topologyConstraint"] = made
    whole = holders(result)[0].get("topologyConstraint")
    if whole is not None and not former and chance.random() < 0.7:
        whole["topologyName"] = "wide"
        for holder in holders(result)[1:]:
            holder.get("topologyConstraint", {}).pop("topologyName", None)
    return result


def changed(pcs: Object, chance: random.Random) -> Object:
    """The set after an update: scaled, or with another constraint, or in the words of today's
    Grove.
    """
    result = copy.deepcopy(pcs)
    result["spec"]["replicas"] = 2
    kind = chance.choice(("scaled", "moved", "named", "other"))
    for holder in holders(result):
        stored: Any = holder.get("topologyConstraint")
        if kind == "other" and chance.random() < 0.4:
            holder.pop("topologyConstraint", None)
            made = constraint(chance, former=True)
            holder |= {} if made is None else {"topologyConstraint": made}
        elif kind == "moved" and stored and "packDomain" in stored:
            stored["pack"] = {"required": stored.pop("packDomain")}
        elif kind == "named" and stored and "topologyName" not in stored and chance.random() < 0.8:
            stored["topologyName"] = "wide"
    return result


async def denial(operator: GroveOperator, pcs: Object, old: Object | None) -> str:
    """Why Grove's webhook denies a write; "" if it allows it."""
    operation = "CREATE" if old is None else "UPDATE"
    version = {"group": "grove.io", "version": "v1alpha1"}
    request = {
        "uid": "1",
        "operation": operation,
        "kind": {**version, "kind": "PodCliqueSet"},
        "resource": {**version, "resource": "podcliquesets"},
        "namespace": "default",
        "name": "train",
        "object": pcs,
        "oldObject": old,
        "userInfo": {"username": "alice"},
    }
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}
    async with httpx.AsyncClient(verify=False) as client:
        answer = await client.post(f"{operator.webhooks}/validate-podcliqueset", json=review)
    response = answer.json()["response"]
    return "" if response["allowed"] else str(response["status"]["message"])


async def defaulted(clients: Users, namespace: str) -> Object:
    """A set without constraints, as Grove's defaulting webhook leaves it."""
    stored = await tried(clients.user, POD_CLIQUE_SET, template(), namespace)
    return {**stored, "apiVersion": "grove.io/v1alpha1", "kind": "PodCliqueSet"}


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
async def test_our_verdicts_are_those_of_groves_webhook(
    operator: GroveOperator, clients: Users, namespace: str, today: bool, operation: str
) -> None:
    if not today:
        pytest.skip("the webhook of this release of Grove judges other fields")
    for name, levels in BOUND.items():
        await bind(clients, name, *((level.domain, level.key) for level in levels))
    try:
        base = await defaulted(clients, namespace)
        chance = random.Random(7)
        verdicts = set()
        for _ in range(COUNT):
            old = None if operation == "CREATE" else constrained(base, chance, former=True)
            pcs = constrained(base, chance) if old is None else changed(old, chance)
            theirs = await denial(operator, pcs, old)
            template = None if old is None else read_template(old)
            findings = BINDINGS.validate_set(read_template(pcs), template, AROUND).findings
            ours = [finding for finding in findings if NEVER_PLACED not in finding.message]
            assert bool(theirs) == bool(ours), (
                pcs["spec"]["template"],
                old,
                theirs,
                list(map(str, ours)),
            )
            verdicts.add(bool(ours))
        assert verdicts == {True, False}
    finally:
        for name in BOUND:
            await clients.user.delete(ObjectRef(CLUSTER_TOPOLOGY_BINDING, name))
