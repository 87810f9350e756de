"""Check that Grove's operator fits this installation.

The checks cover its authorizer, its topology feature, and its permission to write the managed
ClusterTopology.

Grove's chart keeps the operator's configuration in a ConfigMap with the label
`app.kubernetes.io/component: operator-configmap`:
https://github.com/ai-dynamo/grove/blob/fcc3b3bb/operator/charts/templates/configmap-operator.yaml

Anybody may create a ConfigMap with this label in their own namespace. So only ConfigMaps in the
namespaces of the Services that Grove's webhook configurations name are read. Webhook configurations
are cluster-scoped, and only administrators can write them.
"""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from app.base.value import Value
from app.cluster.view import dialect_of
from app.config.schema import Configuration, own_account
from app.doctor.report import Check, Checks, ok, problem, unknown, warning
from app.doctor.webhooks import webhooks_in
from app.dry_run.documents import read_documents
from app.facts.kinds import CLUSTER_TOPOLOGY
from app.kube.api import Client, ClusterError, Object, ObjectRef, Selection, every, find
from app.objects.resource import CONFIG_MAP, DEPLOYMENT, VALIDATING_WEBHOOKS
from app.objects.shape import JsonMap, map_at, maps_of, text_at, texts_at

_WEBHOOKS = ".webhooks.grove.io"
"""The suffix of the names of Grove's webhooks."""

AUTHORIZER = f"authorizer{_WEBHOOKS}"
OPERATOR = "grove-operator"
_CONFIG_MAPS = "app.kubernetes.io/component=operator-configmap,app.kubernetes.io/part-of=grove"
_TOPOLOGY = "grove-topology"
"""The name of the ClusterTopology that Grove's operator reads. It cannot be configured."""
_UPGRADE = "in the values of Grove's chart, and upgrade the release"


class Operator(Value):
    """Grove's operator, as its ConfigMap and its Deployment describe it."""

    settings: JsonMap
    """The operator's configuration: the content of its ConfigMap."""
    account: str
    """The user name of its service account."""

    def section(self, name: str) -> JsonMap:
        """Return the map at a top-level key of the configuration, or {} if there is none."""
        return map_at(self.settings, name)


async def check_grove(client: Client, configuration: Configuration) -> Checks:
    """Check Grove's authorizer, its topology feature, and its permission to write the topology.

    If Grove's settings cannot be read, a check names the settings to check by hand. Only an
    operator of the dialect `design` writes the managed ClusterTopology: it creates or deletes this
    object at startup.
    """
    writes_topology = dialect_of(client).resource is CLUSTER_TOPOLOGY
    users = _users(None, configuration) if writes_topology else []
    try:
        webhooks = webhooks_in(await every(client, Selection(VALIDATING_WEBHOOKS)))
    except ClusterError as error:
        return [_unknown("webhooks", error, configuration), *users]
    authorizer = next((hook for hook in webhooks if hook.get("name") == AUTHORIZER), None)

    try:
        operator = await _read_operator(client, _namespaces(webhooks))
    except ClusterError as error:
        return [
            _unknown("configuration", error, configuration),
            _authorizer(authorizer, None, configuration),
            *users,
        ]

    if operator is None and authorizer is None:
        message = (
            "no configuration of Grove's operator was found. If the operator runs,"
            f" {_what_to_check(configuration)}"
        )
        return [ok(message), *users]

    if writes_topology:
        users = _users(operator, configuration)
    return [
        _authorizer(authorizer, operator, configuration),
        *_topology(operator, configuration, writes_topology=writes_topology),
        *(await _deleted_topology(client, operator, configuration) if writes_topology else []),
        *users,
    ]


def _unknown(part: str, error: ClusterError, configuration: Configuration) -> Check:
    message = f"Grove's {part} could not be read: {error.message}"
    remedy = "Run doctor as a user who may list ValidatingWebhookConfigurations and ConfigMaps."
    return unknown(message, f"{remedy} If Grove's operator runs, {_what_to_check(configuration)}.")


def _namespaces(webhooks: Iterable[Object]) -> list[str]:
    """Return the namespaces of the Services that Grove's webhooks call."""
    grove = [hook for hook in webhooks if text_at(hook, "name").endswith(_WEBHOOKS)]
    named = {text_at(map_at(hook, "clientConfig", "service"), "namespace") for hook in grove}
    return sorted(named - {""})


async def _read_operator(client: Client, namespaces: Iterable[str]) -> Operator | None:
    """Return the operator with its newest readable configuration, or None if no ConfigMap has one.

    Grove's chart creates a new ConfigMap for each configuration.
    """
    stored = [
        config_map
        for namespace in namespaces
        for config_map in await every(client, Selection(CONFIG_MAP, namespace, labels=_CONFIG_MAPS))
    ]
    for config_map in sorted(
        stored, key=lambda obj: str(obj["metadata"].get("creationTimestamp")), reverse=True
    ):
        settings = _settings(map_at(config_map, "data").get("config.yaml"))
        if settings is not None:
            return Operator(settings, await _account(client, config_map["metadata"]["namespace"]))
    return None


async def _account(client: Client, namespace: str) -> str:
    """Return the user name of the operator's account, or the chart's default if it is not known.

    The account is read from the Deployment, not from the ConfigMap. Otherwise, anybody who may
    create a ConfigMap in the namespace could choose the account that a remedy recommends.
    """
    name = ""
    with contextlib.suppress(ClusterError):
        deployment = await find(client, ObjectRef(DEPLOYMENT, OPERATOR, namespace))
        name = text_at(map_at(deployment or {}, "spec", "template", "spec"), "serviceAccountName")
    return f"system:serviceaccount:{namespace}:{name or OPERATOR}"


