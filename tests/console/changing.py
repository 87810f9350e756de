"""A console over lists in memory that a browser can open, and changes of its lists."""

import contextlib
import random
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from app.console.routes import Console
from app.kube.api import Object
from scripts.apiserver.command import default_configuration
from tests.console.fake import Lists, console, served
from tests.console.objects import objects

if TYPE_CHECKING:
    from playwright.async_api import Page


@dataclass(frozen=True)
class Shown:
    """A console that is served, and the lists that it is of."""

    url: str
    made: Console
    lists: Lists

    async def change(self, *pages: "Page") -> None:
        """Make a set that waits, and return when all pages have it in the navigation."""
        sets = self.lists.objects["podcliquesets"]
        metadata = {"name": f"new-{len(sets)}", "namespace": "inference", "resourceVersion": "2"}
        sets.append({**sets[0], "metadata": {**metadata, "uid": metadata["name"]}})
        self.lists.change("podcliquesets", sets[-1], "ADDED")
        for page in pages:
            count = page.locator("nav .count").first
            await count.filter(has_text=re.compile(rf"^{len(sets) - 2}\b")).wait_for()

    def place(self, name: str, node: str) -> None:
        """Put a pod on a node; "" takes it away."""
        self._edit("pods", name, {"spec": {"nodeName": node}})

    def change_at_random(self, choice: random.Random) -> None:
        """Make one change that decides on placement."""
        nodes = [node["metadata"]["name"] for node in self.lists.objects["nodes"]]
        pods = [pod["metadata"]["name"] for pod in self.lists.objects["pods"]]
        node = choice.choice(nodes)
        pod = choice.choice([name for name in pods if name.startswith("llm-serve")])
        what = choice.randrange(6)
        if what < 2:
            self.place(pod, choice.choice(["", node]))
        elif what == 2:
            self._edit("nodes", node, {"spec": {"unschedulable": choice.random() < 0.5}})
        elif what == 3:
            label = {"topology.kubernetes.io/rack": choice.choice(["rack-a1", "rack-z9"])}
            self._edit("nodes", node, {"metadata": {"labels": label}})
        elif what == 4:
            limit = {"gpu": {"quota": 256, "limit": choice.choice([-1, 8, 256])}}
            self._edit("queues", "team-llm", {"spec": {"resources": limit}})
        else:
            scheduler = choice.choice(["kai-scheduler", "default-scheduler"])
            self._edit("pods", pod, {"spec": {"schedulerName": scheduler}})

    def _edit(self, plural: str, name: str, edit: Object) -> None:
        items = self.lists.objects[plural]
        place = next(n for n, obj in enumerate(items) if obj["metadata"]["name"] == name)
        version = str(int(items[place]["metadata"]["resourceVersion"]) + 1)
        changed = _merged(items[place], edit)
        items[place] = _merged(changed, {"metadata": {"resourceVersion": version}})
        self.lists.change(plural, items[place])


def _merged(obj: Object, edit: Object) -> Object:
    merged: dict[str, Any] = dict(obj)
    for name, value in edit.items():
        both = isinstance(value, dict) and isinstance(obj.get(name), dict)
        merged[name] = _merged(obj[name], value) if both else value
    return merged


def many_pods(count: int) -> dict[str, list[Object]]:
    """The fleet, with so many other pods of one CPU."""
    by_plural = objects()
    resources = {"requests": {"cpu": "1m"}}
    spec = {"containers": [{"name": "main", "resources": resources}]}
    nodes = [node["metadata"]["name"] for node in by_plural["nodes"]]
    by_plural["pods"] += [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"small-{number}",
                "namespace": "batch",
                "uid": f"small-{number}",
                "resourceVersion": "1",
            },
            "spec": {**spec, "nodeName": nodes[number % len(nodes)]},
            "status": {"phase": "Running"},
        }
        for number in range(count)
    ]
    return by_plural


@contextlib.asynccontextmanager
async def shown(lists: Lists | None = None) -> AsyncIterator[Shown]:
    lists = lists or Lists(objects())
    async with (
        console(lists, configuration=default_configuration()) as (_, made),
        served(made) as url,
    ):
        yield Shown(url, made, lists)
