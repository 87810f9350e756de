"""Check our installed webhook configurations.

The checks report which requests are rejected while the server is down, and how the configurations
differ from the ones that this version installs. The module `certificate` checks their caBundles.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from app.base.groups import by_key
from app.base.sentences import lower_first
from app.base.value import Value
from app.config.schema import Enforcement
from app.doctor.report import Check, Checks, join_findings, ok, problem, warning
from app.objects.shape import JsonMap, Object, map_at, maps_at, text_at, texts_at
from app.objects.tokens import split_token
from app.webhooks.configurations import NAMESPACE_LABEL
from app.webhooks.paths import PATHS, PATHS_ARE_OURS, are_ours, path_of
from app.webhooks.registry import warning_paths

_UNTOLD = (
    "no token in the path, so the server cannot tell API servers from other callers: reviews may"
    " get a 503 under load, and the leader makes most writes later"
)
_NO_TOKEN = (
    f"Give the webhook configuration the annotation {PATHS_ARE_OURS}: managed, as in the manifests,"
    " so that the server writes paths with a token. See callers in /readyz?verbose."
)
_NOT_YET = (
    "The replicas write paths with a token as soon as all Pods of the server accept them, which"
    " Pods of older versions don't. If there are none, find out what prevents it: read callers in"
    " /readyz?verbose and the logs of all replicas."
)
_INSTALL = (
    "Apply the manifests or the chart of this version again, or the output of grove-admission"
    " webhooks if you installed that."
)
_UNINTENDED = (
    "If nobody chose this value (in the chart: webhooks.failurePolicy and"
    f" webhooks.namespaceSelector), {lower_first(_INSTALL)}"
)
_CHOSEN = ("failurePolicy", "namespaceSelector", "objectSelector", "timeoutSeconds")
"""The fields of a webhook that administrators change on purpose."""

_OF_AKS: Sequence[JsonMap] = (
    {"key": "control-plane", "operator": "DoesNotExist"},
    {"key": "control-plane", "operator": "NotIn", "values": ["true"]},
    {"key": "kubernetes.azure.com/managedby", "operator": "NotIn", "values": ["aks"]},
)
"""The expressions that AKS adds to each namespaceSelector, again after each change.

