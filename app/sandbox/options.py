"""The options of a write: what its query says, and for DELETE its body too."""

from collections.abc import Collection, Sequence
from typing import Any

from starlette.datastructures import QueryParams

from app.sandbox import errors
from app.sandbox.objects import Object, WriteOptions

_VALIDATIONS = ("Ignore", "Strict", "Warn")
_PROPAGATIONS = ("Background", "Foreground", "Orphan")
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
