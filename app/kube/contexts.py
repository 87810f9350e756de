"""Read the contexts of a kubeconfig without its credentials.

`kubeconfig.py` reads credentials with kubernetes_asyncio, whose import takes 0.16 s. Commands that
only need a namespace, such as shell completion, avoid that import.
"""

import os
from collections.abc import Mapping
from pathlib import Path

import yaml

from app.objects.shape import JsonMap, map_at, map_of, maps_at, text_at


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


def contexts_in(path: Path | None) -> tuple[Mapping[str, JsonMap], str]:
    """Return the contexts in a kubeconfig by name, and the name of the current one.

    Return ({}, "") if the kubeconfig cannot be read. Files are merged as in kubectl: the first
    context of a name is used, and the first `current-context` that is not empty.
    """
    contexts: dict[str, JsonMap] = {}
    current = ""
    try:
        for name in filter(has_content, files_of(path)):
            content = map_of(yaml.safe_load(Path(name).expanduser().read_text(encoding="utf-8")))
            for item in maps_at(content, "contexts"):
                contexts.setdefault(text_at(item, "name"), map_at(item, "context"))
            current = current or text_at(content, "current-context")
    except (OSError, ValueError, yaml.YAMLError):
        return {}, ""
    return contexts, current