They exclude namespaces of AKS itself: https://github.com/Azure/AKS/issues/1771.
"""

_DEFAULTS: JsonMap = {
    "objectSelector": {},
    "namespaceSelector": {},
    "reinvocationPolicy": "Never",
}
"""The values that the API server writes if these fields of a webhook are missing."""


class Comparison(Value):
    """A webhook configuration that this version installs, and the stored one with the same name."""

    desired: JsonMap
    stored: JsonMap | None
    others: Sequence[JsonMap] = ()
    """All stored configurations of the same kind. Another one may contain our webhooks too."""


def check_webhooks(comparisons: Iterable[Comparison], *, needs_token: bool = True) -> Checks:
    """Check that the stored webhook configurations equal the ones that this version installs.

    A finding about several webhooks is reported once. `needs_token` is false if API servers show a
    client certificate instead of a token.
    """
    checks: Checks = []
    findings: list[tuple[Check, str]] = []
    for comparison in comparisons:
        desired, installed = comparison.desired, comparison.stored
        title = f"{desired['kind']} {desired['metadata']['name']}"
        if installed is None:
            checks.append(_missing(title, desired, comparison.others))
            continue
        checks += _second(desired, comparison.others)

        stored = {text_at(webhook, "name"): webhook for webhook in maps_at(installed, "webhooks")}
        ours = {webhook["name"]: webhook for webhook in desired["webhooks"]}
        lacking = [name for name in ours if name not in stored]
        if lacking:
            checks.append(problem(f"{title} lacks {', '.join(lacking)}", _INSTALL))
        left = [name for name in stored if name not in ours]
        if left:
            message = f"{title} has webhooks that this version does not serve: {', '.join(left)}"
            checks.append(warning(message, _INSTALL))

        remedy = _NOT_YET if are_ours(installed) else _NO_TOKEN
        for name in [name for name in ours if name in stored]:
            checks.append(ok(f"{name}: {while_down(stored[name])}"))
            found = _findings(stored[name], ours[name], remedy if needs_token else "")
            findings += [(check, name) for check in found]

    findings.sort(key=lambda found: found[0].status != "problem")
    by_cause = by_key(findings).items()
    return [*join_findings(checks), *(_about(names, check) for check, names in by_cause)]


def _about(names: Sequence[str], check: Check) -> Check:
    """Return `check` with the names of its webhooks in the message."""
    message = f"{names[0]}: {check.message}"
    if len(names) > 1:
        message = f"{check.message} ({len(names)} webhooks: {', '.join(names)})"
    return replace(check, message=message)


def check_enforcement(enforcement: Enforcement) -> Checks:
    """Return a warning if the configuration makes webhooks warn instead of reject, otherwise []."""
    paths = warning_paths(enforcement)
    if not paths:
        return []

    these = "this webhook only warns" if len(paths) == 1 else "these webhooks only warn"
    message = f"{these} about invalid objects, which are stored: {', '.join(paths)}"
    modes = enforcement.webhooks.model_dump(by_alias=True)
    keys = ["enforcement.mode"] if enforcement.mode == "warn" else []
    keys += [f"enforcement.webhooks.{name}" for name, mode in modes.items() if mode == "warn"]
    remedy = (
        f'At the end of the trial period, set {" and ".join(keys)} to "refuse". To list the stored'
        " objects that would be rejected, run: grove-admission audit"
    )
    return [warning(message, remedy)]


def _missing(title: str, desired: JsonMap, others: Iterable[JsonMap]) -> Check:
    """Return the problem that there is no webhook configuration `title` (kind and name).

    If any of `others` has webhooks of `desired`, name these configurations.
    """
    names = _with_ours(desired, others)
    if not names:
        return problem(f"{title} is not installed, so its webhooks are not called", _INSTALL)

    message = (
        f"{title} is not installed: its webhooks are in {', '.join(names)}, to which the server"
        " writes no caBundle"
    )
    remedy = (
        f"Set certificates.webhookConfigurations: {names[0]} in the configuration of the server, or"
        f" install the webhooks under the name {desired['metadata']['name']}."
    )

    return problem(message, remedy)


def _second(desired: JsonMap, others: Iterable[JsonMap]) -> Checks:
    """Return a problem if configurations with other names have webhooks of `desired` too."""
    names = _with_ours(desired, others)
    if not names:
        return []
    message = (
        f"{desired['kind']} {', '.join(names)} has our webhooks too. The server writes no caBundle"
        " there, so API servers may reject every write for which they call these webhooks"
    )
    remedy = (
        "If it belongs to a previous installation, delete it: kubectl delete"
        f" {desired['kind'].lower()} {' '.join(names)}"
    )
    return [problem(message, remedy)]


def _with_ours(desired: JsonMap, others: Iterable[JsonMap]) -> list[str]:
    """Return the names of the configurations other than `desired` that have webhooks of it."""
    ours = _webhook_names(desired)
    names = (other["metadata"]["name"] for other in others if ours & _webhook_names(other))
    return [name for name in names if name != desired["metadata"]["name"]]


def webhooks_in(configurations: Iterable[JsonMap]) -> list[Object]:
    """Return the webhooks of stored webhook configurations, in order."""
    return [hook for configuration in configurations for hook in maps_at(configuration, "webhooks")]


def _webhook_names(configuration: JsonMap) -> set[str]:
    return {text_at(webhook, "name") for webhook in maps_at(configuration, "webhooks")}


def _findings(stored: JsonMap, desired: JsonMap, without_token: str) -> Iterator[Check]:
    """Yield the problems of a stored webhook, without its name.

    `without_token` is the remedy for a path without a token, or "" if no token is needed.
    """
    client = map_at(stored, "clientConfig")
    token, _ = split_token(path_of(client))  # the token is never shown
    found = list(_client_differences(client, desired))
    for difference in found:
        yield problem(difference, _remedy(client, desired["clientConfig"]))
    if without_token and not token and not found:
        yield warning(_UNTOLD, without_token)
    for key, difference in differences(stored, desired).items():
        is_chosen = key in _CHOSEN and _excludes(stored, desired)
        yield warning(difference, _UNINTENDED if is_chosen else _INSTALL)


def while_down(webhook: JsonMap) -> str:
    """Return a text about the requests for which `webhook` is called while it is down."""
    rules = " and ".join(map(_rule, maps_at(webhook, "rules")))
    requests = f"requests to {rules}" if rules else "no requests"
    fate = f"are rejected{_limits(webhook)}"
    if webhook.get("failurePolicy") == "Ignore":
        fate = "continue without it"
    return f"while this webhook is down, {requests} {fate}"


def _rule(rule: JsonMap) -> str:
    """Return a webhook's rule in words, such as `CREATE, UPDATE podcliques.grove.io`."""
    resources = ", ".join(
        _full_name(group, plural)
        for group in texts_at(rule, "apiGroups")
        for plural in texts_at(rule, "resources")
    )
    return f"{', '.join(texts_at(rule, 'operations'))} {resources}"


