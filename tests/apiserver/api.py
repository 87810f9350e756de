"""A sandbox that nothing listens for, asked over ASGI: what a client sees of it, without sockets."""

from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from scripts.apiserver.sandbox import Sandbox

Object = dict[str, Any]

NAMESPACE = "home"
WIDGETS = f"/apis/example.com/v1/namespaces/{NAMESPACE}/widgets"
CONFIGMAPS = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


class Api:
    """Requests to one sandbox. Answers are (code, body)."""

    def __init__(self, sandbox: Sandbox, client: httpx.AsyncClient) -> None:
        self.sandbox = sandbox
        self._client = client

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        user: str = "admin",
        headers: dict[str, str] | None = None,
        **params: Any,
    ) -> httpx.Response:
        """One request; a body of bytes goes as it is, in pieces too, any other as JSON.

        A PATCH is a merge patch unless told.
        """
        raw = isinstance(body, (bytes, AsyncIterable))
        content = body if raw else b"" if body is None else msgspec.json.encode(body)
        sent = {"Content-Type": MERGE if method == "PATCH" else "application/json"}
        if user:
            sent["Authorization"] = f"Bearer {self.sandbox.tokens[user]}"
        return await self._client.request(
            method, path, content=content, headers=sent | (headers or {}), params=params
        )

    async def ask(self, method: str, path: str, body: Any = None, **more: Any) -> tuple[int, Any]:
        answer = await self.send(method, path, body, **more)
        return answer.status_code, answer.json()

    async def done(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """The body of an answer that is no refusal."""
        code, answer = await self.ask(method, path, body, **more)
        assert code < 300, answer
        return answer

    async def refused(
        self, method: str, path: str, body: Any = None, **more: Any
    ) -> tuple[int, str, str]:
        """(code, reason, message) of a Status that is a failure."""
        code, answer = await self.ask(method, path, body, **more)
        assert (answer["kind"], answer["status"], answer["code"]) == ("Status", "Failure", code)
        return code, answer.get("reason", ""), answer["message"]

    async def names(self, path: str, **params: Any) -> list[str]:
        return [
            item["metadata"]["name"] for item in (await self.done("GET", path, **params))["items"]
        ]


@asynccontextmanager
async def opened(folder: Path, **settings: Any) -> AsyncIterator[Api]:
    """A sandbox with the namespace `home`, the resource `widgets` and its `rules`; no garbage is
    collected in it.
    """
    sandbox = Sandbox(state_dir=folder, **settings)
    transport = httpx.ASGITransport(sandbox.app, raise_app_exceptions=True)
    try:
        await sandbox.apply([namespace(NAMESPACE), definition(), *settings.get("rules", ())])
        async with httpx.AsyncClient(transport=transport, base_url="https://sandbox") as client:
            yield Api(sandbox, client)
    finally:
        await sandbox.stop()


def namespace(name: str) -> Object:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def configmap(name: str, /, **data: str) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def widget(name: str, /, **spec: Any) -> Object:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1, **spec},
    }


SPEC: Object = {
    "type": "object",
    "required": ["size"],
    "properties": {
        "size": {"type": "integer", "minimum": 0},
        "colour": {"type": "string", "default": "grey", "enum": ["grey", "red"]},
        "note": {"type": "string"},
    },
}


def definition(
    spec: Object | None = None, *, plural: str = "widgets", kind: str = "Widget", **version: Any
) -> Object:
    """A namespaced CRD in example.com with a status subresource; `version` is added to its only
    version.
    """
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": spec or SPEC, "status": status}}
    served = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": plural, "kind": kind},
            "scope": "Namespaced",
            "versions": [served | version],
        },
    }


def bare(obj: Object) -> Object:
    """`obj` without what differs from run to run: uid, resourceVersion, creationTimestamp."""
    passed_over = ("uid", "resourceVersion", "creationTimestamp")
    return {
        **obj,
        "metadata": {
            key: value for key, value in obj["metadata"].items() if key not in passed_over
        },
    }
