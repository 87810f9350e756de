"""Facts in which names stand for other names, so that a record can be given to strangers.

Names are replaced word by word, so that what is derived from a name is derived from its pseudonym:
the PodGang of `llm-serve` is still called after it. Pseudonyms sort as the words do. Keys of
labels, resources, classes of devices, reasons and uids stay as they are.
"""

import re
from collections.abc import Iterator
from typing import Any

from msgspec import convert, to_builtins

from app.base.pseudonyms import WordPseudonyms
from app.explain.known.snapshot import Snapshot
from app.facts.unit_owners import OWNER_KINDS

NAMES = {
    "aimless",
    "base_podgang",
    "claim",
    "clique",
    "cliques",
    "foreign_group",
    "group",
    "groups",
    "kai",
    "labels",
    "mnnvl_groups",
    "name",
    "namespace",
    "node",
    "parent",
    "parts",
    "pcs",
    "podgang",
    "pods",
    "pool",
    "queue",
    "storage_class",
    "subgroup",
    "template",
    "topology",
    "topology_name",
    "unit",
    "value",
    "values",
    "volume",
    "volumes",
    "workload",
    "workload_group",
    "workload_part",
}
"""The fields whose texts are names. A field that has fields decides for those that it names."""

TEXTS = {"drift", "message", "text", "unscheduled"}
"""The fields whose texts are sentences with names in them."""

_KEPT_KINDS = {"device_classes", "priorities", "unseen", "skipped", "absent"}
_KEPT_WORDS = {
    "cd",
    "claim",
    "default",
    "grove",
    "kai",
    "kube",
    "mnnvl",
    "queue",
    "scheduler",
    "system",
    "template",
    "topology",
    *(scope.prefix for kind in OWNER_KINDS for scope in kind.scopes),
}
"""The words that rules look for in names."""

_PATH = re.compile(r"[\w./-]+")


class Pseudonyms:
    """The pseudonyms of the names in some facts, the same for the same facts."""

    def __init__(self, facts: Snapshot) -> None:
        self._known = frozenset(_names(_kinds(facts)))
        self.of = WordPseudonyms(self._known, _KEPT_WORDS).of

    def replace_in(self, facts: Snapshot) -> Snapshot:
        """Return facts with pseudonyms in place of names."""
        replaced = {kind: self._replaced(value, kind) for kind, value in _kinds(facts).items()}
        return convert(to_builtins(facts) | replaced, Snapshot)

    def _replaced(self, value: Any, field: str) -> Any:
        if isinstance(value, dict):
            of_names = field == "labels"
            return {
                key: self._replaced(item, field if of_names else key) for key, item in value.items()
            }
        if isinstance(value, list | tuple):
            return [self._replaced(item, field) for item in value]
        if not isinstance(value, str):
            return value
        if field in NAMES:
            return self.of(value)
        if field in TEXTS or value.startswith("claim "):
            return _PATH.sub(lambda path: self._in_sentence(path[0]), value)
        return value

    def _in_sentence(self, path: str) -> str:
        """Return a word of a sentence, or several between slashes, with pseudonyms for names.

        A word that goes on behind a name, such as that of a Pod, has the pseudonym at its begin. A
        word with a domain before the slash, such as `nvidia.com/gpu`, is no name, unless the domain
        is one: Nodes are often called by their host names.
        """
        parts = path.split("/")
        is_key = len(parts) > 1 and "." in parts[0].rstrip(".") and parts[0] not in self._known
        return path if is_key else "/".join(map(self._begun, parts))

    def _begun(self, word: str) -> str:
        begin = word.rstrip(".")
        while begin and begin not in self._known:
            begin = begin.rpartition("-")[0]
        return self.of(begin) + word[len(begin) :]


def _kinds(facts: Snapshot) -> dict[str, Any]:
    """Return the facts, as maps, of the kinds that have names of the cluster's users."""
    kinds: dict[str, Any] = to_builtins(facts)
    return {kind: value for kind, value in kinds.items() if kind not in _KEPT_KINDS}


def _names(value: Any, field: str = "") -> Iterator[str]:
    """Yield the names in facts."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _names(item, field if field == "labels" else key)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _names(item, field)
    elif isinstance(value, str) and value and field in NAMES:
        yield value
