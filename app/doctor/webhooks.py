"""The installed webhook configurations: what is refused while the server is down, and how they differ from those that
this version installs. Their caBundles are looked at elsewhere (`certificate`)."""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from app.doctor.report import Check

SUBJECT = "webhooks"
_INSTALL = "Apply the manifests of this version (or the output of `grove-admission webhooks`)."
_NAME_LABEL = "kubernetes.io/metadata.name"
_DEFAULTS: Mapping[str, Any] = {"objectSelector": {}, "namespaceSelector": {}, "reinvocationPolicy": "Never"}
"""What the API server puts if nothing was said."""

Object = Mapping[str, Any]


def check_webhooks(installed: Object | None, desired: Object, others: Iterable[Object] = ()) -> list[Check]:
    """One configuration (admissionregistration.k8s.io/v1): `installed` as it is stored, None if it isn't there.
    `others` are the stored configurations of that kind, in which the webhooks may be under another name."""
    what = f"{desired['kind']} {desired['metadata']['name']}"
    if installed is None:
        return [_missing(what, desired, others)]
    found = {one["name"]: one for one in installed.get("webhooks") or ()}
    wanted = {one["name"]: one for one in desired["webhooks"]}
    checks: list[Check] = []
    for name in wanted:
        if name in found:
            checks += _check(found[name], wanted[name])
        else:
            checks.append(Check(SUBJECT, "problem", f"{what} has no {name}", _INSTALL))
    checks += [
        Check(SUBJECT, "warning", f"{what} has {name}, which this version doesn't serve", _INSTALL)
        for name in found
        if name not in wanted
    ]
    return checks


def _missing(what: str, desired: Object, others: Iterable[Object]) -> Check:
    ours = {one["name"] for one in desired["webhooks"]}
    names = [one["metadata"]["name"] for one in others if ours & {two["name"] for two in one.get("webhooks") or ()}]
    if not names:
        return Check(SUBJECT, "problem", f"{what} is not installed: nothing is checked or injected", _INSTALL)
    message = f"{what} is not installed; its webhooks are in {', '.join(names)}, to which no caBundle is written"
    remedy = f"Set certificates.webhookConfigurations to {names[0]} in the configuration, or rename that one."
    return Check(SUBJECT, "problem", message, remedy)


def _check(found: Object, wanted: Object) -> Iterator[Check]:
    yield Check(SUBJECT, "ok", f"{found['name']}: {while_down(found)}")
    for difference in differences(found, wanted):
        yield Check(SUBJECT, "warning", f"{found['name']}: {difference}", _INSTALL)
    for difference in _client_differences(found.get("clientConfig") or {}, wanted["clientConfig"]):
        yield Check(SUBJECT, "problem", f"{found['name']}: {difference}", _INSTALL)


def while_down(webhook: Object) -> str:
    """What becomes of requests that `webhook` matches while nobody answers."""
    asked = " and ".join(_rule(rule) for rule in webhook.get("rules") or ())
    fate = "pass unchanged" if webhook.get("failurePolicy") == "Ignore" else "are refused"
    return f"while the server is down, {asked or 'no requests'} {fate}{_limits(webhook)}"


def _rule(rule: Object) -> str:
    group = (rule.get("apiGroups") or [""])[0]
    resources = ", ".join(f"{plural}.{group}" if group else plural for plural in rule.get("resources") or ())
    return f"{', '.join(rule.get('operations') or ())} of {resources}"


def _limits(webhook: Object) -> str:
    """Which of them it isn't asked about. A namespaceSelector says nothing about what has no namespace."""
    limits = ""
    cluster_wide = all(rule.get("scope") == "Cluster" for rule in webhook.get("rules") or ())
    selector = webhook.get("namespaceSelector") or {}
    if selector and not cluster_wide:
        limits += _namespaces(selector)
    if webhook.get("objectSelector"):
        limits += f", where the objectSelector {_text(webhook['objectSelector'])} matches"
    conditions = [one["name"] for one in webhook.get("matchConditions") or ()]
    return limits + (f", where its matchConditions hold ({', '.join(conditions)})" if conditions else "")


def _namespaces(selector: Object) -> str:
    expressions = selector.get("matchExpressions") or []
    if len(expressions) == 1 and not selector.get("matchLabels"):
        (one,) = expressions
        if (one.get("key"), one.get("operator")) == (_NAME_LABEL, "NotIn"):
            return f", except in {', '.join(one.get('values') or ())}"
    return f", in namespaces that {_text(selector)} selects"


def differences(found: Object, wanted: Object) -> Iterator[str]:
    """How `found` differs from `wanted`, defaults and clientConfig aside."""
    for key in sorted({*found, *wanted} - {"clientConfig", "name"}):
        default = _DEFAULTS.get(key)
        is_, should = found.get(key, default), wanted.get(key, default)
        if is_ != should:
            yield f"{key} is {_text(is_)}; this version installs {_text(should)}"


def _client_differences(found: Object, wanted: Object) -> Iterator[str]:
    path = wanted["service"]["path"]
    if "url" in found:
        if not str(found["url"]).endswith(path):
            yield f"clientConfig.url is {found['url']}; this version serves it at {path}"
        return
    service = {"port": 443, **(found.get("service") or {})}
    if service != wanted["service"]:
        yield f"clientConfig.service is {_text(service)}; this version installs {_text(wanted['service'])}"


def _text(value: Any) -> str:
    return "not there" if value is None else json.dumps(value, sort_keys=True)
