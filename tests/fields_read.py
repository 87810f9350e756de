"""The fields of objects that code reads, and whether a typed decoder would decode them."""

from typing import Any, get_args, get_origin, is_typeddict

Steps = tuple[str, ...]


class Recorder(dict[str, Any]):
    """A JSON object that records the path of each field that is looked up in it."""

    def __init__(self, content: dict[str, Any], path: Steps, read: set[Steps]) -> None:
        super().__init__(
            {key: recorder(value, (*path, key), read) for key, value in content.items()}
        )
        self._path = path
        self._read = read

    def get(self, key: str, default: Any = None) -> Any:
        self._read.add((*self._path, key))
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self._read.add((*self._path, key))
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._read.add((*self._path, str(key)))
        return super().__contains__(key)


def recorder(value: Any, path: Steps, read: set[Steps]) -> Any:
    """Return `value` with all objects in it replaced by recorders. Lists add "[]" to the path."""
    if isinstance(value, dict):
        return Recorder(value, path, read)
    if isinstance(value, list):
        return [recorder(item, (*path, "[]"), read) for item in value]
    return value


def is_parsed(path: Steps, type_: Any) -> bool:
    """Return whether a review that is parsed as `type_` has the field at `path`."""
    if not path or type_ is Any:
        return True
    if is_typeddict(type_):
        fields = type_.__annotations__
        return path[0] in fields and is_parsed(path[1:], fields[path[0]])
    if get_origin(type_) is list:
        return path[0] == "[]" and is_parsed(path[1:], get_args(type_)[0])
    return any(is_parsed(path, kind) for kind in get_args(type_) if kind is not type(None))
