"""Labels that a Pod gets from its node at binding. Source: `rules/README.md`; the node is the
authority for the keys, whatever the caller sent."""

from collections.abc import Collection, Mapping
from typing import Any

from app.objects.edits import ABSENT, Change, Edit
from app.objects.metadata import labels_of


def binding_changes(binding: Mapping[str, Any], node_labels: Mapping[str, str], keys: Collection[str]) -> list[Change]:
    """Per key: the node's value, or nothing if the node has none. Other labels of the Binding stay untouched."""
    present = labels_of(binding)
    changes: list[Change] = []
    for key in keys:
        value = node_labels.get(key)
        if value is not None:
            changes.append(Edit(("metadata", "labels", key), value))
        elif key in present:
            changes.append(Edit(("metadata", "labels", key), ABSENT))
    return changes
