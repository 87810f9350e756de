"""The options of a request: ListOptions of a read, and those of a write, which for DELETE come in its body too."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from starlette.datastructures import QueryParams

from app.sandbox.objects import errors
from app.sandbox.objects.objects import Object, WriteOptions
from app.sandbox.objects.resources import Served
from app.sandbox.objects.selectors import combined, field_selector, label_selector
from app.sandbox.requests.reads import Query

_VALIDATIONS = ("Ignore", "Strict", "Warn")
_PROPAGATIONS = ("Background", "Foreground", "Orphan")
_MATCHES = ("Exact", "NotOlderThan")
_TRUE = ("1", "true")
_KINDS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def write_options(method: str, params: QueryParams) -> WriteOptions:
    """The options of a POST, PUT or PATCH (those of a DELETE are completed by `delete_options`). Raises 422 for a
    value that isn't known: a dry run that is misspelt must not become a write."""
    kind = _KINDS.get(method, "DeleteOptions")
    return WriteOptions(
        dry_run=_dry_run(kind, params.getlist("dryRun")),
        field_manager=params.get("fieldManager", ""),
        field_validation=_known(kind, "fieldValidation", params.get("fieldValidation", ""), _VALIDATIONS),
        propagation=_known(kind, "propagationPolicy", params.get("propagationPolicy", ""), _PROPAGATIONS),
    )


def delete_options(given: WriteOptions, body: Object) -> WriteOptions:
    """`given` by the query, with what a DeleteOptions as the request's body says. Raises 422 as above."""
    said = _known("DeleteOptions", "propagationPolicy", body.get("propagationPolicy") or "", _PROPAGATIONS)
    dry_run = _dry_run("DeleteOptions", body.get("dryRun") or [])
    return WriteOptions(dry_run=given.dry_run or dry_run, propagation=said or given.propagation)


def _dry_run(kind: str, said: Any) -> bool:
    values = [str(value) for value in said] if isinstance(said, list) else [str(said)]
    if any(value != "All" for value in values):
        shown = ", ".join(f'"{value}"' for value in values)
        raise _unsupported(kind, "dryRun", f"[]string{{{shown}}}", ("All",))
    return bool(values)


def _known(kind: str, field: str, value: str, allowed: Collection[str]) -> str:
    if value and value not in allowed:
        raise _unsupported(kind, field, f'"{value}"', sorted(allowed))
    return value


def _unsupported(kind: str, field: str, shown: str, allowed: Sequence[str]) -> errors.ApiError:
    listed = ", ".join(f'"{one}"' for one in allowed)
    message = f"Unsupported value: {shown}: supported values: {listed}"
    return errors.invalid(
        "meta.k8s.io", kind, "", [{"reason": "FieldValueNotSupported", "message": message, "field": field}]
    )


def list_query(params: Mapping[str, str], served: Served, namespace: str) -> Query:
    """What a list or watch of `served` asks for. Raises 400 and 422 for what can't be asked."""
    _check_version_match(params)
    matches = combined(
        label_selector(params.get("labelSelector", "")), field_selector(params.get("fieldSelector", ""), served.table)
    )
    return Query(
        namespace=namespace,
        matches=matches,
        resource_version=_version(params),
        exact=params.get("resourceVersionMatch") == "Exact",
        limit=_number(params, "limit"),
        continue_token=params.get("continue", ""),
        timeout=float(_number(params, "timeoutSeconds") or 1800),
        bookmarks=params.get("allowWatchBookmarks") in _TRUE,
    )


def _number(params: Mapping[str, str], name: str) -> int:
    text = params.get(name) or "0"
    if not text.isdigit():
        raise errors.bad_request(f"{name}: Invalid value: {text!r}")
    return int(text)


def _version(params: Mapping[str, str]) -> str:
    text = params.get("resourceVersion", "")
    if text and not text.isdigit():
        raise errors.bad_request(f"invalid resource version: {text!r}")
    return text


def _check_version_match(params: Mapping[str, str]) -> None:
    if params.get("sendInitialEvents") in _TRUE:
        # Streaming the initial list isn't served: clients fall back to list and watch.
        why = "sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        raise _forbidden("sendInitialEvents", why)
    match, version = params.get("resourceVersionMatch", ""), params.get("resourceVersion", "")
    _known("ListOptions", "resourceVersionMatch", match, _MATCHES)
    if match and not version:
        raise _forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided")
    if match == "Exact" and version == "0":
        why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise _forbidden("resourceVersionMatch", why)


def _forbidden(field: str, why: str) -> errors.ApiError:
    cause = {"reason": "FieldValueForbidden", "message": f"Forbidden: {why}", "field": field}
    return errors.invalid("meta.k8s.io", "ListOptions", "", [cause])
