"""All that a doctor looks at: what can't be looked at is said, and the rest goes on.

Tests `app/doctor/report.py` and `app/doctor/replicas.py`.
"""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from app.config.schema import Configuration
from app.doctor.certificate import Handshake
from app.doctor.examination import Patient, examine
from app.doctor.report import Check, Examined, exit_code, lines, summary
from app.facts.kinds import CLUSTER_TOPOLOGY
from app.kube.api import NotFound, Object, Rejected, Unavailable
from app.objects.resource import ACCESS_REVIEW, ENDPOINT_SLICE, MUTATING_WEBHOOKS, SERVICE, Resource
from app.webhooks.configurations import ServiceTarget, webhook_configurations
from tests.doctor.answering import AnsweringClient

SUBJECTS = ["APIs", "webhooks", "policies", "service", "certificate", "calls", "permissions"]
SUBJECTS += ["leader"]
REFUSED = Rejected("not yours to read", code=403, reason="Forbidden")
SILENT = Unavailable("the API server does not answer")


async def read(path: str) -> Object:
    raise NotFound(f"{path} not found", code=404, reason="NotFound")


async def shake(host: str, port: int, name: str, ca_bundle: bytes) -> Handshake:
    return Handshake("unreachable", "not here")


def installed() -> AnsweringClient:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "grove-admission", "namespace": "grove-system"},
        "spec": {"ports": [{"name": "https", "port": 443}]},
    }
    return AnsweringClient([*webhook_configurations(ServiceTarget()), service])


async def attempt(resource: Resource, obj: Object) -> None:
    """Accept every object in a dry run."""


async def examined(client: AnsweringClient) -> Examined:
    now = datetime(2026, 6, 1, tzinfo=UTC)
    return await examine(Patient(client, read, shake, Configuration(), True, now, attempt=attempt))


async def test_everything_is_looked_at_in_order() -> None:
    checks = await examined(installed())
    assert list(filter(checks.get, checks)) == [
        *SUBJECTS,
        "topology",
        "dialect",
        "sizes",
        "claims",
        "owners",
        "queues",
        "Grove",
    ]
    assert exit_code(checks) == 1  # nobody has written the caBundles


README = Path(__file__).parents[2] / "app" / "doctor" / "README.md"


async def test_the_readme_has_a_row_for_each_subject() -> None:
    rows = [
        line.split("`")[1] for line in README.read_text().splitlines() if line.startswith("- `")
    ]
    examination = await examined(installed())
    subjects = list(filter(examination.get, examination))
    not_here = ("configuration", "releases", "replicas", "webhooks of other products")
    assert [subject for subject in rows if subject not in not_here] == subjects


@pytest.mark.parametrize(
    ("verb", "resource", "error", "subject", "said"),
    [
        pytest.param(
            "get",
            MUTATING_WEBHOOKS,
            REFUSED,
            "webhooks",
            "MutatingWebhookConfiguration grove-admission could not be read: not yours to read",
            id="a configuration",
        ),
        pytest.param(
            "get",
            SERVICE,
            REFUSED,
            "service",
            "could not be checked: not yours to read",
            id="the Service",
        ),
        pytest.param(
            "list",
            ENDPOINT_SLICE,
            REFUSED,
            "service",
            "could not be checked: not yours to read",
            id="its endpoints",
        ),
        pytest.param(
            "get",
            CLUSTER_TOPOLOGY,
            SILENT,
            "topology",
            "could not be checked: the API server does not answer",
            id="the ClusterTopology",
        ),
    ],
)
async def test_what_cannot_be_read_is_unknown_and_the_rest_goes_on(
    verb: str, resource: Resource, error: Exception, subject: str, said: str
) -> None:
    client = installed()
    client.fail_next(verb, resource, error)  # type: ignore[arg-type]
    checks = await examined(client)
    unknown = [
        (name, check.message)
        for name, found in checks.items()
        for check in found
        if check.status == "unknown"
    ]
    assert unknown == [(subject, said)]
    assert [name for name in SUBJECTS if not checks[name]] == []
    assert exit_code(checks) == 2


async def test_nothing_is_written() -> None:
    client = installed()
    await examined(client)
    assert [call for call in client.writes() if call.resource != ACCESS_REVIEW] == []


def test_the_verdict_is_first_and_what_is_ok_is_not_listed() -> None:
    fine = Check("ok", "fine")
    broken = Check("problem", "broken", "Mend it.")
    checks = {"a": [fine, broken], "b": [Check("unknown", "dark")]}
    verdict = "not everything could be checked: 1 problem, 1 unknown, 1 ok"
    problem = ["  problem  broken", "           remedy: Mend it.", "b", "  unknown  dark"]
    assert list(lines(checks)) == [verdict, "a", *problem]
    assert list(lines(checks, everything=True)) == [verdict, "a", "  ok       fine", *problem]
    assert list(lines({"a": [fine]})) == ["the installation has no problems: 1 ok"]
    assert next(lines({"a": [broken] * 2})) == "the installation has problems: 2 problems"
    assert summary(checks) == {"ok": 1, "warning": 0, "problem": 1, "unknown": 1}


@pytest.mark.parametrize(
    ("statuses", "code"),
    [(["ok"], 0), (["ok", "warning"], 0), (["warning", "problem"], 1), (["problem", "unknown"], 2)],
)
def test_the_exit_code_is_that_of_the_worst(statuses: list[str], code: int) -> None:
    assert exit_code({"a": [Check(status, "x") for status in statuses]}) == code  # type: ignore[arg-type]
