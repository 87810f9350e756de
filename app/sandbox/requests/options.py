"""The options of a request: ListOptions of a read, and the options of a write. A DELETE may have them in its body."""

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
_TRUE = ("1", "true")
_KINDS = {"POST": "CreateOptions", "PUT": "UpdateOptions", "PATCH": "PatchOptions"}


def write_options(method: str, params: QueryParams) -> WriteOptions:
    """The options in the query of a write; `delete_options` adds those in the body of a DELETE. Raises 422 for an
    unknown value: a misspelt dry run must not become a write."""
    kind = _KINDS.get(method, "DeleteOptions")
    return WriteOptions(
        dry_run=_dry_run(kind, params.getlist("dryRun")),
        field_manager=params.get("fieldManager", ""),
        field_validation=_known(kind, "fieldValidation", params.get("fieldValidation", ""), _VALIDATIONS),
        propagation=_known(kind, "propagationPolicy", params.get("propagationPolicy", ""), _PROPAGATIONS),
    )


def delete_options(query: WriteOptions, body: Object) -> WriteOptions:
    """The options in the `query`, and those of the DeleteOptions in the `body`. Raises 422 for an unknown value."""
    propagation = _known("DeleteOptions", "propagationPolicy", body.get("propagationPolicy") or "", _PROPAGATIONS)
    dry_run = _dry_run("DeleteOptions", body.get("dryRun") or [])
    return WriteOptions(dry_run=query.dry_run or dry_run, propagation=propagation or query.propagation)


def _dry_run(kind: str, option: Any) -> bool:
    values = [str(value) for value in option] if isinstance(option, list) else [str(option)]
    if any(value != "All" for value in values):
        shown = ", ".join(f'"{value}"' for value in values)
        raise _unsupported(kind, "dryRun", f"[]string{{{shown}}}", ("All",))
    return bool(values)


def _known(kind: str, field: str, value: str, allowed: Collection[str]) -> str:
    if value and value not in allowed:
        raise _unsupported(kind, field, f'"{value}"', sorted(allowed))
    return value


def _unsupported(kind: str, field: str, shown: str, allowed: Sequence[str]) -> errors.ApiError:
    listed = ", ".join(f'"{value}"' for value in allowed)
    message = f"Unsupported value: {shown}: supported values: {listed}"
    return _invalid(kind, {"reason": "FieldValueNotSupported", "message": message, "field": field})


def _invalid(kind: str, cause: Object) -> errors.ApiError:
    return errors.invalid("meta.k8s.io", kind, "", [cause])


def list_query(params: Mapping[str, str], served: Served, namespace: str) -> Query:
    """The options of a list or watch of `served`. Raises 400 or 422 for an option that is malformed or not supported.
    Clients that ask for the initial list in a watch (`sendInitialEvents`) fall back to list and watch."""
    if params.get("sendInitialEvents") in _TRUE:
        message = "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        cause = {"reason": "FieldValueForbidden", "message": message, "field": "sendInitialEvents"}
        raise _invalid("ListOptions", cause)
    matches = combined(
        label_selector(params.get("labelSelector", "")), field_selector(params.get("fieldSelector", ""), served.table)
    )
    return Query(
        namespace=namespace,
        matches=matches,
        resource_version=_version(params),
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
