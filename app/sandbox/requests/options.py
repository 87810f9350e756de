"""The options of a request: ListOptions of a read, and the options of a write. A DELETE may have them in its body."""

from collections.abc import Mapping
from typing import Any

from starlette.datastructures import QueryParams

from app.sandbox.objects import errors
from app.sandbox.objects.errors import cause
from app.sandbox.objects.objects import Object, WriteOptions
from app.sandbox.objects.resources import Served
from app.sandbox.objects.selectors import combined, field_selector, label_selector
from app.sandbox.requests.reads import Query

_TRUE = ("1", "true")


def write_options(params: QueryParams) -> WriteOptions:
    """The options in the query of a write; `delete_options` adds those in the body of a DELETE. Raises 400 for a dry
    run that is misspelt, because it must not become a write."""
    return WriteOptions(
        dry_run=_dry_run(params.getlist("dryRun")),
        field_manager=params.get("fieldManager", ""),
        field_validation=params.get("fieldValidation", ""),
        propagation=params.get("propagationPolicy", ""),
    )


def delete_options(query: WriteOptions, body: Object) -> WriteOptions:
    """The options in the `query`, and those of the DeleteOptions in the `body`. Raises 400 for a misspelt dry run."""
    dry_run = query.dry_run or _dry_run(body.get("dryRun") or [])
    return WriteOptions(dry_run=dry_run, propagation=body.get("propagationPolicy") or query.propagation)


def _dry_run(values: Any) -> bool:
    if any(value != "All" for value in values):
        raise errors.bad_request(f'dryRun: Unsupported value: {values}: supported values: "All"')
    return bool(values)


def list_query(params: Mapping[str, str], served: Served, namespace: str) -> Query:
    """The options of a list or watch of `served`. Raises 400 or 422 for an option that is malformed or not supported.
    Clients that ask for the initial list in a watch (`sendInitialEvents`) fall back to list and watch."""
    if params.get("sendInitialEvents") in _TRUE:
        message = "Forbidden: sendInitialEvents is forbidden for watch unless the WatchList feature gate is enabled"
        forbidden = cause("Forbidden", message, ("sendInitialEvents",))
        raise errors.invalid("meta.k8s.io", "ListOptions", "", [forbidden])
    labels, fields = params.get("labelSelector", ""), params.get("fieldSelector", "")
    matches = combined(label_selector(labels), field_selector(fields, served.table))
    return Query(
        namespace=namespace,
        matches=matches,
        resource_version=_number(params, "resourceVersion"),
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
