"""Every object of a resource, page by page, for readers that don't keep them."""

from collections.abc import AsyncGenerator

from app.kube.api import Gone, Object, Page, Reader
from app.objects.resource import Resource

PAGE = 500


class _Position:
    """How far a list has been read. API servers give the objects of a namespace one after the other, by name; the
    order of namespaces themselves is not relied on."""

    def __init__(self) -> None:
        self._finished: set[str] = set()
        self._namespace: str | None = None
        self._name = ""

    def is_past(self, obj: Object) -> bool:
        namespace, name = _place(obj)
        return namespace in self._finished or (namespace == self._namespace and name <= self._name)

    def advance(self, obj: Object) -> None:
        namespace, name = _place(obj)
        if self._namespace is not None and namespace != self._namespace:
            self._finished.add(self._namespace)
        self._namespace, self._name = namespace, name


async def pages(
    client: Reader,
    resource: Resource,
    namespace: str | None = None,
    *,
    limit: int = PAGE,
    label_selector: str = "",
    field_selector: str = "",
) -> AsyncGenerator[Page, None]:
    """Each object once, in pages of at most `limit`. An API server keeps a list under way for some minutes only; one
    that has lapsed (Gone) is begun again, and what was given already is passed over. Gone if that leads nowhere;
    other ClusterErrors as they come."""
    position, token, lapsed = _Position(), "", False
    while True:
        try:
            page = await client.list(
                resource,
                namespace,
                limit=limit,
                continue_token=token,
                label_selector=label_selector,
                field_selector=field_selector,
            )
        except Gone:
            if lapsed or not token:
                raise
            token, lapsed = "", True
            continue
        fresh = [obj for obj in page.items if not position.is_past(obj)]
        if fresh:
            for obj in fresh:
                position.advance(obj)
            lapsed = False
            yield Page(fresh, page.resource_version, page.continue_token, page.remaining)
        token = page.continue_token
        if not token:
            return


def _place(obj: Object) -> tuple[str, str]:
    metadata = obj["metadata"]
    return metadata.get("namespace") or "", metadata["name"]