def _settings(text: Any) -> JsonMap | None:
    try:
        (settings,) = read_documents(text if isinstance(text, str) else "")
    except ValueError:  # it can't be read, or has several documents
        return None
    return settings if settings.get("kind") == "OperatorConfiguration" else None


def _what_to_check(configuration: Configuration) -> str:
    """Return a clause that says which settings of Grove to check by hand.

    The topology feature is left out if our topology support is disabled: Grove may then use its
    feature with its own ClusterTopologyBindings.
    """
    account = own_account(configuration.certificates.namespace)
    exempt = (
        "if its authorizer.enabled is true, its authorizer.exemptServiceAccountUserNames must"
        f" contain {account}"
    )
    if not configuration.cluster_topology.enabled:
        return exempt
    return f"its topologyAwareScheduling.enabled must be true, and {exempt}"


def _authorizer(
    webhook: Object | None, operator: Operator | None, configuration: Configuration
) -> Check:
    """Check that Grove's authorizer lets our leader change PodGangs and PodCliques.

    `webhook` is the authorizer's webhook, or None if the authorizer is off.
    """
    account = own_account(configuration.certificates.namespace)
    if webhook is None:
        return ok("Grove's authorizer is off")

    remedy = f"Add {account} to config.authorizer.exemptServiceAccountUserNames {_UPGRADE}."
    denied = "it denies our leader's writes to PodGangs and PodCliques"
    settings = operator.section("authorizer") if operator else {}
    if not operator or not settings:
        message = (
            f"Grove's authorizer ({AUTHORIZER}) is on, and its configuration is not known. Unless"
            f" {account} is exempt, "
        )
        return warning(message + denied, remedy)

    if account in texts_at(settings, "exemptServiceAccountUserNames"):
        return ok(f"Grove's authorizer is on, and {account} is exempt")

    message = (
        f"Grove's authorizer ({AUTHORIZER}) is on without an exemption for {account}: {denied}"
    )

    return problem(message, remedy)


def _topology(
    operator: Operator | None, configuration: Configuration, *, writes_topology: bool
) -> Checks:
    """Check that Grove's topology feature is on, and that its levels equal ours.

    Levels are not compared with newer releases of Grove, whose operator has none in its
    configuration. Return [] if the operator is not known, or if our topology support is disabled.
    """
    if not operator or not configuration.cluster_topology.enabled:
        return []

    settings = operator.section("topologyAwareScheduling")
    if settings.get("enabled") is not True:
        deletes = ""
        if writes_topology:
            deletes = "its operator deletes the managed ClusterTopology at each start, and "
        rejects = "its webhook rejects PodCliqueSets with topology constraints"
        return [
            problem(
                f"Grove's topology feature is off: {deletes}{rejects}",
                f"Set config.topologyAwareScheduling.enabled: true {_UPGRADE}.",
            )
        ]

    theirs = settings.get("levels")
    if isinstance(theirs, list):
        ours = {level.domain: level.key for level in configuration.levels}
        levels = {text_at(level, "domain"): text_at(level, "key") for level in maps_of(theirs)}
        if levels != ours:
            message = (
                f"Grove's topology levels are {_listed(levels)}, but clusterTopology.levels of"
                f" grove-admission are {_listed(ours)}"
            )
            remedy = (
                f"Set the same levels as config.topologyAwareScheduling.levels {_UPGRADE}, or"
                " change clusterTopology.levels in the configuration of grove-admission."
            )
            return [problem(message, remedy)]

    return [ok("Grove's topology feature is on")]


async def _deleted_topology(
    client: Client, operator: Operator | None, configuration: Configuration
) -> Checks:
    """Check that our leader does not delete the ClusterTopology that Grove's operator needs.

    Return [] if the ClusterTopology exists: doctor may not know the server's configuration.
    """
    ours = configuration.cluster_topology
    if not operator or ours.enabled or ours.name != _TOPOLOGY:
        return []
    if operator.section("topologyAwareScheduling").get("enabled") is not True:
        return []
    with contextlib.suppress(ClusterError):
        if await find(client, ObjectRef(CLUSTER_TOPOLOGY, _TOPOLOGY)) is None:
            message = (
                "Grove's topology feature is on, but clusterTopology.enabled of grove-admission is"
                f" false: our leader deletes the ClusterTopology {_TOPOLOGY}, and without it"
                " Grove's operator creates no PodGangs"
            )
            remedy = (
                "Set clusterTopology.enabled: true and Grove's levels in the configuration of"
                " grove-admission, or set config.topologyAwareScheduling.enabled: false"
                f" {_UPGRADE}."
            )
            return [problem(message, remedy)]
    return []


def _listed(levels: Mapping[Any, Any]) -> str:
    return ", ".join(f"{domain}={key}" for domain, key in levels.items()) or "none"


def _users(operator: Operator | None, configuration: Configuration) -> Checks:
    """Check that Grove's operator may write the managed ClusterTopology.

    The operator exits if its write is denied at startup. If `operator` is None, any account with
    the operator's default name is enough.
    """
    users = configuration.authorization.authorized_users
    where = ""
    if not operator:
        if any(user.endswith(f":{OPERATOR}") for user in users):
            return []
        account = f"system:serviceaccount:NAMESPACE:{OPERATOR}"
        where = " For NAMESPACE, write the namespace of Grove's operator."
    else:
        account = operator.account
        if account in users:
            return [ok(f"{account} may write the managed ClusterTopology")]

    message = (
        f"authorization.authorizedUsers lacks {account}: Grove's operator exits if it may not write"
        " the managed ClusterTopology at start"
    )
    remedy = (
        "Add this account to authorization.authorizedUsers in the configuration of grove-admission,"
        f" and restart the replicas.{where}"
    )

    return [problem(message, remedy)]
