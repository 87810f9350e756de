"""Find the entries of kubeconfigs: contexts, clusters and users, as kubectl merges them."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from app.base.value import Value
from app.objects.shape import JsonMap, map_at, maps_at, text_at


class Entry(Value):
    """A cluster or a user of a kubeconfig."""

    name: str
    content: JsonMap
    folder: Path
    """The directory of its file, to which the paths in `content` are relative."""

    def path_at(self, key: str) -> str:
        """Return the absolute path at `key`, or "" if there is none."""
        path = text_at(self.content, key)
        return str(self.folder / Path(path).expanduser()) if path else ""


class Kubeconfig(Value):
    """The entries of one or more files by name, and the name of the current context."""

    contexts: Mapping[str, JsonMap]
    current: str
    """The first `current-context` that is not empty, or ""."""
    clusters: Mapping[str, Entry] = {}
    users: Mapping[str, Entry] = {}


class NotKubeconfig(ValueError):
    """A file whose content is not a map."""


def usual_files() -> str:
    """Return the paths that kubectl reads by default, joined as in KUBECONFIG.

    These are the paths in KUBECONFIG, or ~/.kube/config if KUBECONFIG is empty or not set.
    """
    return os.environ.get("KUBECONFIG") or str(Path.home() / ".kube/config")


def files_of(path: Path | None) -> list[str]:
    """Return the paths of the files that are merged into a kubeconfig.

    `path` may be several paths, joined as in KUBECONFIG. None stands for `usual_files`.
    """
    return str(path or usual_files()).split(os.pathsep)


def has_content(name: str) -> bool:
    """Return whether a file of this name exists and is not empty."""
    path = Path(name).expanduser()
    return path.is_file() and path.stat().st_size > 0


def read_kubeconfig(path: Path | None) -> Kubeconfig:
    """Read and merge the files of a kubeconfig. Files that are missing or empty are left out.

    As in kubectl, the first entry of a name is used. Raise NotKubeconfig, OSError, ValueError or
    yaml.YAMLError if a file can't be read.
    """
    contexts: dict[str, JsonMap] = {}
    clusters: dict[str, Entry] = {}
    users: dict[str, Entry] = {}
    current = ""
    for name in filter(has_content, files_of(path)):
        file = Path(name).expanduser().absolute()
        content: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise NotKubeconfig(f"{name} is not a kubeconfig")
        for item in maps_at(content, "contexts"):
            contexts.setdefault(_name_of(item), map_at(item, "context"))
        for kind, entries in (("cluster", clusters), ("user", users)):
            for item in maps_at(content, f"{kind}s"):
                entry = Entry(_name_of(item), map_at(item, kind), file.parent)
                entries.setdefault(entry.name, entry)
        current = current or str(content.get("current-context") or "")
    return Kubeconfig(contexts, current, clusters, users)


def _name_of(item: JsonMap) -> str:
    """Return the name of an entry. YAML reads a name such as `1` as a number."""
    return str(item.get("name", ""))


def contexts_in(path: Path | None) -> tuple[Mapping[str, JsonMap], str]:
    """Return the contexts in a kubeconfig by name, and the name of the current one.

    Return ({}, "") if the kubeconfig cannot be read.
    """
    try:
        kubeconfig = read_kubeconfig(path)
    except (OSError, ValueError, yaml.YAMLError):
        return {}, ""
    return kubeconfig.contexts, kubeconfig.current


def namespace_of(path: Path | None, context: str | None) -> str:
    """Return the namespace that kubectl uses in `context`, or in the current context for None.

    Return `default` if the context has no namespace, or if the kubeconfig can't be read.
    """
    contexts, current = contexts_in(path)
    return text_at(contexts.get(context or current, {}), "namespace") or "default"


def current_context(path: Path | None) -> str:
    """Return the name of the current context, or "" if none exists or the file can't be read."""
    contexts, current = contexts_in(path)
    return current if current in contexts else ""
