"""Run all checks in order.

If something that a check needs cannot be read, its result is `unknown`, and the others still run.
"""

import contextlib
from collections.abc import Awaitable, Iterator
from datetime import datetime

from app import __version__
from app.base.value import Value
from app.config.schema import Configuration
from app.doctor import (
    apis,
    calls,
    certificate,
    claims,
    grove,
    kai,
    permissions,
    policies,
    rehearsal,
    replicas,
    service,
    sizes,
    topology,
    webhooks,
)
from app.doctor.apis import Read
from app.doctor.calls import Attempt
from app.doctor.certificate import Shake
from app.doctor.report import Checks, Examined, ok, switch_off, unknown
from app.doctor.service import Endpoint
from app.kube.api import (
    Client,
    ClusterError,
    Object,
    ObjectRef,
    Rejected,
    Selection,
    every,
    find,
)
from app.objects.resource import MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS
from app.webhooks.configurations import ServiceTarget, webhook_configurations

_ASK = (
    "If the message names a permission, run doctor as a user who has it. Otherwise, check that the"
    " API server is healthy."
)


class Patient(Value):
    """The cluster and the installation to examine."""

    client: Client
    """A client of the cluster, with refreshed discovery."""
    read: Read
    """A function that returns the JSON at a path of the API server, such as /version."""
    shake: Shake
    """A function that performs a TLS handshake with a replica or a webhook."""
    configuration: Configuration
    """The configuration of the server."""
    is_server: bool
    """Whether this process runs with the service account of the server."""
    now: datetime
    """The current time in UTC."""
    all_webhooks: bool = False
    """Whether to rehearse an outage of every webhook, including those of other products."""
    attempt: Attempt | None = None
    """A function that sends dry runs, or None to send none."""


async def examine(patient: Patient) -> Examined:
    """Return the results of all checks, by subject."""
    examined: Examined = {}
    for subject, pending in _subjects(patient):
        try:
            checks = await pending
        except ClusterError as error:
            checks = [unknown(f"could not be checked: {error.message}", _ASK)]
        examined.setdefault(subject, []).extend(checks)

    return examined


def _subjects(patient: Patient) -> Iterator[tuple[str, Awaitable[Checks]]]:
    """Yield each subject in order, with the coroutine that returns its checks.

    The caller must await a coroutine before it takes the next one, which may need its results. A
    subject may be yielded several times.
    """
    client = patient.client
    configuration = patient.configuration
    installed: list[Object] = []
    endpoints: list[Endpoint] = []

    yield "APIs", apis.check_apis(client, patient.read)
    yield "releases", apis.check_releases(client)
    yield "webhooks", _webhooks(patient, installed)
    yield "policies", policies.check_policies(client, configuration)
    yield "policies", policies.check_queue_guard(client, configuration)
    # Without replicas, the Service has no endpoint.
    namespace = configuration.certificates.namespace
    drain_seconds = configuration.server.drain_seconds
    yield "replicas", replicas.check_replicas(client, namespace, __version__, drain_seconds)
    yield "service", _service(patient, installed, endpoints)
    yield from _further_subjects(patient, installed, endpoints)


def _further_subjects(
    patient: Patient, installed: list[Object], endpoints: list[Endpoint]
) -> Iterator[tuple[str, Awaitable[Checks]]]:
    """Yield the subjects that follow `service`. They don't depend on each other.

    `installed` are the stored webhook configurations that the subject `webhooks` found, and
    `endpoints` the ready endpoints that the subject `service` found.
    """
    client = patient.client
    configuration = patient.configuration
    yield "certificate", _certificates(patient, installed, endpoints)
    if patient.attempt is not None:
        name = configuration.certificates.webhook_configurations
        yield "calls", calls.check_calls(client, patient.attempt, installed, name)

    yield "permissions", _permissions(patient)
    yield "permissions", policies.check_account(client)
    election = configuration.leader_election
    yield "leader", replicas.check_leader(client, election, patient.now)

    managed = configuration.cluster_topology
    yield (
        "topology",
        topology.check_topology(
            client,
            managed.name,
            enabled=managed.enabled,
            levels=configuration.levels,
        ),
    )
    yield "dialect", topology.check_dialects(client)
    yield "sizes", sizes.check_sizes(client)
    yield "claims", claims.check_claims(client, configuration)
    yield "claims", claims.check_lost_claims(client)
    yield "claims", kai.check_binder(client, patient.read)
    yield "owners", claims.check_owners(client, configuration)
    yield "queues", kai.check_queues(client)
    yield "queues", kai.check_order(client)
    yield "Grove", kai.check_staleness(client)
    yield "Grove", grove.check_grove(client, configuration)
    if patient.all_webhooks:
        yield "all webhooks", rehearsal.check_all(client, patient.shake, patient.now)
    else:
        ours = configuration.certificates.webhook_configurations
        yield "webhooks of other products", _outages(client, ours)


