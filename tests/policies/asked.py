"""What policies about queues say of a write."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.base.value import Value
from app.objects.resource import Resource
from scripts.apiserver.admission.policies import findings_of
from scripts.apiserver.objects.scope import MayDo
from scripts.apiserver.objects.selectors import object_selector

Object = dict[str, Any]

TENANT: Object = {"username": "ann", "groups": ["system:authenticated"]}


class Policies(Value):
    """Policies, each before its binding, with their parameters by kind, and what users may do."""

    objects: Sequence[Object]
    parameters: Mapping[str, Sequence[Object | None]]
    may_do: MayDo = lambda access: False

    def said(
        self, resource: Resource, obj: Object, old: Object | None = None, user: Object = TENANT
    ) -> list[str]:
        """What they say against a write of `obj`."""
        request = {
            "operation": "CREATE" if old is None else "UPDATE",
            "resource": {"group": resource.group, "resource": resource.plural},
            "userInfo": user,
            "object": obj,
            "oldObject": old,
        }
        return [
            finding.message
            for policy, binding in zip(self.objects[::2], self.objects[1::2], strict=True)
            if _matches(policy["spec"]["matchConstraints"], resource, (obj, old or {}))
            for finding in findings_of(
                policy, binding, request, self._parameters(policy), self.may_do
            )
        ]

    def _parameters(self, policy: Object) -> Sequence[Object | None]:
        kind = policy["spec"].get("paramKind")
        return [None] if kind is None else self.parameters.get(kind["kind"], ())


def _matches(constraints: Object, resource: Resource, objects: tuple[Object, ...]) -> bool:
    """Whether a policy is about a kind, and about one of the objects."""
    selects = object_selector(constraints.get("objectSelector"))
    is_listed = any(
        {"*", resource.group} & set(rule["apiGroups"])
        and {"*", resource.plural} & set(rule["resources"])
        for rule in constraints["resourceRules"]
    )
    return is_listed and any(selects(obj) for obj in objects if obj)
