"""The kubectl commands of explain's remedies, carried out: as requests of our own client, so that
tests need no kubectl, or by kubectl itself.
"""

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any, Protocol

from app.kube.api import NotFound, Object, ObjectRef, Selection
from app.kube.client import HttpClient
from tests.explain.commands import Command, Refused, parsed


class Kubectl(Protocol):
    """Carries out a command. A Refused if it ends with an error."""

    async def run(self, text: str) -> None: ...


class ByRequests:
    """Sends the requests that kubectl would send."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    async def run(self, text: str) -> None:
        command = parsed(text)
        if not command.names:
            await self._client.list(Selection(command.resource, command.namespace))
        for ref in command.refs:
            try:
                stored = await self._client.get(ref)
            except NotFound as error:
                raise Refused(str(error)) from None
            if command.writes:
                await self._write(command, ref, stored)

    async def _write(self, command: Command, ref: ObjectRef, stored: Object) -> None:
        match command.verb:
            case "delete":
                await self._client.delete(ref)
            case "cordon":
                await self._client.patch(ref, {"spec": {"unschedulable": True}})
            case "uncordon":
                await self._client.patch(ref, {"spec": {"unschedulable": None}})
            case "taint":
                await self._client.patch(ref, {"spec": {"taints": _untainted(command, stored)}})
            case "patch":
                if command.options.get("--type") != "merge":
                    raise Refused("only a merge patch works for every kind")
                body = json.loads(command.options["-p"])
                subresource = command.options.get("--subresource", "")
                await self._client.patch(ref, body, subresource=subresource)
            case verb:
                what = "labels" if verb == "label" else "annotations"
                values = _changed(command, stored["metadata"].get(what) or {})
                await self._client.patch(ref, {"metadata": {what: values}})


def _changed(command: Command, present: Object) -> dict[str, str | None]:
    """The labels or annotations to write. kubectl changes a value only with --overwrite."""
    values: dict[str, str | None] = {}
    for change in command.changes:
        key, equals, value = change.partition("=")
        if not equals:
            values[key.removesuffix("-")] = None
            continue
        if present.get(key, value) != value and "--overwrite" not in command.options:
            raise Refused(f"'{key}' already has a value ({present[key]}), and --overwrite is false")
        values[key] = value
    return values


def _untainted(command: Command, stored: Object) -> list[dict[str, Any]]:
    taints = list(stored["spec"].get("taints") or ())
    for change in command.changes:
        key, _, effect = change.removesuffix("-").partition(":")
        left = [each for each in taints if (each["key"], each["effect"]) != (key, effect)]
        if left == taints:
            raise Refused(f"taint {change!r} not found")
        taints = left
    return taints


class ByProgram:
    """Runs kubectl itself."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    async def run(self, text: str) -> None:
        program, *words = shlex.split(text)
        if words[0] == "logs":  # the sandbox has no kubelets
            command = parsed(text)
            words = ["get", "pod", "-n", str(command.namespace), *command.names]
        process = await asyncio.create_subprocess_exec(
            *(program, "--kubeconfig", str(self._kubeconfig), "--context", "admin", *words),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        _, errors = await process.communicate()
        if process.returncode:
            raise Refused(errors.decode().strip())
