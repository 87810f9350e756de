"""The doctor as tests run it: the command, or the same examination in this process."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from app.cluster.command_clients import looking_client
from app.config.read import read_configuration
from app.doctor.certificate import Handshake, handshake
from app.doctor.examination import Patient, examine
from app.doctor.report import document
from app.facts.kinds import ALL
from scripts.apiserver.admission_server import ApiServer
from tests.integration.system import command


class Finding(NamedTuple):
    """A check that is not ok."""

    subject: str
    status: str
    message: str
    remedy: str


class Doctor:
    """Runs `grove-admission doctor` with the configuration file `configuration`."""

    def __init__(self, api: ApiServer, configuration: Path) -> None:
        self._api = api
        self._configuration = configuration

    async def run(self, *options: str) -> tuple[int, str]:
        """The exit code and what is printed."""
        common = ("--kubeconfig", str(self._api.kubeconfig), "--config", str(self._configuration))
        code, out, _ = await command("doctor", *common, *options)
        return code, out

    async def findings(self, context: str = "admin") -> tuple[int, list[tuple[str, str, str]]]:
        """The exit code, and (subject, status, message) of what is not ok, without the Service: it
        has one endpoint.
        """
        code, out = await self.run("--context", context, "--output", "json")
        return code, [
            finding[:3] for finding in _not_ok(json.loads(out)) if finding.subject != "service"
        ]

    async def examination(self) -> list[Finding]:
        """What is not ok, with the rights of an administrator, without the second that a process
        takes to start.
        """
        configuration = read_configuration(self._configuration.read_text(), "test")
        async with looking_client(ALL, self._api.kubeconfig, "admin") as client:
            await client.discovery.refresh()
            patient = Patient(
                client,
                client.read,
                _shake,
                configuration,
                False,
                datetime.now(UTC),
                attempt=client.try_create,
            )
            return _not_ok(document(await examine(patient)))


async def _shake(host: str, port: int, name: str, ca_bundle: bytes) -> Handshake:
    return await handshake(host, port, name, ca_bundle, 3.0)


def _not_ok(report: dict[str, Any]) -> list[Finding]:
    return [Finding(**check) for check in report["checks"] if check["status"] != "ok"]
