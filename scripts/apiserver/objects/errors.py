"""Create errors of the API with the messages of kube-apiserver.

They are `Status` objects with a code, a reason and details. Those with code 422 also have causes:
which field is invalid, and why.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from scripts.apiserver.objects.objects import Object, TableId


class ApiError(Exception):
    """A request failed. `code` is the HTTP status of the response, and `status()` is its body."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details

    def status(self) -> Object:
        body: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        present = {
            "message": self.message,
            "reason": self.reason,
            "details": self.details,
            "code": self.code,
        }
        return body | {key: value for key, value in present.items() if value}


def qualified(table: TableId) -> str:
    group, plural = table
    return f"{plural}.{group}" if group else plural


def about(table: TableId, name: str, uid: str = "") -> Object:
    """Return the details of a Status."""
    group, plural = table
    details = {"name": name, "group": group, "kind": plural, "uid": uid}
    return {key: value for key, value in details.items() if value}


def not_found(table: TableId, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{qualified(table)} "{name}" not found', about(table, name))


def not_served() -> ApiError:
    return ApiError(404, "NotFound", "the server could not find the requested resource")


def already_exists(table: TableId, name: str) -> ApiError:
    message = f'{qualified(table)} "{name}" already exists'
    return ApiError(409, "AlreadyExists", message, about(table, name))


def conflict(table: TableId, name: str, why: str = "") -> ApiError:
    why = why or (
        "the object has been modified; "
        "please apply your changes to the latest version and try again"
    )
    message = f'Operation cannot be fulfilled on {qualified(table)} "{name}": {why}'
    return ApiError(409, "Conflict", message, about(table, name))


def forbidden(table: TableId, name: str, why: str) -> ApiError:
    message = f'{qualified(table)} "{name}" is forbidden: {why}'
    return ApiError(403, "Forbidden", message, about(table, name))


def bad_request(message: str) -> ApiError:
    return ApiError(400, "BadRequest", message)


def gone(message: str) -> ApiError:
    return ApiError(410, "Expired", message)


def internal(message: str) -> ApiError:
    full = f"Internal error occurred: {message}"
    return ApiError(500, "InternalError", full, {"causes": [{"message": message}]})


def unsupported_media_type(message: str) -> ApiError:
    return ApiError(415, "UnsupportedMediaType", message)


def invalid(table: TableId, name: str, causes: Sequence[Object]) -> ApiError:
    """Return an error with code 422 for `causes`.

    Each cause has a reason, a message and a field. Its message does not contain the field, for
    example "Invalid value: ...". `table` may contain a kind instead of a plural.
    """
    listed = [f"{cause['field']}: {cause['message']}" for cause in causes]
    text = listed[0] if len(listed) == 1 else f"[{', '.join(listed)}]"
    details = {**about(table, name), "causes": list(causes)}
    return ApiError(422, "Invalid", f'{qualified(table)} "{name}" is invalid: {text}', details)


Path = tuple[str | int, ...]
"""Names of fields and indexes of items."""


def cause(reason: str, message: str, path: Path) -> Object:
    """Return a StatusCause. `reason` has no prefix `FieldValue`."""
    return {"reason": f"FieldValue{reason}", "message": message, "field": field_name(path)}


def field_name(path: Iterable[str | int]) -> str:
    """Return `path` as text, such as `spec.levels[0].domain`.

    The path of the whole object is `<nil>`, as in kube-apiserver.
    """
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}"
    return text.removeprefix(".") or "<nil>"


def shown(value: Any) -> str:
    """Return `value` for a message: maps and lists only by their type."""
    if isinstance(value, (dict, list)):
        return '"object"' if isinstance(value, dict) else '"array"'
    return json.dumps(value, ensure_ascii=False)
