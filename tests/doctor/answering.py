"""A cluster in memory that answers access reviews too."""

from collections.abc import Callable

from app.kube.api import Object, Rejected
from app.objects.resource import ACCESS_REVIEW, SELF_ACCESS_REVIEW, Resource
from tests.kube.memory.client import MemoryClient

Allows = Callable[[Object], bool]
"""Of the `spec` of a review."""


class AnsweringClient(MemoryClient):
    """`allows` decides; `may_ask` is whether we may ask about others.

    `reviews` are the specs that were asked.
    """

    allows: Allows = staticmethod(lambda spec: True)
    may_ask = True

    async def create(
        self,
        resource: Resource,
        obj: Object,
        namespace: str | None = None,
    ) -> Object:
        if resource not in (ACCESS_REVIEW, SELF_ACCESS_REVIEW):
            return await super().create(resource, obj, namespace)
        if resource is ACCESS_REVIEW and not self.may_ask:
            raise Rejected("cannot create subjectaccessreviews", code=403, reason="Forbidden")
        return {**obj, "status": {"allowed": self.allows(obj["spec"])}}