def _full_name(group: str, plural: str) -> str:
    """Return a resource as kubectl names it, such as `podcliquesets.grove.io/scale`."""
    resource, slash, subresource = plural.partition("/")
    return f"{resource}.{group}{slash}{subresource}" if group else plural


def _limits(webhook: JsonMap) -> str:
    """Return the conditions under which API servers call the webhook, in words, or "" for none.

    The namespaceSelector is left out if all rules have the scope Cluster, where it has no effect.
    """
    excluded = ""
    conditions = []
    selector = map_at(webhook, "namespaceSelector")
    is_cluster_wide = all(rule.get("scope") == "Cluster" for rule in maps_at(webhook, "rules"))
    if selector and not is_cluster_wide:
        excluded = _excluded(selector)
        conditions += [] if excluded else [f"namespaceSelector {_text(selector)} matches"]
    if webhook.get("objectSelector"):
        conditions.append(f"objectSelector {_text(webhook['objectSelector'])} matches")
    names = [text_at(condition, "name") for condition in maps_at(webhook, "matchConditions")]
    if names:
        conditions.append(f"all matchConditions hold ({', '.join(names)})")
    if not conditions:
        return excluded
    return f"{excluded}{',' if excluded else ''} if {' and '.join(conditions)}"


def _excluded(selector: JsonMap) -> str:
    """Return `, except in ` and the namespaces that a namespaceSelector excludes by name.

    Return "" for any other selector.
    """
    expressions = maps_at(selector, "matchExpressions")
    if len(expressions) == 1 and not selector.get("matchLabels"):
        (expression,) = expressions
        if (expression.get("key"), expression.get("operator")) == (NAMESPACE_LABEL, "NotIn"):
            return f", except in {', '.join(texts_at(expression, 'values'))}"
    return ""


def differences(stored: JsonMap, desired: JsonMap) -> dict[str, str]:
    """Return the differences between the stored webhook and `desired`, as text, by field.

    `clientConfig` is not compared, and a missing field equals the default of the API server.
    """
    found = {}
    for key in sorted({*stored, *desired} - {"clientConfig", "name"}):
        default = _DEFAULTS.get(key)
        current = stored.get(key, default)
        ours = desired.get(key, default)
        if key == "namespaceSelector":
            current = _without_aks(current)
        if current != ours:
            found[key] = f"{key} is {_text(current)}; this version installs {_text(ours)}"
    return found


def _excludes(stored: JsonMap, desired: JsonMap) -> bool:
    """Return whether the stored webhook excludes all namespaces that `desired` excludes."""
    path = ("namespaceSelector", "matchExpressions")
    expressions = maps_at(stored, *path)
    return all(expression in expressions for expression in maps_at(desired, *path))


def _without_aks(selector: Any) -> Any:
    """Return a namespaceSelector without the expressions that AKS adds."""
    expressions = maps_at({"selector": selector}, "selector", "matchExpressions")
    kept = [expression for expression in expressions if expression not in _OF_AKS]
    return selector if len(kept) == len(expressions) else {**selector, "matchExpressions": kept}


def _client_differences(stored: JsonMap, desired: JsonMap) -> Iterator[str]:
    """Yield each difference between a stored clientConfig and that of `desired`, as text.

    Of a URL, only the path is compared. Tokens in paths and the caBundle are ignored.
    """
    path = PATHS[desired["name"]]
    actual = split_token(path_of(stored))[1]
    if "url" in stored:
        if not actual.endswith(path):
            yield f"clientConfig.url has the path {actual}; this version serves the path {path}"
        return

    # The server writes a path that the manifests leave out.
    service = {"port": 443, **map_at(stored, "service"), "path": actual or path}
    installed = {**desired["clientConfig"]["service"], "path": path}
    keys = [key for key in sorted({*service, *installed}) if service.get(key) != installed.get(key)]
    if keys:
        has, installs = (
            ", ".join(f"{key} {_text(fields.get(key))}" for key in keys)
            for fields in (service, installed)
        )
        yield f"clientConfig.service has {has}; this version installs {installs}"


def _remedy(stored: JsonMap, desired: JsonMap) -> str:
    """Return the remedy for a stored clientConfig that differs from `desired`."""
    namespace = text_at(map_at(stored, "service"), "namespace")
    if not namespace or namespace == text_at(map_at(desired, "service"), "namespace"):
        return _INSTALL
    return (
        f"If the server runs in namespace {namespace}, run: POD_NAMESPACE={namespace}"
        f" grove-admission doctor --config FILE. Otherwise, {lower_first(_INSTALL)}"
    )


def _text(value: Any) -> str:
    return "unset" if value is None else json.dumps(value, sort_keys=True)
