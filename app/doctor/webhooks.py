"""Check our installed webhook configurations.

The checks report which requests are rejected while the server is down, and how the configurations
differ from the ones that this version installs. The module `certificate` checks their caBundles.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

from app.config.schema import Enforcement
from app.doctor.report import Check, Checks, ok, problem, warning
from app.objects.shape import JsonMap, Object, map_at, maps_at, text_at, texts_at
from app.objects.tokens import split_token
from app.webhooks.configurations import NAMESPACE_LABEL
from app.webhooks.paths import PATHS, PATHS_ARE_OURS, are_ours, path_of
from app.webhooks.registry import warning_paths

_NO_TOKEN = (
    f"Give the webhook configuration the annotation {PATHS_ARE_OURS}: managed, as in the manifests,"
    " so that the server writes paths with a token. See callers in /readyz?verbose."
)
_NOT_YET = (
    "The replicas write paths with a token as soon as all Pods of the server accept them, which"
    " Pods of older versions don't. If there are none, find out what prevents it: read callers in"
    " /readyz?verbose and the log of deployment/grove-admission."
)
_INSTALL = "Apply the manifests of this version (or the output of grove-admission webhooks)."
_DEFAULTS: JsonMap = {
    "objectSelector": {},
    "namespaceSelector": {},
    "reinvocationPolicy": "Never",
}
"""The values that the API server writes if these fields of a webhook are missing."""


def check_webhooks(
    installed: JsonMap | None, desired: JsonMap, others: Iterable[JsonMap] = ()
) -> Checks:
    """Compare a stored webhook configuration with the one that this version installs.

    `installed` is the stored configuration with our name, or None. `others` are the other stored
    configurations of the same kind, one of which may contain our webhooks.
    """
    title = f"{desired['kind']} {desired['metadata']['name']}"
    if installed is None:
        return [_missing(title, desired, others)]

    stored = {text_at(webhook, "name"): webhook for webhook in maps_at(installed, "webhooks")}
    ours = {webhook["name"]: webhook for webhook in desired["webhooks"]}
    checks: Checks = []
    for name in ours:
        if name in stored:
            remedy = _NOT_YET if are_ours(installed) else _NO_TOKEN
            checks += _check(stored[name], ours[name], remedy)
        else:
            checks.append(problem(f"{title} lacks the webhook {name}", _INSTALL))

    checks += [
        warning(f"{title} has the webhook {name}, which this version does not serve", _INSTALL)
        for name in stored
        if name not in ours
    ]

    return checks


def check_enforcement(enforcement: Enforcement) -> Checks:
    """Return a warning if the configuration makes webhooks warn instead of reject, otherwise []."""
    paths = warning_paths(enforcement)
    if not paths:
        return []

    these = "this webhook only warns" if len(paths) == 1 else "these webhooks only warn"
    message = f"{these} about invalid objects, which are stored: {', '.join(paths)}"
    remedy = (
        "At the end of the trial period, set enforcement.mode: refuse. To list the objects that are"
        " then rejected, run: grove-admission audit"
    )
    return [warning(message, remedy)]


def _missing(title: str, desired: JsonMap, others: Iterable[JsonMap]) -> Check:
    """Return the problem of a webhook configuration that is not installed under its name.

    `title` is its kind and name. If any of `others` has webhooks of `desired`, name these
    configurations.
    """
    ours = _webhook_names(desired)
    names = [other["metadata"]["name"] for other in others if ours & _webhook_names(other)]
    if not names:
        return problem(f"{title} is not installed, so its webhooks are not called", _INSTALL)

    message = (
        f"{title} is not installed; its webhooks are in {', '.join(names)}, to which the server"
        " writes no caBundle"
    )
    remedy = (
        f"Set certificates.webhookConfigurations: {names[0]} in the configuration, or rename that"
        " webhook configuration."
    )

    return problem(message, remedy)


def webhooks_in(configurations: Iterable[JsonMap]) -> list[Object]:
    """Return the webhooks of stored webhook configurations, in order."""
    return [hook for configuration in configurations for hook in maps_at(configuration, "webhooks")]


def _webhook_names(configuration: JsonMap) -> set[str]:
    return {text_at(webhook, "name") for webhook in maps_at(configuration, "webhooks")}


def _check(stored: JsonMap, desired: JsonMap, without_token: str) -> Iterator[Check]:
    """Yield the effect of an outage of a stored webhook, and its differences from `desired`.

    `without_token` is the remedy if its path has no token.
    """
    name = desired["name"]
    yield ok(f"{name}: {while_down(stored)}")
    for difference in differences(stored, desired):
        yield warning(f"{name}: {difference}", _INSTALL)

    client = map_at(stored, "clientConfig")
    token, _ = split_token(path_of(client))  # the token is never shown
    is_as_installed = True
    for difference in _client_differences(name, client, desired["clientConfig"]):
        is_as_installed = False
        yield problem(f"{name}: {difference}", _remedy(client, desired["clientConfig"]))
    if is_as_installed and not token:
        message = (
            f"{name}: the path of this webhook has no token. Unless server.clientCaFile is set, its"
            " reviews cause almost no writes (the leader writes later), and may get a 503 under"
            " load"
        )
        yield warning(message, without_token)


def while_down(webhook: JsonMap) -> str:
    """Return what happens to requests for which `webhook` is called while the server is down."""
    requests = " and ".join(_rule(rule) for rule in maps_at(webhook, "rules"))
    fate = "pass unchanged" if webhook.get("failurePolicy") == "Ignore" else "are rejected"
    return f"while the server is down, {requests or 'no requests'} {fate}{_limits(webhook)}"


def _rule(rule: JsonMap) -> str:
    """Return a webhook's rule in words, such as `CREATE, UPDATE of podcliques.grove.io`."""
    resources = ", ".join(
        _full_name(group, plural)
        for group in texts_at(rule, "apiGroups")
        for plural in texts_at(rule, "resources")
    )
    return f"{', '.join(texts_at(rule, 'operations'))} of {resources}"


