"""The objects of a resource, page by page, for readers that do not cache them."""

from collections.abc import AsyncGenerator

from app.kube.api import Gone, Object, Page, Reader, Selection
from app.objects.shape import key_of

PAGE = 500


class _Position:
    """The position in a list.

    The objects of a namespace are in the order of their names. The order of the namespaces does not
    matter.
    """

    def __init__(self) -> None:
        self._finished: set[str] = set()
        self._namespace: str | None = None
        self._name = ""

    def is_past(self, obj: Object) -> bool:
        namespace, name = key_of(obj)
        return namespace in self._finished or (namespace == self._namespace and name <= self._name)

    def advance(self, obj: Object) -> None:
        namespace, name = key_of(obj)
        if self._namespace is not None and namespace != self._namespace:
            self._finished.add(self._namespace)
        self._namespace = namespace
        self._name = name


async def pages(
    client: Reader,
    selection: Selection,
    *,
    limit: int = PAGE,
) -> AsyncGenerator[Page, None]:
    """Yield each object once, in pages of at most `limit`.

    A page is emptied before the next one is read: it takes far more memory than what is kept of it.

    A list expires after some minutes (Gone). It is then started again, without the objects that
    were returned before. Raise Gone if this happens again without progress, and any other
    ClusterError.
    """
    position = _Position()
    token = ""
    expired = False
    while True:
        try:
            page = await client.list(selection, limit=limit, continue_token=token)
        except Gone:
            if expired or not token:
                raise
            token = ""
            expired = True
            continue
        page.items[:] = [obj for obj in page.items if not position.is_past(obj)]
        if page.items:
            for obj in page.items:
                position.advance(obj)
            expired = False
            yield page
            page.items.clear()
        token = page.continue_token
        if not token:
            return
