"""The doctor as a command, as tests run it."""

import asyncio
import json
import sys
from pathlib import Path
from typing import NamedTuple

from app.commands.beside import ApiServer

ROOT = Path(__file__).parents[2]


class Finding(NamedTuple):
    """A check that is not ok."""

    subject: str
    status: str
    message: str
    remedy: str


class Doctor:
    """Runs `grove-admission doctor` with the configuration file `configuration`."""

    def __init__(self, api: ApiServer, configuration: Path) -> None:
        self._options = ("--kubeconfig", str(api.kubeconfig), "--config", str(configuration))

    async def run(self, *options: str) -> tuple[int, str]:
        """The exit code and what is printed."""
        command = [sys.executable, "-m", "app", "doctor", *self._options, *options]
        process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
        out, _ = await process.communicate()
        return process.returncode or 0, out.decode()

    async def findings_with_remedies(self, context: str) -> tuple[int, list[Finding]]:
        """The exit code and all checks that are not ok."""
        code, out = await self.run("--context", context, "--output", "json")
        findings = [Finding(**check) for check in json.loads(out)["checks"]]
        return code, [finding for finding in findings if finding.status != "ok"]

    async def findings(self, context: str = "admin") -> tuple[int, list[tuple[str, str, str]]]:
        """The exit code, and (subject, status, message) of what is not ok, without the Service: it has one endpoint."""
        code, findings = await self.findings_with_remedies(context)
        return code, [finding[:3] for finding in findings if finding.subject != "service"]