async def _outages(client: Client, ours: str) -> Checks:
    """Return the problems of other products' webhooks that are down.

    These webhooks are not part of the installation. So if this process may not read them, return
    one check with the status `ok`, which says so. `ours` is the name of our webhook configurations.
    """
    try:
        return await rehearsal.check_outages(client, ours)
    except Rejected as error:
        return [ok(f"webhooks of other products were not checked: {error.message}")]


async def _permissions(patient: Patient) -> Checks:
    needs = permissions.needs_of(patient.configuration)
    namespace = None if patient.is_server else patient.configuration.certificates.namespace
    return await permissions.check_permissions(patient.client, needs, namespace)


async def _webhooks(patient: Patient, installed: list[Object]) -> Checks:
    """Return the checks of our two webhook configurations. Add the stored ones to `installed`."""
    checks = webhooks.check_enforcement(patient.configuration.enforcement)
    settings = patient.configuration.certificates
    name = settings.webhook_configurations
    target = ServiceTarget(settings.namespace, settings.service_name)
    comparisons = []
    for resource, desired in zip(
        (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS),
        webhook_configurations(target, settings.namespace),
        strict=True,
    ):
        try:
            stored = await find(patient.client, ObjectRef(resource, name))
        except ClusterError as error:
            message = f"{resource.kind} {name} could not be read: {error.message}"
            checks.append(unknown(message, _ASK))
            continue
        if stored is not None:
            installed.append(stored)
        others: list[Object] = []
        with contextlib.suppress(ClusterError):
            others = await every(patient.client, Selection(resource))
        desired["metadata"]["name"] = name
        comparisons.append(webhooks.Comparison(desired, stored, others))

    needs_token = not patient.configuration.server.client_ca_file
    return [*checks, *webhooks.check_webhooks(comparisons, needs_token=needs_token)]


async def _service(patient: Patient, installed: list[Object], endpoints: list[Endpoint]) -> Checks:
    """Return the checks of our Service. Add its ready endpoints to `endpoints`."""
    settings = patient.configuration.certificates
    if installed and not service.is_called(installed):
        return [ok("API servers call the webhooks by URL, not through a Service")]
    checks, ready = await service.check_service(
        patient.client,
        settings.namespace,
        settings.service_name,
        f" {switch_off(settings.webhook_configurations)}" if installed else "",
    )
    endpoints += ready
    return checks


async def _certificates(
    patient: Patient, installed: list[Object], endpoints: list[Endpoint]
) -> Checks:
    """Return the checks of the serving certificate, or [] if no webhook is installed."""
    settings = patient.configuration.certificates
    bundles = certificate.bundles_of(installed)
    if not bundles:
        return []

    shown = await certificate.read_shown(patient.client, settings.namespace, settings.secret_name)
    checks: Checks = []
    if service.is_called(installed) or settings.mode == "self-managed":
        secret = f"{settings.namespace}/{settings.secret_name}"
        checks += certificate.check_stored(shown, secret, settings.mode, patient.now)

    for bundle in bundles:
        if bundle.target.service not in (None, (settings.namespace, settings.service_name)):
            continue  # The checks of the webhooks report that they call another Service.
        checks += await certificate.check_bundle(
            bundle,
            endpoints,
            shown,
            patient.shake,
            patient.now,
        )

    return checks
