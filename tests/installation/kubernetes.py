"""Plain requests to an API server, by path."""

import asyncio
import ssl
from typing import Any

import httpx
import yaml

from scripts.apiserver.admission_server import ApiServer
from scripts.apiserver.sandbox import Sandbox

Object = dict[str, Any]
TYPES = {
    "POST": "application/json",
    "PUT": "application/json",
    "PATCH": "application/merge-patch+json",
}


class Kubernetes:
    """One user of the kubeconfig of `api`. A sandbox is asked in-process."""

    def __init__(self, api: ApiServer, context: str) -> None:
        content = yaml.safe_load(api.kubeconfig.read_text())
        (token,) = [user["user"]["token"] for user in content["users"] if user["name"] == context]
        transport = httpx.ASGITransport(api.app) if isinstance(api, Sandbox) else None
        self._client = httpx.AsyncClient(
            base_url=content["clusters"][0]["cluster"]["server"],
            verify=ssl.create_default_context(cafile=str(api.ca_file)),
            headers={"Authorization": f"Bearer {token}"},
            timeout=120,
            transport=transport,
        )

    async def close(self) -> None:
        await self._client.aclose()

    async def ask(self, method: str, path: str, body: Object | None = None) -> tuple[int, Object]:
        """The status code and the body of the answer.

        A PATCH is a merge patch. Asks again as long as the API server says that it isn't able to
        answer yet (429): for a moment after a CRD was made, for example.
        """
        headers = {"Content-Type": TYPES[method]} if method in TYPES else {}
        while True:
            answer = await self._client.request(method, path, json=body, headers=headers)
            if answer.status_code != 429:
                return answer.status_code, answer.json()
            await asyncio.sleep(0.1)

    async def find(self, path: str) -> Object | None:
        """The object at a path, None if there is none."""
        code, body = await self.ask("GET", path)
        if code == 404:
            return None
        assert code == 200, body
        return body

    async def get(self, path: str) -> Object:
        obj = await self.find(path)
        assert obj is not None, f"nothing at {path}"
        return obj

    async def write(self, method: str, path: str, body: Object) -> Object:
        """The answer to a request that has to succeed."""
        code, answer = await self.ask(method, path, body)
        assert code < 300, (method, path, answer)
        return answer

    async def delete(self, path: str) -> None:
        """Deletes at once, whatever the grace period; it may be gone already."""
        code, answer = await self.ask("DELETE", f"{path}?gracePeriodSeconds=0")
        assert code in (200, 202, 404), answer
