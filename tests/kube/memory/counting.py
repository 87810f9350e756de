"""A cluster in memory that counts how many of the objects it has listed are still kept."""

from typing import Any
from weakref import ReferenceType, ref

from msgspec.structs import replace

from app.kube.api import Page, Selection
from tests.kube.memory.client import MemoryClient


class _Listed(dict[str, Any]):
    """An object of a list, to which weak references are possible."""


class CountingClient(MemoryClient):
    """A client whose lists have pages of 20 objects.

    `most_kept` is the largest number of listed objects that existed when another page was read.
    """

    most_kept = 0

    async def list(
        self, selection: Selection, *, limit: int = 500, continue_token: str = ""
    ) -> Page:
        page = await super().list(selection, limit=20, continue_token=continue_token)
        items = [_Listed(item) for item in page.items]
        listed: list[ReferenceType[_Listed]] = vars(self).setdefault("_listed", [])
        listed += map(ref, items)
        self.most_kept = max(self.most_kept, sum(each() is not None for each in listed))
        return replace(page, items=items)