def _full_name(group: str, plural: str) -> str:
    """Return a resource as kubectl names it, such as `podcliquesets.grove.io/scale`."""
    resource, slash, subresource = plural.partition("/")
    return f"{resource}.{group}{slash}{subresource}" if group else plural


def _limits(webhook: JsonMap) -> str:
    """Return the conditions under which API servers call the webhook, in words, or "" for none.

    The namespaceSelector is left out if all rules have the scope Cluster, where it has no effect.
    """
    limits = ""
    rules = maps_at(webhook, "rules")
    cluster_wide = all(rule.get("scope") == "Cluster" for rule in rules)
    selector = map_at(webhook, "namespaceSelector")
    if selector and not cluster_wide:
        limits += _namespaces(selector)
    if webhook.get("objectSelector"):
        limits += f", and only where the objectSelector {_text(webhook['objectSelector'])} matches"
    conditions = maps_at(webhook, "matchConditions")
    names = ", ".join(text_at(condition, "name") for condition in conditions)
    return limits + (f", and only if its matchConditions hold ({names})" if conditions else "")


def _namespaces(selector: JsonMap) -> str:
    """Return a namespaceSelector in words, such as `, except in kube-system`."""
    expressions = maps_at(selector, "matchExpressions")
    if len(expressions) == 1 and not selector.get("matchLabels"):
        (expression,) = expressions
        if (expression.get("key"), expression.get("operator")) == (NAMESPACE_LABEL, "NotIn"):
            return f", except in {', '.join(texts_at(expression, 'values'))}"
    return f", in namespaces that {_text(selector)} selects"


def differences(stored: JsonMap, desired: JsonMap) -> Iterator[str]:
    """Yield how the stored webhook differs from `desired`.

    `clientConfig` is not compared, and a missing field equals the default of the API server.
    """
    for key in sorted({*stored, *desired} - {"clientConfig", "name"}):
        default = _DEFAULTS.get(key)
        current = stored.get(key, default)
        ours = desired.get(key, default)
        if current != ours:
            yield f"{key} is {_text(current)}; this version installs {_text(ours)}"


def _client_differences(name: str, stored: JsonMap, desired: JsonMap) -> Iterator[str]:
    """Yield how a stored clientConfig differs from `desired`, the one that we install.

    Of a URL, only the path is compared. Tokens in paths and the caBundle are ignored.
    """
    path = PATHS[name]
    actual = split_token(path_of(stored))[1]
    if "url" in stored:
        if not actual.endswith(path):
            yield f"clientConfig.url has the path {actual}; this version serves the path {path}"
        return

    # The server writes a path that the manifests leave out.
    actual = actual or path
    service = {"port": 443, **map_at(stored, "service"), "path": actual}
    installed = {**desired["service"], "path": path}
    if service != installed:
        yield (
            f"clientConfig.service is {_text(service)}; this version installs {_text(installed)}"
        )


def _remedy(stored: JsonMap, desired: JsonMap) -> str:
    """Return the remedy for a stored clientConfig that differs from `desired`."""
    namespace = text_at(map_at(stored, "service"), "namespace")
    if not namespace or namespace == text_at(map_at(desired, "service"), "namespace"):
        return _INSTALL
    return (
        f"If the server runs in namespace {namespace}, run doctor with the variable"
        f" POD_NAMESPACE={namespace}. Otherwise, apply the manifests of this version (or the output"
        " of grove-admission webhooks)."
    )


def _text(value: Any) -> str:
    return "unset" if value is None else json.dumps(value, sort_keys=True)
